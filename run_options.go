package workqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
)

// RunOptions are the options of [Run]. The zero value is valid: one worker,
// which retries what fails for ever.
type RunOptions[T comparable] struct {
	// Workers is how many items are handled at a time; 0 stands for 1.
	Workers int

	// Timeout is how long after the start of a handler its context ends, with the
	// cause [ErrTimeout]; 0 is never. The handler holds its item until it returns
	// all the same.
	Timeout time.Duration

	// AtEnd is what becomes of the queue when the context of Run ends; the zero value
	// is [EndStop].
	AtEnd End

	// Grace is how long the contexts of handlers outlast the context of Run. With 0 both
	// end at the same time. [EndDrain] needs a Grace, as the drain takes place in it.
	Grace time.Duration

	// MaxAttempts is how many times in a row an item may fail before it is given
	// up; 0 is any number of times. The limiter is not asked, as not all of them
	// count. The queue keeps one count for all calls of Run on it. The count of an
	// item starts anew with a Forget or a Remove of the item by anybody.
	MaxAttempts int

	// CancelOnReAdd ends the context of a handler with the cause [ErrReAdded] as
	// soon as its item is added again.
	//
	// Beware of a handler that has its own item added, such as one that writes the
	// status of the object whose changes it is told of: it cancels itself in every
	// call. MaxCancels bounds that.
	CancelOnReAdd bool

	// MaxCancels is how many calls of the handler in a row CancelOnReAdd may cut
	// short for one item; 0 stands for [DefaultMaxCancels]. The next call after these
	// is not cancelled, so that it can come to an end. The log says so. Each Run counts
	// by itself.
	MaxCancels int

	// OnGiveUp is told of each item that is given up, and why. It is called by
	// the worker that still holds the item, and may call the queue; an Add of
	// the item revives it, unless Run drains. Its context has the values of the
	// handler's, and outlives that: it ends with the context of Run, or with Grace
	// after it. A panic in OnGiveUp is logged, and a [runtime.Goexit] costs no
	// worker. If nil, the item and the error are logged instead.
	OnGiveUp func(ctx context.Context, item T, err error)

	// OnResult is told what has become of each item. It is called by the worker
	// that still holds the item, after all else is done for it but Done, with the
	// context of OnGiveUp, and so by several workers at a time. Panics and
	// [runtime.Goexit] are as in OnGiveUp. It costs two readings of the clock for
	// each item.
	OnResult func(ctx context.Context, item T, result HandlerResult)

	// OnStop is told all that is left when Run ends, before it returns and after
	// the last worker has ended: what is queued, what others hold, what waits,
	// and what has failed when no retry could come any more. If nil, the numbers
	// are logged if there are any. With [EndKeep], it is told what is in the
	// queue, and all of that is still there. It may call the queue, and a panic in
	// it reaches the caller of Run.
	OnStop func(left Snapshot[T])

	// CrashOnPanic lets a panic of a handler, of OnGiveUp or of OnResult end the
	// program, once the item is accounted for.
	CrashOnPanic bool

	// Name is the queue in log lines and in labels; empty is the name in the
	// config of a [TypedRateLimiting].
	Name string

	// ProfileLabels makes goroutine and CPU profiles tell what each worker is at,
	// by the labels "queue" and "item", which goroutines that the handler starts
	// inherit. It costs some allocations for each item.
	ProfileLabels bool

	// Logger is told of what fails. If nil, it is that of the context of Run, see
	// [logr.FromContext], or else [slog.Default].
	Logger *logr.Logger
}

// DefaultMaxCancels is the MaxCancels of [RunOptions] that name none.
const DefaultMaxCancels = 3

// An End is what becomes of the queue when the context of a [Run] ends.
type End uint8

const (
	// EndStop shuts the queue down and waits for the handlers that are at work. The
	// workers take no further item.
	EndStop End = iota

	// EndDrain has the workers go on until nothing is queued and nothing waits for a
	// retry, or until [RunOptions].Grace is over. Then the queue is shut down.
	EndDrain

	// EndKeep leaves the queue open, with all items in it. So several calls of Run can
	// follow each other, as when a program regains leadership. They can also run side by
	// side, to change the number of workers. An item that fails after the end of the
	// context is retried by the next Run, whatever MaxAttempts says.
	EndKeep
)

// check panics for options that have no meaning.
func (o *RunOptions[T]) check() {
	for _, number := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"Workers", o.Workers, o.Workers < 0},
		{"Timeout", o.Timeout, o.Timeout < 0},
		{"Grace", o.Grace, o.Grace < 0},
		{"MaxAttempts", o.MaxAttempts, o.MaxAttempts < 0},
		{"MaxCancels", o.MaxCancels, o.MaxCancels < 0},
	} {
		if number.negative {
			panic(fmt.Sprintf("workqueue: %s is negative: %v", number.name, number.value))
		}
	}
	switch {
	case o.AtEnd > EndKeep:
		panic(fmt.Sprintf("workqueue: AtEnd has an unknown value: %d", o.AtEnd))
	case o.AtEnd == EndDrain && o.Grace == 0:
		panic("workqueue: EndDrain without Grace: there is no time to drain in")
	}
}

