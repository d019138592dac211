package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A worker handles one item at a time. The state of the item is in fields and not in
// variables of handleItem: the deferred calls that account for the item read the state, and
// captured variables would be allocated for each item.
type worker[T comparable] struct {
	*runner[T]

	item  T
	rank  fifo.Rank     // of the hand-out
	age   time.Duration // how long the item was queued before
	holds bool          // item is held: Done is owed
	early time.Duration // when the retry of the item was due, if the hand-out came before; or 0

	contexts contexts[T]

	pending bool // item is not accounted for
	calling bool // the handler is running, so a panic counts as the handler's

	panicked error     // of foreign code
	verdict  verdict   // on the error of the handler, unless the error is nil
	started  time.Time // of the call of the handler, for OnResult
}

// work handles items until none is left for this worker. If foreign code ends the goroutine,
// work first accounts for the item at hand and calls Done.
func (w *worker[T]) work() {
	over := false
	defer w.leave(&over)
	defer w.done()
	defer w.accountAborted()
	for !w.handleItems() {
		w.accountAborted()
	}
	over = true
}

// handleItems handles items until none is left for this worker, or until a handler panics.
// It reports false for a panic. One deferred call serves for all items: BenchmarkRun shows
// the cost of one for each item.
func (w *worker[T]) handleItems() (over bool) {
	defer w.catchHandler()
	for w.advance() {
		w.handleItem()
	}
	return true
}

// leave decides what the end of a worker's goroutine means. If the work is not over, foreign
// code has called [runtime.Goexit]. Another goroutine takes over, or the number of workers
// would fall unnoticed.
func (w *worker[T]) leave(over *bool) {
	if v := recover(); v != nil {
		panic(v) // The program ends, so no worker may go on.
	}
	if *over {
		w.workerDone()
		return
	}
	go w.work()
}

// done calls Done for the item at hand. All else is settled before: if a failure were
// counted after Done, another worker could have succeeded with the item, and the item would
// be retried. Only a declined item gets its Done elsewhere.
func (w *worker[T]) done() {
	if w.holds {
		w.unhold()
		w.source.Done(w.item)
	}
}

// isNaN reports whether the item at hand differs from itself.
func (w *worker[T]) isNaN() bool {
	return !w.typed.fifo.Reflexive && !slab.Equal(w.item, w.item)
}

// advance goes on from the item at hand to the next one, and reports false if none will
// come. All that the item at hand has left is settled before.
func (w *worker[T]) advance() bool {
	if w.passes && w.holds {
		return w.pass()
	}
	w.done()
	if w.direct {
		item, r, err := w.typed.getContext(w.intake)
		return err == nil && w.accept(item, r) // An error is the end of intake or of the queue.
	}
	info, err := w.source.GetInfo(w.intake)
	if err != nil {
		w.noteError(err)
		return false
	}
	return w.accept(info.Item, receipt{info.Age, fifo.Rank{Priority: info.Priority, Named: info.named}})
}

// pass is advance in one critical section of the queue. Nothing between the hand-out there and
// hold is foreign code, so an item that was handed out gets its Done.
func (w *worker[T]) pass() bool {
	now := w.typed.metrics.now() // May be foreign code, and not return.
	w.unhold()
	item, r, what := w.typed.pass(w.item, now, w.ending)
	switch what {
	case tookItem: // At the hand-out, intake had not ended.
		w.hold(item, r)
		return true
	case tookNothing, tookKeeper:
		item, r, err := w.typed.await(w.ending, what, r)
		return err == nil && w.accept(item, r)
	}
	return false
}

// hold takes over an item that the queue has handed out.
func (w *worker[T]) hold(item T, r receipt) {
	w.item, w.rank, w.age, w.holds = item, r.rank, r.waited, true
	if w.isNaN() {
		w.nanWork.Add(1)
	}
}

// unhold is the end of hold, and Done comes next. It comes first, as foreign code in Done may not
// return: Done must not be called twice.
func (w *worker[T]) unhold() {
	w.holds = false
	if w.isNaN() {
		w.nanWork.Add(-1)
	}
}

// accept takes over an item that the queue has handed out, or gives the item back if intake has
// ended: a queue looks at the context before it looks for an item, so the context can have ended
// since. To handle the item would be a hand-out after the end, and to drop the item would lose it.
func (w *worker[T]) accept(item T, r receipt) bool {
	if w.intake.Err() == nil {
		w.hold(item, r)
		return true
	}
	w.item, w.rank = item, r.rank
	w.decline()
	return false
}

