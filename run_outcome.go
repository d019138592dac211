package workqueue

import (
	"context"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file is what becomes of an item when its handler is over. All of it comes before
// Done of the item: until then no other worker can have it, and so nobody can change its
// failures, or succeed with it, in between.

// account is the way from the end of a handler to Done. It does what the outcome asks
// for, and announces it.
func (w *worker[T]) account(err error) {
	w.pending = false // First: foreign code that is called from here may not return.
	if w.anyLate.Load() {
		w.forgetLate(w.item)
	}
	if err == nil && w.simple {
		w.limiting.Forget(w.item) // In the limiter, and what failed counts.
		return
	}
	w.accountAll(err)
}

// accountAborted is account, if that is not done, for a handler that has panicked or
// called Goexit.
func (w *worker[T]) accountAborted() {
	if !w.pending {
		return
	}
	err := w.err
	w.err = nil // Or an idle worker would keep it alive.
	if err == nil {
		err = errGoexit
	}
	w.account(err)
}

func (w *worker[T]) accountAll(err error) {
	var took time.Duration
	if w.options.OnResult != nil {
		took = time.Since(w.started)
	}
	result := w.conclude(err)
	result.Err, result.Took = err, took
	if result.Outcome == OutcomeGivenUp {
		// OnGiveUp may not return. OnResult sees the failures that OnGiveUp has seen.
		defer w.limiting.Forget(w.item)
		defer w.announce(result)
		w.giveUp(result)
		return
	}
	w.announce(result)
}

// conclude does what the outcome asks for. The order of the questions matters. A call
// that was cut short is neither a success nor a failure, although its handler has returned
// an error. Permanent wins over the other verdicts, and a failure over a wish to come again.
func (w *worker[T]) conclude(err error) HandlerResult {
	v := w.verdict
	if err == errGoexit {
		v = verdict{failed: true}
	}
	if err == nil {
		v = verdict{}
	}
	if w.options.CancelOnReAdd {
		w.countCancels(v.cutShort == OutcomeReAdded)
	}
	if v.cutShort != 0 {
		return w.redo(v.cutShort)
	}
	switch {
	case err == nil:
		w.limiting.Forget(w.item)
		return HandlerResult{Outcome: OutcomeSucceeded}
	case v.permanent:
		return HandlerResult{Outcome: OutcomeGivenUp, Failures: w.failed.add(w.item) + 1}
	case v.failed:
		return w.fail(err, v)
	default:
		return w.putOff(v)
	}
}

// failuresOf returns how often handlers have failed in a row, by the count of Run
// itself. The limiter may know more, as it counts a Requeue and what others call, or
// nothing at all. While nothing has failed it does not hash the item: it is asked for
// each item that a handler asks about.
func (r *runner[T]) failuresOf(item T) int {
	if r.failed.failing.Load() == 0 {
		return 0
	}
	return r.failed.number(item)
}

// fail counts a failure and has the item retried, or gives the item up. It counts before
// Done, so that a drain finds the item among the held ones or among the failures. A failure
// after the end of intake may be due to the end, so the item is not given up then. An item
// that cannot be retried is left behind.
func (w *worker[T]) fail(err error, v verdict) HandlerResult {
	result := HandlerResult{Outcome: OutcomeFailed}
	if !slab.Equal(w.item, w.item) {
		w.oddFail.Store(true)
	}
	result.Failures = w.failed.add(w.item) + 1
	ended := w.intake.Err() != nil
	if !ended && w.options.MaxAttempts > 0 && result.Failures >= w.options.MaxAttempts {
		return HandlerResult{Outcome: OutcomeGivenUp, Failures: result.Failures}
	}
	if !ended || w.keeps() {
		result.After = w.again(v)
	}
	if result.Again = w.comesAgain(); !result.Again {
		result.After = 0
		w.noteLate(lateItem[T]{item: w.item, failures: result.Failures})
	}
	w.logFailure(err, result)
	return result
}

// again adds the item for another call, after the time of the verdict, or else of the
// limiter, and returns that time. It goes below a queue that is sealed: a seal keeps out
// what callers add, and what Run adds is work that the drain has to wait for.
func (w *worker[T]) again(v verdict) (after time.Duration) {
	_, k := w.typed.heldFor(w.item)
	if v.timed {
		w.limiting.addAfter(w.item, v.wait, k)
		return v.wait
	}
	after = max(0, w.limiting.mustLimiter().When(w.item))
	w.limiting.limit(w.item, after, k)
	return after
}

// comesAgain reports whether what again has added comes to a worker, of this Run or of
// the next. It is asked afterwards, as the end may come in between. To ask before would
// call an item safe that the shutdown then drops, and name it nowhere.
//
// The delaying queue is asked too: a shutdown closes that one first.
func (w *worker[T]) comesAgain() bool {
	return !w.typed.ShuttingDown() && !w.delaying.isClosed() && w.goesOn()
}

// goesOn reports whether what is queued comes to a worker, of this Run or of the next.
func (w *worker[T]) goesOn() bool {
	return w.keeps() || w.intake.Err() == nil && !w.closing.Load()
}

// logFailure logs a failure that does not end the item. The error is a value beside the
// message and not its text, so that a log can be searched for either. It is an error to
// the log only if the handler has panicked: otherwise the next attempt may succeed.
func (w *worker[T]) logFailure(err error, result HandlerResult) {
	message := "Handler failed, the item will be retried"
	if !result.Again {
		message = "Handler failed, and the queue is shut down"
	}
	if _, panicked := err.(*PanicError); panicked {
		w.logError(w.item, err, result.Failures, message)
		return
	}
	w.logger.Info(message, "item", w.item, "failures", result.Failures, "err", err)
}

// logError logs an error, with the stack of a panic: that is over when it is logged.
func (w *worker[T]) logError(item T, err error, failures int, message string) {
	log := w.logger.WithValues("item", item, "failures", failures)
	if p, ok := err.(*PanicError); ok {
		log = log.WithValues("stack", string(p.Stack))
	}
	log.Error(err, message)
}

// giveUp tells of an item that is given up. Without an OnGiveUp the log has an error, as
// nobody else would learn of the item.
func (w *worker[T]) giveUp(result HandlerResult) {
	if w.options.OnGiveUp == nil {
		w.logError(w.item, result.Err, result.Failures, "Item given up")
		return
	}
	w.tellGivenUp(w.context(), result.Err)
	if w.err != nil {
		w.logError(w.item, w.err, result.Failures, "OnGiveUp panicked")
	}
}

// tellGivenUp calls OnGiveUp, which is foreign code. A panic ends up in w.err. It is a
// function of its own for the recover, which must not hide a panic of anything else.
func (w *worker[T]) tellGivenUp(ctx context.Context, err error) {
	defer w.catch()
	w.options.OnGiveUp(ctx, w.item, err)
}

// putOff adds the item after the wait. Only RequeueAfter says that what has failed
// before does not matter any more: after a Requeue, the limiter has to wait longer
// each time.
func (w *worker[T]) putOff(v verdict) HandlerResult {
	result := HandlerResult{Outcome: OutcomeRequeued, Again: true}
	due := time.Now().Add(v.wait)
	if v.timed {
		w.limiting.Forget(w.item)
	}
	result.After = w.again(v)
	result.Failures = w.failuresOf(w.item)
	if !w.comesAgain() {
		result.Again, result.After = false, 0
		late := lateItem[T]{item: w.item, failures: result.Failures, putOff: true}
		if v.timed {
			late.due = due
		}
		w.noteLate(late)
	}
	return result
}

// countCancels counts how many calls in a row CancelOnReAdd has cut short for the item. A
// call that ends otherwise ends the series: its handler has come to something.
func (w *worker[T]) countCancels(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !cut {
		delete(w.cancels, w.item)
		return
	}
	if w.cancels == nil {
		w.cancels = make(map[T]int)
	}
	w.cancels[w.item]++
}

// redo has Done queue an item whose handler was cut short, with the priority of the hand-out
// or with that of an Add since, whichever is higher. A Remove may have taken back the Add
// that cut the handler short. The item is queued all the same, as the work for the Add
// before the hand-out is undone.
//
// An item that was interrupted is left behind, unless the queue goes on without this Run.
//
// An Add after Done would be wrong: the next worker may hold the item by then, and that
// Add would cut the next handler short.
func (w *worker[T]) redo(outcome Outcome) HandlerResult {
	if outcome != OutcomeInterrupted || w.keeps() {
		_, k := w.typed.heldFor(w.item)
		w.add(w.item, k)
	}
	again := w.addedAgain()
	if !again {
		w.noteQueued(w.item)
	}
	return HandlerResult{Outcome: outcome, Failures: w.failuresOf(w.item), Again: again && w.goesOn()}
}

// addedAgain reports whether Done will queue the item. The context must be one that has
// not ended: a context that has tells nothing of the item. The new one costs allocations,
// which only calls that were cut short pay for.
func (w *worker[T]) addedAgain() bool {
	ctx, cancel := w.typed.ReAddContext(context.Background(), w.item)
	defer cancel()
	return ctx.Err() != nil
}

// add adds an item now, with a priority, also to a queue that is sealed, see again.
func (w *worker[T]) add(item T, k rank) {
	w.delaying.AddWith(AddOptions{Priority: k.pointer()}, item)
}

// announce tells of a result, when all is done for the item but Done.
func (w *worker[T]) announce(result HandlerResult) {
	w.err = nil // It may be the panic of OnGiveUp.
	w.results.count(result.Outcome)
	if w.options.OnResult == nil {
		return
	}
	w.tellResult(w.context(), result)
	if w.err != nil {
		w.logError(w.item, w.err, result.Failures, "OnResult panicked")
		w.err = nil
	}
}

// tellResult calls OnResult, which is foreign code. A panic ends up in w.err.
func (w *worker[T]) tellResult(ctx context.Context, result HandlerResult) {
	defer w.catch()
	w.options.OnResult(ctx, w.item, result)
}
