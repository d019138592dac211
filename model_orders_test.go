package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// What ends a wait can happen at one instant: an item, the end of a delay, a
// shutdown, the end of a context. The tests below let that happen in every
// order there is, and each order in three ways:
//
//	apart      everybody has come to rest before the next event
//	at once    one goroutine makes all of them, without a pause
//	scattered  each is made by a goroutine of its own, released together
//
// Apart, the outcome is that of the model. At once and scattered, whoever waits
// may be overtaken, and the outcome is one of those that the promises leave:
// everybody returns, and nothing is lost.
var paces = []string{"apart", "at once", "scattered"}

// permutations returns all orders of the words.
func permutations(words ...string) iter.Seq[[]string] {
	return func(yield func([]string) bool) { permute(words, 0, yield) }
}

func permute(words []string, from int, yield func([]string) bool) bool {
	if from == len(words) {
		return yield(slices.Clone(words))
	}
	for i := from; i < len(words); i++ {
		words[from], words[i] = words[i], words[from]
		more := permute(words, from+1, yield)
		words[from], words[i] = words[i], words[from]
		if !more {
			return false
		}
	}
	return true
}

// everyOrder runs f in a bubble for each order of the events, and each pace. f
// gets a function that makes the events happen.
func everyOrder(t *testing.T, events []string, f func(t *testing.T, order []string, apart bool, happen func(map[string]func()))) {
	for order := range permutations(events...) {
		for _, pace := range paces {
			t.Run(strings.Join(order, ", ")+" "+pace, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f(t, order, pace == "apart", func(make map[string]func()) { happenAt(pace, order, make) })
				})
			})
		}
	}
}

func happenAt(pace string, order []string, make map[string]func()) {
	var scattered sync.WaitGroup
	for _, event := range order {
		if pace == "scattered" {
			scattered.Go(make[event])
			continue
		}
		if make[event](); pace == "apart" {
			synctest.Wait()
		}
	}
	scattered.Wait()
	synctest.Wait()
}

// before reports whether one event comes before another in the order.
func before(order []string, one, other string) bool {
	return slices.Index(order, one) < slices.Index(order, other)
}

// Workers that wait, one with a context and one without, get what comes, and
// the rest stays for others.
func TestWorkersWaitThroughEverythingAtOnce(t *testing.T) {
	events := []string{"add", "expiry", "cancel", "shutdown"}
	everyOrder(t, events, func(t *testing.T, order []string, apart bool, happen func(map[string]func())) {
		clock := testingclock.NewFakeClock(epoch)
		fifo := workqueue.NewTyped[string]()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Queue: fifo})
		ctx, cancel := context.WithCancel(t.Context())
		q.AddAfter("late", time.Second)
		patient, impatient := newWaiter(), newWaiter()
		go impatient.get(func() (string, error) { return q.GetContext(ctx) })
		synctest.Wait()
		go patient.get(func() (string, error) {
			item, shutdown := q.Get()
			if shutdown {
				return item, workqueue.ErrShutDown
			}
			return item, nil
		})
		synctest.Wait()
		happen(map[string]func(){
			"add":      func() { q.Add("now") },
			"expiry":   func() { clock.Step(time.Second) },
			"cancel":   cancel,
			"shutdown": q.ShutDown,
		})
		checkInvariants(t, 0, q)
		checkQuiet(t, 0, fifo)
		if n := fifo.Parked(); n != 0 {
			t.Errorf("%d workers are counted as waiting", n)
		}
		got := slices.Concat(patient.items(t), impatient.items(t))
		for range q.Len() {
			item, _ := q.Get()
			got = append(got, item)
		}
		slices.Sort(got)
		if want := acceptedBefore(order, "shutdown"); apart && !slices.Equal(got, want) || len(slices.Compact(got)) != len(got) {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := impatient.err; err != nil && err != workqueue.ErrShutDown && !errors.Is(err, context.Canceled) {
			t.Errorf("GetContext returned %v", err)
		}
		if q.AddAfter("never", time.Second); goroutines() != 0 || q.Waiting() != 0 {
			t.Errorf("%d goroutines are left, %d items wait", goroutines(), q.Waiting())
		}
	})
}

