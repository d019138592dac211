package workqueue

import (
	"context"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has what becomes of an item between the end of its handler and Done. Until Done no
// other worker can get the item, so nobody else can change its failures or succeed with it.

// account goes from the end of a handler to Done. It acts on the outcome, and announces the
// result.
func (w *worker[T]) account(err error) {
	w.pending = false // First: foreign code that is called from here may not return.
	if w.anyLate.Load() {
		w.forgetLate(w.item)
	}
	if err == nil && w.simple {
		w.forgetter.forget(w.item)
		return
	}
	w.accountAll(err)
}

// accountAborted is account for a handler that has panicked or called Goexit. It does
// nothing if account was called already.
func (w *worker[T]) accountAborted() {
	if !w.pending {
		return
	}
	err := w.panicked
	w.panicked = nil // An idle worker would keep the error alive.
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

// conclude acts on the outcome. The order of the cases matters. A call that was cut short is
// neither a success nor a failure, although its handler has returned an error. Permanent
// wins over the other verdicts, and a failure over a wish to come again.
func (w *worker[T]) conclude(err error) HandlerResult {
	v := w.verdict
	if err == errGoexit {
		v = verdict{failed: true}
	}
	if err == nil {
		v = verdict{}
	}
	if err != nil && w.isRemoved() {
		return w.concludeRemoved()
	}
	if w.options.CancelOnReAdd {
		w.countCancels(v.cutShort == OutcomeReAdded)
	}
	if v.cutShort != 0 {
		return w.redo(v.cutShort)
	}
	switch {
	case err == nil:
		w.forgetter.forget(w.item)
		return HandlerResult{Outcome: OutcomeSucceeded}
	case v.permanent:
		return HandlerResult{Outcome: OutcomeGivenUp, Failures: w.failed.add(w.item) + 1}
	case v.failed:
		return w.fail(err, v)
	default:
		return w.putOff(v)
	}
}

// isRemoved reports whether a RemoveFunc has removed the item at hand.
func (w *worker[T]) isRemoved() bool { return w.typed.isRemoved(slab.HashOf(w.item), w.item) }

// concludeRemoved concludes for an item that a RemoveFunc has removed. The item comes again only if it
// was added since.
func (w *worker[T]) concludeRemoved() HandlerResult {
	w.limiting.Forget(w.item)
	w.cancels.forgetAny(w.item)
	return HandlerResult{Outcome: OutcomeRemoved, Again: w.addedAgain() && w.goesOn()}
}

// failuresOf returns how often handlers have failed in a row, as Run counts. The limiter may
// know more, as it also counts each Requeue and the calls of others, or may count nothing.
// While nothing has failed, failuresOf does not hash the item: handlers may ask about each
// item.
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
	if w.isNaN() {
		w.nanFailed.Store(true)
	}
	result.Failures = w.failed.add(w.item) + 1
	ended := w.intake.Err() != nil
	if !ended && w.options.MaxAttempts > 0 && result.Failures >= w.options.MaxAttempts {
		return HandlerResult{Outcome: OutcomeGivenUp, Failures: result.Failures}
	}
	taken := false
	if !ended || w.keeps() {
		result.After, taken = w.again(v)
	}
	if w.isRemoved() { // Since conclude has asked. The queue has not taken the item.
		return w.concludeRemoved()
	}
	if result.Again = taken && w.comesAgain(); !result.Again {
		result.After = 0
		w.noteLate(lateItem[T]{item: w.item, failures: result.Failures})
	}
	w.logFailure(err, result)
	return result
}

// again adds the item for another call, after the time of the verdict or of the limiter. again
// returns the time, and whether the queue took the item. The add goes below a seal: a seal refuses
// the adds of callers, and a drain has to wait for the retries of Run.
func (w *worker[T]) again(v verdict) (after time.Duration, taken bool) {
	if v.timed {
		m := modeRetry
		if v.failed {
			m |= w.limiting.strict
		}
		return v.wait, w.limiting.addAfter(w.item, v.wait, w.rank, m)
	}
	after = max(0, w.limiting.mustLimiter().When(w.item))
	return after, w.limiting.limit(w.item, after, w.rank, modeRetry)
}

// comesAgain reports whether the add by again comes to a worker, of this Run or of the next.
// Ask afterwards, as the end may come in between. An answer from before could call an item
// safe that the shutdown then drops, and nobody would name the item.
func (w *worker[T]) comesAgain() bool { return w.isOpen() && w.goesOn() }

// goesOn reports whether a queued item comes to a worker, of this Run or of the next.
func (w *worker[T]) goesOn() bool {
	return w.keeps() || w.intake.Err() == nil && !w.closing.Load()
}

// logFailure logs a failure after which the item may be retried. The error is a value beside
// the message, so that a log can be searched for either. The line has the level of an error
// only if the handler has panicked, as the next attempt may succeed.
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

// logError logs an error. For a panic the line has the stack, which is gone by the time of
// the log.
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
	if w.panicked != nil {
		w.logError(w.item, w.panicked, result.Failures, "OnGiveUp panicked")
	}
}

