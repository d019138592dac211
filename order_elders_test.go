package workqueue_test

import (
	"fmt"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A levelWatch is a queue with priorities, and asks how old the oldest item of one is.
type levelWatch struct {
	t     *testing.T
	r     *reader
	clock *testingclock.FakeClock
	*workqueue.Typed[int]
}

func newLevelWatch(t *testing.T) levelWatch {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
		Name: "q", MetricsProvider: r, Clock: clock,
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
	})
	t.Cleanup(q.ShutDown)
	return levelWatch{t, r, clock, q}
}

// add adds an item, a second after whatever came before.
func (q levelWatch) add(priority, item int) {
	q.clock.Step(time.Second)
	addAt(q, priority, item)
}

// want compares the age of the oldest item of a priority with that of the item which was
// added so many seconds after the beginning, and that of the oldest of all.
func (q levelWatch) want(step string, priority, added, ofAll int) {
	q.t.Helper()
	checkInvariants(q.t, 0, q.Typed)
	s, _ := q.r.reads[0]()
	now := q.clock.Since(epoch)
	for _, l := range s.Levels {
		if l.Priority == priority && now-l.OldestItem != time.Duration(added)*time.Second {
			q.t.Errorf("%s: the oldest of %d was added at %v, want %d s", step, priority, now-l.OldestItem, added)
		}
	}
	if now-s.OldestItem != time.Duration(ofAll)*time.Second {
		q.t.Errorf("%s: the oldest of all was added at %v, want %d s", step, now-s.OldestItem, ofAll)
	}
}

// An item that is raised behind younger ones is the oldest there.
func TestAgeOfAnItemRaisedBehindAYoungerOne(t *testing.T) {
	t.Parallel()
	q := newLevelWatch(t)
	q.add(0, 1)
	q.add(0, 2)
	q.add(5, 3)
	q.want("none is raised", 5, 3, 1)
	q.add(5, 2)
	q.want("the second is raised", 5, 2, 1)
	q.add(5, 1)
	q.want("and the first", 5, 1, 1)
	q.add(9, 1)
	q.want("which is raised once more", 5, 2, 1)
	q.want("and alone there", 9, 1, 1)
	q.add(0, 4)
	for _, added := range []int{2, 2, 7} { // The first taken is 1, then come 3 and 2.
		item, _ := q.Get()
		q.Done(item)
		q.want("some are taken", 5, added, added)
		if added == 2 && item == 3 {
			q.add(5, 4) // It is younger than 2.
		}
	}
	q.Remove(4)
	if s, _ := q.r.reads[0](); s.OldestItem != 0 {
		t.Errorf("nothing is queued, and the oldest is %v old", s.OldestItem)
	}
}

// Where the oldest of those that were raised is gone, the next one counts, in whatever order
// they came.
func TestAgeOfTheNextOldestOfALevel(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(q levelWatch){
		"removed": func(q levelWatch) { q.Remove(1) },
		"raised":  func(q levelWatch) { addAt(q, 9, 1) },
	} {
		for _, raised := range [][]int{{1, 2, 3}, {2, 1, 3}, {3, 1, 2}} {
			q := newLevelWatch(t)
			for item := range 4 {
				q.add(0, item)
			}
			q.add(5, 4)
			for _, item := range raised {
				addAt(q, 5, item)
			}
			q.add(9, 5)
			addAt(q, 9, 0)
			step := fmt.Sprint(name, raised)
			q.want(step+": all are there", 5, 2, 1)
			leave(q)
			q.want(step+": the oldest is gone", 5, 3, 1)
			q.Remove(2)
			q.want(step+": and the next", 5, 4, 1)
			q.Remove(3)
			q.want(step+": the younger one is left", 5, 5, 1)
		}
	}
}

// An item that was added while it was held has the time of that add, however long its
// worker takes.
func TestAgeOfAnItemThatWasAddedWhileHeld(t *testing.T) {
	t.Parallel()
	q := newLevelWatch(t)
	q.add(5, 1)
	q.Get()
	q.add(5, 1)
	q.add(5, 2)
	q.want("it is held", 5, 3, 3)
	q.Done(1)
	q.want("it is done", 5, 2, 2)
	q.Get()
	q.want("what is before it is taken", 5, 2, 2)
}

// The oldest is still known when the queue has given memory back and renumbered its items.
func TestAgeOfTheOldestAfterABurst(t *testing.T) {
	t.Parallel()
	const n = 2500
	q := newLevelWatch(t)
	q.add(5, n)
	for item := range n {
		q.add(0, item)
	}
	for item := n - 1; item >= 0; item-- {
		addAt(q, 5, item)
	}
	q.want("all were raised", 5, 1, 1)
	q.Remove(n)
	for oldest := range n {
		if oldest%250 == 0 || oldest > n-250 { // Few are left when it happens.
			q.want("some were removed", 5, oldest+2, oldest+2)
		}
		if oldest == n-10 {
			break
		}
		q.Remove(oldest)
	}
	for item := range n { // They have the records of those that are gone.
		q.add(5, n+item)
	}
	for range 10 {
		q.Get()
	}
	for item := range n {
		if item%250 == 0 {
			q.want("others have come", 5, n+2+item, n+2+item)
		}
		q.Remove(n + item)
	}
}

// Items that are raised in the order of their adds, or of one time, need no note of
// their age, and others 8 bytes each. All of it comes back.
func TestBytesOfRaisedItems(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	const n = 100_000
	raise := func(younger, take bool) int64 {
		return retained(func() any {
			q := newLevelWatch(t)
			for item := range n {
				addAt(q, 0, item)
			}
			if younger {
				q.add(5, n)
			}
			for item := range n {
				addAt(q, 5, item)
			}
			for take && q.Len() > 0 {
				item, _ := q.Get()
				q.Done(item)
			}
			return q
		})
	}
	plain, noted, taken := raise(false, false), raise(true, false), raise(true, true)
	if per := float64(noted-plain) / n; per < 4 || per > 12 {
		t.Errorf("an item behind a younger one takes %.1f bytes more than one behind others of its time, want 8", per)
	}
	if taken > 2*n {
		t.Errorf("%d bytes are kept of %d items", taken, n)
	}
}
