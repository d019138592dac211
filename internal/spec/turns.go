package spec

import (
	"maps"
	"slices"
)

// A share takes turns: the items of one group and, unless groups come first, of one priority.
type share struct {
	level int // the priority; 0 if groups come first
	group string
}

// terms are the weight and the limit of a group, as the last add has said.
type terms struct{ weight, limit int }

func (q *Queue[T]) share(p Place) share {
	if q.GroupsFirst {
		return share{group: p.Group}
	}
	return share{level: p.Priority, group: p.Group}
}

// full reports whether workers hold as many items of a group as its limit allows. A negative limit
// allows none.
func (q *Queue[T]) full(group string) bool {
	free := q.groups[group].limit
	for _, h := range q.Held {
		if h.Place.Group == group {
			free--
		}
	}
	return q.groups[group].limit != 0 && free <= 0
}

// WhyQueued returns why the group of a queued item keeps the item back: "group_full", or "held_back" by a
// negative limit. The result is "" if a worker may get the item.
func (q *Queue[T]) WhyQueued(i Item[T]) string {
	switch {
	case !q.full(i.Place.Group):
		return ""
	case q.groups[i.Place.Group].limit < 0:
		return "held_back"
	}
	return "group_full"
}

// hear notes the terms of a waiting add. A group without queued and held items has no terms: the add with
// which the group begins says them.
func (q *Queue[T]) hear(p Place) {
	if _, lives := q.groups[p.Group]; lives {
		q.groups[p.Group] = terms{p.Weight, p.Limit}
		q.arrange()
	}
}

// LimitsChanged replaces the limits of all groups, in the order of their names, and those that waits say.
func (q *Queue[T]) LimitsChanged(limit func(group string) int) {
	for _, group := range slices.Sorted(maps.Keys(q.groups)) {
		q.groups[group] = terms{q.groups[group].weight, limit(group)}
		q.arrange()
	}
	for at := range q.Waiting {
		p := &q.Waiting[at].Place
		p.Limit = limit(p.Group)
	}
}

// arrange follows each change. A share leaves the turns with its last item, which ends its turn, and
// when its group is full. It comes back behind the others, or before them if its turn goes on.
func (q *Queue[T]) arrange() {
	has, lives := map[share]bool{}, map[string]bool{}
	for _, i := range q.Queued {
		if !i.Ghost {
			has[q.share(i.Place)], lives[i.Place.Group] = true, true
		}
	}
	for _, h := range q.Held {
		lives[h.Place.Group] = true
		lives[h.Next.Group] = lives[h.Next.Group] || h.Marked
	}
	maps.DeleteFunc(q.groups, func(group string, _ terms) bool { return !lives[group] })
	maps.DeleteFunc(q.left, func(s share, _ int) bool { return !has[s] })
	maps.DeleteFunc(q.since, func(group string, _ int) bool { return q.GroupsFirst && !has[share{group: group}] })
	q.turns = slices.DeleteFunc(q.turns, func(s share) bool { return !has[s] || q.full(s.group) })
	for _, i := range q.Queued {
		s := q.share(i.Place)
		switch {
		case i.Ghost || q.full(s.group) || slices.Contains(q.turns, s):
		case q.left[s] > 0:
			q.turns = slices.Insert(q.turns, 0, s)
		default:
			q.turns = append(q.turns, s)
		}
	}
}

// next returns the place in Queued of the next item, and uses up its turn. The oldest item uses up only
// the turn of its own share.
func (q *Queue[T]) next() int {
	turn := slices.MaxFunc(q.turns, func(a, b share) int { return a.level - b.level })
	best, oldest := -1, -1
	behind := map[Place]bool{} // of the priority and group of an item that was seen
	for at, i := range q.Queued {
		lane := Place{Priority: i.Place.Priority, Group: i.Place.Group}
		own := q.share(i.Place) == turn
		if own && (best < 0 || i.Place.Priority > q.Queued[best].Place.Priority) {
			best = at
		}
		may := own || !q.GroupsFirst && !q.full(i.Place.Group)
		if may && !behind[lane] && (oldest < 0 || i.Age < q.Queued[oldest].Age) {
			oldest = at
		}
		behind[lane] = true
	}
	if q.OldestEvery > 0 && q.isOldestDue(turn.group, best == oldest) {
		best = oldest
	}
	if q.share(q.Queued[best].Place) == turn {
		q.charge(turn)
	}
	return best
}

// isOldestDue counts a hand-out, and reports whether it is that of the oldest item. next says whether
// the oldest item comes anyway.
func (q *Queue[T]) isOldestDue(group string, next bool) bool {
	if !q.GroupsFirst {
		group = "" // stands for all groups
	}
	q.since[group]++
	due := next || q.since[group] >= q.OldestEvery
	if due {
		delete(q.since, group)
	}
	return due
}

// charge takes a hand-out from a turn. A weight that was lowered shortens the turn. With its last
// hand-out the share goes behind the others.
func (q *Queue[T]) charge(s share) {
	weight := max(1, q.groups[s.group].weight)
	if q.left[s] == 0 {
		q.left[s] = weight
	}
	if q.left[s] = min(q.left[s], weight) - 1; q.left[s] == 0 {
		delete(q.left, s)
		q.turns = append(slices.DeleteFunc(q.turns, func(o share) bool { return o == s }), s)
	}
}