// acceptedBefore is which items are accepted before an event, apart.
func acceptedBefore(order []string, event string) (items []string) {
	if before(order, "expiry", event) {
		items = append(items, "late")
	}
	if before(order, "add", event) {
		items = append(items, "now")
	}
	return items
}

// A waiter is a worker that makes one call.
type waiter struct {
	returned chan struct{}
	item     string
	err      error
}

func newWaiter() *waiter { return &waiter{returned: make(chan struct{})} }

func (w *waiter) get(f func() (string, error)) {
	defer close(w.returned)
	w.item, w.err = f()
}

// items returns what the worker has got, at most one.
func (w *waiter) items(t *testing.T) []string {
	t.Helper()
	select {
	case <-w.returned:
	default:
		t.Fatal("a worker still waits")
	}
	if w.err != nil {
		return nil
	}
	return []string{w.item}
}

// Drains return when the last item is done, a ShutDown releases them, or their
// context ends, whatever else happens then. What a Drain says is so.
func TestDrainsWaitThroughEverythingAtOnce(t *testing.T) {
	events := []string{"done", "shutdown", "cancel"}
	everyOrder(t, events, func(t *testing.T, order []string, apart bool, happen func(map[string]func())) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		ctx, cancel := context.WithCancel(t.Context())
		q.AddAfter("waits", time.Hour)
		q.Add("held")
		q.Get()
		var draining sync.WaitGroup
		var err error
		var made, ended, endedWithout atomic.Int32 // events, and how many there were when each drain ended
		draining.Go(func() {
			err = q.Drain(ctx)
			ended.Store(made.Load())
		})
		synctest.Wait() // Whoever shuts down first drops what waits.
		draining.Go(func() {
			q.ShutDownWithDrain()
			endedWithout.Store(made.Load())
		})
		synctest.Wait()
		happen(map[string]func(){
			"done":     func() { made.Add(1); q.Done("held") },
			"shutdown": func() { made.Add(1); q.ShutDown() },
			"cancel":   func() { made.Add(1); cancel() },
		})
		draining.Wait() // If one does not return, the bubble says so.
		patience := int32(1)
		if order[0] == "cancel" {
			patience = 2
		}
		if apart && (ended.Load() != 1 || endedWithout.Load() != patience) {
			t.Errorf("Drain returned after %d events, ShutDownWithDrain after %d, want 1, %d", ended.Load(), endedWithout.Load(), patience)
		}
		want := map[string]string{
			"done":     "<nil>",
			"shutdown": "shut down",
			"cancel":   "canceled",
		}[order[0]]
		if apart && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Drain returned %v, want %s", err, want)
		}
		var left *workqueue.DrainError[string]
		if errors.As(err, &left) && (left.InFlightTotal != 1 || left.WaitingTotal != 1 || left.QueuedTotal != 0) {
			t.Errorf("Drain returned %v, want 1 in flight, 1 waiting", err)
		}
		if goroutines() != 0 {
			t.Errorf("%d goroutines are left", goroutines())
		}
	})
}

// An item whose time comes is added, unless it is removed or the queue shut
// down before; whatever else is done to it at that instant, it is queued at most
// once.
func TestDelayEndsAmongEverythingElse(t *testing.T) {
	events := []string{"expiry", "add", "remove", "shutdown"}
	everyOrder(t, events, func(t *testing.T, order []string, apart bool, happen func(map[string]func())) {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
		q.AddAfter("a", time.Second)
		synctest.Wait()
		happen(map[string]func(){
			"expiry":   func() { clock.Step(time.Second) },
			"add":      func() { q.Add("a") },
			"remove":   func() { q.Remove("a") },
			"shutdown": q.ShutDown,
		})
		checkInvariants(t, 0, q)
		want := queuedAfter(order)
		if n := q.Len(); apart && n != want || n > 1 || goroutines() != 0 || q.Waiting() != 0 {
			t.Errorf("%d items are queued, want %d; %d wait, %d goroutines are left", n, want, q.Waiting(), goroutines())
		}
	})
}

// queuedAfter is how many items are queued after the events, apart.
func queuedAfter(order []string) (queued int) {
	waits, down := true, false
	for _, event := range order {
		switch {
		case event == "expiry" && waits || event == "add" && !down:
			queued = 1
			waits = waits && event == "add"
		case event == "remove":
			queued, waits = 0, false
		case event == "shutdown":
			waits, down = false, true
		}
	}
	return queued
}
