package ctrlqueue

import (
	"context"
	"errors"

	"github.com/seed16c08ea7/workqueue"
)

// errDrainEnded is the cause of the end of a reconcile that a drain did not wait for.
var errDrainEnded = errors.New("ctrlqueue: the time for the drain is over")

// ShutDown ends the queue: adds do nothing any more, workers are released and are
// handed nothing, and what waits is dropped. It may be called any number of times.
//
// With Drain in the options, and the manager stopped, workers are handed what is
// queued until that is done or the time is over. A further ShutDown does not shorten
// this.
func (q *Queue[R]) ShutDown() {
	if q.drains() {
		q.closed.Store(true)
		q.draining.Do(func() { go q.drainAtTheEnd() })
		return
	}
	q.end()
}

// ShutDownWithDrain shuts the queue down and blocks until all that is queued has been
// handed out and is done. A ShutDown, before or meanwhile, ends the wait: at once or, if
// that ShutDown drains, when the time for the drain is over.
func (q *Queue[R]) ShutDownWithDrain() { _ = q.Drain(context.Background()) }

// Drain is ShutDownWithDrain with an end: when ctx is done it ends the queue and
// returns a *[workqueue.DrainError] that has what is left.
func (q *Queue[R]) Drain(ctx context.Context) error {
	q.closed.Store(true)
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

// end is a shutdown after which nothing is handed out. A worker who has passed the
// check of ended before may get an item, which it drops.
func (q *Queue[R]) end() {
	q.closed.Store(true)
	q.ended.Store(true)
	q.cancel()
	q.release()
	q.queue.ShutDown()
}

// drains reports whether a shutdown at this moment is one that drains.
func (q *Queue[R]) drains() bool {
	return q.options.Drain > 0 && !q.ended.Load() && q.options.Stopped.Err() != nil
}

// stopped reports whether the end of the queue has begun.
func (q *Queue[R]) stopped() bool {
	return q.ShuttingDown() || q.options.Stopped != nil && q.options.Stopped.Err() != nil
}

// A grace is the time for a drain. It begins when somebody asks for it first: the
// shutdown, or a reconcile whose context has ended.
type grace struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (q *Queue[R]) newGrace() grace {
	ctx, cancel := context.WithTimeoutCause(context.Background(), q.options.Drain, errDrainEnded)
	return grace{ctx, cancel}
}

func (q *Queue[R]) drainAtTheEnd() {
	g := q.grace()
	defer g.cancel()
	if err := q.Drain(g.ctx); err != nil {
		q.logger.Info("The manager has stopped before the queue was drained", "left", err.Error())
	}
}
