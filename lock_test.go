package workqueue_test

import (
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
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	totals := func() [3]int {
		f, d := fifo.Snapshot(0), delaying.Snapshot(0)
		return [3]int{f.QueuedTotal, f.InFlightTotal, d.WaitingTotal}
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
		{"AddAfter", "lockAwake", delaying.Hold, func() { delaying.AddAfter(1, time.Hour) }, [3]int{0, 0, 1}},
	} {
		release := c.hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		sleeps := func(stack string) bool {
			return strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, c.waits)
		}
		for !slices.ContainsFunc(stacks(), sleeps) {
			runtime.Gosched()
		}
		release()
		<-returned
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
	fifo.ShutDown()
	delaying.ShutDown()
}
