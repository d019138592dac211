package workqueue

import "unsafe"

// This file is the keyhole of export_test.go for the limiters.

// A Ledger is a set of items with notes, which are numbers.
type Ledger[T comparable] = ledger[T, int]

// Put enters an item and sets its note.
func (l *ledger[T, N]) Put(item T, note N) { *l.enter(hashOf(item), item) = note }

// Note returns the note on an item.
func (l *ledger[T, N]) Note(item T) (note N, found bool) {
	if n := l.find(hashOf(item), item); n != nil {
		return *n, true
	}
	return note, false
}

// Drop removes an item.
func (l *ledger[T, N]) Drop(item T) { l.remove(hashOf(item), item) }

// Turn moves the hand.
func (l *ledger[T, N]) Step() (item T, note *N) { return l.step() }

// Len returns the number of items.
func (l *ledger[T, N]) Len() int { return l.len() }

// Room returns how many items there are records for.
func (l *ledger[T, N]) Room() int { return l.items.records.n }

// CheckInvariants returns what is wrong with the ledger, or nil.
func (l *ledger[T, N]) CheckInvariants() error {
	var errs check
	errs.add("items: ", l.items.CheckInvariants())
	errs.add("notes: ", l.notes.CheckInvariants())
	errs.add("line: ", l.places.CheckInvariants())
	for i := range uint32(l.items.records.n) {
		r := l.items.records.at(i)
		errs.that(r.state == notedState || r.state == freeRecord, "ledger: record %d has state %d", i, r.state)
		errs.that(r.state == freeRecord || int(r.pos) < l.places.n && *l.places.at(r.pos) == i, "ledger: record %d is not in line at %d", i, r.pos)
	}
	errs.that(l.places.n == l.items.live, "ledger: %d in line, %d records", l.places.n, l.items.live)
	errs.that(l.notes.n == l.items.records.n, "ledger: %d notes for %d records", l.notes.n, l.items.records.n)
	return errs.err()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedItemBackoffRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedExpiringRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expiries.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedKeyBucketRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs check
	errs.add("promised: ", r.promised.CheckInvariants())
	errs.add("returned: ", r.returned.CheckInvariants())
	b := &r.bucket
	errs.that(b.tokens <= float64(b.burst), "key bucket: %v tokens, burst %d", b.tokens, b.burst)
	errs.that(b.extra >= 0 && b.extra <= b.burst, "key bucket: %d extra tokens, burst %d", b.extra, b.burst)
	errs.that(b.extra == 0 || b.tokens < 0, "key bucket: %d extra tokens beside %v", b.extra, b.tokens)
	return errs.err()
}

// Room returns how many items there are records for.
func (r *TypedItemExponentialFailureRateLimiter[T]) Room() int { return r.failures.items.records.n }

// Counted returns the count of failures after n.
func Counted(n uint32) uint32 { return oneMore(n) }

// Returned returns how many places have been given back.
func (r *TypedKeyBucketRateLimiter[T]) Returned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.returned.len()
}

// LimiterSizes returns the bytes that the limiters keep of an item, beside its
// slot and record.
func LimiterSizes() (streak_, due uintptr) {
	return unsafe.Sizeof(streak{}) + 4, unsafe.Sizeof(int64(0)) + 4
}
