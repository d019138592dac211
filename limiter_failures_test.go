package workqueue_test

import (
	"math"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// 20,000 items that fail at once leave little behind when most are forgotten,
// and those that are not keep their counts.
func TestLimiterOfFailuresGivesABurstBack(t *testing.T) {
	l := new(workqueue.TypedItemExponentialFailureRateLimiter[int])
	const n, left = 20_000, 100
	for key := range n {
		for range 1 + key%3 {
			l.When(key)
		}
	}
	for key := range n - left {
		l.Forget(key)
	}
	if room := l.Room(); room > n/8 {
		t.Errorf("room for %d items is left around %d", room, left)
	}
	for key := n - left; key < n; key++ {
		if got, want := l.NumRequeues(key), 1+key%3; got != want {
			t.Errorf("key %d has %d failures, want %d", key, got, want)
		}
	}
}

// No number of failures makes a count that an int of 32 bits does not hold.
func TestCountOfFailuresSaturates(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 1, 1: 2, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: math.MaxInt32} {
		if got := workqueue.Counted(n); got != want {
			t.Errorf("%d after %d, want %d", got, n, want)
		}
	}
}
