package workqueue

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// DrainError says what a drain has left behind because it ended early. Queued and held items
// are not lost: workers may go on to get the queued items, and still owe Done for the held
// items. Waiting items are lost: the shutdown has dropped them.
type DrainError[T comparable] struct {
	// Err is the error of the context, or [ErrShutDown] if a ShutDown has ended
	// the drain. JSON does not have it, as an error has no form there.
	Err error `json:"-"`

	// Left has all items, as of the instant when the drain ended. Its waiting items are those that
	// waited when this Drain began, or a Drain or Run that overlaps with it, without items that
	// were removed since.
	Left Snapshot[T] `json:"left"`
}

// Error returns the numbers, and the first items in flight by name.
func (e *DrainError[T]) Error() string {
	failed := ""
	if e.Left.FailedTotal > 0 {
		failed = fmt.Sprintf(", %d failed", e.Left.FailedTotal)
	}
	return fmt.Sprintf("workqueue: drain left %s%s: %v", e.Left.brief(), failed, e.Err)
}

// namesInError is how many items the error of a drain names.
const namesInError = 3

// brief returns the numbers, and the first items in flight by name.
func (s Snapshot[T]) brief() string {
	return fmt.Sprintf("%d queued, %d in flight%s, %d waiting", s.QueuedTotal, s.InFlightTotal, namesOf(s.InFlight, s.InFlightTotal), s.WaitingTotal)
}

