package workqueue

import "iter"

// fromTop returns the levels that are up, the highest first. For the first n of them it
// takes O(n log n) time: the next one is a child of one before it.
func (l *ladder[C]) fromTop() iter.Seq[*level[C]] {
	return func(yield func(*level[C]) bool) {
		next := indices{0}
		before := func(a, b int) bool { return l.up[a].priority > l.up[b].priority }
		for len(l.up) > 0 && len(next) > 0 {
			at := next.pop(before)
			if !yield(l.up[at]) {
				return
			}
			for c := heapArity*at + 1; c < min(heapArity*at+1+heapArity, len(l.up)); c++ {
				next.push(c, before)
			}
		}
	}
}

// indices are a binary heap.
type indices []int

func (h *indices) push(i int, before func(a, b int) bool) {
	*h = append(*h, i)
	s := *h
	for at := len(s) - 1; at > 0; {
		parent := (at - 1) / 2
		if !before(s[at], s[parent]) {
			return
		}
		s[at], s[parent] = s[parent], s[at]
		at = parent
	}
}

func (h *indices) pop(before func(a, b int) bool) (i int) {
	s := *h
	i = s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for at := 0; ; {
		child := 2*at + 1
		if child >= last {
			return i
		}
		if child+1 < last && before(s[child+1], s[child]) {
			child++
		}
		if !before(s[child], s[at]) {
			return i
		}
		s[at], s[child] = s[child], s[at]
		at = child
	}
}