// tellGivenUp calls OnGiveUp, which is foreign code. A panic ends up in w.panicked. The recover
// must not hide a panic of other code, so it has a function of its own.
func (w *worker[T]) tellGivenUp(ctx context.Context, err error) {
	defer w.catch()
	w.options.OnGiveUp(ctx, w.item, err)
}

// putOff adds the item after the wait. RequeueAfter forgets earlier failures. Requeue does
// not, as the limiter has to wait longer each time.
func (w *worker[T]) putOff(v verdict) HandlerResult {
	result := HandlerResult{Outcome: OutcomeRequeued, Again: true}
	due := time.Now().Add(v.wait)
	if v.timed {
		w.limiting.Forget(w.item)
	}
	after, taken := w.again(v)
	result.After = after
	if w.isRemoved() {
		return w.concludeRemoved()
	}
	result.Failures = w.failuresOf(w.item)
	if !taken || !w.comesAgain() {
		result.Again, result.After = false, 0
		late := lateItem[T]{item: w.item, failures: result.Failures, putOff: true}
		if v.timed {
			late.due = due
		}
		w.noteLate(late)
	}
	return result
}

// countCancels counts how many calls in a row CancelOnReAdd has cut short for the item. Any
// other end of a call ends the series, as the handler has come to a result.
func (w *worker[T]) countCancels(cut bool) {
	if cut {
		w.cancels.add(w.item)
	} else {
		w.cancels.forgetAny(w.item)
	}
}

// redo has Done queue an item whose handler was cut short, at the priority of the hand-out
// or of an Add since, whichever is higher. A Remove may have taken back the Add that cut the
// handler short. The item is queued all the same, as the work for the earlier Add is undone.
//
// An item that was interrupted is left behind, unless the queue goes on without this Run.
//
// An Add after Done would be wrong: the next worker may hold the item by then, and the Add
// would cut the next handler short.
func (w *worker[T]) redo(outcome Outcome) HandlerResult {
	if outcome != OutcomeInterrupted || w.keeps() {
		w.add(w.item, w.rank)
	}
	if w.isRemoved() { // Since conclude has asked.
		return w.concludeRemoved()
	}
	again := w.addedAgain()
	if !again {
		w.noteQueued(w.item)
	}
	return HandlerResult{Outcome: outcome, Failures: w.failuresOf(w.item), Again: again && w.goesOn()}
}

// addedAgain reports whether Done will queue the item. A context that has ended tells
// nothing of the item, so addedAgain makes a new one. Only calls that were cut short pay for
// its allocations.
func (w *worker[T]) addedAgain() bool {
	ctx, cancel := w.typed.ReAddContext(context.Background(), w.item)
	defer cancel()
	return context.Cause(ctx) == ErrReAdded
}

// add adds an item now, with a priority, below a seal, see again. ItemPace is not asked: the
// item goes on with the hand-out that it had. An item that a RemoveFunc has removed stays away.
func (w *worker[T]) add(item T, k fifo.Rank) {
	w.delaying.reAdd(slab.HashOf(item), item, k, planReAdd)
}

// announce tells the metrics and OnResult of a result. Only Done comes later.
func (w *worker[T]) announce(result HandlerResult) {
	w.panicked = nil // OnGiveUp may have panicked.
	w.results.count(result.Outcome)
	if w.options.OnResult == nil {
		return
	}
	w.tellResult(w.context(), result)
	if w.panicked != nil {
		w.logError(w.item, w.panicked, result.Failures, "OnResult panicked")
		w.panicked = nil
	}
}

// tellResult calls OnResult, which is foreign code. A panic ends up in w.panicked.
func (w *worker[T]) tellResult(ctx context.Context, result HandlerResult) {
	defer w.catch()
	w.options.OnResult(ctx, w.item, result)
}
