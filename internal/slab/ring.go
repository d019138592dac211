package slab

// A Ring is a FIFO in a circular buffer. Elements are named by sequence
// numbers that count up with each push and wrap at 2^32; a number stays valid
// while its element is in the ring, whatever is pushed, popped or resized
// around it.
//
// Invariants:
//
//	len(buf) is 0 or a power of two
//	the elements are buf[i&(len(buf)-1)] for head <= i < tail, all others zero
//
// A ring is not safe for concurrent use; its zero value is empty.
type Ring[E any] struct {
	buf        []E
	head, tail uint32
}

// minRing is the size below which a ring does not shrink, see MinRecords.
const minRing = 1024

func (r *Ring[E]) Len() int { return int(r.tail - r.head) }

// at returns the place of the element with the given number.
func (r *Ring[E]) at(number uint32) *E {
	return &r.buf[number&uint32(len(r.buf)-1)]
}

// Push appends an element and returns its number.
func (r *Ring[E]) Push(e E) uint32 {
	if r.Len() == len(r.buf) {
		r.grow()
	}
	number := r.tail
	r.tail++
	*r.at(number) = e
	return number
}

// pushFront puts an element before all others and returns its number.
func (r *Ring[E]) pushFront(e E) uint32 {
	if r.Len() == len(r.buf) {
		r.grow()
	}
	r.head--
	*r.at(r.head) = e
	return r.head
}

// Pop removes and returns the first element; the ring must not be empty. The
// slot is cleared, or a popped pointer would stay reachable until the ring
// comes round.
func (r *Ring[E]) Pop() E {
	p := r.at(r.head)
	e := *p
	var zero E
	*p = zero
	r.head++
	return e
}

// Shrink gives memory back if less than a sixteenth of the buffer is in use, and leaves
// room for twice the elements.
func (r *Ring[E]) Shrink() {
	if len(r.buf) > minRing && 16*r.Len() < len(r.buf) {
		r.resize(len(r.buf) / 8)
	}
}

func (r *Ring[E]) grow() { r.resize(max(8, 2*len(r.buf))) }

// resize moves the elements to a buffer of the given size, a power of two of
// at least len. They keep their numbers.
func (r *Ring[E]) resize(size int) {
	old := r.buf
	r.buf = make([]E, size)
	r.copyFrom(old)
}

// copyFrom copies in three pieces at most, as each of the buffers wraps once.
func (r *Ring[E]) copyFrom(old []E) {
	for i := r.head; i != r.tail; {
		piece := old[i&uint32(len(old)-1):]
		piece = piece[:min(uint32(len(piece)), r.tail-i)]
		i += uint32(copy(r.buf[i&uint32(len(r.buf)-1):], piece))
	}
}
