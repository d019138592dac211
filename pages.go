package workqueue

// pages is a vector that grows without moving what it holds: a slice that is
// appended to copies itself now and then, which for a million records takes
// milliseconds with a lock held. Elements are found in two steps, through the
// directory, which is the only thing that is copied.
//
// Invariants:
//
//	n <= pageSize*len(directory), with less than 3*pageChunk pages to spare
//	elements from n on are zero
//
// Its zero value is empty. It is not safe for concurrent use.
type pages[E any] struct {
	directory []*page[E]
	n         int
}

// A page is an array, so that finding an element in it needs no bounds check,
// and small, since a queue that holds a single item has one: 768 bytes for
// records of strings.
type page[E any] [pageSize]E

const (
	pageSize = 32

	// pageChunk is how many pages a vector that has as many allocates at once: a
	// burst of 64k items then makes some 100 allocations instead of 2000.
	pageChunk = 16
)

func (p *pages[E]) at(i uint32) *E {
	return &p.directory[i/pageSize][i%pageSize]
}

// push appends an element and returns its index.
func (p *pages[E]) push(e E) uint32 {
	i := uint32(p.n)
	if p.n == pageSize*len(p.directory) {
		p.extend()
	}
	*p.at(i) = e
	p.n++
	return i
}

func (p *pages[E]) extend() {
	if len(p.directory) < pageChunk {
		p.directory = append(p.directory, new(page[E]))
		return
	}
	more := new([pageChunk]page[E])
	for i := range more {
		p.directory = append(p.directory, &more[i])
	}
}

// pop removes the last element and returns it. Pages stay until two chunks of
// them are unused. Otherwise a vector whose length goes up and down around the end of
// a page would allocate each time.
func (p *pages[E]) pop() E {
	p.n--
	last := p.at(uint32(p.n))
	e := *last
	var zero E
	*last = zero
	if end := len(p.directory) - pageChunk; pageSize*end-p.n > pageSize*pageChunk {
		p.trim(end)
	}
	return e
}

// trim drops the pages behind the first n. The directory is as long as it ever was
// otherwise, a quarter of a byte for each element that there has been.
func (p *pages[E]) trim(n int) {
	clear(p.directory[n:])
	p.directory = p.directory[:n]
	if 4*n < cap(p.directory) {
		p.directory = append(make([]*page[E], 0, 2*n), p.directory...)
	}
}
