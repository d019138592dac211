package ctrlqueue

import "sync"

// A removing has each removal come before an add of what a reconcile asks for, or after it: the add first looks for a
// removal, and then adds. Adds go on beside each other, and one can come from within another, as from a limiter or from
// a function of the Order. So an add waits only for a removal that is at work, which calls no foreign code, and never
// for one that waits: with a sync.RWMutex both would wait for ever. A removal from within an add waits for ever too, and
// one beside adds that follow each other without a gap, as with a limiter that is slow, waits for a gap.
type removing struct {
	mu   sync.Mutex
	none sync.Cond // of mu: adds is 0
	adds int       // at work; guarded by mu
}

func (r *removing) init() { r.none.L = &r.mu }

// add calls f, which adds.
func (r *removing) add(f func()) {
	r.mu.Lock()
	r.adds++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.adds--; r.adds == 0 {
			r.none.Broadcast()
		}
	}()
	f()
}

// remove calls f, which removes, while there is no add.
func (r *removing) remove(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.adds > 0 {
		r.none.Wait()
	}
	f()
}
