package slab_test

import (
	"math/rand/v2"
	"testing"
)

// checkInvariants reports at the step where an invariant breaks. It takes the method and not
// just any value, so that no container can be left out by mistake.
func checkInvariants(t *testing.T, step int, c interface{ CheckInvariants() error }) {
	t.Helper()
	if err := c.CheckInvariants(); err != nil {
		t.Fatalf("after step %d: %v", step, err)
	}
}

// newRand returns a generator and says how to repeat what it makes.
func newRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
