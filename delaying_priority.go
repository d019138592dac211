package workqueue

import "fmt"

// This file has the priorities of a delaying queue. An item that waits has the one
// with which it will be added, see heap_extras.go.

// AddWith adds the items with a priority, at once or when the time After has passed.
// For the former see [Typed.AddWith], for the latter AddAfter. An item that waits
// already keeps the earlier time and the higher priority. What is queued or held at
// the same time has a priority of its own, until the wait ends and the item is added:
// then that is raised.
//
// It panics, before it adds anything, if there is a priority and the queue below knows
// none, and if the options name a limiter.
func (q *TypedDelaying[T]) AddWith(options AddOptions, items ...T) {
	if options.RateLimited {
		panic(fmt.Sprintf("workqueue: AddWith of %T with %+v: it has no limiter", q, options))
	}
	q.mustPrioritize(options.Priority)
	switch {
	case options.After > 0:
		for _, item := range items {
			q.addAfterWith(item, options.After, options.Priority)
		}
	case options.Priority == 0:
		q.AddAll(items...)
	case q.oneEntry:
		for _, item := range items {
			q.addNow(hashOf(item), item, options.Priority)
		}
	default:
		addWithBelow(q.queue, options, items)
	}
}

// GetWithPriority returns an item of the queue below, see [Typed.GetWithPriority]. If the
// queue below was configured and has no GetWithPriority, every item has the priority 0.
func (q *TypedDelaying[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	return getWithPriorityBelow(q.queue)
}

// addNow is Add, with the Priority of [AddOptions].
func (q *TypedDelaying[T]) addNow(hash uint32, item T, priority int) {
	switch {
	case q.oneEntry:
		q.promote(hash, item, rank{q.resolve(item, priority), true})
	default:
		q.addBelow(item, priority)
	}
}

// addBelow adds an item to the queue below, with a priority if it is not 0.
func (q *TypedDelaying[T]) addBelow(item T, priority int) {
	if priority == 0 {
		q.queue.Add(item)
		return
	}
	addWithBelow(q.queue, AddOptions{Priority: priority}, []T{item})
}

// resolve returns the priority of an add. What typed gives to a plain add is asked
// for when it begins to wait: later, it would be with both locks held.
func (q *TypedDelaying[T]) resolve(item T, priority int) int {
	if priority == 0 && q.typed != nil && q.typed.fifo.storage != nil && q.typed.fifo.storage.of != nil {
		return q.typed.fifo.storage.of(item)
	}
	return priority
}

// mustPrioritize panics if there is a priority and the queue below knows none. This is
// noticed before the item waits, as nobody could be told when it is due.
func (q *TypedDelaying[T]) mustPrioritize(priority int) { mustPrioritizeBelow[T](q.queue, priority) }

// after returns the priority of an add that ends a wait: that of the wait if the add
// names none, and otherwise the higher.
func (k rank) after(waited int, ok bool) int {
	switch {
	case !ok:
		return k.priority
	case !k.named:
		return waited
	}
	return max(k.priority, waited)
}

// addWithBelow adds items to a queue below with a priority.
func addWithBelow[T comparable](queue any, options AddOptions, items []T) {
	below[withAdder[T]](queue, "AddWith").AddWith(options, items...)
}

// getWithPriorityBelow gets an item of a queue below, which may know no priorities.
func getWithPriorityBelow[T comparable](queue TypedInterface[T]) (item T, priority int, shutdown bool) {
	switch q := queue.(type) {
	case *Typed[T]: // To look for an interface takes 30 ns.
		return q.GetWithPriority()
	case *TypedDelaying[T]:
		return q.GetWithPriority()
	case interface{ GetWithPriority() (T, int, bool) }:
		return q.GetWithPriority()
	}
	item, shutdown = queue.Get()
	return item, 0, shutdown
}

// mustPrioritizeBelow panics if there is a priority and a queue below takes none. An item
// that waited first would end the program when it is due.
func mustPrioritizeBelow[T comparable](queue any, priority int) {
	if priority == 0 {
		return
	}
	switch q := queue.(type) {
	case *Typed[T]: // To look for an interface takes 30 ns.
		q.mustPrioritize(priority)
	case *TypedDelaying[T]:
		q.mustPrioritize(priority)
	case interface{ mustPrioritize(priority int) }:
		q.mustPrioritize(priority)
	default:
		below[withAdder[T]](queue, "AddWith")
	}
}

// mustNotOrder panics if a config has an order beside a queue that has one of its own.
func mustNotOrder[T comparable](order Queue[T]) {
	if order != nil {
		panic("workqueue: a config has an Order beside a queue that was configured, which has an order of its own")
	}
}
