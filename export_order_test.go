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
	}
	errs.that(r.n == n, "counted %d records, are %d", r.n, n)
	if r.every == 0 {
		return errs.err()
	}
	errs.add("age: ", r.age.CheckInvariants())
	errs.that(r.age.len() == n && r.since < r.every, "age: %d records of %d, %d since of %d", r.age.len(), n, r.since, r.every)
	for i := range r.age.all() {
		errs.that(*r.age.at(*r.ages.at(i)) == i, "record %d is not at %d of the ages", i, *r.ages.at(i))
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
	if a.seldom == nil {
		return nil
	}
	return []int{len(a.seldom.latest), len(a.seldom.priorities)}
}
