package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// failAfterPop makes the first Ready fail that follows a Pop, and no other.
func failAfterPop(hook *func(call string), fail func()) {
	popped := false
	*hook = func(call string) {
		popped = popped || call == "pop"
		if popped && call == "ready" {
			*hook = nil
			fail()
		}
	}
}

// An order is asked whether it is ready when it has handed an item out. If that panics, the
// item is the worker's all the same. If it ends the worker's goroutine, the item goes back,
// and comes first.
func TestReadyThatFailsAfterAHandOut(t *testing.T) {
	for kind, fail := range failsBy {
		c := newCapped(1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
		q.AddAll(0, 3, 1)
		failAfterPop(&c.hook, fail)
		item, ok := -1, false
		panicked := goes(func() { item, ok = q.TryGet() })
		if held := q.Held(); kind == "panic" && (item != 0 || !ok || held != 1 || panicked != nil) || kind == "Goexit" && (ok || held != 0) {
			t.Errorf("%s: got %d, %v and the panic %v, and %d items are held", kind, item, ok, panicked, held)
		}
		if c.hook != nil || q.Locked() {
			t.Fatalf("%s: it was called: %v, and the queue is locked: %v", kind, c.hook == nil, q.Locked())
		}
		checkInvariants(t, 0, q)
		var got []int
		if ok {
			got = append(got, item)
			q.Done(item)
		}
		for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
			got = append(got, item)
			q.Done(item)
			checkInvariants(t, len(got), q)
		}
		if first := got[0]; first != 0 {
			t.Errorf("%s: %d came first, want 0", kind, first)
		}
		if slices.Sort(got); fmt.Sprint(got) != "[0 1 3]" || c.wrong != "" {
			t.Errorf("%s: handed out %v, and the order heard wrong of %q", kind, got, c.wrong)
		}
		q.ShutDown()
	}
}

// An item that was put back leaves the line without a hand-out when it is removed. The order
// hears that the first one is over, and what it held back for that comes.
func TestRemoveOfWhatWasPutBackFreesItsPlace(t *testing.T) {
	c := newCapped(1)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
	defer q.ShutDown()
	q.AddAll(0, 3)
	failAfterPop(&c.hook, failsBy["Goexit"])
	goes(func() { q.TryGet() })
	if !q.Remove(0) {
		t.Fatal("0 is not in line")
	}
	checkInvariants(t, 0, q)
	if item, ok := q.TryGet(); item != 3 || !ok {
		t.Errorf("got %d, %v, want 3", item, ok)
	}
	if len(c.out) != 1 || c.wrong != "" {
		t.Errorf("the order has %v out, and heard wrong of %q", c.out, c.wrong)
	}
	q.Done(3)
}

// An order that holds items back is told at once that what differs from itself is done, and
// of nothing else: nobody can name that in a Done.
func TestHoldingOrderOfWhatDiffersFromItself(t *testing.T) {
	order := &solo[float64]{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Order: order})
	defer q.ShutDown()
	q.AddAll(math.NaN(), math.NaN(), 1, 2)
	got := ""
	for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
		got += fmt.Sprint(item, " ")
	}
	if got != "NaN NaN 1 " {
		t.Errorf("got %s, want NaN NaN 1", got)
	}
	q.Done(1)
	if item, ok := q.TryGet(); item != 2 || !ok {
		t.Errorf("got %v, %v, want 2", item, ok)
	}
	q.Done(2)
	// One whose worker ends goes back.
	q.Add(math.NaN())
	failAfterPop(&order.hook, failsBy["Goexit"])
	if goes(func() { q.TryGet() }); order.hook != nil || q.Len() != 1 {
		t.Fatalf("it was called: %v, and %d items are queued, want 1", order.hook == nil, q.Len())
	}
	if item, ok := q.TryGet(); item == item || !ok {
		t.Errorf("got %v, %v, want NaN", item, ok)
	}
	checkInvariants(t, 0, q)
}

// A drain waits for what the order hands out once an item is removed that was put back.
func TestDrainAfterRemoveOfWhatWasPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapped(1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
		q.AddAll(0, 3)
		failAfterPop(&c.hook, failsBy["Goexit"])
		goes(func() { q.TryGet() })
		if !q.Remove(0) {
			t.Fatal("0 is not in line")
		}
		drained := false
		go func() {
			q.ShutDownWithDrain()
			drained = true
		}()
		if synctest.Wait(); drained {
			t.Fatal("the drain has ended, and 3 is ready")
		}
		if item, ok := q.TryGet(); item != 3 || !ok {
			t.Errorf("got %d, %v, want 3", item, ok)
		}
		q.Done(3)
		if synctest.Wait(); !drained {
			t.Error("the drain has not ended")
		}
	})
}

// An item that differs from itself is as old as its return to its queue: it has no record
// that would know more. It seemed as old as the queue.
func TestAgeOfWhatDiffersFromItselfOnceItsWorkerEnds(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	order := &solo[float64]{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Order: order, KeepTimes: true, Clock: clock})
	defer q.ShutDown()
	clock.Step(time.Hour)
	q.Add(math.NaN())
	failAfterPop(&order.hook, failsBy["Goexit"])
	goes(func() { q.TryGet() })
	clock.Step(time.Second)
	if got, want := q.Snapshot(1).String(), "1 queued, 0 in flight, 0 waiting\nNaN: queued for 1s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
