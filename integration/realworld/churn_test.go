package realworld_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSmoke(t *testing.T) {
	forEach(t, func(t *testing.T, impl implementation) {
		w := newWorld(t)
		c := w.controller(t, impl, backoff{5 * time.Millisecond, time.Second}, nil)
		stop := c.start(t, 4)
		for i := range 100 {
			if _, err := w.fleets.Create(t.Context(), newFleet(i, 1), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := w.converge(t.Context(), c, 15*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		results.add("smoke", "convergence", impl, time.Since(began))
		results.add("smoke", "hand-outs", impl, c.journal.handOuts())
	})
}
