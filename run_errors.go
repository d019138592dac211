package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReAdded is the cause, see [context.Cause], with which a context of ReAddContext ends when
// its item is added again. With [RunOptions].CancelOnReAdd the contexts of handlers end so too.
//
// With CancelOnReAdd, a handler of Run that then returns the error or the cause of its context has
// neither failed nor succeeded. Done queues the item again without a delay, and earlier failures stay
// counted. If the handler returns the cause of a context that it has made itself by ReAddContext, that is a
// failure: return nil instead.
var ErrReAdded = errors.New("workqueue: item was added again")

// ErrRemoved is the cause with which a context of ReAddContext ends when its item is removed, and with
// [RunOptions].CancelOnReAdd the context of a handler. Without CancelOnReAdd the context of a handler goes on.
var ErrRemoved = errors.New("workqueue: item was removed")

// ErrTimeout is the cause, see [context.Cause], with which the context of a handler ends
// after [RunOptions].Timeout. The error of the context is [context.DeadlineExceeded]. If the
// handler then returns an error that wraps the error of its context, OnGiveUp and OnResult
// get an error that wraps ErrTimeout too.
//
// Code that ends with a context may return its cause in place of its error, as net/http does. So [errors.Is] finds
// [context.DeadlineExceeded] in ErrTimeout, and ErrTimeout has a Timeout method that returns true, as net.Error asks for.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "workqueue: handler has timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeoutError) Timeout() bool        { return true }

// ErrNotDrained is what [errors.Is] finds in the error of a [Run] with [EndDrain], or of a
// Drain, that has left items behind. [DrainError] names the items.
var ErrNotDrained = errors.New("workqueue: not drained")

// errGoexit is the error of a handler that has ended its goroutine.
var errGoexit = errors.New("workqueue: handler called runtime.Goexit")

// RequeueAfter returns an error for a handler to return to [Run], by itself or wrapped, when
// there is nothing to do for the item before d has passed. The item has not failed: earlier
// failures are forgotten, and AddAfter adds the item. If d is zero or negative, the item is
// added at once, or with ItemPace when its token is there: a handler that always returns such an error is a busy
// loop.
//
// Beside another error, as by [errors.Join], the other error is a failure, which is retried
// after d.
func RequeueAfter(d time.Duration) error { return requeueAfter{max(0, d)} }

type requeueAfter struct{ wait time.Duration }

func (e requeueAfter) Error() string { return fmt.Sprintf("workqueue: requeue after %v", e.wait) }

// DeferFor returns an error for a handler to return to [Run], by itself or wrapped, when the item must
// not come again before d has passed, whatever adds come: the wait is firm, see [AddOptions]. A handler
// that has written something defers its item until a cache shows the write: the event of the write calls
// Wake, and d is only a safety net. A Wake during the work counts too: the item then comes again at once.
//
// The item has neither failed nor succeeded, and earlier failures stay counted. Of several DeferFor the
// longest counts, and a [RequeueAfter] beside it does not. If d is zero or negative, the item is added at
// once. Nothing limits how often an item is deferred: MaxAttempts counts failures only.
//
// Beside another error, as by [errors.Join], the other error is a failure. The item comes again when its
// retry is due, and not before d has passed: this is for a server that fails and says when to come back. The
// failure that reaches MaxAttempts, and a Permanent, end the wait: nothing is retried.
func DeferFor(d time.Duration) error { return deferFor{max(0, d)} }

type deferFor struct{ wait time.Duration }

func (e deferFor) Error() string { return fmt.Sprintf("workqueue: defer for %v", e.wait) }

// Requeue returns an error for a handler to return to [Run], by itself or wrapped, when the
// item should come again after the time that the limiter says. The item has not failed:
// nothing is logged or counted for MaxAttempts. Earlier failures stay counted, and the
// limiter counts the Requeue too, so that its waits grow.
//
// Beside another error, the other error is a failure like any other. Beside a [RequeueAfter]
// or [RetryAfter], their time counts.
func Requeue() error { return errRequeue }

type requeue struct{}

func (requeue) Error() string { return "workqueue: requeue" }

var errRequeue error = requeue{}

// RetryAfter returns an error for a handler to return to [Run], by itself or wrapped, when
// the item has failed because of err, and is to be retried after d, as a server may say. The
// failure is logged and counts for MaxAttempts. The limiter is not asked and does not count: where a server
// may be out for longer, join err and a [DeferFor], which leaves the backoff as it is.
// The error wraps err and reads like err, and is nil if err is nil. If d is zero or
// negative, the retry is at once. Bound a time that a server has named: a great number of seconds may
// be negative as a Duration.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfter{max(0, d), err}
}

type retryAfter struct {
	wait time.Duration
	err  error
}

func (e *retryAfter) Error() string { return e.err.Error() }
func (e *retryAfter) Unwrap() error { return e.err }

