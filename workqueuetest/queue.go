package workqueuetest

import (
	"context"
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
	// Limiter spaces the retries; nil is the one that most controllers have,
	// [workqueue.DefaultTypedControllerRateLimiter].
	Limiter workqueue.TypedRateLimiter[T]

	// Config is that of the queue.
	Config workqueue.TypedRateLimitingQueueConfig[T]
}

// A Queue is a rate limiting queue that notes each call which changes it. It does what
// the call says, too. Of a [workqueue.Run] on a Queue, the hand-outs and Done are noted: Run
// makes all other calls on the embedded queue. [Handle] notes these too.
//
// The zero value is not usable. All methods may be called concurrently. The notes are
// kept until Take, so that a Queue is no queue for production.
type Queue[T comparable] struct {
	*workqueue.TypedRateLimiting[T]

	asked *atomic.Int64 // how often the limiter was asked for a wait

	mu      sync.Mutex
	calls   []Call[T]     // guarded by mu
	changed chan struct{} // guarded by mu; closed, and made anew, when work may be over
}

// A Call is one call of a method of a [Queue], for one item.
type Call[T comparable] struct {
	// Method is its name. A Get, GetInfo, GetContext or TryGet is noted as Get
	// once it has an item, an AddAll as an Add of each item, and an AddWith once for each.
	Method string

	Item T

	// Delay is the duration that AddAfter, AddWith, Reschedule and Debounce were called with,
	// for Debounce the quiet time. That of AddRateLimited is up to the limiter.
	Delay time.Duration

	// RateLimited and Priority are those of AddWith. For a GetInfo, Priority is
	// what it has returned; for the other methods it is 0.
	RateLimited bool
	Priority    int
}

// String returns the method, the item, and what else there is: "AddWith a 1m0s rate
// limited, priority 5".
func (c Call[T]) String() string {
	s := fmt.Sprintf("%s %v", c.Method, c.Item)
	if c.Delay != 0 {
		s += fmt.Sprintf(" %v", c.Delay)
	}
	if c.RateLimited {
		s += " rate limited"
	}
	if c.Priority != 0 {
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
		asked:             asked,
		changed:           make(chan struct{}),
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

// Calls returns the calls since the last Take, in their order. A call is noted before
// it takes effect, and a Get after it.
func (q *Queue[T]) Calls() []Call[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.calls)
}

// Take returns what Calls does, and forgets it.
func (q *Queue[T]) Take() []Call[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := q.calls
	q.calls = nil
	return calls
}

func (q *Queue[T]) note(method string, item T, delay time.Duration) {
	q.noteCall(Call[T]{Method: method, Item: item, Delay: delay})
}

func (q *Queue[T]) noteCall(call Call[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, call)
}

// WaitIdle waits until nothing is queued and nothing is in flight. What waits for its
// time does not count. If ctx ends first, the error wraps that of ctx and says what is
// left. It asks nobody again and again: in a bubble of testing/synctest the time can
// pass meanwhile.
func (q *Queue[T]) WaitIdle(ctx context.Context) error {
	return q.wait(ctx, "idle", func(s workqueue.Snapshot[T]) bool { return s.QueuedTotal+s.InFlightTotal == 0 })
}

// WaitEmpty is WaitIdle, and waits until nothing waits for its time either: all retries
// have succeeded or were given up.
func (q *Queue[T]) WaitEmpty(ctx context.Context) error {
	return q.wait(ctx, "empty", func(s workqueue.Snapshot[T]) bool {
		return s.QueuedTotal+s.InFlightTotal+s.WaitingTotal == 0
	})
}

// wait looks after each call that can have ended the work. Time alone ends none: what
// is due is queued then.
func (q *Queue[T]) wait(ctx context.Context, state string, over func(workqueue.Snapshot[T]) bool) error {
	for {
		changed := q.nextChange() // Before the look, so that no change is missed.
		if over(q.Snapshot(0)) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("workqueuetest: the queue is not %s: %w: %v", state, ctx.Err(), q.Snapshot(9))
		}
	}
}

func (q *Queue[T]) nextChange() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// change tells those who wait to look again.
func (q *Queue[T]) change() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.changed)
	q.changed = make(chan struct{})
}
