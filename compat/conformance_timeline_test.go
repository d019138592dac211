package compat_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A timeline is a story about one queue: calls in their order, each with what
// is to be seen once everything it set off has come to rest.
type timeline struct {
	name    string
	stack   bool // the storage is a stack with a journal
	unnamed bool // the queue has a provider, but no name
	steps   []step
}

// A step is a call and its outcome: what the call returned, or "blocks", and
// then every earlier call that blocked and now has returned, as in
// "get=a, drain=returned". A call without a result shows nothing.
//
//	add a b     Add of each         shutdown    ShutDown
//	after a 5s  AddAfter            drain       ShutDownWithDrain
//	get         Get                 len         Len
//	done a b    Done of each        elapse 5s   step the fake clock
//	take        Get and Done until Len is 0
//	break x     let the next call of a metric or storage method panic
//	metrics     the counts since the last time
//	gauges      what the push-style gauges are set to
//	journal     what the storage was told since the last time
//	goroutines  how many there are besides blocked calls
type step struct {
	call     string
	want     string
	upstream *string // what client-go does instead, see outcome
}

// A layer is one of the three queues.
type layer string

const (
	fifo        layer = "queue"
	delayed     layer = "delaying"
	rateLimited layer = "rate-limiting"
)

var layers = []layer{fifo, delayed, rateLimited}

// play runs the timelines on a layer of each implementation.
func play(t *testing.T, on layer, timelines []timeline) {
	t.Helper()
	onEach(t, func(t *testing.T, impl implementation) {
		for _, tl := range timelines {
			t.Run(tl.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(impl, on, tl)
					defer w.end()
					w.play(t, tl.steps)
				})
			})
		}
	})
}

// A world is a queue in a bubble, with everything that a timeline reads.
type world struct {
	impl  implementation
	queue typedQueue[string]
	clock *clocktesting.FakeClock
	meter *meter
	notes notes // of the storage
	alone int   // goroutines in the bubble without a queue

	faults faults // of meter and storage

	mu sync.Mutex
	// blocked counts the running calls. returned has the results of the calls that ran longer than
	// their step.
	blocked  int
	returned []string
}

func newWorld(impl implementation, on layer, tl timeline) *world {
	w := &world{
		impl:  impl,
		clock: clocktesting.NewFakeClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
		meter: new(meter),
		alone: goroutines(),
	}
	w.meter.faults = &w.faults
	s := settings{name: "world", meter: w.meter, clock: w.clock}
	if tl.unnamed {
		s.name = ""
	}
	if tl.stack {
		s.storage = &storageJournal{new(stack), &w.notes, &w.faults}
	}
	w.queue = w.build(on, s)
	return w
}

// build makes the queue from the bottom up if the storage is below. Otherwise the implementation
// makes the lower layers.
func (w *world) build(on layer, s settings) typedQueue[string] {
	if on == fifo {
		return w.impl.queue(s)
	}
	if s.storage != nil {
		s.queue = w.impl.queue(s)
	}
	if on == delayed {
		return w.impl.delaying(s)
	}
	if s.queue != nil {
		s.delaying = w.impl.delaying(s)
	}
	return w.impl.rateLimiting(s)
}

// end releases the rest of a timeline, which a bubble would report as a deadlock: workers, and
// client-go's drainers and goroutines.
func (w *world) end() {
	w.queue.ShutDown()
	synctest.Wait()
}

func (w *world) play(t *testing.T, steps []step) {
	t.Helper()
	synctest.Wait() // Goroutines of the queue count only when they are at rest.
	for i, s := range steps {
		what := fmt.Sprintf("step %d, %q", i, s.call)
		outcome[string]{s.want, s.upstream}.check(t, w.impl, what, w.perform(s.call))
	}
}

// perform makes a call on another goroutine, so a call that should not block shows as "blocks", and
// the test does not hang.
func (w *world) perform(call string) string {
	verb, rest, _ := strings.Cut(call, " ")
	own, late := "blocks", false
	go func() {
		result := w.callOrPanic(verb, strings.Fields(rest))
		w.mu.Lock()
		defer w.mu.Unlock()
		if !late {
			own = result
			return
		}
		if result == "" {
			result = "returned"
		}
		w.blocked--
		w.returned = append(w.returned, verb+"="+result)
	}()
	synctest.Wait()

	w.mu.Lock()
	defer w.mu.Unlock()
	if own == "blocks" {
		late = true
		w.blocked++
	}
	// The order decides which of several blocked calls gets the item.
	slices.Sort(w.returned)
	seen := w.returned
	if own != "" {
		seen = slices.Insert(seen, 0, own)
	}
	w.returned = nil
	return strings.Join(seen, ", ")
}

func (w *world) callOrPanic(verb string, args []string) (result string) {
	defer func() {
		if r := recover(); r != nil {
			if r != errBroken {
				panic(r)
			}
			result = "panics"
		}
	}()
	return w.call(verb, args)
}

func (w *world) call(verb string, args []string) (result string) {
	switch verb {
	case "add":
		each(args, w.queue.Add)
	case "done":
		each(args, w.queue.Done)
	case "get":
		return w.get()
	case "take":
		return w.take()
	case "after":
		w.queue.(delayingQueue[string]).AddAfter(args[0], duration(args[1]))
	case "len":
		return strconv.Itoa(w.queue.Len())
	case "shutdown":
		w.queue.ShutDown()
	case "drain":
		w.queue.ShutDownWithDrain()
		return "returned"
	case "elapse":
		w.clock.Step(duration(args[0]))
	case "break":
		w.faults.set(args[0])
	case "metrics":
		return w.meter.flush()
	case "gauges":
		return w.meter.level()
	case "journal":
		return w.notes.flush()
	case "goroutines":
		return strconv.Itoa(w.goroutines())
	default:
		panic("no such call: " + verb)
	}
	return ""
}

func (w *world) get() string {
	item, shutdown := w.queue.Get()
	if shutdown {
		return "shutdown"
	}
	return item
}

func (w *world) take() string {
	var taken []string
	for w.queue.Len() > 0 {
		item, _ := w.queue.Get()
		w.queue.Done(item)
		taken = append(taken, item)
	}
	return strings.Join(taken, " ")
}

// goroutines counts the goroutines of the queue, without the caller.
func (w *world) goroutines() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return goroutines() - 1 - w.blocked - w.alone
}

// goroutines counts the goroutines of the caller's bubble. Others come and go.
func goroutines() int {
	trace := make([]byte, 1<<20)
	trace = trace[:runtime.Stack(trace, true)]
	_, bubble, _ := bytes.Cut(trace, []byte("synctest bubble "))
	bubble, _, _ = bytes.Cut(bubble, []byte("]"))
	return bytes.Count(trace, []byte("synctest bubble "+string(bubble)+"]:\n"))
}

func each(args []string, f func(string)) {
	for _, arg := range args {
		f(arg)
	}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}
