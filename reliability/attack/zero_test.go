package attack

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// The zero value of a Typed has every method, in any order, and with items that
// differ from themselves.
func TestZeroValue(t *testing.T) {
	var q workqueue.Typed[any]
	call(t, "one of the methods", func() {
		q.Snapshot(math.MaxInt)
		q.Remove(1)
		q.TryGet()
		q.Done(1)
		q.AddAll()
		q.AddAll(1, math.NaN(), 1, float32(1))
		if !q.Remove(1) || q.Remove(math.NaN()) {
			t.Error("Remove took back a NaN, or nothing")
		}
		if got, want := fmt.Sprint(q.Len(), q.Snapshot(0), len(q.Snapshot(-1).Queued)), "2 2 queued, 0 in flight, 0 waiting 2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		q.Get()
		q.GetContext(t.Context())
		q.Done(float32(1))
		if err := q.Drain(context.Background()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		q.ShutDown()
		q.ShutDownWithDrain()
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("got %v after the end", item)
		}
	})
}
