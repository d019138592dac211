package workqueue_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue"
)

// A line with a first item that nobody gets must not grow with each removal.
func TestLineDoesNotGrowWithRemovals(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	q.Add(-1)
	for i := range rounds(100_000) {
		q.Add(i)
		q.Add(i + 1)
		q.Remove(i) // i+1 is behind it, and keeps the hole from being the last.
	}
	checkInvariants(t, 0, q)
	if room := q.Room(); room > 4096 {
		t.Errorf("the line has room for %d items, and holds %d", room, q.Len())
	}
}

func TestRemoveKeepsTheOrderOfTheOthers(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	const n = 10_000
	want := make([]int, 0, n)
	for i := range n {
		q.Add(i)
		want = append(want, i)
	}
	rnd := newRand(t)
	for _, i := range rnd.Perm(n)[:n-500] {
		if !q.Remove(i) || q.Remove(i) {
			t.Fatalf("item %d cannot be removed once", i)
		}
		want[i] = -1
	}
	checkInvariants(t, 0, q)
	want = slices.DeleteFunc(want, func(i int) bool { return i < 0 })
	if got := takeAll(q); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d: %v, %v", len(got), len(want), got, want)
	}
}

// A burst that is removed, or that nobody can name, leaves no long line.
func TestLineIsShortAfterABurst(t *testing.T) {
	t.Parallel()
	const n = 10_000
	for name, empty := range map[string]func(q *workqueue.Typed[float64], item float64){
		"worked off": func(q *workqueue.Typed[float64], _ float64) { q.Done(first(q.Get())) },
		"removed":    func(q *workqueue.Typed[float64], item float64) { q.Remove(item) },
		"forgotten":  func(q *workqueue.Typed[float64], _ float64) { q.Get() },
	} {
		q := workqueue.NewTyped[float64]()
		for i := range n {
			if item := float64(i); name == "forgotten" && i > 0 {
				q.Add(math.NaN())
			} else {
				q.Add(item)
			}
		}
		for i := range n {
			empty(q, float64(i))
		}
		checkInvariants(t, 0, q)
		if room := q.Room(); room > 2048 {
			t.Errorf("%s: the line has room for %d items", name, room)
		}
	}
}

// A drain does not wait for what an order holds back, as nobody would get it. That is so
// for an item that was removed and added again too.
func TestDrainDoesNotWaitForWhatWasAddedAgainAndIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: newCapped(0)})
		q.Add(1)
		q.Remove(1)
		q.Add(1)
		checkInvariants(t, 0, q)
		if !drainsAtOnce(q) {
			t.Error("the drain has not ended")
		}
	})
}
