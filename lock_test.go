package workqueue_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Calls stay awake for a lock that is held for some tens of nanoseconds. One that
// is held for long must not take a processor that long.
func TestCallsSleepWhereTheQueueIsLockedForLong(t *testing.T) {
	fifo := workqueue.NewTyped[int]()
	ranked := newPrioritized(workqueue.PriorityOptions[int]{})
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	totals := func() [3]int {
		f, r, d := fifo.Snapshot(0), ranked.Snapshot(0), delaying.Snapshot(0)
		return [3]int{f.QueuedTotal + r.QueuedTotal, f.InFlightTotal + r.InFlightTotal, d.WaitingTotal}
	}
	for _, c := range []struct {
		name, waits string
		hold        func() (release func())
		call        func()
		want        [3]int
	}{
		{"Add", "lockSoon", fifo.Hold, func() { fifo.Add(1) }, [3]int{1, 0, 0}},
		{"Get", "lockSoon", fifo.Hold, func() { fifo.Get() }, [3]int{0, 1, 0}},
		{"Done", "lockSoon", fifo.Hold, func() { fifo.Done(1) }, [3]int{0, 0, 0}},
		{"AddWith", "lockSoon", ranked.Hold, func() { addAt(ranked, 1, 1) }, [3]int{1, 0, 0}},
		{"GetWithPriority", "lockSoon", ranked.Hold, func() { ranked.GetWithPriority() }, [3]int{0, 1, 0}},
		{"AddAfter", "lockAwake", delaying.Hold, func() { delaying.AddAfter(1, time.Hour) }, [3]int{0, 1, 1}},
	} {
		release := c.hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		awaitSleeper(t, returned, c.waits)
		release()
		<-returned
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
	fifo.ShutDown()
	ranked.ShutDown()
	delaying.ShutDown()
}

// A worker of Run does too, who ends one item and gets the next in one section.
func TestRunSleepsWhereTheQueueIsLockedForLong(t *testing.T) {
	typed := workqueue.NewTyped[string]()
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: typed}),
	})
	held, over := make(chan func()), make(chan error)
	go func() {
		over <- workqueue.Run(t.Context(), q, func(context.Context, string) error {
			held <- typed.Hold()
			return nil
		}, runOptions{})
	}()
	q.Add("a")
	release := <-held
	awaitSleeper(t, nil, "lockSoon", ").pass(")
	release()
	q.ShutDown()
	if err := <-over; err != nil || typed.Held() != 0 {
		t.Errorf("got %v from Run, and %d items are held", err, typed.Held())
	}
}

// awaitSleeper waits until a goroutine sleeps for a lock within the functions. The call that
// is to sleep must not return.
func awaitSleeper(t *testing.T, returned <-chan struct{}, functions ...string) {
	t.Helper()
	sleeps := func(stack string) bool {
		return strings.Contains(stack, "[sync.Mutex.Lock") &&
			!slices.ContainsFunc(functions, func(name string) bool { return !strings.Contains(stack, name) })
	}
	for !slices.ContainsFunc(stacks(), sleeps) {
		select {
		case <-returned:
			t.Fatalf("a call has not waited for the lock in %v", functions)
		default:
			runtime.Gosched()
		}
	}
}
