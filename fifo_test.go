package workqueue_test

import (
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Workers hold some of a burst while the rest of it is done and its memory given
// back: what is held is still known.
func TestHeldItemsThroughCompaction(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	const n = 4000
	for i := range n {
		q.Add(i)
		q.Get()
	}
	for i := range n {
		if i%500 != 0 {
			q.Done(i)
		}
		if i%1000 == 0 || i > n-5 {
			checkInvariants(t, i, q)
		}
	}
	for i := 0; i < n; i += 500 {
		q.Add(i)
		q.Done(i)
		if item, ok := q.TryGet(); item != i || !ok {
			t.Errorf("got %d, %v, want %d, which was added again", item, ok, i)
		}
		q.Done(i)
	}
	checkInvariants(t, n, q)
	if q.Held() != 0 || q.Len() != 0 {
		t.Errorf("%d items are held and %d queued, want none", q.Held(), q.Len())
	}
}

// Through growth, wrapping and shrinking of all that holds items.
func TestOrderThroughBursts(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	next, want := 0, 0
	for round, burst := range []int{3, 9000, 1, 20, 5000, 0, 700} {
		for range burst {
			q.Add(next)
			next++
		}
		for range burst - burst/3 {
			got, _ := q.Get()
			if got != want {
				t.Fatalf("round %d: got %d, want %d", round, got, want)
			}
			q.Done(got)
			want++
		}
		checkInvariants(t, round, q)
	}
	if rest := takeAll(q); !slices.IsSorted(rest) || len(rest) != next-want || rest[0] != want {
		t.Errorf("got the %d last items from %d on out of order", next-want, want)
	}
	checkInvariants(t, next, q)
}
