package workqueue

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
)

// This file has what becomes of an item between the end of its handler and Done. Until Done no
// other worker can get the item, so nobody else can change its failures or succeed with it.

// account goes from the end of a handler to Done. It acts on the outcome, and announces the
// result.
func (w *worker[T]) account(err error) {
	w.pending = false // First: foreign code that is called from here may not return.
	w.forgetLate(w.item)
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
	w.countCancels(v.cutShort == OutcomeReAdded)
	if w.isEarly() && w.failed.number(w.item) == 0 {
		w.early = 0 // A Forget or a Remove since the hand-out ends the row of failures.
	}
	if v.cutShort != 0 {
		return w.redo(v.cutShort)
	}
	switch {
	case err == nil:
		w.forgetter.forget(w.item)
		return HandlerResult{} // OutcomeSucceeded.
	case v.permanent:
		return w.giveUpOn(w.failed.add(w.item) + 1)
	case v.failed:
		return w.fail(err, v)
	default:
		return w.putOff(v)
	}
}

// settle has the queue decide about the item at hand, see conclude.go.
func (w *worker[T]) settle(e ending) conclusion {
	e.rank = w.rank
	return w.delaying.conclude(w.item, e)
}

// concludeRemoved concludes for an item that was removed. Nothing counts what has
// become of the item, and the item comes again only if it was added since.
func (w *worker[T]) concludeRemoved(c conclusion) HandlerResult {
	w.limiting.Forget(w.item)
	w.cancels.forgetAny(w.item)
	return HandlerResult{Outcome: OutcomeRemoved, Again: c.Again && w.goesOn()}
}

// giveUpOn concludes for an item that is not retried.
func (w *worker[T]) giveUpOn(failures int) HandlerResult {
	if c := w.settle(ending{end: fifo.EndWorked}); c.Removed {
		return w.concludeRemoved(c)
	}
	return HandlerResult{Outcome: OutcomeGivenUp, Failures: failures}
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
	if result.Early = w.isEarly(); result.Early {
		result.Failures = w.failed.number(w.item)
	} else {
		result.Failures = w.failed.add(w.item) + 1
	}
	ended := w.intake.Err() != nil
	if !ended && !result.Early && w.options.MaxAttempts > 0 && result.Failures >= w.options.MaxAttempts {
		return w.giveUpOn(result.Failures)
	}
	var c conclusion
	// The end of a Run changes the answer of keeps at any time. An item that has no retry here must not be taken for
	// one that comes again, so comesAgain is asked only about an item that has one.
	if !ended || w.keeps() {
		result.After, c = w.retry(v)
		result.Again = w.comesAgain()
	}
	if !result.Again && !c.Removed {
		result.After = 0
		c = w.concludeLate(c, lateItem[T]{state: ItemFailed, failures: result.Failures})
	}
	if c.Removed {
		return w.concludeRemoved(c)
	}
	w.logFailure(err, result)
	return result
}

// retry has the item come again after the time of the verdict or of the limiter, and not before that of
// a DeferFor. It returns the time. The retry goes below a seal: a seal refuses the adds of callers, and a
// drain has to wait for the retries of Run.
//
// A failure notes when its retry is due, for the next hand-out. It reads the clock before the wait
// begins: the hand-out of the retry is never early.
func (w *worker[T]) retry(v verdict) (after time.Duration, c conclusion) {
	now := w.delaying.now()
	e := w.nextWait(v, now)
	c = w.settle(e)
	if v.failed && c.taken && !(w.isEarly() && v.firm) {
		w.failed.note(w.item, dueAfter(now, e.after))
	}
	return c.after, c
}

// nextWait returns how long the item waits, and why. It observes the wait of each failure, and each answer of the
// limiter, but not the rest of a wait after an early failure, which was observed when the wait began.
func (w *worker[T]) nextWait(v verdict, now time.Duration) ending {
	e := ending{end: fifo.EndRetry, after: v.wait, mode: w.limiting.strict, why: fifo.WhyRetry}
	limited := false
	switch {
	case v.firm && !v.failed:
		e.after, e.why = 0, fifo.WhyDeferred
	case w.isEarly() && (v.failed || !v.timed):
		if e.after = max(0, w.early-now); v.timed {
			e.after = min(e.after, v.wait)
		}
	case !v.timed:
		limited, e.after = true, max(0, w.limiting.mustLimiter().When(w.item))
	case !v.failed:
		e.mode, e.why = 0, fifo.WhyDelay
	}
	if v.firm {
		e.mode, e.after = modeFirm, max(e.after, v.least)
	}
	if limited || v.failed && !w.isEarly() {
		w.limiting.observeRetry(e.after, limited)
	}
	return e
}

// comesAgain reports whether an item whose retry was concluded comes to a worker, of this Run or of the
// next. Ask afterwards, as the end may come in between: a queue that is open has taken the retry. An
// answer from before could call an item safe that the shutdown then drops, and nobody would name the item.
func (w *worker[T]) comesAgain() bool { return w.isOpen() && w.goesOn() }

