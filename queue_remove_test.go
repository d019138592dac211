package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// What a drain has to wait for can be taken from it.
func TestRemoveOfTheLastItemEndsADrain(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		r, ok := q.(interface{ Remove(item string) bool })
		if !ok || goes(func() { r.Remove("nothing") }) != nil {
			return // What is below cannot be asked to.
		}
		q.Add("a")
		over := make(chan error, 1)
		go func() { over <- q.Drain(t.Context()) }()
		synctest.Wait()
		if !r.Remove("a") {
			t.Fatal("the item is not there")
		}
		synctest.Wait()
		if len(over) == 0 {
			t.Error("the drain waits for an item that was removed")
			q.ShutDown()
		}
	})
}

func TestRemoveTakesTheDepthDown(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch)})
		q.Add("a")
		if waits {
			q.AddAfter("a", time.Hour)
		}
		r.take()
		q.Remove("a")
		if got := count(r, "depth-1"); got != 1 {
			t.Errorf("waiting %v: the depth went down %d times", waits, got)
		}
		q.Remove("a")
		if got := r.take(); len(got) > 0 {
			t.Errorf("waiting %v: Remove of nothing is counted as %q", waits, got)
		}
		q.ShutDown()
	}
}

// A worker that waits is woken by the Add of an item that was removed and is in
// the storage still.
func TestAddOfARemovedItemWakesAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStored(workqueue.DefaultQueue[string]())
		defer q.ShutDown()
		go q.Get()
		synctest.Wait()
		arrive := q.Approach() // Or the worker would drop what was removed.
		q.Add("a")
		q.Remove("a")
		arrive()
		synctest.Wait()
		checkInvariants(t, 0, q)
		if n := q.Parked(); n != 1 {
			t.Errorf("%d workers wait for nothing, want 1", n)
		}
		q.Add("a")
		synctest.Wait()
		checkInvariants(t, 1, q)
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait for the item", n)
		}
	})
}
