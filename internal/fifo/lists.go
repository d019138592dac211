package fifo

import "github.com/seed16c08ea7/workqueue/internal/slab"

// A list is a FIFO of records: the first and the last one, each as 1 + its index, and 0
// for none.
type list struct{ head, tail uint32 }

// append puts a record at the end of a list.
func (f *FIFO[T]) append(l *list, i uint32, r *slab.Record[T, links]) {
	r.Pos, r.X.next = l.tail, 0
	if l.tail != 0 {
		f.Items.Records.At(l.tail - 1).X.next = i + 1
	} else {
		l.head = i + 1
	}
	l.tail = i + 1
}

// prepend puts a record before all others of a list.
func (f *FIFO[T]) prepend(l *list, i uint32, r *slab.Record[T, links]) {
	r.X.next = l.head
	if l.head != 0 {
		f.Items.Records.At(l.head - 1).Pos = i + 1
	} else {
		l.tail = i + 1
	}
	l.head = i + 1
}

// pop takes the first record out of a list. The Pos of the next record keeps its old value:
// nobody reads the Pos of a first record, and a write would touch another cache line.
func (f *FIFO[T]) pop(l *list) (i uint32, r *slab.Record[T, links]) {
	i = l.head - 1
	r = f.Items.Records.At(i)
	l.head = r.X.next
	if l.head == 0 {
		l.tail = 0
	}
	return i, r
}

// unlink takes any record out of a list.
func (f *FIFO[T]) unlink(l *list, i uint32, r *slab.Record[T, links]) {
	if l.head == i+1 {
		f.pop(l)
		return
	}
	f.Items.Records.At(r.Pos - 1).X.next = r.X.next
	if r.X.next != 0 {
		f.Items.Records.At(r.X.next - 1).Pos = r.Pos
	} else {
		l.tail = r.Pos
	}
}

// enterFirst puts a record before all others of its lane.
func (f *FIFO[T]) enterFirst(i uint32, r *slab.Record[T, links]) {
	if f.lanes == nil {
		f.prepend(&f.line, i, r)
		f.n++
		return
	}
	l := f.lanes.all[r.X.lane]
	f.prepend(&l.list, i, r)
	f.count(l, 1)
	seq := uint64(0)
	if f.lanes.every > 0 {
		seq = *f.seqs.At(i)
	}
	if l.n == 1 {
		f.lanes.up(l, seq)
	} else {
		f.lanes.headChanged(l, seq)
	}
}

// enter puts a record at the end of a lane. The caller has counted the record in l.refs.
func (f *FIFO[T]) enter(l *lane, i uint32, r *slab.Record[T, links]) {
	f.append(&l.list, i, r)
	r.X.lane = l.id
	f.seq++
	if f.lanes.every > 0 {
		f.number(i, f.seq)
	}
	f.count(l, 1)
	if l.n == 1 {
		f.lanes.up(l, f.seq)
	}
}

// leave takes a queued record out of its lane. l.refs still counts the record.
func (f *FIFO[T]) leave(l *lane, i uint32, r *slab.Record[T, links]) {
	first := l.head == i+1
	f.unlink(&l.list, i, r)
	f.left(l, first)
}

// left updates a lane after a record has left its list. first says whether the record was
// the first.
func (f *FIFO[T]) left(l *lane, first bool) {
	f.count(l, -1)
	switch {
	case l.n == 0:
		f.lanes.down(l)
	case first && f.lanes.every > 0:
		f.lanes.headChanged(l, *f.seqs.At(l.head - 1))
	}
}

func (f *FIFO[T]) count(l *lane, by int) {
	f.n += by
	l.n += by
	if f.lanes.grouped {
		l.level.n += by
		l.share.group.n += by
	}
}

// number notes the number of a record, if the lanes have ages.
func (f *FIFO[T]) number(i uint32, seq uint64) {
	if f.lanes.every == 0 {
		return
	}
	for int(i) >= f.seqs.N {
		f.seqs.Push(0)
	}
	*f.seqs.At(i) = seq
}
