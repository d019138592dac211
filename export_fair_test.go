package workqueue

// CheckInvariants returns what is wrong with the fair queue, or nil. It must have
// faithful queues within.
func (f *fair[T, G]) CheckInvariants() error {
	var errs check
	errs.add("groups: ", f.groups.CheckInvariants())
	errs.add("owners: ", f.owners.CheckInvariants())
	size, queued := 0, 0
	flying := make(map[*fairGroup[T, G]]int)
	for i := range uint32(f.owners.places.n) {
		switch o := *f.owners.notes.at(*f.owners.places.at(i)); {
		case o.held:
			flying[o.group]++
		default:
			queued++
		}
	}
	known := 0
	for g := range f.all() {
		known++
		size += g.size
		errs.that(g.known, "group %v is not known", g.key)
		errs.that(g.size == g.within.Len(), "group %v has %d items, counted %d", g.key, g.within.Len(), g.size)
		errs.that(g.flying == flying[g], "group %v has %d items in flight, counted %d", g.key, flying[g], g.flying)
		errs.that(0 <= g.credit && g.credit <= g.weight, "group %v has credit %d of %d", g.key, g.credit, g.weight)
		errs.that(g.in != nil || g.size == 0 && g.flying > 0 && g.credit == 0, "group %v with %d items, %d in flight, credit %d is in no roster", g.key, g.size, g.flying, g.credit)
		errs.that(g.in == nil || g.size > 0 && (g.in == &f.turns) == f.may(g), "group %v with %d items, %d in flight is in the wrong roster", g.key, g.size, g.flying)
	}
	errs.that(size == f.size, "%d items, counted %d", size, f.size)
	errs.that(known >= f.turns.check(&errs)+f.resting.check(&errs), "more groups in turns and resting than there are")
	errs.that(queued == 0 && !f.follows || f.follows && queued == f.size, "%d notes for %d items", queued, f.size)
	for g, begun := f.turns.first, true; g != nil; g = g.next {
		errs.that(begun || g.credit == 0, "group %v has credit behind one that has none", g.key)
		begun = g.credit > 0
	}
	return errs.err()
}

// check returns the number of groups in a roster.
func (r *roster[T, G]) check(errs *check) (n int) {
	var last *fairGroup[T, G]
	for g := r.first; g != nil; g = g.next {
		errs.that(g.in == r && g.prev == last, "group %v is not linked", g.key)
		last = g
		n++
	}
	errs.that(r.last == last, "a roster ends elsewhere")
	return n
}

// FairRoom returns for how many groups and noted items a fair queue has memory, and
// how many groups it keeps for others.
func (f *fair[T, G]) FairRoom() (groups, owners, spares int) {
	return f.groups.items.records.n, f.owners.items.records.n, len(f.spares)
}

// CheckCounts is CheckInvariants for queues within that have failed: what they have
// made up or lost has no note.
func (f *fair[T, G]) CheckCounts() error {
	var errs check
	size := 0
	for g := range f.all() {
		size += g.size
		errs.that(g.size == g.within.Len(), "group %v has %d items, counted %d", g.key, g.within.Len(), g.size)
		errs.that(g.in == nil || g.size > 0 && (g.in == &f.turns) == f.may(g), "group %v with %d items, %d in flight is in the wrong roster", g.key, g.size, g.flying)
	}
	errs.that(size == f.size, "%d items, counted %d", size, f.size)
	f.turns.check(&errs)
	f.resting.check(&errs)
	return errs.err()
}
