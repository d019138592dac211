package ctrlqueue

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed16c08ea7/workqueue"
)

// errGraceOver is the cause of the end of a reconcile that has taken longer than the Grace.
var errGraceOver = errors.New("ctrlqueue: Grace is over")

// ShutDown ends the queue: adds do nothing any more, workers are released and are
// handed nothing, and waiting items are dropped. ShutDown may be called any number of times.
//
// If the options have EndDrain, and the context of the manager has ended, workers are
// handed what is queued until nothing is left or the Grace is over. A further ShutDown does
// not shorten the drain.
func (q *Queue[R]) ShutDown() {
	if q.drains() {
		q.closed.Store(true)
		q.draining.Do(func() { go q.drainAtTheEnd() })
		return
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

// end is a shutdown after which nothing is handed out. A worker that has passed the
// check of ended before may get an item, and drops it.
func (q *Queue[R]) end() {
	q.closed.Store(true)
	q.ended.Store(true)
	q.cancel()
	q.release()
	q.queue.ShutDown()
}

// drains reports whether a shutdown at this moment lets workers finish what is queued.
func (q *Queue[R]) drains() bool {
	return q.options.AtEnd == workqueue.EndDrain && !q.ended.Load() && q.binding.term.asked.Load()
}

// A grace is the time after the end of the manager's context. It begins with the shutdown,
// or with the end of the context of a reconcile, whichever comes first. It ends after the Grace
// of the options, with the leadership of the Lock, or when the manager has stopped waiting.
type grace struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (q *Queue[R]) newGrace() grace {
	timed, release := context.WithTimeoutCause(q.binding.lock.leading(), q.options.Grace, errGraceOver)
	ctx, end := context.WithCancelCause(timed)
	over := q.binding.term.ctx
	stop := context.AfterFunc(over, func() { end(context.Cause(over)) })
	return grace{ctx, func() { stop(); end(nil); release() }}
}

func (q *Queue[R]) drainAtTheEnd() {
	g := q.grace()
	defer g.cancel()
	err := q.Drain(g.ctx)
	// The drain of another caller may have ended the queue, while the grace goes on.
	cause := cmp.Or(context.Cause(g.ctx), workqueue.ErrShutDown)
	switch {
	case err == nil || !q.begun.Load(): // Without a worker, as in a replica that has never led, nobody waits for the items.
	case cause == errReturned:
		q.logger.Info("The Grace is longer than the manager has waited: set a longer GracefulShutdownTimeout, or a shorter Grace", "grace", q.options.Grace, "left", err.Error())
	default:
		q.logger.Info("The queue was not drained", "cause", cause.Error(), "left", err.Error())
	}
}
