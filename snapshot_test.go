package workqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestSnapshotSaysSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedRateLimiting(constant(10*time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: &recorder{}, Clock: clock,
		})
		defer q.ShutDown()
		for _, item := range []string{"held first", "held last", "queued", "queued last"} {
			q.Add(item)
			clock.Step(time.Second)
		}
		q.AddAfter("waits longest", time.Hour)
		q.Get()
		clock.Step(time.Second)
		q.Get()
		q.Add("held first")
		q.AddRateLimited("waits")
		clock.Step(time.Minute)

		const want = `2 queued, 2 in flight, 2 waiting
held first: in flight, added again for 1m1s, 3 failures
held last: in flight for 1m0s, 3 failures
queued: queued for 1m3s, 3 failures
queued last: queued for 1m2s, 3 failures
waits: waiting for 1m0s, due 2026-01-01T00:10:05Z, 3 failures
waits longest: waiting for 1m1s, due 2026-01-01T01:00:04Z, 3 failures`
		if got := q.Snapshot(9).String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// What is held longest comes first, whatever has been done since, and what has
// just come has been there for no time.
func TestSnapshotIsInOrder(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	config := workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: clock}
	for name, q := range map[string]drainer{
		"typed": workqueue.NewTypedWithConfig(config),
		"delaying": workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			KeepTimes: true, Clock: clock,
		}),
	} {
		for _, item := range []string{"a", "b", "c", "d"} {
			q.Add(item)
			q.Get()
			clock.Step(time.Second)
		}
		q.Done("a") // Its place is taken by the last.
		q.Add("e")
		const want = `1 queued, 3 in flight, 0 waiting
b: in flight for 3s
c: in flight for 2s
d: in flight for 1s
e: queued`
		s := q.Snapshot(9)
		if s.String() != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, s, want)
		}
		if position := s.InFlight[0].Position; position != 0 {
			t.Errorf("%s: what is in flight has position %d", name, position)
		}
		q.ShutDown()
	}
}

// All of what a storage holds is found, up to the last record of a page.
func TestSnapshotOfAStorageOfAnySize(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.DefaultQueue[int]()})
	for n := range 130 {
		if s := q.Snapshot(n + 1); len(s.Queued) != n {
			t.Fatalf("%d items of %d", len(s.Queued), n)
		}
		q.Add(n)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	for limit := -1; limit < 2; limit++ {
		if s := q.Snapshot(limit); s.WaitingTotal != 0 || len(s.Waiting) != 0 {
			t.Errorf("limit %d: got %v", limit, s)
		}
	}
}

// The times of waiting items follow their records when these move, and are not
// those of items that were there before.
func TestSnapshotSaysSinceWhenAfterCompaction(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{KeepTimes: true, Clock: clock})
	defer q.ShutDown()
	const n, left = 4000, 10
	for i := range n {
		q.AddAfter(i, 2*n*time.Second)
		clock.Step(time.Second)
	}
	for i := range n - left {
		q.Remove(i)
	}
	checkInvariants(t, n, q)
	for range left {
		q.AddAfter(n, 2*n*time.Second)
		q.Remove(n)
		clock.Step(time.Second)
	}
	q.AddAfter(n, 2*n*time.Second)
	for place, info := range q.Snapshot(n).Waiting {
		want := time.Duration(2*left-place) * time.Second
		if place == left {
			want = 0
		}
		if info.Item != n-left+place || info.Age != want {
			t.Errorf("%+v is at place %d, want %d for %v", info, place, n-left+place, want)
		}
	}
}

// Without metrics no times are kept, which must not look like none passed.
func TestSnapshotWithoutTimes(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer q.ShutDown()
	q.Add("a")
	q.Add("b")
	q.AddAfter("c", time.Hour)
	q.Get()
	s := q.Snapshot(9)
	for _, info := range []workqueue.ItemInfo[string]{s.InFlight[0], s.Queued[0], s.Waiting[0]} {
		if info.Age != 0 {
			t.Errorf("%s is %v for %v", info.Item, info.State, info.Age)
		}
	}
}

