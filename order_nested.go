package workqueue

// A nestedQueue is an order by priority in which the items of one priority have an
// order of their own: each level has a [Queue]. It is called as a storage, also by
// a [Typed], as those are foreign code.
//
// A Queue has no method to remove an item. So one that is raised stays in the order of
// its old level as a ghost, and is dropped when that hands it out, or is the item again
// if it comes back to that level before. Where there are ghosts, a level takes its next
// item out ahead of time: otherwise it could not tell whether it has any but ghosts.
//
// If the orders of the levels hold items back, they hear of Done for what they have
// handed out, and a level is up only if its order is ready.
//
// Invariants, for an item with record i, and the level v of priorities[i]:
//
//	v.content.first is the item, or v.content.queue has it
//	it is not in v.content.ghosts
//
// and for a level v:
//
//	v.content.n == number of its items
//	v.at >= 0: n > 0, and its order was ready after the last call
//	v.at == parked: it is not, and n > 0 or out > 0
//
// Each foreign call comes before what it changes here is noted. If it does not return,
// nothing has happened.
type nestedQueue[T comparable] struct {
	options PriorityOptions[T]
	ladder  ladder[nest[T]]

	items      table[T]
	priorities priorities
	age        aging
	out        map[T]*level[nest[T]] // handed out, where the order is to hear of Done
	last       int                   // see lastRank
	// heard says that there was a Ready. A caller that knows no Ready knows no Done, and
	// is to get everything: the orders are not asked then, and no account is kept.
	heard bool
}

func newNestedQueue[T comparable](options PriorityOptions[T]) *nestedQueue[T] {
	q := &nestedQueue[T]{options: options, out: make(map[T]*level[nest[T]])}
	q.age.start(options.OldestEvery)
	return q
}

// Push is that of [Queue].
func (q *nestedQueue[T]) Push(item T) { q.PushWithPriority(item, q.options.plain(item)) }

// PushWithPriority is that of [PrioritizedQueue]. An item that is stored already is
// touched.
func (q *nestedQueue[T]) PushWithPriority(item T, priority int) {
	hash := hashOf(item)
	at, r := q.items.find(hash, item)
	if r != nil {
		q.touch(q.items.index(at), item, priority)
		return
	}
	v := q.ladder.level(priority)
	q.put(v, item)
	i, r := q.items.insertAny(at, hash, item)
	r.state = rankedItem
	q.priorities.set(i, priority)
	q.last = priority
	if q.age.every > 0 {
		q.age.enter(i)
	}
	q.refresh(v)
}

func (q *nestedQueue[T]) ranking() bool { return true }
func (q *nestedQueue[T]) lastRank() int { return q.last }

// put stores an item in the order of a level.
func (q *nestedQueue[T]) put(v *level[nest[T]], item T) {
	c := &v.content
	if c.queue == nil {
		queue := q.options.Within()
		if queue == nil {
			panic("workqueue: Within has returned nil")
		}
		c.queue = queue
		c.holding, _ = queue.(HoldingQueue[T])
	}
	if _, ghost := c.ghosts[item]; ghost {
		c.queue.Touch(item)
		delete(c.ghosts, item)
	} else {
		c.queue.Push(item)
	}
	c.n++
}

// Touch is that of [Queue].
func (q *nestedQueue[T]) Touch(item T) { q.TouchWithPriority(item, q.options.plain(item)) }

// TouchWithPriority is that of [PrioritizedQueue].
func (q *nestedQueue[T]) TouchWithPriority(item T, priority int) {
	if at, r := q.items.find(hashOf(item), item); r != nil {
		q.touch(q.items.index(at), item, priority)
	}
}

func (q *nestedQueue[T]) touch(i uint32, item T, priority int) {
	v := q.ladder.level(q.priorities.of(i))
	c := &v.content
	q.last = max(priority, v.priority)
	if priority <= v.priority {
		if !c.has || c.first != item {
			c.queue.Touch(item)
		}
		q.refresh(v)
		return
	}
	higher := q.ladder.level(priority)
	q.put(higher, item)
	q.priorities.set(i, priority)
	c.n--
	if c.has && c.first == item {
		c.has, c.first = false, *new(T)
		c.tell(item)
	} else {
		if c.ghosts == nil {
			c.ghosts = make(map[T]struct{})
		}
		c.ghosts[item] = struct{}{}
	}
	q.refresh(higher)
	q.refresh(v)
}

