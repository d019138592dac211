package workqueue

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"time"
)

// A worker handles one item at a time. What it keeps of it lies here and not
// in variables of handleItem, because the deferred calls that account for the item
// read it, and captured variables would be allocated for each item.
type worker[T comparable] struct {
	*runner[T]

	item     T
	holds    bool // item is held: Done is owed
	priority int  // with which the item was handed out

	contexts []itemContext[T] // a piece of memory for several items
	used     int              // of contexts; the last one is that of item

	pending bool // item is not accounted for
	calling bool // the handler is at it, and a panic is one of the handler

	err       error     // of foreign code that has panicked
	verdict   verdict   // of what the handler has returned, unless that is nil
	started   time.Time // when it was called, if somebody wants to know
	overtaken bool      // the item was added again while the handler was at it
}

// work handles items until there are no more for it. An item that it holds at its end,
// which may be that of foreign code, is accounted for and done first.
func (w *worker[T]) work() {
	over := false
	defer w.leave(&over)
	defer w.letGo()
	defer w.accountAborted()
	for !w.handleItems() {
		w.accountAborted()
	}
	over = true
}

// handleItems handles items until there are no more for it, or until a handler panics,
// when it reports false. One deferred call serves for all of them: BenchmarkRun shows
// what one for each item takes.
func (w *worker[T]) handleItems() (over bool) {
	defer w.catchHandler()
	for w.advance() {
		w.handleItem()
	}
	return true
}

// leave decides what the end of a worker's goroutine means. If its work is not
// over, foreign code has ended it by [runtime.Goexit], and another one takes its
// place, or the number of workers would fall unnoticed.
func (w *worker[T]) leave(over *bool) {
	if v := recover(); v != nil {
		panic(v) // The program ends: nothing should be handed out any more.
	}
	if *over {
		w.workerDone()
		return
	}
	go w.work()
}

// letGo calls Done for what is held.
func (w *worker[T]) letGo() {
	if !w.holds {
		return
	}
	w.holds = false
	w.queue.Done(w.item)
	if w.counting {
		w.inHand.Add(-1)
	}
}

// advance goes on from the item that is held to the next one, and reports false when
// there will be none. Done comes only here, when all is settled for the item: if its
// failure were counted after it, another worker could have succeeded with the item by
// then, and would have it retried.
func (w *worker[T]) advance() bool {
	if w.passing && w.holds {
		return w.pass()
	}
	w.letGo()
	if w.item, w.holds = w.next(); !w.holds {
		return false
	}
	if w.counting {
		w.inHand.Add(1)
	}
	return true
}

// pass is advance in one critical section of the queue. It asks the context afterwards
// and not before: an item that was taken after its end is declined in any case.
func (w *worker[T]) pass() bool {
	w.holds = false
	next, err := w.typed.pass(w.item, w.ending)
	if err != nil {
		return false
	}
	w.item, w.holds = w.accept(next, false)
	return w.holds
}

// handleItem calls the handler and does what becomes of the item. If the handler does
// not return, work does so.
func (w *worker[T]) handleItem() {
	w.overtaken, w.pending = false, true
	ctx := w.newContext()
	if w.options.OnResult != nil {
		w.started = time.Now()
	}
	if w.derives {
		w.account(w.callDerived(ctx))
		return
	}
	w.account(w.call(ctx))
}

// callDerived calls the handler with a context of its own. Contexts are made only for
// the options that need one: for CancelOnReAdd it costs 3 allocations, for a timeout 4.
func (w *worker[T]) callDerived(ctx context.Context) error {
	if w.options.ProfileLabels {
		ctx = w.label(ctx)
		defer pprof.SetGoroutineLabels(w.handling)
	}
	watched := w.reAdder != nil && w.mayCancel()
	if watched {
		watching, cancel := w.reAdder.ReAddContext(ctx, w.item)
		defer cancel()
		ctx = watching
	}
	if w.options.Timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, w.options.Timeout, ErrTimeout)
		defer cancel()
		ctx = timed
	}
	err := w.call(ctx)
	// Asked here and not in account: the deferred cancels run before that. If the
	// timeout came first, the error is a failure of the item and counts. The same
	// holds if the cause comes from another Run whose handler has called this one.
	w.overtaken = watched && context.Cause(ctx) == ErrReAdded && context.Cause(w.handling) != ErrReAdded
	return err
}

// label makes the item a label of the goroutine, for profiles.
func (w *worker[T]) label(ctx context.Context) context.Context {
	labels := []string{"item", fmt.Sprint(w.item)}
	if w.options.Name != "" {
		labels = append(labels, "queue", w.options.Name)
	}
	ctx = pprof.WithLabels(ctx, pprof.Labels(labels...))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

func (w *worker[T]) call(ctx context.Context) error {
	w.calling = true
	err := w.handle(ctx, w.item)
	if err != nil {
		w.judge(err)
	}
	w.calling = false
	return err
}

// catchHandler is catch for the handler. What else panics under handleItems, such as
// the Get of a foreign queue, ends the program.
func (w *worker[T]) catchHandler() {
	if !w.calling {
		return
	}
	w.calling = false // After a Goexit too, or the next worker would catch too much.
	if v := recover(); v != nil {
		w.caught(v)
	}
}

// catch makes an error of a panic.
func (w *worker[T]) catch() {
	if v := recover(); v != nil {
		w.caught(v)
	}
}

// caught keeps the value of a panic as an error. With CrashOnPanic it panics again right
// here. The item is then accounted for by the deferred calls, and the stack of the
// handler is still there when the program prints it.
func (w *worker[T]) caught(v any) {
	w.err, w.verdict = &PanicError{Value: v, Stack: debug.Stack()}, verdict{failed: true}
	if w.options.CrashOnPanic {
		panic(v)
	}
}
