package workqueue_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// These are tests of foreign code that fails in an unusual place, each of which
// once had an item lost, doubled or a lock kept.

// An item that differs from itself is as safe as any other from a metric that
// does not return, and its age goes on.
func TestMetricThatFailsForWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Name: "q", MetricsProvider: r, Clock: clock})
		defer q.ShutDown()
		q.Add(math.NaN())
		q.Add(1)
		clock.Step(time.Second)
		r.setHook(func(event string) {
			if event == "latency(1)" {
				panic("metric")
			}
		})
		if got := goes(func() { q.TryGet() }); got != "metric" {
			t.Errorf("got the panic %v, want that of the metric", got)
		}
		checkInvariants(t, 0, q)
		clock.Step(time.Second)
		if got, want := q.Snapshot(1).String(), "2 queued, 0 in flight, 0 waiting\nNaN: queued for 2s"; got != want {
			t.Errorf("queued first: got %s, want %s", got, want)
		}
		if got := fmt.Sprint(takeAll(q)); got != "[NaN 1]" {
			t.Errorf("got %s after the panic, want [NaN 1]", got)
		}
	})
}

// A metric may call Done for the item that it is told of, before it fails. Then there is
// nothing to put back, and its panic is what the caller sees.
func TestMetricThatFailsAfterItsOwnDone(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
	defer q.ShutDown()
	q.Add("a")
	r.setHook(func(event string) {
		if event == "depth-1" {
			q.Done("a")
			panic("metric")
		}
	})
	if got := goes(func() { q.Get() }); got != "metric" {
		t.Errorf("got the panic %v, want that of the metric", got)
	}
	checkInvariants(t, 0, q)
	if q.Len() != 0 || q.Held() != 0 {
		t.Errorf("%d items are queued and %d held, want none", q.Len(), q.Held())
	}
}

// An Add of an item that was removed, and is in the storage still, is not lost if
// Touch does not return. The metrics are not told of it.
func TestTouchThatFailsForWhatWasRemoved(t *testing.T) {
	r, s := &recorder{}, &shelf[string]{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Queue: s})
	defer q.ShutDown()
	q.Add("a")
	q.Remove("a")
	r.take()
	s.hook = func(string) { panic("storage") }
	if got := goes(func() { q.Add("a") }); got != "storage" {
		t.Errorf("got the panic %v, want that of the storage", got)
	}
	s.hook = nil
	checkInvariants(t, 0, q)
	if n, told := q.Len(), r.take(); n != 1 || len(told) != 0 {
		t.Errorf("%d items are queued and the metrics were told %q, want 1 and nothing", n, told)
	}
	if got := fmt.Sprint(takeAll(q)); got != "[a]" {
		t.Errorf("got %s, want [a]", got)
	}
}

// A storage that makes up an item without a hash does not keep the lock.
func TestStorageThatHandsOutWhatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[any]{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Queue: s})
		q.Add("a")
		s.items = append(s.items, []int{1})
		if got := goes(func() { q.TryGet() }); got == nil {
			t.Error("got no panic")
		}
		if q.Locked() {
			t.Fatal("the lock is kept")
		}
		if got := fmt.Sprint(takeAll(q)); got != "[a]" {
			t.Errorf("got %s, want [a]", got)
		}
		q.ShutDownWithDrain()
	})
}

// A rut hands out the same item for ever, or loses what it is given.
type rut struct{ says int }

func (*rut) Touch(string) {}
func (*rut) Push(string)  {}
func (r *rut) Len() int   { return r.says }
func (*rut) Pop() string  { return "a" }

// A storage whose Len is never zero, and whose Pop hands out what is held, does not
// keep the lock for ever.
func TestStorageThatIsNeverEmpty(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &rut{says: 3}})
	q.Add("a")
	q.TryGet()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if item, ok := q.TryGet(); ok {
			t.Errorf("got %s, which is held", item)
		}
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("TryGet keeps the lock")
	}
}

// A storage that has lost an item has its Get report the shutdown: then a drain has
// to end too, and Drain to say what is missing.
func TestDrainOfAStorageThatLosesItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &rut{}})
		q.Add("a")
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("got %s, want the shutdown", item)
		}
		synctest.Wait()
		select {
		case err := <-drained:
			if got, want := fmt.Sprint(err), "workqueue: drain left 1 queued, 0 in flight, 0 waiting: "+workqueue.ErrShutDown.Error(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		default:
			t.Error("the drain waits for what nobody gets")
			q.ShutDown()
		}
	})
}
