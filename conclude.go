package workqueue

import (
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has the end of a hand-out. Before Done, a worker of Run says how the hand-out shall end.
// conclude decides in one critical section, and writes the decision into the record of the item. Done
// carries the decision out. Until Done the worker holds the item, and only an add or a removal can
// change the decision. The table of all ends stands at fifo.FIFO and in docs/semantics.md.
//
// A limiter, an Order and a clock are asked before, as they are foreign code. If the item then turns
// out to be removed, the worker has the limiter forget the item, also before Done.

// conclude decides about an item that the worker does not want again, or gives back.
func (q *Typed[T]) conclude(item T, end fifo.End) fifo.Conclusion {
	hash := slab.HashOf(item)
	now := q.metrics.now()
	q.mu.Lock()
	c := q.concludeLocked(hash, item, end, now, nil)
	q.settle()
	q.mu.Unlock() // Not deferred: an item that no worker holds any more may be pushed to a Queue.
	if c.Added {
		q.metrics.givenBack()
	}
	return c
}

func (q *Typed[T]) concludeLocked(hash uint32, item T, end fifo.End, now time.Duration, p *fifo.Placement) fifo.Conclusion {
	c := q.fifo.Conclude(hash, item, end, now, p)
	switch {
	case end == fifo.EndBack:
		q.paces.putBack(item)
	case end != fifo.EndRetry && end != fifo.EndRedo:
	case c.Added:
		q.adds++
	case c.Again && !c.Removed:
		q.duplicates++
	}
	return c
}

// putBack undoes a hand-out in one critical section, and reports whether the item is queued by that. The item
// was not worked on, so no metric counts the work.
func (q *Typed[T]) putBack(item T, waited time.Duration) (queued bool) {
	hash := slab.HashOf(item)
	now := q.metrics.now()
	q.mu.Lock()
	c := q.concludeLocked(hash, item, fifo.EndBack, now-waited, nil)
	at, r := q.fifo.Items.Find(hash, item)
	q.fifo.Done(at, r, now)
	q.settle()
	q.mu.Unlock()
	return c.Added
}

// concludeLate concludes about an item that cannot come again any more, and notes the item for the end of
// the Run, unless the item was removed. A later removal takes the note back, see removeLocked: OnStop
// names no item that was removed, and no item is lost that was added after its removal.
func (q *Typed[T]) concludeLate(l lateItem[T]) fifo.Conclusion {
	hash := slab.HashOf(l.item)
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.fifo.Conclude(hash, l.item, fifo.EndWorked, 0, nil)
	if !c.Removed {
		q.late.note(l)
	}
	return c
}

// takeOut takes the next queued item out of the queue at the end of a Run, in one critical section.
// Nobody works on the item, so no Pace is asked for a token, and the metrics count no hand-out. The barriers
// before the item fail. An item that differs from itself leaves its barriers when the FIFO hands the item out,
// and no barrier fails.
func (q *Typed[T]) takeOut() (item T, ok bool) {
	q.mu.Lock()
	if item, _, ok = q.fifo.Take(0); ok {
		hash := slab.HashOf(item)
		q.fifo.Conclude(hash, item, fifo.EndLeave, 0, nil)
		at, r := q.fifo.Items.Find(hash, item)
		q.fifo.Done(at, r, 0)
	}
	q.settle()
	q.mu.Unlock()
	if ok {
		q.metrics.removed()
	}
	return item, ok
}

// drop removes a queued item at the end of a Run, and reports whether the item was queued.
func (q *Typed[T]) drop(item T) bool {
	hash := slab.HashOf(item)
	q.mu.Lock()
	dropped := q.fifo.Drop(hash, item)
	q.settle()
	q.mu.Unlock()
	if dropped {
		q.metrics.removed()
	}
	return dropped
}

// An ending is what a Run wants for an item that it holds. The other fields are for EndRetry and
// EndRedo.
type ending struct {
	end   fifo.End
	after time.Duration // of EndRetry; 0 is now
	mode  mode          // of EndRetry: firm or not
	why   fifo.Why      // of EndRetry
	rank  fifo.Rank     // of the hand-out
}

// A conclusion is what a queue has decided about an ending.
type conclusion struct {
	fifo.Conclusion
	taken bool          // the item waits, or Done queues the item
	after time.Duration // how long the item waits
}

// waits reports whether the item waits for its time. A shutdown afterwards drops the item, and names it for a Run: a
// note of the worker would name it a second time.
func (c conclusion) waits() bool { return c.taken && c.after > 0 }

// conclude decides about an item that a Run holds, and counts a retry after the decision: the failure of a
// removed item is not retried.
func (q *TypedDelaying[T]) conclude(item T, e ending) conclusion {
	counts := e.end == fifo.EndRetry && q.retries != nil && !q.ShuttingDown()
	c := q.decide(item, e)
	if counts && !c.Removed {
		q.retries.Inc()
	}
	return c
}

// decide holds both locks if the item begins to wait, or if a wait of the item ends. After a shutdown
// nothing begins to wait.
func (q *TypedDelaying[T]) decide(item T, e ending) conclusion {
	hash := slab.HashOf(item)
	if e.end == fifo.EndRetry && q.ShuttingDown() {
		e.end = fifo.EndWorked
	}
	if e.end != fifo.EndRetry && e.end != fifo.EndRedo {
		return conclusion{Conclusion: q.typed.conclude(item, e.end)}
	}
	var place fifo.Placement
	p := q.place(&place, item, e.rank)
	p.SetRank(e.rank)
	r := &request[T]{mode: modeConclude | e.mode, end: e.end, why: e.why, hash: hash, item: item, after: e.after}
	if e.after > 0 {
		r.want = wantDelay
	}
	a := q.promote(r, p)
	return conclusion{a.concluded, a.taken, a.after}
}
