package ctrlqueue

import "sync"

// A removing orders the removals of a queue and the adds of what reconciles ask for. Such an add first looks for a
// removal, and then adds: a removal between the two steps would be lost.
//
// Adds run beside each other. An add calls a limiter and an Order, and these may add another item. So an add waits for
// a removal at work, which calls no foreign code except metrics, and never for a removal that waits for adds. With a
// sync.RWMutex the inner add would wait for the removal, and the removal for the outer add. A limiter or an Order must
// not remove: the removal would wait for its own add. While adds overlap without a gap, as with a slow limiter, a
// removal waits.
type removing struct {
	mu   sync.Mutex
	none sync.Cond // of mu: adds is 0
	adds int       // at work; guarded by mu
}

func (r *removing) init() { r.none.L = &r.mu }

// add calls f, and keeps removals waiting meanwhile.
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

// remove calls f once no add is at work, and keeps adds waiting meanwhile.
func (r *removing) remove(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.adds > 0 {
		r.none.Wait()
	}
	f()
}
