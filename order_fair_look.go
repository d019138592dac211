package workqueue

import (
	"iter"
	"slices"
)

// This file has what only reads a fair queue, for snapshots and metrics.

// all returns the groups in no order.
func (f *fair[T, G]) all() iter.Seq[*fairGroup[T, G]] {
	return func(yield func(*fairGroup[T, G]) bool) {
		if f.odd != nil && !yield(f.odd) {
			return
		}
		for place := range uint32(f.groups.places.n) {
			if !yield(*f.groups.notes.at(*f.groups.places.at(place))) {
				return
			}
		}
	}
}

// inOrder is that of ordered. It takes each item to be done as soon as it is handed out,
// so that limits play no part. Groups that rest come after all others, in turns too. It
// takes time in proportion to the items that are asked for.
func (f *fair[T, G]) inOrder() iter.Seq[T] {
	if f.disordered {
		return nil
	}
	return func(yield func(T) bool) {
		_ = f.turns.play(yield) && f.resting.play(yield)
	}
}

// A player is a group while its turns are played.
type player[T comparable] struct {
	next   func() (T, bool)
	weight int
}

// play yields the items of the groups by their turns, and reports whether it was asked
// for all of them. The first round goes over the groups: most snapshots ask for fewer
// items than there are groups. A group whose turn has begun has the rest of it then.
func (r *roster[T, G]) play(yield func(T) bool) bool {
	var players []player[T]
	for g := r.first; g != nil; g = g.next {
		p := player[T]{cursor(g.within), g.weight}
		credit := g.credit
		if credit == 0 {
			credit = g.weight
		}
		more, wanted := p.turn(credit, yield)
		if !wanted {
			return false
		}
		if more {
			players = append(players, p)
		}
	}
	for len(players) > 0 {
		if players = playRound(players, yield); players == nil {
			return false
		}
	}
	return true
}

// playRound gives each player a turn, and returns those that may have more, or nil if no
// more is asked for.
func playRound[T comparable](players []player[T], yield func(T) bool) []player[T] {
	still := players[:0]
	for _, p := range players {
		more, wanted := p.turn(p.weight, yield)
		if !wanted {
			return nil
		}
		if more {
			still = append(still, p)
		}
	}
	return still
}

// turn yields so many items, and reports whether there may be more, and whether they
// are asked for.
func (p player[T]) turn(credit int, yield func(T) bool) (more, wanted bool) {
	for ; credit > 0; credit-- {
		item, ok := p.next()
		if !ok {
			return false, true
		}
		if !yield(item) {
			return true, false
		}
	}
	return true, true
}

// cursor returns a function that returns one item of a queue after the other, in their
// order. Where it cannot hold its place, it goes over the queue anew for as many items as
// it has returned, so that all of them take three times as long as one pass. iter.Pull
// would take 200 ns an item, and a goroutine for each group: 200,000 groups took 600 MB, and
// the runtime kept 90 of them for ever.
func cursor[T comparable](q Queue[T]) (next func() (T, bool)) {
	if s, ok := q.(*sequence[T]); ok {
		return s.cursor()
	}
	var ahead []T
	returned, ended := 0, false
	return func() (item T, ok bool) {
		if len(ahead) == 0 && !ended {
			n := max(2, returned)
			ahead = slices.AppendSeq(ahead, window(inOrder(q), returned, n))
			ended = len(ahead) < n
		}
		if len(ahead) == 0 {
			return item, false
		}
		item, ahead = ahead[0], ahead[1:]
		returned++
		return item, true
	}
}

func (s *sequence[T]) cursor() (next func() (T, bool)) {
	n := s.items.head
	return func() (item T, ok bool) {
		if n == s.items.tail {
			return item, false
		}
		item = *s.items.at(n)
		n++
		return item, true
	}
}

// window returns n items behind the first so many.
func window[T any](items iter.Seq[T], skip, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for item := range items {
			if skip--; skip >= 0 {
				continue
			}
			if n--; !yield(item) || n == 0 {
				return
			}
		}
	}
}
