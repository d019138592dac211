package workqueue

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
)

// RunOptions are the options of [Run]. The zero value is valid: one worker, which retries
// failed items for ever.
type RunOptions[T comparable] struct {
	// Workers is how many items are handled at a time; 0 stands for 1.
	Workers int

	// Timeout is the time after which the context of a handler ends, with the cause
	// [ErrTimeout]; 0 is no timeout. The handler still holds its item until it returns.
	Timeout time.Duration

	// AtEnd says what becomes of the queue when the context of Run ends; the zero value is
	// [EndStop].
	AtEnd End

	// Grace is how long the contexts of handlers outlast the context of Run. With 0 both end
	// at the same time. [EndDrain] needs a Grace, as the drain takes place in it.
	Grace time.Duration

	// MaxAttempts is how many times in a row an item may fail before Run gives the item up;
	// 0 is any number of times. Run counts for itself, as not all limiters count. All calls
	// of Run on a queue share the count. The count starts anew when anybody calls Forget or
	// Remove for the item. A [RetryAfter] counts. An early failure, see [HandlerResult], does not, so an
	// item with many events may be handled more often; StrictBackoff of the queue keeps the events back.
	MaxAttempts int

	// CancelOnReAdd is how many calls of the handler in a row an add may cancel for one item;
	// 0 is none. The context of the handler ends with the cause [ErrReAdded] as soon as its item
	// is added again, and with [ErrRemoved] as soon as the item is removed.
	//
	// After so many calls in a row, the next call is not cancelled, so that it can come to an
	// end, and the log says so. A handler that writes the status of an object and is told of
	// each change cancels itself in every call: 3 is a good number. All calls of Run on a queue
	// share the count. Any other end of a handler ends the count.
	CancelOnReAdd int

	// OnGiveUp is told of each item that Run gives up, and why. The worker that still holds
	// the item calls OnGiveUp, so several workers may call OnGiveUp at a time. OnGiveUp may call the queue.
	// An Add revives the item, unless Run drains. The item may have been added again meanwhile, see
	// [TypedRateLimiting.Find]: the item then comes again, and its payload has to stay. The context has
	// the values of the handler's context, and ends with the context of Run, or with Grace afterwards. A
	// panic in OnGiveUp is logged, and a [runtime.Goexit] costs no worker. If OnGiveUp is nil, the item
	// and the error are logged instead.
	OnGiveUp func(ctx context.Context, item T, err error)

	// OnResult is told what has become of each item. The worker that still holds the item
	// calls OnResult, right before Done, so several workers may call OnResult at a time. For an
	// item that is given up OnGiveUp comes before, and the Forget afterwards. The context, panics and
	// [runtime.Goexit] are as for OnGiveUp. OnResult costs two readings of the clock for
	// each item.
	OnResult func(ctx context.Context, item T, result HandlerResult)

	// QuietFailures is for an OnResult that logs failures in words of its own: Run has no line for a failure, and none
	// for an item that is given up. All other lines of Run stay.
	QuietFailures bool

	// OnStop is told all that is left when Run ends, after the last worker has ended and
	// before Run returns. ctx has the values of the context of Run, and never ends: the items that
	// are left may be stored with a timeout of your own. [Run] lists what is left. An item that was
	// removed is not left. With [EndKeep], OnStop is told what is in the queue, and all items are still there,
	// unless somebody has shut the queue down. If OnStop is nil, Run logs its end: whether the queue stays open, and
	// how many items are left: queued, held, failed, waiting for a retry, and planned, which wait for another reason.
	// OnStop may call the queue. A panic in OnStop reaches the caller of Run. The adds that a drain has refused are
	// logged in any case.
	OnStop func(ctx context.Context, left Snapshot[T])

	// CrashOnPanic lets a panic of a handler, of OnGiveUp or of OnResult end the program,
	// after the item is accounted for.
	CrashOnPanic bool

	// Name is the queue in log lines; empty is the name in the config of a
	// [TypedRateLimiting].
	Name string

	// Logger is told what Run logs, and is the logger in the contexts of the handler, of OnGiveUp and of
	// OnResult. The context of OnStop keeps the logger of the context of Run. If Logger is nil, Run takes the
	// logger of its context, see [logr.FromContext], or else [slog.Default].
	Logger *logr.Logger
}

