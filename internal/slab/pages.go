package slab

// Pages is a vector that grows without moving its elements. A slice that grows is copied
// now and then, which for a million records takes milliseconds with a lock held. Pages
// copies only the directory. An element is found in two steps, through the directory.
//
// Invariants:
//
//	N <= PageSize*len(directory), with less than 3*pageChunk pages to spare
//	elements from N on are zero
//
// Its zero value is empty. Pages is not safe for concurrent use.
type Pages[E any] struct {
	directory []*page[E]
	N         int
}

// A page is an array, so an access needs no bounds check. A page is small, because a queue
// with a single item has one page: 512 bytes for records of strings.
type page[E any] [PageSize]E

const (
	PageSize = 16

	// pageChunk is how many pages a vector allocates at once, when it has as many pages
	// already. A burst of 64k items then makes some 180 allocations instead of 4,000.
	pageChunk = 32
)

func (p *Pages[E]) At(i uint32) *E {
	return &p.directory[i/PageSize][i%PageSize]
}

// Push appends an element and returns its index.
func (p *Pages[E]) Push(e E) uint32 {
	i := p.grow()
	*p.At(i) = e
	return i
}

// grow appends an element as it is, which is zero unless the owner has left something there.
func (p *Pages[E]) grow() uint32 {
	if p.isFull() {
		p.extend()
	}
	p.N++
	return uint32(p.N - 1)
}

func (p *Pages[E]) isFull() bool { return p.N == PageSize*len(p.directory) }

func (p *Pages[E]) extend() {
	if len(p.directory) < pageChunk {
		p.directory = append(p.directory, new(page[E]))
		return
	}
	more := new([pageChunk]page[E])
	for i := range more {
		p.directory = append(p.directory, &more[i])
	}
}

// Pop removes and returns the last element. Unused pages stay until there are two chunks of
// them. Otherwise a vector whose length goes up and down around the end of a page would
// allocate each time.
func (p *Pages[E]) Pop() E {
	p.N--
	last := p.At(uint32(p.N))
	e := *last
	var zero E
	*last = zero
	if end := len(p.directory) - pageChunk; PageSize*end-p.N > PageSize*pageChunk {
		p.trim(end)
	}
	return e
}

// trim drops the pages behind the first n. It also shrinks a directory with less than a
// quarter in use. Otherwise the directory would keep half a byte for each element at the
// high-water mark.
func (p *Pages[E]) trim(n int) {
	clear(p.directory[n:])
	p.directory = p.directory[:n]
	if 4*n < cap(p.directory) {
		p.directory = append(make([]*page[E], 0, 2*n), p.directory...)
	}
}

// Truncate drops the elements from n on, and most of the unused pages. It takes time in
// proportion to the number of elements, unless n is 0.
func (p *Pages[E]) Truncate(n int) {
	if n == 0 {
		*p = Pages[E]{}
	}
	for ; p.N > n; p.N-- {
		*p.At(uint32(p.N - 1)) = *new(E)
	}
	if end := p.used(); end < len(p.directory) {
		p.trim(end)
	}
}

// used returns how many pages the vector needs, with a few to spare for growth.
func (p *Pages[E]) used() int {
	pages := (p.N + PageSize - 1) / PageSize
	return min(len(p.directory), pages+min(pageChunk, pages/4))
}

// release takes the unused pages out of a vector, and returns them. It takes time in proportion
// to the pages that stay.
func (p *Pages[E]) release() (unused []*page[E]) {
	end := p.used()
	unused = p.directory[end:]
	p.directory = append(make([]*page[E], 0, 2*end), p.directory[:end]...)
	return unused
}

// SparsePages is a vector with pages only where Put was called. The owner knows the
// indices. The zero value is empty.
type SparsePages[E comparable] []*page[E]

// At returns the element at index i, which must have been put.
func (s SparsePages[E]) At(i uint32) *E { return &s[i/PageSize][i%PageSize] }

func (s *SparsePages[E]) Put(i uint32, e E) {
	if missing := int(i/PageSize) + 1 - len(*s); missing > 0 {
		*s = append(*s, make([]*page[E], missing)...)
	}
	if (*s)[i/PageSize] == nil {
		(*s)[i/PageSize] = new(page[E])
	}
	*s.At(i) = e
}

// Has reports whether there is a page for index i.
func (s SparsePages[E]) Has(i uint32) bool {
	return int(i/PageSize) < len(s) && s[i/PageSize] != nil
}

