package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// A worker handles one item at a time. What it keeps of it lies here and not
// in variables of handleItem, because the deferred calls that account for the item
// read it, and captured variables would be allocated for each item.
type worker[T comparable] struct {
	*runner[T]

	err       error // the outcome of the handler
	overtaken bool  // the item was added again while the handler was at it
}

// work handles items until there are no more for it.
func (w *worker[T]) work() {
	over := false
	defer w.leave(&over)
	for item, ok := w.next(); ok; item, ok = w.next() {
		w.handleItem(item)
	}
	over = true
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

// handleItem calls the handler and does what becomes of the item, even if
// the handler does not return. Contexts are made only for the options that need
// one: for CancelOnReAdd it costs 3 allocations, for a deadline 4.
func (w *worker[T]) handleItem(item T) {
	w.err, w.overtaken = errGoexit, false
	defer w.account(item)
	ctx := w.handling
	if w.options.Labels {
		ctx = w.label(ctx, item)
		defer pprof.SetGoroutineLabels(w.handling)
	}
	if w.watcher != nil {
		watched, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		// Called with the queue's lock held. It takes time in proportion to the
		// contexts that the handler has derived, and calls no foreign code: it asks
		// no context above handling, which is not the caller's, see newRunner. A
		// cancel on a goroutine of its own could come after the Add has returned.
		w.watcher.watch(item, func() { cancel(ErrReAdded) })
		ctx = watched
	}
	if w.options.Deadline > 0 {
		timed, cancel := context.WithTimeout(ctx, w.options.Deadline)
		defer cancel()
		ctx = timed
	}
	w.call(ctx, item)
	// Asked here and not in account: the deferred cancels run before that. If the
	// deadline came first, the error is a failure of the item and counts. The same
	// holds if the cause comes from another Run whose handler has called this one.
	w.overtaken = w.watcher != nil && context.Cause(ctx) == ErrReAdded && context.Cause(w.handling) != ErrReAdded
}

// label makes the item a label of the goroutine, for profiles.
func (w *worker[T]) label(ctx context.Context, item T) context.Context {
	labels := []string{"item", fmt.Sprint(item)}
	if w.options.Name != "" {
		labels = append(labels, "queue", w.options.Name)
	}
	ctx = pprof.WithLabels(ctx, pprof.Labels(labels...))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

func (w *worker[T]) call(ctx context.Context, item T) {
	defer w.catch()
	w.err = w.handle(ctx, item)
}

// catch makes an error of a panic. With CrashOnPanic it panics again right here. The
// item is then accounted for by the deferred calls, and the stack of the handler is
// still there when the program prints it.
func (w *worker[T]) catch() {
	v := recover()
	if v == nil {
		return
	}
	w.err = &PanicError{Value: v, Stack: debug.Stack()}
	if w.options.CrashOnPanic {
		panic(v)
	}
}

// account does what the outcome of the handler asks for. Done is deferred: it comes
// last, and also if foreign code panics or ends the goroutine on the way.
func (w *worker[T]) account(item T) {
	defer w.queue.Done(item)
	err := w.err
	w.err = nil // Or an idle worker would keep it alive.
	if w.options.Drain && w.ctx.Err() != nil {
		w.leaveOut(item)
	}
	if err == nil {
		w.forget(item)
		return
	}
	// A value that was panicked with has not been returned, whatever it wraps.
	if _, panicked := err.(*PanicError); panicked {
		w.fail(item, err)
	} else if w.overtaken && (errors.Is(err, context.Canceled) || errors.Is(err, ErrReAdded)) {
		w.redo(item)
	} else if errors.As(err, new(*permanentError)) {
		w.giveUp(item, err)
	} else if again := (*requeueAfter)(nil); errors.As(err, &again) {
		w.putOff(item, again.wait)
	} else {
		w.fail(item, err)
	}
}

// redo has Done queue an item whose handler was overtaken. The Add that did so
// may have been taken back since, by Remove. But the Add before it, for which the
// item was handed out, was not: its work is undone. So the item is added once
// more, and is left behind if that is too late. A Remove that comes after this is
// one of a queued item.
//
// An Add after Done would be wrong: the next worker may have the item by then, and
// would be overtaken by it.
func (w *worker[T]) redo(item T) {
	var again atomic.Bool
	w.watcher.watch(item, func() { again.Store(true) })
	if !again.Load() {
		w.queue.Add(item)
	}
	if !again.Load() { // The queue is shut down.
		w.leaveQueued(item)
	}
}

// putOff adds the item after the wait. If ctx has ended, the queue may have dropped
// it already or will do so, and the item is noted.
func (w *worker[T]) putOff(item T, wait time.Duration) {
	w.forget(item)
	w.queue.AddAfter(item, wait)
	if w.ctx.Err() != nil {
		w.leaveLate(item, 0)
	}
}

// forget ends the series of failures of an item, for the limiter and for MaxAttempts.
// Forget of a [TypedRateLimiting] does both, but the queue may be of another type.
func (w *worker[T]) forget(item T) {
	if w.failed != nil {
		w.failed.forgetAny(item)
	}
	w.queue.Forget(item)
}

// fail counts a failure and has the item retried, or gives it up. Once ctx has
// ended, no retry will come, and the failure may be due to that: then the item
// is neither, but left behind, with this failure on top of those that the limiter
// knows.
func (w *worker[T]) fail(item T, err error) {
	ended, failures := w.ctx.Err() != nil, 1
	if !ended {
		if w.failed != nil && w.failed.add(item)+1 >= w.options.MaxAttempts {
			w.giveUp(item, err)
			return
		}
		w.queue.AddRateLimited(item)
		// Asked again, as the end of ctx in between drops the retry.
		ended, failures = w.ctx.Err() != nil, 0
	}
	failures += w.queue.NumRequeues(item)
	if ended {
		failures = max(1, failures) // Some limiters do not count.
		w.leaveLate(item, failures)
	}
	w.logFailure(item, err, failures, ended || w.queue.ShuttingDown())
}

// logFailure logs a failure that does not end the item. It is an error to the log only
// if the handler has panicked: otherwise the next attempt may succeed.
func (w *worker[T]) logFailure(item T, err error, failures int, dropped bool) {
	message := "Handler failed, the item will be retried"
	if dropped {
		message = "Handler failed, and the queue is shut down"
	}
	if _, panicked := err.(*PanicError); panicked {
		w.logError(item, err, failures, message)
		return
	}
	w.logger.Info(message, "item", item, "failures", failures, "err", err)
}

func (w *worker[T]) logError(item T, err error, failures int, message string) {
	log := w.logger.WithValues("item", item, "failures", failures)
	if p, ok := err.(*PanicError); ok {
		log = log.WithValues("stack", string(p.Stack))
	}
	log.Error(err, message)
}

// giveUp reports an item once and forgets it.
func (w *worker[T]) giveUp(item T, err error) {
	defer w.forget(item)
	if w.options.OnGiveUp == nil {
		w.logError(item, err, w.queue.NumRequeues(item), "Item given up")
		return
	}
	w.tellGivenUp(item, err)
	if w.err != nil {
		w.logError(item, w.err, w.queue.NumRequeues(item), "OnGiveUp panicked")
		w.err = nil
	}
}

// tellGivenUp calls OnGiveUp, which is foreign code. A panic ends up in w.err.
func (w *worker[T]) tellGivenUp(item T, err error) {
	defer w.catch()
	w.options.OnGiveUp(item, err)
}
