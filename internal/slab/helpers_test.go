package slab_test

import (
	"math/rand/v2"
	"testing"
)

// checkInvariants fails the test at the step where an invariant breaks. The parameter is an
// interface with the method, so the compiler finds a container without the check.
func checkInvariants(t *testing.T, step int, c interface{ CheckInvariants() error }) {
	t.Helper()
	if err := c.CheckInvariants(); err != nil {
		t.Fatalf("after step %d: %v", step, err)
	}
}

// newRand returns a generator, and logs how to repeat its numbers.
func newRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
