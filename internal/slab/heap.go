package slab

// HeapArity is the number of children of a node.
const HeapArity = 4

// A Heap is a heap of elements that know their place in it, so that any of them can be
// moved or removed in O(log n) time. It has four children a node. Its owner must not use
// it concurrently. Its zero value is empty.
//
// Invariants, for the element e at index i:
//
//	i > 0: !e.Before(h[(i-1)/4])
//	e was told of its place by Moved(i)
type Heap[E heapElement[E]] []E

// A heapElement is told of its place. Out of the heap it has none, whatever it was told last.
type heapElement[E any] interface {
	Before(E) bool
	Moved(place int)
}

func (h *Heap[E]) Push(e E) {
	*h = append(*h, e)
	if len(*h) == 1 { // Most heaps of a queue have one element.
		e.Moved(0)
		return
	}
	h.siftUp(len(*h)-1, e)
}

// Remove removes the element at a place, which may be any.
func (h *Heap[E]) Remove(place int) {
	s := *h
	last := len(s) - 1
	moved := s[last]
	s[last] = *new(E)
	*h = s[:last]
	if place < last {
		h.Fix(place, moved)
	}
	if cap(s) > 1024 && 8*last < cap(s) { // A burst must not keep its memory.
		*h = append(make(Heap[E], 0, 2*last), s[:last]...)
	}
}

// Fix puts an element at the place where another was, or where its key has changed, and moves
// it up or down from there.
func (h *Heap[E]) Fix(place int, e E) {
	if h.siftUp(place, e) == place {
		h.siftDown(place, e)
	}
}

func (h *Heap[E]) siftUp(place int, e E) (at int) {
	s := *h
	for place > 0 {
		parent := (place - 1) / HeapArity
		if !e.Before(s[parent]) {
			break
		}
		s[place] = s[parent]
		s[place].Moved(place)
		place = parent
	}
	s[place] = e
	e.Moved(place)
	return place
}

func (h *Heap[E]) siftDown(place int, e E) {
	s := *h
	for {
		first := HeapArity*place + 1
		if first >= len(s) {
			break
		}
		least := first
		for c := first + 1; c < min(first+HeapArity, len(s)); c++ {
			if s[c].Before(s[least]) {
				least = c
			}
		}
		if !s[least].Before(e) {
			break
		}
		s[place] = s[least]
		s[place].Moved(place)
		place = least
	}
	s[place] = e
	e.Moved(place)
}

// VisitInOrder calls visit for the elements in their order until that returns false, and
// reports whether it never did. To find the first n elements takes O(n log n) time, however
// large the heap is: the next element is always a child of one that was visited.
func VisitInOrder[E heapElement[E]](h Heap[E], visit func(E) bool) bool {
	var frontier Heap[heapPlace[E]]
	if len(h) > 0 {
		frontier.Push(heapPlace[E]{h, 0})
	}
	for len(frontier) > 0 {
		at := frontier[0].at
		frontier.Remove(0)
		if !visit(h[at]) {
			return false
		}
		first := HeapArity*at + 1
		for c := first; c < min(first+HeapArity, len(h)); c++ {
			frontier.Push(heapPlace[E]{h, c})
		}
	}
	return true
}

// A heapPlace stands for the element of a heap, in the order of that heap.
type heapPlace[E heapElement[E]] struct {
	heap Heap[E]
	at   int
}

func (p heapPlace[E]) Before(q heapPlace[E]) bool { return p.heap[p.at].Before(q.heap[q.at]) }
func (p heapPlace[E]) Moved(int)                  {}