// Is makes errors.Is find an error that asks for the same retry. A retryAfter is a pointer: ==
// on two structs would panic if the errors in them cannot be compared.
func (e *retryAfter) Is(target error) bool {
	t, ok := target.(*retryAfter)
	return ok && e.wait == t.wait && errors.Is(e.err, t.err)
}

// Permanent returns an error for a handler to return to [Run], by itself or wrapped, when no
// retry will help: Run gives the item up until somebody adds the item again. The error wraps
// err and reads like err, and is nil if err is nil. Beside or around any other error,
// Permanent wins. A call that CancelOnReAdd or the end of Run has cut short, and whose error wraps that of
// its context, is not given up.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Is is that of retryAfter.
func (e *permanentError) Is(target error) bool {
	t, ok := target.(*permanentError)
	return ok && errors.Is(e.err, t.err)
}

// A Verdict is what the error of a handler asks [Run] for. Run decides more: an item that has failed too
// often is given up, and a call that was cut short has another outcome.
type Verdict struct {
	// Outcome is [OutcomeSucceeded] for nil, [OutcomeGivenUp] for [Permanent], [OutcomeDeferred] for
	// [DeferFor], [OutcomeRequeued] for [RequeueAfter] and [Requeue] alone, and otherwise [OutcomeFailed].
	Outcome Outcome

	// Timed is true if the error itself says how long the item waits: After. Otherwise the limiter says how
	// long, and After is the least wait: that of a [DeferFor] beside a failure, or 0. An item that has
	// succeeded or is given up does not come again.
	Timed bool
	After time.Duration
}

// VerdictOf reads the error of a handler, for middleware around a handler and for tests. It does not
// block, and panics only if a method of the error does.
func VerdictOf(err error) Verdict {
	if err == nil {
		return Verdict{} // OutcomeSucceeded.
	}
	v := weigh(err)
	switch {
	case v.permanent:
		return Verdict{Outcome: OutcomeGivenUp}
	case v.failed:
		return Verdict{OutcomeFailed, v.timed, max(v.wait, v.least)}
	case v.firm:
		return Verdict{OutcomeDeferred, true, v.least}
	}
	return Verdict{OutcomeRequeued, v.timed, v.wait}
}

// PanicError is the error that [Run] makes of a panic. It is logged, counts as a failure,
// and reaches OnGiveUp.
type PanicError struct {
	// Value is the argument of panic.
	Value any

	// Stack is the stack of the goroutine that panicked, as [debug.Stack] prints it.
	Stack []byte
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("workqueue: panic: %v", e.Value) }

// Unwrap returns Value if Value is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A verdict is what the error of a handler asks for.
type verdict struct {
	permanent bool          // the item is given up
	failed    bool          // there is an error besides RequeueAfter, DeferFor, Requeue and Permanent
	timed     bool          // there is a RequeueAfter or a RetryAfter
	wait      time.Duration // the shortest of these, or 0
	firm      bool          // there is a DeferFor
	least     time.Duration // the longest of these, or 0

	// cutShort is OutcomeReAdded or OutcomeInterrupted if the context of the handler had
	// ended for that reason, and the handler returned because of that. Otherwise it is 0.
	cutShort Outcome
}

// weigh reads a tree of errors. The leaves decide: neither a wrapper nor a join is an
// error by itself. Of several times the shortest counts, as for several calls of AddAfter.
//
// The value of a panic was not returned, whatever it wraps.
func weigh(err error) (v verdict) {
	v.weigh(err)
	return v
}

func (v *verdict) weigh(err error) {
	switch e := err.(type) {
	case requeueAfter:
		v.after(e.wait)
	case deferFor:
		v.firm, v.least = true, max(v.least, e.wait)
	case requeue:
	case *retryAfter:
		v.failed = true
		v.after(e.wait)
		v.weigh(e.err)
	case *permanentError:
		v.permanent = true
	case *PanicError:
		v.failed = true
	case interface{ Unwrap() []error }:
		v.weighJoined(e.Unwrap())
	default:
		v.weighWrapped(errors.Unwrap(err))
	}
}

// weighWrapped weighs a wrapped error. If there is none, the wrapper is a failure by itself.
func (v *verdict) weighWrapped(err error) {
	if err == nil {
		v.failed = true
		return
	}
	v.weigh(err)
}

// weighJoined weighs joined errors, and skips nil. A join of nothing else is a failure by
// itself, such as the error of fmt.Errorf with two verbs %w for nil.
func (v *verdict) weighJoined(errs []error) {
	alone := true
	for _, err := range errs {
		if err != nil {
			alone = false
			v.weigh(err)
		}
	}
	if alone {
		v.failed = true
	}
}

func (v *verdict) after(wait time.Duration) {
	if !v.timed || wait < v.wait {
		v.timed, v.wait = true, wait
	}
}
