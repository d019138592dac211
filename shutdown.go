package workqueue

// shutDown marks the queue as shut down. With drain it returns a channel that
// is closed when the drain is over; without, it ends all drains.
func (q *Typed[T]) shutDown(drain bool) (drained <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shuttingDown.Swap(true) {
		q.wakeLocked()
		if q.stop != nil {
			close(q.stop)
		}
	}
	if !drain {
		q.releaseDrainersLocked()
		return nil
	}
	if q.drained == nil {
		q.drained = make(chan struct{})
	}
	drained = q.drained
	q.settleLocked()
	return drained
}

// settleLocked ends the drain if there is nothing left to wait for.
func (q *Typed[T]) settleLocked() {
	if len(q.held)+q.line.len()+q.stored == 0 {
		q.releaseDrainersLocked()
	}
}

func (q *Typed[T]) releaseDrainersLocked() {
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}