func TestSnapshotIsLimited(t *testing.T) {
	for _, open := range []func() *workqueue.Typed[int]{
		workqueue.NewTyped[int],
		func() *workqueue.Typed[int] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.DefaultQueue[int]()})
		},
	} {
		below := open()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below})
		for i := range 100 {
			q.Add(i)
			q.AddAfter(i, time.Duration(200-i)*time.Hour)
		}
		for range 40 {
			q.Get()
		}
		for _, limit := range []int{-1, 0, 1, 7, 40, 60, 99, 100, 1000} {
			s := q.Snapshot(limit)
			got := fmt.Sprint(len(s.Queued), len(s.InFlight), len(s.Waiting), s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
			want := fmt.Sprint(max(0, min(60, limit)), max(0, min(40, limit)), max(0, min(100, limit)), 60, 40, 100)
			if got != want {
				t.Errorf("limit %d: got %s, want %s", limit, got, want)
			}
			for place, info := range s.Waiting {
				if info.Item != 99-place || info.Position != 1+place {
					t.Errorf("limit %d: %+v waits at place %d", limit, info, place)
				}
			}
			checkLine(t, s.Queued, below.CheckInvariants())
		}
		q.ShutDown()
	}
}

// checkLine checks the first queued items, of which 40 have been taken.
func checkLine(t *testing.T, queued []workqueue.ItemInfo[int], err error) {
	t.Helper()
	for place, info := range queued {
		if info.Item < 40 || info.Position > 0 && (info.Item != 40+place || info.Position != 1+place) {
			t.Errorf("%+v is queued at place %d", info, place)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestSnapshotPassesOverRemovedItems(t *testing.T) {
	q := workqueue.NewTyped[int]()
	for i := range 10 {
		q.Add(i)
	}
	for _, i := range []int{0, 3, 4, 7, 9} {
		q.Remove(i)
	}
	if got, want := fmt.Sprint(q.Snapshot(3)), "5 queued, 0 in flight, 0 waiting\n1: queued\n2: queued\n5: queued"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestItemStateInWords(t *testing.T) {
	if got := workqueue.ItemState(9).String(); got != "ItemState(9)" {
		t.Errorf("got %s", got)
	}
}

// BenchmarkSnapshot is how long everybody else waits for a snapshot.
func BenchmarkSnapshot(b *testing.B) {
	for name, below := range map[string]workqueue.Queue[int]{"line": nil, "storage": workqueue.DefaultQueue[int]()} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: below}),
		})
		for i := range 1_000_000 {
			q.Add(i)
			q.AddAfter(i, time.Hour+time.Duration(i*7919%1_000_000))
		}
		for range 1000 {
			q.Get()
		}
		b.Run(name+"/items=1M/limit=1000", func(b *testing.B) {
			for b.Loop() {
				if s := q.Snapshot(1000); len(s.Queued)+len(s.InFlight)+len(s.Waiting) != 3000 {
					b.Fatal(s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
				}
			}
		})
		q.ShutDown()
	}
}

func TestSnapshotInWordsOfAllStates(t *testing.T) {
	s := workqueue.Snapshot[string]{
		Queued:  []workqueue.ItemInfo[string]{{Item: "q", State: workqueue.ItemQueued, Age: 1, Due: epoch}},
		Waiting: []workqueue.ItemInfo[string]{{Item: "w", State: workqueue.ItemWaiting}, {Item: "d", State: workqueue.ItemWaiting, Due: epoch}},
		Failed:  []workqueue.ItemInfo[string]{{Item: "f", State: workqueue.ItemFailed, Failures: 1}}, FailedTotal: 1,
	}
	const want = "0 queued, 0 in flight, 0 waiting, 1 failed\nq: queued for 1ns\nf: failed, 1 failures\nw: waiting\nd: waiting, due 2026-01-01T00:00:00Z"
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
