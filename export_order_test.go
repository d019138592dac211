package workqueue

// The keyhole of order_*.go, see export_test.go.

func (f *fifo[T]) checkRanks(errs *check, ranked int) {
	if f.storage == nil || f.storage.ranks == nil {
		errs.that(ranked == 0, "%d records in no ranks", ranked)
		return
	}
	errs.that(ranked == f.storage.ranks.n, "ranks: %d records, counted %d", ranked, f.storage.ranks.n)
	errs.that(f.storage.asked == rank{}, "asked: %v is left", f.storage.asked)
	errs.add("ranks: ", f.storage.ranks.CheckInvariants())
}

// CheckInvariants returns what is wrong with the ranks, or nil.
func (r *ranks) CheckInvariants() error {
	var errs check
	errs.add("", r.ladder.CheckInvariants())
	n := 0
	for _, v := range r.known {
		errs.add("level: ", v.content.CheckInvariants())
		errs.that(v.content.empty() == (v.at < 0), "level %d at %d has %d records", v.priority, v.at, v.content.len())
		n += v.content.len()
		for i := range v.content.all() {
			errs.that(r.priorities.of(i) == v.priority, "record %d of priority %d is in level %d", i, r.priorities.of(i), v.priority)
			errs.that(*v.content.at(*r.place(i)) == i, "record %d is not at %d of its level", i, *r.place(i))
		}
		r.elders.check(&errs, &v.content)
	}
	errs.that(r.n == n, "counted %d records, are %d", r.n, n)
	errs.add("age: ", r.age.CheckInvariants(n))
	return errs.err()
}

// check looks for the oldest record of a tier in all of them.
func (e *elders) check(errs *check, t *tier) {
	if e.added == nil || t.empty() {
		errs.that(len(t.elders) == 0, "%d elders, of %d records", len(t.elders), t.len())
		return
	}
	oldest, elders := e.added(t.first()), 0
	for i := range t.all() {
		oldest = min(oldest, e.added(i))
		if place := e.places.get(i); place > 0 {
			elders++
			errs.that(int(place) <= len(t.elders) && t.elders[place-1] == i, "record %d is not at %d of the elders", i, place-1)
		}
	}
	errs.that(e.oldest(t) == oldest, "the oldest was added at %d, want %d", e.oldest(t), oldest)
	errs.that(len(t.elders) == elders, "%d elders, of the records %d", len(t.elders), elders)
}

// CheckInvariants returns what is wrong with the order by age of n records, or nil.
func (a *aging) CheckInvariants(n int) error {
	var errs check
	if a.every == 0 {
		errs.that(a.line.len() == 0, "%d records, and no turns", a.line.len())
		return errs.err()
	}
	errs.add("", a.line.CheckInvariants())
	errs.that(a.line.len() == n && a.since < a.every, "%d records of %d, %d since of %d", a.line.len(), n, a.since, a.every)
	for i := range a.line.all() {
		errs.that(*a.line.at(*a.places.at(i)) == i, "record %d is not at %d", i, *a.places.at(i))
	}
	return errs.err()
}

// CheckInvariants returns what is wrong with the ladder, or nil.
func (l *ladder[C]) CheckInvariants() error {
	var errs check
	up := 0
	for p, v := range l.known {
		errs.that(v.priority == p, "level %d is known as %d", v.priority, p)
		errs.that(l.all[v.number] == v, "level %d is not number %d", p, v.number)
		if v.at >= 0 {
			up++
			errs.that(v.at < len(l.up) && l.up[v.at] == v, "level %d is not at %d", p, v.at)
			errs.that(v.at == 0 || l.up[(v.at-1)/4].priority > p, "level %d comes before its parent", p)
		}
	}
	for slot, v := range l.recent {
		errs.that(v == nil || l.known[v.priority] == v && uint(v.priority)%recentLevels == uint(slot), "slot %d has the level %v", slot, v)
	}
	errs.that(up == len(l.up), "%d levels are up, the heap has %d", up, len(l.up))
	errs.that(len(l.all) == len(l.known), "%d levels, %d known", len(l.all), len(l.known))
	return errs.err()
}

// CheckInvariants returns what is wrong with the order, or nil.
func (q *priorityQueue[T]) CheckInvariants() error {
	var errs check
	errs.add("items: ", q.items.CheckInvariants())
	errs.that(q.items.live == q.ranks.n, "order: %d records for %d", q.items.live, q.ranks.n)
	errs.add("", q.ranks.CheckInvariants())
	return errs.err()
}

// sizesOfNotes returns how many pages of notes an agenda may have.
func (a *agenda[T]) sizesOfNotes() []int {
	if a.extras == nil {
		return nil
	}
	return []int{len(a.extras.latest), len(a.extras.priorities)}
}

// CheckInvariants returns what is wrong with the order, or nil.
func (q *nestedQueue[T]) CheckInvariants() error {
	var errs check
	errs.add("items: ", q.items.CheckInvariants())
	errs.add("", q.ladder.CheckInvariants())
	aged := q.items.live
	if q.age.every == 0 {
		aged = 0
	}
	errs.that(q.age.line.len() == aged, "age: %d records of %d", q.age.line.len(), aged)
	n, out := 0, 0
	for p, v := range q.ladder.known {
		c := v.content
		n, out = n+c.n, out+c.out
		_, ghost := c.ghosts[c.first]
		errs.that(!c.has || !ghost, "level %d: the next one is a ghost", p)
		errs.that(v.at < 0 || c.n > 0, "level %d is up and has nothing", p)
		errs.that(v.at != parked || c.n+c.out > 0, "level %d is parked and has nothing", p)
		errs.that(v.at != down || c.n+c.out == 0, "level %d is down and has %d items, %d out", p, c.n, c.out)
		if c.holding == nil && c.queue != nil {
			has := map[bool]int{true: 1}[c.has]
			errs.that(c.queue.Len()+has == c.n+len(c.ghosts), "level %d: %d items and %d ghosts, its order has %d and %d", p, c.n, len(c.ghosts), c.queue.Len(), has)
		}
	}
	errs.that(q.heard || out == 0, "%d items are out, and nobody tells of Done", out)
	errs.that(n == q.items.live && out == len(q.out), "%d items in the levels of %d, %d out of %d", n, q.items.live, out, len(q.out))
	return errs.err()
}
