package workqueue

// ranks is the order by priority of records that are named by index: the highest
// level first, and a FIFO in each. Both a [Typed] with such an order and the order
// as a [Queue] of its own keep their records in a table, and so share it.
//
// With age.every > 0 there is a second order, by age, over all records. A record that
// is raised keeps its place there.
//
// Invariants, for a record i that is in it:
//
//	its level is the one of priorities[i], and is up
//	the tier of its level has i at *place(i)
//	age.every > 0: it is in age
//
// and n is the lengths of all levels, added up, and that of age if it is kept.
//
// Each method takes O(log n) time at most in the number of levels that are in use,
// and constant time, amortized, in that of the records.
type ranks struct {
	ladder[tier]
	n int

	priorities priorities // also of a record that the owner has taken out

	age    aging
	elders elders

	// place returns where the owner keeps the place of a record in its level.
	place func(i uint32) *uint32
	// moved tells of a record that a level has moved. It is a field, as a method value
	// made at each call may be allocated.
	moved func(i, n uint32)
}

func newRanks(every int, place func(i uint32) *uint32) *ranks {
	r := &ranks{place: place}
	r.moved = func(i, n uint32) { *r.place(i) = n }
	r.age.start(every)
	return r
}

// push puts a record at the end of a level, and returns its place there.
func (r *ranks) push(i uint32, priority int) (place uint32) {
	r.enter(i, priority)
	return r.append(r.level(priority), i)
}

// pushAgain is push for a record that was added while it was held, and so earlier.
func (r *ranks) pushAgain(i uint32, priority int) (place uint32) {
	r.enter(i, priority)
	return r.appendLate(r.level(priority), i)
}

func (r *ranks) enter(i uint32, priority int) {
	r.priorities.set(i, priority)
	if r.age.every > 0 {
		r.age.enter(i)
	}
	r.n++
}

func (r *ranks) append(v *level[tier], i uint32) (place uint32) {
	if v.at < 0 {
		r.raise(v)
	}
	return v.content.push(i)
}

// appendLate is append for a record that was added earlier than now.
func (r *ranks) appendLate(v *level[tier], i uint32) (place uint32) {
	elder := r.elders.joins(&v.content, i)
	place = r.append(v, i)
	if elder {
		r.elders.join(&v.content, i)
	}
	return place
}

// lift puts a record at the end of a higher level, unless it is as high.
func (r *ranks) lift(i uint32, priority int) {
	was := r.priorities.at(i)
	if *was >= priority {
		return
	}
	place := r.place(i)
	r.leave(r.level(*was), i, *place)
	*was = priority
	*place = r.appendLate(r.level(priority), i)
}

// leave takes a record, which has that place, out of its level.
func (r *ranks) leave(v *level[tier], i, place uint32) {
	if len(v.content.elders) > 0 {
		r.elders.leave(&v.content, i)
	}
	v.content.remove(place, r.moved)
	if v.content.empty() {
		r.empty(v)
		return
	}
	v.content.shrink()
}

// empty lowers a level that has nothing left.
func (r *ranks) empty(v *level[tier]) {
	v.content.release()
	r.lower(v, down)
}

// remove takes a record out.
func (r *ranks) remove(i uint32) {
	r.leave(r.level(r.priorities.of(i)), i, *r.place(i))
	if r.age.every > 0 {
		r.age.leave(i)
	}
	r.n--
}

// pop takes the next record out. There must be one.
func (r *ranks) pop() (i uint32) {
	if r.age.every > 0 {
		return r.popInTurn()
	}
	r.n--
	return r.popHighest()
}

func (r *ranks) popHighest() (i uint32) {
	v := r.highest()
	i = v.content.pop()
	if len(v.content.elders) > 0 {
		r.elders.leave(&v.content, i)
	}
	if v.content.holes > 0 {
		v.content.tidy(r.moved)
	}
	if v.content.empty() {
		r.empty(v)
		return i
	}
	v.content.shrink()
	return i
}

// popInTurn takes the oldest record out when it is its turn, and the first of the
// highest level otherwise. That may be the oldest too, and then counts as its turn.
func (r *ranks) popInTurn() (i uint32) {
	oldest := r.age.first()
	if r.age.turn() {
		i = oldest
		r.remove(i)
	} else {
		i = r.popHighest()
		r.age.leave(i)
		r.n--
	}
	r.age.count(i == oldest)
	return i
}

// renumber gives memory back when the owner renumbers its records. The owner calls
// what it returns for each record in the order of the new indices, with the old and
// the new one, and whether the record is in.
func (r *ranks) renumber() (moved func(from, to uint32, in bool)) {
	old := r.priorities
	r.priorities = priorities{}
	aged, elder := r.age.renumber(), r.elders.renumber()
	return func(from, to uint32, in bool) {
		p := old.of(from)
		r.priorities.set(to, p)
		if !in {
			return
		}
		t := &r.level(p).content
		*t.at(*r.place(to)) = to
		elder(t, from, to)
		if r.age.every > 0 {
			aged(from, to)
		}
	}
}

// each calls f for the records in the order of the levels, until it returns false.
func (r *ranks) each(f func(i uint32, priority int) bool) {
	for v := range r.fromTop() {
		for i := range v.content.all() {
			if !f(i, v.priority) {
				return
			}
		}
	}
}

// priorities has a priority for each record, 0 for one that was never given any.
type priorities struct{ pages[int] }

func (p *priorities) of(i uint32) int {
	if int(i) >= p.n {
		return 0
	}
	return *p.at(i)
}

func (p *priorities) set(i uint32, priority int) {
	for int(i) >= p.n {
		p.push(0)
	}
	*p.at(i) = priority
}

// forget takes back what was set, if anything was.
func (p *priorities) forget(i uint32) {
	if int(i) < p.n {
		*p.at(i) = 0
	}
}
