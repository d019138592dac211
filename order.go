package workqueue

// A PrioritizedQueue is a [Queue] whose order knows a priority for each add. A
// queue that has one, as Order or as Queue in its config, takes AddWith with a
// Priority; any other panics at that. A larger priority comes first.
//
// Push and Touch are for adds that name no priority, or 0: the queue decides what
// that of the item is. The three methods below are called as those of a Queue are,
// with the lock held, and what is said there about a panic holds for them too.
// If TouchWithPriority is called, the item is stored.
type PrioritizedQueue[T comparable] interface {
	Queue[T]
	// PushWithPriority stores an item that was added with a priority.
	PushWithPriority(item T, priority int)
	// TouchWithPriority tells that an item that is stored was added again with a
	// priority. The item keeps the higher one, and goes to the end of its new
	// level if it is raised.
	TouchWithPriority(item T, priority int)
	// PopWithPriority is Pop, and returns the priority that the item has now.
	PopWithPriority() (item T, priority int)
}

// A HoldingQueue is a [Queue] that holds items back while others are being
// processed. It hears of the end of each hand-out, and says itself whether there is
// anything to hand out: Len counts the items that are held back too.
//
// Ready is asked after each call of the other methods, so that workers are woken
// for what may be handed out and for nothing else. Items that are held back while
// no item is in flight are not waited for by a drain: nothing would ever free them.
//
// The methods are called as those of a Queue are, with the lock held. A panic in
// Ready counts for false. After one in Done the item is done all the same.
type HoldingQueue[T comparable] interface {
	Queue[T]
	// Done tells that the hand-out of an item that Pop has returned is over: the
	// worker has called Done, or the item was removed in the meantime and is not
	// handed out at all. It comes before the Push of the item if that was added
	// again. It must ignore an item that Pop has not returned, as one is whose
	// Push has panicked.
	Done(item T)
	// Ready reports whether Pop would return an item now.
	Ready() bool
}

// A ranker is an order that tells which priority an item has there. A [Typed] asks it after
// each Push and Touch, so that it can show the priority of what is stored. It calls no
// foreign code.
type ranker interface {
	// ranking reports whether it knows priorities at all.
	ranking() bool
	// lastRank returns the priority that the item of the last Push or Touch has since.
	lastRank() int
}

// rankerOf returns the queue as a ranker, or nil.
func rankerOf[T comparable](queue Queue[T]) ranker {
	if r, ok := queue.(ranker); ok && r.ranking() {
		return r
	}
	return nil
}

// A rank is what an add says of its priority.
type rank struct {
	priority int
	named    bool // and not left to the order
}

// rankOf is that of the Priority of [AddOptions], where 0 is that of a plain add.
func rankOf(priority int) rank { return rank{priority, priority != 0} }