// goesOn reports whether a queued item comes to a worker, of this Run or of the next.
func (w *worker[T]) goesOn() bool {
	return w.keeps() || w.intake.Err() == nil
}

// logFailure logs a failure after which the item may be retried. The error is a value beside
// the message, so that a log can be searched for either. The line has the level of an error
// only if the handler has panicked, as the next attempt may succeed. The wait of the retry is in the line: a
// handler that names a wrong time fails once and is gone for hours.
func (w *worker[T]) logFailure(err error, result HandlerResult) {
	if w.options.QuietFailures {
		return
	}
	message, log := "Handler failed, and the queue is shut down", w.logger
	if result.Again {
		message, log = "Handler failed, the item will be retried", log.WithValues("after", result.After)
	}
	if result.Early {
		log = log.WithValues("early", true)
	}
	if _, panicked := err.(*PanicError); panicked {
		logError(log, w.item, err, result.Failures, message)
		return
	}
	log.Info(message, "item", w.item, "failures", result.Failures, "err", err)
}

// logError logs an error. For a panic the line has the stack, which is gone by the time of
// the log.
func logError[T comparable](log logr.Logger, item T, err error, failures int, message string) {
	log = log.WithValues("item", item, "failures", failures)
	if p, ok := err.(*PanicError); ok {
		log = log.WithValues("stack", string(p.Stack))
	}
	log.Error(err, message)
}

// giveUp tells of an item that is given up. Without an OnGiveUp the log has an error, as
// nobody else would learn of the item.
func (w *worker[T]) giveUp(result HandlerResult) {
	if w.options.OnGiveUp == nil {
		if !w.options.QuietFailures {
			logError(w.logger, w.item, result.Err, result.Failures, "Item given up")
		}
		return
	}
	w.tellGivenUp(w.context(), result.Err)
	if w.panicked != nil {
		logError(w.logger, w.item, w.panicked, result.Failures, "OnGiveUp panicked")
	}
}

// tellGivenUp calls OnGiveUp, which is foreign code. A panic ends up in w.panicked. The recover
// must not hide a panic of other code, so it has a function of its own.
func (w *worker[T]) tellGivenUp(ctx context.Context, err error) {
	defer w.catch()
	w.options.OnGiveUp(ctx, w.item, err)
}

// putOff adds the item after the wait. RequeueAfter forgets earlier failures. Requeue does
// not, as the limiter has to wait longer each time. Nor does DeferFor, which says nothing of the work.
func (w *worker[T]) putOff(v verdict) HandlerResult {
	result := HandlerResult{Outcome: OutcomeRequeued, Again: true}
	now := w.delaying.clock.Now()
	due := now.Add(v.wait)
	switch {
	case v.firm:
		result.Outcome, due = OutcomeDeferred, now.Add(v.least)
	case v.timed:
		w.limiting.Forget(w.item)
	default:
		result.Early = w.isEarly()
	}
	var c conclusion
	result.After, c = w.retry(v)
	result.Failures = w.failuresOf(w.item)
	if !c.Removed && !w.comesAgain() {
		result.Again, result.After = false, 0
		late := lateItem[T]{state: ItemWaiting, failures: result.Failures}
		if v.timed || v.firm {
			late.due = due
		}
		c = w.concludeLate(c, late)
	}
	if c.Removed {
		return w.concludeRemoved(c)
	}
	return result
}

// concludeLate concludes about the item at hand, which cannot come again any more. before is the conclusion so far: an
// item that waits by it needs no note. The note for the end of Run comes before Done: another Run may succeed with the
// item afterwards, and then forgets the note.
func (w *worker[T]) concludeLate(before conclusion, l lateItem[T]) conclusion {
	if before.waits() {
		return before
	}
	l.item, l.by = w.item, w.runner
	return conclusion{Conclusion: w.typed.concludeLate(l)}
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
	e := ending{end: fifo.EndRedo}
	if outcome == OutcomeInterrupted && !w.keeps() {
		e.end = fifo.EndLeave
	}
	c := w.settle(e)
	if !c.Removed && !c.Again {
		c = w.concludeLate(c, lateItem[T]{state: ItemQueued})
	}
	if c.Removed {
		return w.concludeRemoved(c)
	}
	return HandlerResult{Outcome: outcome, Failures: w.failuresOf(w.item), Again: c.Again && w.goesOn()}
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
		logError(w.logger, w.item, w.panicked, result.Failures, "OnResult panicked")
		w.panicked = nil
	}
}

// tellResult calls OnResult, which is foreign code. A panic ends up in w.panicked.
func (w *worker[T]) tellResult(ctx context.Context, result HandlerResult) {
	defer w.catch()
	w.options.OnResult(ctx, w.item, result)
}
