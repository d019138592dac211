package workqueue

// This file has the optional interfaces of a fair queue. A caller asks for them by a
// type assertion, so there is a type for each set of them that it can have.

type (
	fairHolding[T, G comparable] struct {
		*fair[T, G]
		fairHolds[T, G]
	}
	fairPrioritized[T, G comparable] struct {
		*fair[T, G]
		fairPriorities[T, G]
	}
	fairFull[T, G comparable] struct {
		*fair[T, G]
		fairPriorities[T, G]
		fairHolds[T, G]
	}
)

// fairPriorities has the methods of a [PrioritizedQueue].
type fairPriorities[T, G comparable] struct{ of *fair[T, G] }

func (p fairPriorities[T, G]) PushWithPriority(item T, priority int) { p.of.push(item, priority, true) }
func (p fairPriorities[T, G]) TouchWithPriority(item T, priority int) {
	p.of.touch(item, priority, true)
}
func (p fairPriorities[T, G]) PopWithPriority() (item T, priority int) { return p.of.pop() }

// ranking asks one of the queues within, which are all of one make.
func (p fairPriorities[T, G]) ranking() bool { return p.of.ranks }
func (p fairPriorities[T, G]) lastRank() int { return p.of.last }

// learn notes the priority that the queue of a group has given to an item.
func (f *fair[T, G]) learn(g *fairGroup[T, G]) {
	if g.ranker != nil {
		f.last = g.ranker.lastRank()
	}
}

// fairHolds has the methods of a [HoldingQueue].
type fairHolds[T, G comparable] struct{ of *fair[T, G] }

func (h fairHolds[T, G]) Done(item T) { h.of.done(item) }
func (h fairHolds[T, G]) Ready() bool { return h.of.ready() }

// done takes an item from those that its group has in flight. Of one that is not held
// it knows nothing: it was popped before there was a Ready, or differs from itself.
func (f *fair[T, G]) done(item T) {
	f.enter()
	hash := hashOf(item)
	o := f.owners.find(hash, item)
	if o == nil || !o.held {
		return
	}
	g := o.group
	f.owners.remove(hash, item)
	g.flying--
	f.doubt = g
	if g.holding != nil {
		g.holding.Done(item)
	}
	f.settle(g)
	f.doubt = nil
}

// ready reports whether a group may be popped from. The first call makes limits hold:
// see heard. All groups are in turns until then, and a queue within may not be ready.
func (f *fair[T, G]) ready() bool {
	f.enter()
	if !f.heard {
		f.heard = true
		for g := f.turns.first; g != nil; {
			next := g.next
			f.settle(g)
			g = next
		}
	}
	return f.turns.first != nil
}
