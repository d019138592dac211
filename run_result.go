package workqueue

import (
	"context"
	"fmt"
	"time"
)

// An Outcome is what has become of an item that a handler of [Run] was called for.
type Outcome uint8

const (
	OutcomeSucceeded Outcome = iota // the handler returned nil
	OutcomeFailed                   // an error, a panic or a runtime.Goexit
	OutcomeRequeued                 // RequeueAfter or Requeue, and no error beside it
	OutcomeGivenUp                  // Permanent, or a failure too many
	OutcomeReAdded                  // cut short by CancelOnReAdd

	outcomes = iota
)

// String returns the label of the outcome in metrics.
func (o Outcome) String() string {
	names := [outcomes]string{"succeeded", "failed", "requeued", "given_up", "readded"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Outcomes returns all outcomes, for providers that make a metric for each.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeRequeued, OutcomeGivenUp, OutcomeReAdded}
}

// Result is what [RunOptions].OnResult is told.
type Result struct {
	Outcome Outcome

	// Err is what the handler has returned, a [*PanicError], or the error for a
	// handler that has called [runtime.Goexit].
	Err error

	// Failures is how often the item has failed in a row, with this failure if it
	// is one, as Run counts for MaxAttempts. The limiter may count otherwise.
	Failures int

	// Again says that the item comes again without another Add, unless Run ends
	// before, and After when: 0 is at once, and negative is a time that is not
	// known, as that of the limiter of a foreign queue.
	Again bool
	After time.Duration

	// Took is how long the handler has taken.
	Took time.Duration
}

// unknownWait is an After that is not known.
const unknownWait = time.Duration(-1)

// announce tells of a result, when all is done for the item but Done.
func (w *worker[T]) announce(result Result) {
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
func (w *worker[T]) tellResult(ctx context.Context, result Result) {
	defer w.catch()
	w.options.OnResult(ctx, w.item, result)
}