// An End is what becomes of the queue when the context of a [Run] ends.
type End uint8

const (
	// EndStop shuts the queue down and waits for the handlers that are at work. The
	// workers take no further item.
	EndStop End = iota

	// EndDrain has the workers go on until nothing is queued and nothing waits for a retry,
	// or until [RunOptions].Grace is over. Then the queue is shut down. An item that waits for another
	// reason does not prolong the drain, but is handled if it is due before the end. Once all that is left
	// are retries that are due after the Grace, the drain ends, unless the queue has a Clock of its own.
	// Of the items that poll, only one that comes again at once, as by RequeueAfter(0), goes on for the whole Grace.
	//
	// Meanwhile the queue refuses the adds of callers, handlers included. A handler that
	// finds more work, such as the links of a page, cannot add other items while Run drains;
	// OnStop is told how many adds were refused. To work off everything, call WaitEmpty of the
	// queue before the context of Run ends.
	EndDrain

	// EndKeep leaves the queue open, with all items in it. So several calls of Run can
	// follow each other, as when a program regains leadership. They can also run side by
	// side, to change the number of workers. An item that fails after the end of the
	// context is retried by the next Run, whatever MaxAttempts says.
	EndKeep
)

// String returns the name of the constant.
func (e End) String() string {
	switch e {
	case EndStop:
		return "EndStop"
	case EndDrain:
		return "EndDrain"
	case EndKeep:
		return "EndKeep"
	}
	return fmt.Sprintf("End(%d)", uint8(e))
}

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
		{"CancelOnReAdd", o.CancelOnReAdd, o.CancelOnReAdd < 0},
	} {
		if number.negative {
			panic(fmt.Sprintf("workqueue: %s is negative: %v", number.name, number.value))
		}
	}
	switch {
	case o.AtEnd > EndKeep:
		panic(fmt.Sprintf("workqueue: AtEnd has an unknown value: %d", uint8(o.AtEnd)))
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
	OutcomeRemoved                    // not a success, and the item was removed
	OutcomeDeferred                   // DeferFor, and no failure

	outcomes = iota
)

var outcomeNames = [outcomes]string{"succeeded", "failed", "requeued", "given_up", "readded", "interrupted", "removed", "deferred"}

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
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeRequeued, OutcomeGivenUp, OutcomeReAdded, OutcomeInterrupted, OutcomeRemoved, OutcomeDeferred}
}

// HandlerResult is what [RunOptions].OnResult is told of a call of the handler.
type HandlerResult struct {
	Outcome Outcome

	// Err is the error of the handler, a [*PanicError], or the error for a handler that has
	// called [runtime.Goexit].
	Err error

	// Failures is how often the item has failed in a row, as Run counts for MaxAttempts. A
	// failure of this call is included, unless it is Early. The limiter may count otherwise.
	Failures int

	// Early is true for a failure or a [Requeue] of a hand-out that came before the item's retry was due,
	// because of an Add or a Wake. Failures does not count it, the limiter is not asked, and MaxAttempts
	// does not give the item up. The item comes when its retry was due. A RetryAfter or a RequeueAfter
	// beside the error can bring the item earlier, and a DeferFor later.
	Early bool

	// Again says that the item comes again without another Add, unless Run ends first. Again is false after a
	// success and a give-up, also if an add during the call brings the item again. After
	// says when, as far as this result decides: 0 is at once. If the item waits already, the rules of
	// [AddOptions] and [TypedDelaying.AddAfter] say which of the times counts. After is 0 if Again is false.
	Again bool
	After time.Duration

	// Took is how long the handler ran.
	Took time.Duration
}

// ItemInfoFromContext returns what Run knows of an item. The context is that of a handler,
// of OnGiveUp or of OnResult. For any other context, and for the context of a Run with items
// of another type, ItemInfoFromContext reports false.
//
// Age is the time from the add that queued the item to its hand-out, and Priority is the priority of
// the hand-out. Age is 0 if the queue keeps no times. Failures is how often the item has
// failed in a row by now.
func ItemInfoFromContext[T comparable](ctx context.Context) (info ItemInfo[T], ok bool) {
	switch c := ctx.Value(itemKey[T]{}).(type) {
	case *itemContext[T]:
		return c.info(0), true
	case *agedContext[T]:
		return c.info(c.age), true
	}
	return
}