// namesOf returns the first items in brackets, with how long a worker has held them.
func namesOf[T comparable](infos []ItemInfo[T], total int) string {
	var names []string
	for _, info := range infos[:min(namesInError, len(infos))] {
		name := fmt.Sprint(info.Item)
		if info.Age > 0 {
			name += fmt.Sprintf(" for %v", info.Age)
		}
		names = append(names, name)
	}
	switch {
	case names == nil:
		return ""
	case total > namesInError:
		names = append(names, "...")
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// Unwrap returns Err.
func (e *DrainError[T]) Unwrap() error { return e.Err }

// Is makes [errors.Is] find [ErrNotDrained] in any DrainError, whatever its T.
func (e *DrainError[T]) Is(target error) bool { return target == ErrNotDrained }

// waitWithin waits until the channel is closed or ctx is done.
func waitWithin(ctx context.Context, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// remains returns a DrainError if anything is left.
func (q *Typed[T]) remains(err error) *DrainError[T] {
	s := q.snapshot(math.MaxInt, q.metrics.now())
	if s.QueuedTotal+s.InFlightTotal == 0 {
		return nil
	}
	return &DrainError[T]{Err: err, Left: s}
}

// A leftover holds the items that waited in a queue when a shutdown dropped them. A removal takes an item
// out that is still held or queued: Remove has found the item, so nobody else has to name it. A nil *leftover
// has no items.
type leftover[T comparable] struct {
	of      *TypedDelaying[T]
	agenda  agenda.Agenda[T] // guarded by of.mu
	now     time.Duration
	claimed atomic.Bool // by a Run, see claim
}

// keepDropped has the queue keep the items that a shutdown drops, for a drain or a Run that
// may have to name them, until forgetDropped is called. The queue keeps the agenda itself:
// to make a list takes more than a second for 4 million items, every call would wait
// meanwhile, and mostly nobody reads the list.
func (q *TypedDelaying[T]) keepDropped() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keepers++
}

func (q *TypedDelaying[T]) forgetDropped() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keepers--
	if q.keepers == 0 {
		q.dropped = nil
	}
}

// leftover returns the dropped items, nil for none.
func (q *TypedDelaying[T]) leftover() *leftover[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// claim returns the leftover to the first Run that asks, and nil to the others: each dropped item
// is left behind by one Run.
func (l *leftover[T]) claim() *leftover[T] {
	if l == nil || l.claimed.Swap(true) {
		return nil
	}
	return l
}

// look calls a function with the items. The lock of the queue is held, so the function copies or counts, and
// leaves all that takes longer to its caller.
func (l *leftover[T]) look(see func(*agenda.Agenda[T])) {
	if l != nil {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		see(&l.agenda)
	}
}

// addTo adds the items to a snapshot.
func (l *leftover[T]) addTo(s *Snapshot[T]) {
	c := censusOf[T](math.MaxInt)
	l.look(func(a *agenda.Agenda[T]) {
		c.waiting.MakeRoom(a.Len())
		a.EnterIn(&c.waiting)
	})
	if l != nil {
		c.waiting.RankFirm(l.of.firmRank)
		c.describeWaiting(s, l.now, l.of.epoch)
	}
}

// drains are the calls of Drain above a queue without a Drain. The zero value is ready for
// use.
type drains struct {
	mu     gate.Mutex
	halted chan struct{} // guarded by mu; halt closes it; nil if no Drain wants to know
	ending gate.Crew     // calls of Drain that shut the queue down
}

// halt ends all drains of the moment, as a ShutDown must. A later Drain starts anew.
func (ds *drains) halt() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.haltLocked()
}

func (ds *drains) haltLocked() {
	if ds.halted != nil {
		close(ds.halted)
		ds.halted = nil
	}
}

// join returns a channel that the next halt closes. It waits for the calls that are about to
// shut the queue down, as their ShutDown would end the new drain.
func (ds *drains) join() (halted <-chan struct{}) {
	<-ds.ending.AllLeft(&ds.mu)
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.halted == nil {
		ds.halted = make(chan struct{})
	}
	return ds.halted
}

// shutDownBelow ends all drains of the queue. A ShutDown ends only a drain that waits
// already, and nothing tells whether the drain has come so far. So the ShutDown is repeated
// until the drain is over, but not for ever: the queue may not heed it.
func shutDownBelow[T comparable](queue TypedInterface[T], drains *drains, over <-chan struct{}) {
	const most = 64 * time.Millisecond
	drains.mu.Lock()
	drains.ending.Enter()
	drains.haltLocked()
	drains.mu.Unlock()
	defer drains.ending.Leave(&drains.mu)
	for wait := time.Millisecond; wait <= most; wait *= 2 {
		endBelow(queue, queue.ShutDown)
		select {
		case <-over:
			return
		case <-time.After(wait):
		}
	}
}

// drainBelow drains a queue below, until ctx is done or the drains are halted. A
// ShutDownWithDrain takes no context, and only a ShutDown ends it early. The ShutDown ends
// the drains of other callers too, so all callers are told by a halt. Otherwise they would
// take the early return for a complete drain.
func drainBelow[T comparable](ctx context.Context, queue TypedInterface[T], drains *drains) error {
	if q, ok := queue.(interface {
		Drain(ctx context.Context) error
	}); ok {
		return q.Drain(ctx)
	}
	halted := drains.join()
	over := make(chan struct{})
	go func() {
		defer close(over)
		drainUntilEmpty(queue, halted)
	}()
	err := ErrShutDown
	select {
	case <-over:
		if !isClosed(halted) {
			// The goroutine of client-go's delaying queue ends with a ShutDown, or 10 s later.
			endBelow(queue, queue.ShutDown)
			return nil
		}
	case <-halted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	shutDownBelow(queue, drains, over)
	return &DrainError[T]{Err: err, Left: Snapshot[T]{Totals: Totals{QueuedTotal: queue.Len()}}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drainUntilEmpty drains the queue in three steps.
//
//  1. ShutDownWithDrain. In client-go it waits until no item is held, as is the case between
//     two items of one worker too. Afterwards the number of queued items only falls, since
//     no Done queues an item that was held before.
//  2. Wait until no item is queued. No queue tells when its Len becomes 0, so the queue
//     is asked, at first every millisecond and then less often.
//  3. ShutDownWithDrain again, for the workers that hold the last items.
func drainUntilEmpty[T comparable](queue TypedInterface[T], halted <-chan struct{}) {
	const most = 16 * time.Millisecond
	endBelow(queue, queue.ShutDownWithDrain)
	for wait := time.Millisecond; queue.Len() > 0; wait = min(2*wait, most) {
		select {
		case <-halted:
			return
		case <-time.After(wait):
		}
	}
	if !isClosed(halted) { // Or the drain could begin after the last ShutDown.
		endBelow(queue, queue.ShutDownWithDrain)
	}
}

// endBelow calls one of the shutdowns of a queue that may be shut down already. The queue of
// controller-runtime panics for a second shutdown. That panic is dropped, as it says nothing
// new. A panic of a queue that is not shut down afterwards goes on.
func endBelow[T comparable](queue TypedInterface[T], shutDown func()) {
	defer func() {
		if v := recover(); v != nil && !queue.ShuttingDown() {
			panic(v)
		}
	}()
	shutDown()
}