// Get returns the element at index i, or zero if there is no page for i.
func (s SparsePages[E]) Get(i uint32) (e E) {
	if s.Has(i) {
		e = *s.At(i)
	}
	return e
}

// Move moves the element at an index to another index. Zero needs no page.
func (s *SparsePages[E]) Move(from, to uint32) {
	if e := s.Get(from); s.Has(to) || e != *new(E) {
		s.Put(to, e)
	}
}

// Truncate drops the pages behind the first n elements.
func (s *SparsePages[E]) Truncate(n int) {
	end := (n + PageSize - 1) / PageSize
	if end >= len(*s) {
		return
	}
	clear((*s)[end:])
	*s = (*s)[:end]
	if 4*end < cap(*s) {
		*s = append(make([]*page[E], 0, 2*end), *s...)
	}
}

// A Ledger is a set of items with a note on each. It is for owners whose notes become void
// with time. A hand goes round over the items, a step at a time. So owners look at a few
// items in each call instead of at all items in some calls, and need no goroutine.
//
// If each call that enters an item also looks at two items, a round over n items takes n/2
// calls. Items that are void when the round begins are gone when the round ends. Let v be
// the most items that are not void at a time. Then v + n/2 items are left after the round:
// the ledger ends up at 2v items or less, and below 3v within a round.
//
// Invariants, for a record r with index i:
//
//	r.State is notedState or freeRecord
//	r.State is notedState: places.At(r.Pos) == i
//	places.N == items.Live
//	notes.N == items.Records.N
//
// A ledger is not safe for concurrent use. The zero ledger is empty.
type Ledger[T comparable, N any] struct {
	items  Table[T, None]
	notes  Pages[N]
	places Pages[uint32]
	hand   int // this round has looked at every place from hand on
}

const notedState State = 1

func (l *Ledger[T, N]) Len() int { return l.places.N }

// Find returns the note on an item, or nil. The note is valid until the next call of Enter
// or Remove.
func (l *Ledger[T, N]) Find(hash uint32, item T) *N {
	at, r := l.items.Find(hash, item)
	if r == nil {
		return nil
	}
	return l.notes.At(l.items.Index(at))
}

// Enter returns the note on an item. The note is zero for a new item. The note on an item
// that differs from itself is not kept.
func (l *Ledger[T, N]) Enter(hash uint32, item T) *N {
	at, r := l.items.Find(hash, item)
	if r != nil {
		return l.notes.At(l.items.Index(at))
	}
	if !Equal(item, item) {
		return new(N)
	}
	i, r := l.items.Insert(at, hash, item)
	r.State, r.Pos = notedState, l.places.Push(i)
	if int(i) == l.notes.N {
		l.notes.Push(*new(N))
	}
	note := l.notes.At(i)
	*note = *new(N)
	return note
}

// Remove removes an item, if the ledger has the item.
func (l *Ledger[T, N]) Remove(hash uint32, item T) {
	at, r := l.items.Find(hash, item)
	if r == nil {
		return
	}
	*l.notes.At(l.items.Index(at)) = *new(N) // The note may refer to much memory.
	if last := l.places.Pop(); r.Pos < uint32(l.places.N) {
		*l.places.At(r.Pos) = last
		l.items.Records.At(last).Pos = r.Pos
	}
	l.items.Remove(at, r)
	if l.items.Sparse() {
		l.shrink()
	}
}

// Step moves the hand one step and returns the item there with its note. The note is nil if
// the ledger is empty. The hand goes down, so an owner can drop the item: the last item
// fills the gap, and the hand has passed the last item already.
func (l *Ledger[T, N]) Step() (item T, note *N) {
	if l.places.N == 0 {
		return item, nil
	}
	if l.hand == 0 {
		l.hand = l.places.N
	}
	l.hand = min(l.hand, l.places.N) - 1
	i := *l.places.At(uint32(l.hand))
	return l.items.Records.At(i).Item, l.notes.At(i)
}

// shrink gives memory back, see Table.Shrink.
func (l *Ledger[T, N]) shrink() {
	l.items.Shrink(func(from, to uint32, r *Record[T, None]) {
		*l.places.At(r.Pos) = to
		*l.notes.At(to) = *l.notes.At(from)
	})
	l.notes.Truncate(l.items.Records.N)
}
