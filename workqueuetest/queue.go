package workqueuetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Options are the options of a [Queue]. The zero value is valid.
type Options[T comparable] struct {
	// Limiter spaces the retries; nil is the limiter of most controllers,
	// [workqueue.DefaultTypedControllerRateLimiter].
	Limiter workqueue.TypedRateLimiter[T]

	// Config is the config of the queue.
	Config workqueue.TypedRateLimitingQueueConfig[T]

	// Failures is how often the item of [HandleOn] has failed in a row before: the limiter and Run know
	// so many failures when the handler is called.
	Failures int
}

// A Queue is a [workqueue.TypedRateLimiting] that records each call that changes its items.
// [workqueue.Run] calls only GetInfo and Done on a Queue, and makes all other calls on the
// embedded queue, so only these two are recorded. [Handle] records the others too.
//
// The zero value is not usable. All methods may be called concurrently. The records are
// kept until Take, so a Queue is no queue for production.
type Queue[T comparable] struct {
	*workqueue.TypedRateLimiting[T]

	limiter  workqueue.TypedRateLimiter[T]
	asked    *atomic.Int64 // how often the queue asked the limiter for a wait
	failures int           // of the Options

	mu    sync.Mutex
	calls []*Call[T] // guarded by mu
}

// A Call is one call of a method of a [Queue], for one item.
type Call[T comparable] struct {
	// Method is the name of the method. A GetInfo, GetContext or TryGet is recorded
	// as Get, and an AddAll as an Add of each item.
	Method string

	Item T

	// Delay is the duration that AddAfter, AddWith or Reschedule was called with, or the quiet
	// time of Debounce. Delay is 0 for AddRateLimited, whose delay the limiter says.
	Delay time.Duration

	// RateLimited and Priority are options of AddWith, and PriorityNamed says that AddWith has named
	// the Priority, which can be 0. For GetInfo, Priority is the returned priority. For other methods
	// the three fields are zero.
	RateLimited   bool
	Priority      int
	PriorityNamed bool

	// Firm is an option of AddWith, and false for other methods.
	Firm bool
}

// String returns the method, the item, and all other fields that are set: "AddWith a 1m0s rate
// limited, firm, priority 5".
func (c Call[T]) String() string {
	s := fmt.Sprintf("%s %v", c.Method, c.Item)
	if c.Delay != 0 {
		s += fmt.Sprintf(" %v", c.Delay)
	}
	if c.RateLimited {
		s += " rate limited"
	}
	if c.Firm {
		s += ", firm"
	}
	if c.Priority != 0 || c.PriorityNamed {
		s += fmt.Sprintf(", priority %d", c.Priority)
	}
	return s
}

// New returns an empty queue, which is shut down at the end of the test.
func New[T comparable](t testing.TB, options Options[T]) *Queue[T] {
	q := newQueue(options)
	t.Cleanup(q.ShutDown)
	return q
}

func newQueue[T comparable](options Options[T]) *Queue[T] {
	limiter := options.Limiter
	if limiter == nil {
		limiter = workqueue.DefaultTypedControllerRateLimiter[T]()
	}
	asked := new(atomic.Int64)
	return &Queue[T]{
		TypedRateLimiting: workqueue.NewTypedRateLimiting[T](counting[T]{limiter, asked}, options.Config),
		limiter:           limiter,
		asked:             asked,
		failures:          options.Failures,
	}
}

// counting counts the waits that a limiter says.
type counting[T comparable] struct {
	workqueue.TypedRateLimiter[T]
	asked *atomic.Int64
}

func (l counting[T]) When(item T) time.Duration {
	l.asked.Add(1)
	return l.TypedRateLimiter.When(item)
}

// Calls returns the calls since the last Take, in their order. A call is recorded before
// the queue changes, and a Get afterwards. A call that panics is not recorded. A RemoveFunc or
// WakeFunc whose function panics is recorded for the items that it has removed or woken before.
func (q *Queue[T]) Calls() []Call[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return values(q.calls)
}

// Take returns the calls that Calls would return, and forgets the calls.
func (q *Queue[T]) Take() []Call[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := values(q.calls)
	q.calls = nil
	return calls
}

// CheckDone fails the test if items were handed out and no Done has followed: such an item is never handed
// out again, and a drain waits for it for ever. Call CheckDone when all workers have ended.
func (q *Queue[T]) CheckDone(t testing.TB) {
	t.Helper()
	for _, info := range q.Snapshot(-1).InFlight {
		t.Errorf("workqueuetest: the item %v was handed out, and Done was not called", info.Item)
	}
}

func values[T comparable](recorded []*Call[T]) (calls []Call[T]) {
	for _, call := range recorded {
		calls = append(calls, *call)
	}
	return calls
}

// record records the calls and makes them. A worker can get an item before the call that adds
// the item has returned, so the calls are recorded first. If the queue panics, the calls have
// changed nothing, and are taken off the record.
func (q *Queue[T]) record(change func(), calls ...Call[T]) {
	recorded := q.note(calls...)
	done := false
	defer func() {
		if !done {
			q.takeOff(recorded)
		}
	}()
	change()
	done = true
}

func (q *Queue[T]) recordGet(item T, priority int, ok bool) {
	if ok {
		q.note(Call[T]{Method: "Get", Item: item, Priority: priority})
	}
}

func (q *Queue[T]) note(calls ...Call[T]) (recorded []*Call[T]) {
	for i := range calls {
		recorded = append(recorded, &calls[i])
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, recorded...)
	return recorded
}

func (q *Queue[T]) takeOff(recorded []*Call[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = slices.DeleteFunc(q.calls, func(call *Call[T]) bool { return slices.Contains(recorded, call) })
}

// each returns the call for each of the items.
func each[T comparable](call Call[T], items []T) (calls []Call[T]) {
	for _, call.Item = range items {
		calls = append(calls, call)
	}
	return calls
}
