package workqueue

// ShutDown ends the queue: from now on Add does nothing, and Get returns
// shutdown == true as soon as the queue is empty. What is queued is still
// handed out, and a held item that was added before still queued by its Done.
//
// It does not wait for the workers, and it ends the wait of all calls of
// ShutDownWithDrain. It may be called more than once.
func (q *Typed[T]) ShutDown() {
	q.shutDown(false)
	<-q.reporter.allLeft(&q.mu)
	q.retire()
}

// ShutDownWithDrain is ShutDown, and then waits until the queue is empty and
// no item is held, or until ShutDown is called. It may be called more than
// once and concurrently; all calls return. It blocks as long as a worker does
// not call Done, or items are queued and nobody gets them.
func (q *Typed[T]) ShutDownWithDrain() {
	drained := q.shutDown(true)
	<-q.reporter.allLeft(&q.mu)
	<-drained
	q.retire()
}

// shutDown marks the queue as shut down. With drain it returns a channel that
// is closed when the drain is over; without, it ends all drains, and returns nil.
//
// All drains wait for the same thing, the idle queue, and so share one channel.
// settle ends the drain of a queue that is idle already, and wakes the first of the
// parked workers.
func (q *Typed[T]) shutDown(drain bool) (drained <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fifo.closed && q.reporter != nil {
		close(q.reporter.stop)
	}
	q.fifo.closed = true
	q.shut.Store(true) // With the lock held, so that it never differs from closed.
	if !drain {
		q.endDrains()
	} else if q.drained == nil {
		q.drained = make(chan struct{})
	}
	drained = q.drained
	q.settle()
	return drained
}

// endDrains releases all who drain. A later drain makes a new channel, and waits
// for it. The caller must hold q.mu.
func (q *Typed[T]) endDrains() {
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}

// ShuttingDown reports whether ShutDown or ShutDownWithDrain has been called.
func (q *Typed[T]) ShuttingDown() bool {
	return q.shut.Load()
}