// decline ends the hand-out of an item without a handler. If the queue goes on, the item is first in
// line again, and otherwise it is left behind. An embedding type has to see a Done.
func (w *worker[T]) decline() {
	end := fifo.EndLeave
	if w.keeps() {
		end = fifo.EndBack
		if w.direct {
			if w.typed.putBack(w.item, 0) {
				w.typed.metrics.givenBack()
			}
			return
		}
	}
	if c := w.typed.conclude(w.item, end); !c.Again {
		w.concludeLate(conclusion{}, lateItem[T]{state: ItemQueued})
	}
	w.source.Done(w.item)
}

// handleItem calls the handler and accounts for the item. If the handler does not return,
// work accounts for the item.
func (w *worker[T]) handleItem() {
	ctx := w.contexts.make(w.runner, w.item, w.rank, w.age)
	if w.options.OnResult != nil {
		w.started = time.Now()
	}
	w.pending = true // From here on, accountAborted may need the context and the start.
	w.noteEarly()    // May call foreign code: the clock.
	if w.derives {
		w.account(w.callDerived(ctx))
		return
	}
	w.account(w.call(ctx))
}

// noteEarly notes whether the hand-out came before the retry of an earlier failure was due. While
// nothing fails, it does not hash the item.
func (w *worker[T]) noteEarly() {
	w.early = 0
	if w.failed.failing.Load() == 0 {
		return
	}
	if _, due := w.failed.look(w.item); due > w.delaying.now() {
		w.early = due
	}
}

// isEarly reports whether the hand-out came before the retry was due.
func (w *worker[T]) isEarly() bool { return w.early > 0 }

// context returns the context of the item at hand.
func (w *worker[T]) context() context.Context { return w.contexts.last(w.age) }

// callDerived calls the handler with a context of its own. Contexts are made only for the
// options that need one: CancelOnReAdd costs 3 allocations, and a timeout 4.
func (w *worker[T]) callDerived(ctx context.Context) error {
	if w.options.CancelOnReAdd > 0 && w.mayCancel() {
		watching, cancel := w.typed.ReAddContext(ctx, w.item)
		defer cancel()
		ctx = watching
	}
	if w.options.Timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, w.options.Timeout, ErrTimeout)
		defer cancel()
		ctx = timed
	}
	return w.call(ctx)
}

// mayCancel reports whether the next call of the handler may be cut short. If not, a line is
// logged: mostly the handler adds its own item, and would be cut short for ever.
func (w *worker[T]) mayCancel() bool {
	n := w.cancels.number(w.item)
	if n < w.options.CancelOnReAdd {
		return true
	}
	w.logger.Info("Handler is not cancelled any more until it has come to an end, as its item was added again in each run", "item", w.item, "cancels", n)
	return false
}

func (w *worker[T]) call(ctx context.Context) error {
	w.calling = true
	err := w.handle(ctx, w.item)
	if err != nil {
		err = w.judge(ctx, err)
	}
	w.calling = false
	return err
}

// judge reads the error of the handler, and why the context of the handler has ended. Both
// call foreign code: a method of an error panics if the error is a nil pointer of its type,
// for example. So judge is called where a panic counts as one of the handler.
//
// The first cause decides. A handler that has timed out before the end of Run has failed.
func (w *worker[T]) judge(ctx context.Context, err error) error {
	w.verdict = weigh(err)
	if ctx.Err() == nil {
		return err
	}
	switch w.causeOf(ctx) {
	case ErrReAdded:
		if errors.Is(err, context.Canceled) || errors.Is(err, ErrReAdded) {
			w.verdict.cutShort = OutcomeReAdded
		}
	case ErrTimeout:
		if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrTimeout) {
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		}
	default:
		if errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err()) {
			w.verdict.cutShort = OutcomeInterrupted
		}
	}
	return err
}

// causeOf returns ErrReAdded or ErrTimeout if an option of this Run has ended the context, and nil
// if the end of Run has. Both errors can also be the cause of the context of Run: a handler of
// another Run may have called this Run. A RemoveFunc needs no cause here: conclude asks for it.
func (w *worker[T]) causeOf(ctx context.Context) error {
	for _, cause := range []error{ErrReAdded, ErrTimeout} {
		if context.Cause(ctx) == cause && context.Cause(w.handling) != cause {
			return cause
		}
	}
	return nil
}

// catchHandler is catch for the handler. A panic of other code under handleItems, such as
// the GetInfo of an embedding type, ends the program.
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
// here. The deferred calls then account for the item, and the stack of the handler is still
// there when the program prints the panic.
func (w *worker[T]) caught(v any) {
	w.panicked, w.verdict = &PanicError{Value: v, Stack: debug.Stack()}, verdict{failed: true}
	if w.options.CrashOnPanic {
		panic(v)
	}
}
