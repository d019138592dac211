package workqueue_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A few of what waits are looked for, and more of it are copied and sorted
// later. Either gives the first of all, those of one time in the order in which
// they got it.
func TestSnapshotOfTheFirstWaitingItems(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		KeepTimes: true, Clock: testingclock.NewFakeClock(epoch),
	})
	defer q.ShutDown()
	const n = 640
	rnd := newRand(t)
	var want []appointment
	for item := range n {
		due := time.Duration(1+rnd.IntN(50)) * time.Second
		q.AddAfter(item, due)
		want = append(want, appointment{item: item, due: due})
	}
	slices.SortStableFunc(want, func(a, b appointment) int { return cmp.Compare(a.due, b.due) })
	for _, limit := range []int{math.MinInt, -1, 0, 1, n/16 - 1, n / 16, n/16 + 1, n - 1, n, n + 1, math.MaxInt} {
		s := q.Snapshot(limit)
		if len(s.Waiting) != max(0, min(limit, n)) || s.WaitingTotal != n {
			t.Errorf("limit %d: %d of %d are shown", limit, len(s.Waiting), s.WaitingTotal)
		}
		for place, info := range s.Waiting {
			a := want[place]
			got := fmt.Sprint(info.Item, info.State, info.Age, info.Due.Sub(epoch), info.Position)
			if want := fmt.Sprint(a.item, workqueue.ItemWaiting, 0*time.Second, a.due, 1+place); got != want {
				t.Fatalf("limit %d: got %s, want %s", limit, got, want)
			}
		}
	}
}

// Room for what a Snapshot copies is made before the locks are taken. If more
// has come by then, or a shutdown, that is shown all the same.
func TestSnapshotOfWhatHasJustCome(t *testing.T) {
	for _, limit := range []int{1, 1000} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{KeepTimes: true})
		done := make(chan bool)
		go func() {
			defer close(done)
			for i := range 1000 {
				q.Add(i)
				q.AddAfter(i, time.Hour)
				q.TryGet()
			}
			q.ShutDown()
		}()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			s := q.Snapshot(limit)
			for name, got := range map[string][2]int{
				"queued": {len(s.Queued), s.QueuedTotal}, "in flight": {len(s.InFlight), s.InFlightTotal}, "waiting": {len(s.Waiting), s.WaitingTotal},
			} {
				if got[0] != min(limit, got[1]) {
					t.Errorf("limit %d: %d of %d are shown %s", limit, got[0], got[1], name)
				}
			}
		}
	}
}

// What is in line has a position, also beside a storage, where nothing else has.
func TestSnapshotSaysThePositionInLine(t *testing.T) {
	for _, storage := range []bool{false, true} {
		s := &shelf[string]{}
		var config workqueue.TypedQueueConfig[string]
		if storage {
			config.Queue = s
		}
		q := workqueue.NewTypedWithConfig(config)
		q.AddAll("held", "c")
		q.Get()
		for _, item := range []string{"a", "b"} {
			s.hook = func(string) { panic("storage") }
			goes(func() { q.Add(item) })
			s.hook = nil
		}
		want := map[bool]string{false: "[c 1 a 2 b 3 held 0]", true: "[a 1 b 2 held 0 c 0]"}[storage]
		var got []any
		snapshot := q.Snapshot(9)
		for _, info := range slices.Concat(snapshot.Queued, snapshot.InFlight) {
			got = append(got, info.Item, info.Position)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("storage %v: got %v, want %s", storage, got, want)
		}
	}
}

// Of an order of another make, a queue knows what the adds have named: the highest for what
// is queued, and what the order has said of what is held.
func TestSnapshotOfAnOrderOfAnotherMake(t *testing.T) {
	t.Parallel()
	order := workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}).(workqueue.PrioritizedQueue[string])
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Order: struct {
			workqueue.PrioritizedQueue[string]
		}{order},
	})
	defer q.ShutDown()
	for _, step := range []struct {
		priority int
		want     string
	}{{3, "3"}, {7, "7"}, {5, "7"}, {0, "7"}} {
		q.AddWith(workqueue.AddOptions{Priority: step.priority}, "a")
		if s := q.Snapshot(1); fmt.Sprint(s.Queued[0].Priority) != step.want {
			t.Errorf("added with %d: priority %d, want %s", step.priority, s.Queued[0].Priority, step.want)
		}
	}
	q.Get()
	if s := q.Snapshot(1); s.InFlight[0].Priority != 7 {
		t.Errorf("held: priority %d, want 7", s.InFlight[0].Priority)
	}
	q.Done("a")
	q.Add("b") // What the queue has noted of a is not of b.
	if s := q.Snapshot(1); s.Queued[0].Priority != 0 {
		t.Errorf("the next item has priority %d, and nobody has named one", s.Queued[0].Priority)
	}
}
