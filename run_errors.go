package workqueue

import (
	"errors"
	"fmt"
	"time"
)

// ErrReAdded is the cause, see [context.Cause], with which the context of a
// handler ends under [RunOptions].CancelOnReAdd. A handler that then returns
// its context's error, or this one, has neither failed nor succeeded: the item
// is handed out again by its Done, without a delay, and its failures stay
// counted. That is so too if Remove has taken the Add back in the meantime, since
// the work for the Add before it is not done.
var ErrReAdded = errors.New("workqueue: item was added again")

// errGoexit is the error of a handler that has ended its goroutine.
var errGoexit = errors.New("workqueue: handler called runtime.Goexit")

// RequeueAfter returns an error for a handler to return to [Run], by itself or
// wrapped, when there is nothing to do for the item before d has passed. It is
// no failure: what has failed before is forgotten, and the item is added by
// AddAfter. If d is zero or negative, that is at once: a handler that always says so
// is a busy loop.
func RequeueAfter(d time.Duration) error { return &requeueAfter{max(0, d)} }

type requeueAfter struct{ wait time.Duration }

func (e *requeueAfter) Error() string { return fmt.Sprintf("workqueue: requeue after %v", e.wait) }

// Permanent returns an error for a handler to return to [Run], by itself or
// wrapped, when no retry will help: the item is given up until somebody adds it
// again. It wraps err and reads like it, and is nil if err is. Beside a
// RequeueAfter in the same tree of errors, Permanent wins.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// PanicError is what [Run] makes of a panic: an error, which is logged, counts
// as a failure, and reaches OnGiveUp.
type PanicError struct {
	// Value is what panic was called with.
	Value any

	// Stack is the stack of the goroutine that panicked, as [debug.Stack] prints
	// it.
	Stack []byte
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("workqueue: panic: %v", e.Value) }

// Unwrap returns the value if that is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
