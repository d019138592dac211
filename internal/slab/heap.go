package slab

import "container/heap"

// HeapArity is the number of children of a node.
const HeapArity = 4

// A Heap is a heap of values with keys, the least key first. The owner of a value is told
// the place of the value, so that any value can be moved or removed in O(log n) time. A
// Heap has four children a node. Its owner must not use it concurrently. Its zero value is
// empty.
//
// Keys are numbers and places are written through a pointer: methods of a type parameter
// would be called through a dictionary, and never inlined.
//
// Invariants, for the entry e at index i:
//
//	i > 0: h[(i-1)/4].key <= e.key
//	*e.place == i
type Heap[V any] []heapEntry[V]

type heapEntry[V any] struct {
	key   uint64
	place *int
	Value V
}

// Push adds a value. The heap writes the place of the value to *place until the value is
// removed; *place means nothing afterwards.
func (h *Heap[V]) Push(key uint64, place *int, value V) {
	last := len(*h)
	*h = append(*h, heapEntry[V]{key, place, value})
	*place = last
	if last > 0 { // Most heaps of a queue have one value.
		h.siftUp(last, (*h)[last])
	}
}

// Remove removes the value at a place, which may be any.
func (h *Heap[V]) Remove(place int) {
	s := *h
	last := len(s) - 1
	moved := s[last]
	s[last] = heapEntry[V]{}
	*h = s[:last]
	if place < last {
		h.put(place, moved)
	}
	if cap(s) > 1024 && 8*last < cap(s) { // A burst must not keep its memory.
		*h = append(make(Heap[V], 0, 2*last), s[:last]...)
	}
}

// Fix gives the value at a place another key.
func (h *Heap[V]) Fix(place int, key uint64) {
	e := (*h)[place]
	e.key = key
	h.put(place, e)
}

// put puts an entry at a place that is free, and moves the entry up or down from there.
func (h *Heap[V]) put(place int, e heapEntry[V]) {
	if h.siftUp(place, e) == place {
		h.siftDown(place, e)
	}
}

func (h *Heap[V]) siftUp(place int, e heapEntry[V]) (at int) {
	s := *h
	for place > 0 {
		parent := (place - 1) / HeapArity
		if s[parent].key <= e.key {
			break
		}
		s[place] = s[parent]
		*s[place].place = place
		place = parent
	}
	s[place] = e
	*e.place = place
	return place
}

func (h *Heap[V]) siftDown(place int, e heapEntry[V]) {
	s := *h
	for {
		first := HeapArity*place + 1
		if first >= len(s) {
			break
		}
		least := first
		for c := first + 1; c < min(first+HeapArity, len(s)); c++ {
			if s[c].key < s[least].key {
				least = c
			}
		}
		if e.key <= s[least].key {
			break
		}
		s[place] = s[least]
		*s[place].place = place
		place = least
	}
	s[place] = e
	*e.place = place
}

// VisitInOrder calls visit for the values in the order of their keys until visit returns
// false, and reports whether visit never did. To find the first n values takes O(n log n)
// time, however large the heap is.
func VisitInOrder[V any](h Heap[V], visit func(V) bool) bool {
	return VisitFrom(len(h),
		func(a, b int) bool { return h[a].key < h[b].key },
		func(at int) bool { return visit(h[at].Value) })
}

// VisitFrom visits the n places of any heap with HeapArity children a node, in the order of
// before, until visit returns false, and reports whether visit never did. The next place is
// always a child of one that was visited.
func VisitFrom(n int, before func(a, b int) bool, visit func(place int) bool) bool {
	next := frontier{before: before}
	if n > 0 {
		next.places = []int{0}
	}
	for len(next.places) > 0 {
		at := heap.Pop(&next).(int)
		if !visit(at) {
			return false
		}
		first := HeapArity*at + 1
		for c := first; c < min(first+HeapArity, n); c++ {
			heap.Push(&next, c)
		}
	}
	return true
}

// A frontier has the places to be visited next. Visits are rare, so that container/heap is
// fast enough.
type frontier struct {
	places []int
	before func(a, b int) bool
}

func (f *frontier) Len() int           { return len(f.places) }
func (f *frontier) Less(i, j int) bool { return f.before(f.places[i], f.places[j]) }
func (f *frontier) Swap(i, j int)      { f.places[i], f.places[j] = f.places[j], f.places[i] }
func (f *frontier) Push(place any)     { f.places = append(f.places, place.(int)) }

func (f *frontier) Pop() any {
	last := len(f.places) - 1
	place := f.places[last]
	f.places = f.places[:last]
	return place
}
