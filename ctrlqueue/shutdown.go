package ctrlqueue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// errGraceOver is the cause of the end of a reconcile that has taken longer than the Grace.
var errGraceOver = errors.New("ctrlqueue: Grace is over")

// errFinished is the cause of the end of a drain in its Finish, when nothing is in flight any more.
var errFinished = errors.New("ctrlqueue: Grace is over, without its Finish")

// ShutDown ends the queue: adds do nothing any more, workers are released and are
// handed nothing, and waiting items are dropped. ShutDown may be called any number of times. The call that
// ends the queue returns after OnStop.
//
// If the options have EndDrain, and the context of the manager has ended, workers are
// handed what is queued until nothing is left or the Grace is over. First the hand-outs end, then
// the contexts of reconciles. A further ShutDown does not shorten the drain.
func (q *Queue[R]) ShutDown() {
	if q.drains() {
		q.close()
		q.draining.Do(func() {
			g := q.grace()
			go q.drainAtTheEnd(g)
		})
		return
	}
	if q.begun.Load() && !q.closed.Load() {
		if left := q.queue.Snapshot(0); left.QueuedTotal > 0 {
			q.logger.Info("Queued items are dropped", "queued", left.QueuedTotal, "waiting", left.WaitingTotal)
		}
	}
	q.end()
}

// ShutDownWithDrain shuts the queue down and blocks until all queued items have been
// handed out and are done. A ShutDown, before or meanwhile, ends the wait: at once or, if
// the ShutDown drains, when the Grace is over.
func (q *Queue[R]) ShutDownWithDrain() { _ = q.Drain(context.Background()) }

// Drain is ShutDownWithDrain with an end: when ctx is done, Drain ends the queue and
// returns a *[workqueue.DrainError] with the items that are left.
func (q *Queue[R]) Drain(ctx context.Context) error {
	q.close()
	// A drain that begins after the end would wait for items that nobody is handed.
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.over, cancel)()
	err := q.queue.Drain(within)
	q.end()
	var left *workqueue.DrainError[R]
	if errors.As(err, &left) && ctx.Err() == nil {
		left.Err = workqueue.ErrShutDown
	}
	return err
}

// endTerm ends the queue when the manager has ended, and waits for OnStop: the process may end with the
// manager.
func (q *Queue[R]) endTerm() {
	q.end()
	if q.options.OnStop != nil {
		<-q.stopping.told
	}
}

// end is a shutdown after which nothing is handed out. A worker that has passed the
// check of over before may get an item, and drops it.
func (q *Queue[R]) end() {
	q.close()
	q.cancel()
	q.release()
	q.queue.ShutDown()
	q.tell()
}

// A stopping is the one call of OnStop, and what OnStop is told beside the items of the queue. The flag begun
// is not a sync.Once, as OnStop may shut the queue down again.
type stopping[R comparable] struct {
	first sync.Once
	begun atomic.Bool
	told  chan struct{} // closed when OnStop has returned, or is not called

	mu      sync.Mutex
	waiting []workqueue.ItemInfo[R]     // before the shutdown, which drops these items; guarded by mu
	removed map[R]bool                  // since the end began; guarded by mu
	late    map[R]workqueue.ItemInfo[R] // what reconciles have asked for since the shutdown; guarded by mu
}

// note notes an item that the queue does not take any more.
func (s *stopping[R]) note(info workqueue.ItemInfo[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late == nil {
		s.late = make(map[R]workqueue.ItemInfo[R])
	}
	s.late[info.Item] = info
}

// forget forgets the note of an item that is handed out once more.
func (s *stopping[R]) forget(item R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.late, item)
}

// remove forgets an item that was removed since the end began, also if the list of what waited is still being made.
func (s *stopping[R]) remove(item R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.late, item)
	if s.removed == nil {
		s.removed = make(map[R]bool)
	}
	s.removed[item] = true
}

// items returns the items that were noted, and those that waited.
func (s *stopping[R]) items() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := slices.Collect(maps.Keys(s.late))
	for _, info := range s.waiting {
		items = append(items, info.Item)
	}
	return items
}