// An Outcome is what has become of an item that a handler of [Run] was called for.
type Outcome uint8

const (
	OutcomeSucceeded   Outcome = iota // the handler returned nil
	OutcomeFailed                     // an error, a panic or a runtime.Goexit
	OutcomeRequeued                   // RequeueAfter or Requeue, and no error beside it
	OutcomeGivenUp                    // Permanent, or a failure too many
	OutcomeReAdded                    // cut short by CancelOnReAdd
	OutcomeInterrupted                // cut short by the end of Run

	outcomes = iota
)

var outcomeNames = [outcomes]string{"succeeded", "failed", "requeued", "given_up", "readded", "interrupted"}

// String returns the outcome in snake case, which is its label in metrics too.
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// MarshalText returns the text of String. The error is nil for the outcomes above.
func (o Outcome) MarshalText() ([]byte, error) {
	if o >= outcomes {
		return nil, fmt.Errorf("workqueue: there is no %v", o)
	}
	return []byte(outcomeNames[o]), nil
}

// UnmarshalText reads what MarshalText has written, and nothing else.
func (o *Outcome) UnmarshalText(text []byte) error {
	if n := slices.Index(outcomeNames[:], string(text)); n >= 0 {
		*o = Outcome(n)
		return nil
	}
	return fmt.Errorf("workqueue: %q is no outcome", text)
}

// Outcomes returns all outcomes, for providers that make a metric for each.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeRequeued, OutcomeGivenUp, OutcomeReAdded, OutcomeInterrupted}
}

// HandlerResult is what [RunOptions].OnResult is told.
type HandlerResult struct {
	Outcome Outcome

	// Err is what the handler has returned, a [*PanicError], or the error for a
	// handler that has called [runtime.Goexit].
	Err error

	// Failures is how often the item has failed in a row, with this failure if it
	// is one, as Run counts for MaxAttempts. The limiter may count otherwise.
	Failures int

	// Again says that the item comes again without another Add, unless Run ends
	// before, and After when: 0 is at once. After is 0 if Again is false.
	Again bool
	After time.Duration

	// Took is how long the handler has taken.
	Took time.Duration
}

// ItemInfoFromContext returns what Run knows of the item that the handler, OnGiveUp or
// OnResult with this context is called for. It reports false for any other context,
// and for that of a Run with items of another type.
//
// Age is how long the item was queued before it was handed out, and Priority that which
// it was handed out with. Age is 0 if the queue keeps no times, and both are 0 once the
// item was added again or is done. Failures is how often it has failed in a row by now.
func ItemInfoFromContext[T comparable](ctx context.Context) (info ItemInfo[T], ok bool) {
	c, ok := ctx.Value(itemKey[T]{}).(*itemContext[T])
	if !ok {
		return info, false
	}
	info = ItemInfo[T]{Item: c.item, State: ItemInFlight, Failures: c.run.failuresOf(c.item)}
	age, k := c.run.typed.heldFor(c.item)
	info.Age, info.Priority = age, k.priority
	return info, true
}

// itemKey is the key of the itemContext in a context.
type itemKey[T comparable] struct{}

// An itemContext is the context of one item: that of all handlers, with a logger
// and an ItemInfo, which are made only when somebody asks. It is immutable. A new one
// is needed for each item, as goroutines of a handler may outlive it. It is small, as
// that is all that an item costs in memory.
type itemContext[T comparable] struct {
	run  *runner[T]
	item T
}

// The end of the context is that of all handlers, handling.

func (c *itemContext[T]) Deadline() (deadline time.Time, ok bool) { return c.run.handling.Deadline() }
func (c *itemContext[T]) Done() <-chan struct{}                   { return c.run.handling.Done() }
func (c *itemContext[T]) Err() error                              { return c.run.handling.Err() }

// known is asked by ReAddContext: a cancel asks for Done and Value with the lock of the
// queue held.
func (c *itemContext[T]) known() bool { return known(c.run.handling) }

func (c *itemContext[T]) Value(key any) any {
	if key == loggerKey {
		return c.run.logger.WithValues("item", c.item)
	}
	if _, ok := key.(itemKey[T]); ok {
		return c
	}
	return c.run.handling.Value(key)
}

// loggerKey is the key under which logr looks for a logger. logr keeps it to itself, so
// a context finds out what it is asked for.
var loggerKey = func() any {
	var asked keyCatcher
	logr.FromContext(&asked)
	return asked.key
}()

type keyCatcher struct {
	context.Context
	key any
}

func (c *keyCatcher) Value(key any) any {
	c.key = key
	return nil
}