// refresh follows each change of a level: it is up if it has something to hand out. An
// order with nothing but ghosts is dropped if it owes nothing.
func (q *nestedQueue[T]) refresh(v *level[nest[T]]) {
	c := &v.content
	if c.n == 0 && c.out == 0 && len(c.ghosts) > 0 {
		*c = nest[T]{}
	}
	for len(c.ghosts) > 0 && !c.has && c.ready(q.heard) {
		c.fetch()
	}
	rest := parked
	if c.n+c.out == 0 {
		rest = down
	}
	q.ladder.put(v, c.ready(q.heard), rest)
}

// Len is that of [Queue].
func (q *nestedQueue[T]) Len() int { return q.items.live }

// Ready is that of [HoldingQueue].
func (q *nestedQueue[T]) Ready() bool {
	if !q.heard {
		q.heard = true
		for _, v := range q.ladder.all {
			q.refresh(v)
		}
	}
	return q.ladder.highest() != nil
}

// Pop is that of [Queue].
func (q *nestedQueue[T]) Pop() T {
	item, _ := q.PopWithPriority()
	return item
}

// PopWithPriority is that of [PrioritizedQueue].
func (q *nestedQueue[T]) PopWithPriority() (item T, priority int) {
	v := q.ladder.highest()
	if v == nil {
		panic("workqueue: Pop of an empty Queue")
	}
	oldest := v
	if q.age.every > 0 {
		oldest = q.ladder.level(q.priorities.of(q.age.first()))
		if q.age.turn() && oldest.at >= 0 {
			v = oldest
		}
	}
	item = q.take(v)
	q.age.count(v == oldest)
	q.forget(v, item)
	q.refresh(v)
	return item, v.priority
}

// take takes an item out of a level.
func (q *nestedQueue[T]) take(v *level[nest[T]]) (item T) {
	c := &v.content
	if c.has {
		item = c.first
		c.has, c.first = false, *new(T)
	} else {
		item = c.queue.Pop()
	}
	switch {
	case c.holding == nil || !q.heard:
	case equal(item, item):
		c.out++
		q.out[item] = v
	default: // Nobody can name it in a Done.
		c.holding.Done(item)
	}
	return item
}

// find finds an item that a level has handed out. One that differs from itself is looked
// for in all records. An order may hand out what it was not given.
func (q *nestedQueue[T]) find(v *level[nest[T]], item T) (at, i uint32, r *record[T]) {
	if at, r = q.items.find(hashOf(item), item); r != nil {
		return at, q.items.index(at), r
	}
	for ; int(i) < q.items.records.n && !equal(item, item); i++ {
		r = q.items.records.at(i)
		if r.state == rankedItem && !equal(r.item, r.item) && q.priorities.of(i) == v.priority {
			return 0, i, r
		}
	}
	return 0, 0, nil
}

// forget removes the record of an item that a level has handed out.
func (q *nestedQueue[T]) forget(v *level[nest[T]], item T) {
	at, i, r := q.find(v, item)
	if r == nil {
		return
	}
	v.content.n--
	if q.age.every > 0 {
		q.age.leave(i)
	}
	q.items.removeAny(at, i, r)
	if q.items.sparse() {
		q.compact()
	}
}

func (q *nestedQueue[T]) compact() {
	old := q.priorities
	q.priorities = priorities{}
	aged := q.age.renumber()
	q.items.compact(func(from, to uint32, _ *record[T]) {
		q.priorities.set(to, old.of(from))
		if q.age.every > 0 {
			aged(from, to)
		}
	})
}

// Done is that of [HoldingQueue].
func (q *nestedQueue[T]) Done(item T) {
	v := q.out[item]
	if v == nil {
		return
	}
	delete(q.out, item)
	v.content.out--
	v.content.holding.Done(item)
	q.refresh(v)
}