// addTo adds the items that waited, and the items that were noted, to those of the queue. An item is listed
// once: a worker holds an item until its Done, and the note comes before.
func (s *stopping[R]) addTo(left *workqueue.Snapshot[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := make(map[R]bool)
	for _, info := range slices.Concat(left.Queued, left.InFlight) {
		listed[info.Item] = true
	}
	left.Waiting = nil
	s.waiting = slices.DeleteFunc(s.waiting, func(info workqueue.ItemInfo[R]) bool { return s.removed[info.Item] })
	for _, info := range slices.Concat(slices.Collect(maps.Values(s.late)), s.waiting) {
		switch {
		case listed[info.Item]:
			continue
		case info.State == workqueue.ItemFailed:
			left.Failed = append(left.Failed, info)
		case info.State == workqueue.ItemQueued:
			left.Queued = append(left.Queued, info)
			left.QueuedTotal++
		default:
			left.Waiting = append(left.Waiting, info)
		}
		listed[info.Item] = true
	}
	left.WaitingTotal, left.FailedTotal = len(left.Waiting), len(left.Failed)
}

// close has adds do nothing from now on. The names of the waiting items have to be read before the shutdown:
// a drain that leaves nothing behind returns no names. An item that becomes due in between is named as waiting,
// and may be reconciled.
func (q *Queue[R]) close() {
	q.closed.Store(true)
	if q.options.OnStop == nil {
		return
	}
	q.stopping.first.Do(func() {
		waiting := q.queue.Snapshot(math.MaxInt).Waiting // Without the lock: it asks the limiter.
		q.stopping.mu.Lock()
		defer q.stopping.mu.Unlock()
		q.stopping.waiting = waiting
	})
}

// noteLeft notes a held item for OnStop, if the queue does not take the item any more: nobody else would name it. The
// add of an event is not noted, as the next start lists the object. The caller is an add, see removing: a removal after
// the look takes the note back.
func (q *Queue[R]) noteLeft(info workqueue.ItemInfo[R]) {
	if q.options.OnStop != nil && q.sinceHandOut(info.Item) != workqueue.ErrRemoved {
		q.stopping.note(info)
	}
}

// tell calls OnStop with what is left, and lets the workers go. Nothing is handed out any more. It lets them
// go also without a call: a worker may have begun after the look at begun.
//
// After a grace that was too short, OnStop gets the items of the moment before the contexts ended: reconciles
// end with their contexts, and would be named nowhere.
func (q *Queue[R]) tell() {
	if q.options.OnStop == nil || q.stopping.begun.Swap(true) {
		return
	}
	defer close(q.stopping.told)
	if !q.begun.Load() {
		return
	}
	var left workqueue.Snapshot[R]
	if g := q.begunGrace.Load(); g != nil && g.cause() != nil {
		<-g.ctx.Done()
		left = g.rest
	} else {
		left = q.queue.Snapshot(math.MaxInt)
	}
	q.stopping.addTo(&left)
	q.options.OnStop(q.name, left)
}

// drains reports whether a shutdown at this moment lets workers finish what is queued.
func (q *Queue[R]) drains() bool {
	return q.options.AtEnd == workqueue.EndDrain && q.over.Err() == nil && q.binding.term.asked.Load()
}

// A grace is the time after the end of the manager's context. It begins with the shutdown,
// or with the end of the context of a reconcile, whichever comes first. It ends after the Grace
// of the options, with the leadership of the Lock, or when the manager has stopped waiting.
//
// When the grace is over, the hand-outs end before the contexts do. Otherwise each worker whose
// reconcile has heard of the end would take the next item, and the whole backlog would begin.
type grace[R comparable] struct {
	last   time.Time       // from then on nothing is handed out, before the Finish of the options
	due    context.Context // ends with the time of the options and with the leadership
	term   context.Context // ends when the manager has stopped waiting
	end    context.CancelCauseFunc
	cancel context.CancelFunc

	ctx  context.Context       // ends after the hand-outs, for the contexts of reconciles
	rest workqueue.Snapshot[R] // of the moment between the hand-outs and the contexts; written before ctx ends
}

// namesOfRest is how many items of each state rest names without an OnStop: as many as the error of a drain.
const namesOfRest = 3

func (q *Queue[R]) newGrace() *grace[R] {
	timed, release := context.WithTimeoutCause(q.binding.lock.leading(), q.options.Grace, errGraceOver)
	due, end := context.WithCancelCause(timed)
	ctx, endContexts := context.WithCancelCause(context.Background())
	g := &grace[R]{last: time.Now().Add(q.options.Grace - q.options.Finish), due: due, term: q.binding.term.ctx, end: end, ctx: ctx}
	stop := context.AfterFunc(g.term, func() { end(context.Cause(g.term)) })
	g.cancel = func() { stop(); end(nil); release() }
	names := namesOfRest
	if q.options.OnStop != nil {
		names = math.MaxInt
	}
	context.AfterFunc(due, func() { // Nothing is handed out from here on, see isOver.
		g.rest = q.queue.Snapshot(names)
		endContexts(context.Cause(due))
	})
	q.begunGrace.Store(g)
	if q.options.Finish > 0 {
		finish := time.AfterFunc(time.Until(g.last), q.endFinished)
		context.AfterFunc(due, func() { finish.Stop() })
	}
	return g
}

// endFinished ends the grace if nothing is handed out any more and nothing is in flight: the drain would go on to wait
// for the queued items. It is called at the begin of the Finish, and after each Done. Outside of a Finish it takes an
// atomic load.
func (q *Queue[R]) endFinished() {
	g := q.begunGrace.Load()
	if g != nil && q.options.Finish > 0 && !time.Now().Before(g.last) && q.queue.Stats().InFlight == 0 {
		g.end(errFinished)
	}
}

// cause returns why the grace is over, and nil before that. It asks the clock itself: on a busy machine
// the timer of due comes later.
func (g *grace[R]) cause() error {
	if err := cmp.Or(context.Cause(g.due), context.Cause(g.term)); err != nil {
		return err
	}
	if at, ok := g.due.Deadline(); ok && !time.Now().Before(at) {
		return errGraceOver
	}
	return nil
}

// left returns the error of a drain that the end of the grace has ended. err is the error that the drain
// has returned, which lacks what ended in the meantime.
func (g *grace[R]) left(err error) error {
	<-g.ctx.Done()
	rest := g.rest
	if rest.QueuedTotal+rest.InFlightTotal == 0 {
		return nil
	}
	var drained *workqueue.DrainError[R]
	if errors.As(err, &drained) {
		rest.WaitingTotal = drained.Left.WaitingTotal
	}
	return &workqueue.DrainError[R]{Err: g.due.Err(), Left: rest}
}

// isOver reports whether nothing is handed out any more.
func (q *Queue[R]) isOver() bool {
	if q.over.Err() != nil {
		return true
	}
	g := q.begunGrace.Load()
	return g != nil && (!time.Now().Before(g.last) || g.cause() != nil)
}

func (q *Queue[R]) drainAtTheEnd(g *grace[R]) {
	defer g.cancel()
	err := q.Drain(g.due)
	cause := g.cause()
	if cause != nil {
		err = g.left(err)
	}
	switch {
	case err == nil || !q.begun.Load(): // Without a worker, as in a replica that has never led, nobody waits for the items.
	case cause == errReturned || cause == errReleased:
		q.logger.Info("The Grace is longer than the manager has waited: set a longer GracefulShutdownTimeout, or a shorter Grace", "grace", q.options.Grace, "left", err.Error())
	default:
		// The drain of another caller may have ended the queue, while the grace goes on.
		q.logger.Info("The queue was not drained", "cause", cmp.Or(cause, workqueue.ErrShutDown).Error(), "left", err.Error())
	}
}
