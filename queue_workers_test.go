package workqueue_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue"
)

// A clock that blocks in one worker, which was woken, does not keep the others
// from what is queued.
func TestClockThatBlocksForAWokenWorker(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"line": nil, "storage": workqueue.DefaultQueue[string]()} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: clock, Queue: storage})
			var got atomic.Int64
			for range 3 {
				go func() {
					for _, shutdown := q.Get(); !shutdown; _, shutdown = q.Get() {
						got.Add(1)
					}
				}()
			}
			synctest.Wait()
			hold := make(chan struct{})
			var readings atomic.Int64
			clock.onRead = func() {
				if readings.Add(1) == 2 { // The first is that of Add.
					<-hold
				}
			}
			for n, item := range []string{"a", "b", "c"} {
				q.Add(item)
				synctest.Wait()
				if got.Load() != int64(n+1) {
					t.Errorf("%s: %d of %d items are handed out beside a clock that blocks", name, got.Load(), n+1)
				}
				checkInvariants(t, n, q)
			}
			close(hold)
			synctest.Wait()
			if n := q.Waiting(); n != 3 || got.Load() != 3 {
				t.Errorf("%s: %d workers wait and have got %d items, want 3 and 3", name, n, got.Load())
			}
			checkQuiet(t, 3, q)
			q.ShutDown()
		})
	}
}