// itemKey is the key of the itemContext in a context.
type itemKey[T comparable] struct{}

// An itemContext is the context of one item. It adds a logger and an ItemInfo to the context
// of all handlers. Both are made only when somebody asks. An itemContext is immutable, and
// each item needs a new one, as goroutines of a handler may outlive the call. It is small,
// as each item allocates one.
type itemContext[T comparable] struct {
	run  *rankedRun[T]
	item T
}

// An agedContext is an itemContext in a queue that keeps times.
type agedContext[T comparable] struct {
	itemContext[T]
	age time.Duration // how long the item was queued before
}

// A rankedRun is a Run beside the rank of a hand-out. Many contexts share it, as few ranks are in
// use.
type rankedRun[T comparable] struct {
	*runner[T]
	rank fifo.Rank
}

func (c *itemContext[T]) info(age time.Duration) (info ItemInfo[T]) {
	info.ofHandOut(c.item, c.run.rank, age)
	info.Failures = c.run.failuresOf(c.item)
	return info
}

func (c *agedContext[T]) Value(key any) any {
	if _, ok := key.(itemKey[T]); ok {
		return c
	}
	return c.itemContext.Value(key)
}

// The context ends with handling, the context of all handlers.

func (c *itemContext[T]) Deadline() (deadline time.Time, ok bool) { return c.run.handling.Deadline() }
func (c *itemContext[T]) Done() <-chan struct{}                   { return c.run.handling.Done() }
func (c *itemContext[T]) Err() error                              { return c.run.handling.Err() }

// ReAddContext asks known: a cancel asks for Done and Value with the lock of the queue held.
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

// chunkBytes is the size of the pieces in which a worker allocates contexts: 1,024 bytes, of which
// the runtime takes 8. To allocate each context by itself takes three times as long. A handler that
// keeps one context keeps its piece in memory.
const chunkBytes = 1024 - 8

// maxRanks is how many ranks a worker remembers.
const maxRanks = 64

// contexts makes the contexts of the items of one worker.
type contexts[T comparable] struct {
	// Pieces of memory for several items, and how much of them is used.
	plain               []itemContext[T]
	aged                []agedContext[T]
	usedPlain, usedAged int

	run *rankedRun[T] // of the last context; nil before the first one
	all map[fifo.Rank]*rankedRun[T]
}

// make returns the context of an item.
func (cs *contexts[T]) make(r *runner[T], item T, k fifo.Rank, age time.Duration) context.Context {
	if cs.run == nil || cs.run.rank != k {
		cs.changeRank(r, k)
	}
	if age != 0 {
		return cs.makeAged(item, age)
	}
	if cs.usedPlain == len(cs.plain) {
		cs.plain = make([]itemContext[T], max(1, chunkBytes/int(unsafe.Sizeof(itemContext[T]{}))))
		cs.usedPlain = 0
	}
	c := &cs.plain[cs.usedPlain]
	cs.usedPlain++
	c.run, c.item = cs.run, item
	return c
}

func (cs *contexts[T]) makeAged(item T, age time.Duration) context.Context {
	if cs.usedAged == len(cs.aged) {
		cs.aged = make([]agedContext[T], max(1, chunkBytes/int(unsafe.Sizeof(agedContext[T]{}))))
		cs.usedAged = 0
	}
	c := &cs.aged[cs.usedAged]
	cs.usedAged++
	c.run, c.item, c.age = cs.run, item, age
	return c
}

// last returns the last context that was made, for an item of that age.
func (cs *contexts[T]) last(age time.Duration) context.Context {
	if age != 0 {
		return &cs.aged[cs.usedAged-1]
	}
	return &cs.plain[cs.usedPlain-1]
}

// changeRank sets run for contexts of another rank. A program with more ranks than maxRanks pays
// for some of them again.
func (cs *contexts[T]) changeRank(r *runner[T], k fifo.Rank) {
	if cs.run = cs.all[k]; cs.run != nil {
		return
	}
	if cs.all == nil || len(cs.all) == maxRanks {
		cs.all = make(map[fifo.Rank]*rankedRun[T])
	}
	cs.run = &rankedRun[T]{r, k}
	cs.all[k] = cs.run
}

// loggerKey is the key under which logr looks for a logger. logr does not export its key, so
// a context notes the key that logr asks for.
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
