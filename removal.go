package workqueue

import (
	"context"
	"reflect"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has what ends the work on an item before its time: RemoveFunc, and the contexts that
// end when a held item is added again or removed.
//
// RemoveFunc removes one item after the other, and holds no lock in between. From the outer layer to
// the inner:
//
//  1. TypedRateLimiting.RemoveFunc (rate_limiting_queue.go) starts the counts of Run for an item anew,
//     after the item was removed below.
//  2. TypedDelaying.RemoveFunc (delaying_queue.go) first walks the items of the queue below, then the
//     waiting items, and last the items that became due during the two walks: the move log.
//  3. actOnMatches asks del about the items of a table, 256 at a time, and acts on each match.
//  4. takeBack (delaying_moves.go) ends the wait and removes the item from the Typed, under both locks.
//  5. FIFO.Remove (internal/fifo) drops a queued item, or the re-add of a held item. A worker keeps the
//     held item: the record has a note of the removal until Done, the contexts end, and so does what
//     Wake and the barriers have noted of the item.
//  6. Run concludes before Done what becomes of its item (conclude.go). For a removed item that is
//     nothing: the item comes again only if it was added since.
//
// Remove does steps 1, 4 and 5 for one item.

// actOnMatches calls act for the items of a table for which match returns true, and returns how often
// act has reported true. Then it takes the steps to give memory back, with shrink. RemoveFunc and
// WakeFunc are such walks.
func actOnMatches[T comparable, X any](mu *gate.Mutex, t *slab.Table[T, X], shrink func(), match, act func(item T) bool) (changed int) {
	itemOf := func(_ uint32, r *slab.Record[T, X]) (T, bool) { return r.Item, true }
	for piece := range slab.Walk(mu, t, itemOf) {
		changed += actOnEach(piece, match, act)
	}
	slab.Settle(mu, t, shrink)
	return changed
}

func actOnEach[T comparable](items []T, match, act func(item T) bool) (changed int) {
	for _, item := range items {
		if match(item) && act(item) {
			changed++
		}
	}
	return changed
}

// A moveLog has the items that have become due during a RemoveFunc.
type moveLog[T comparable] struct {
	items []T
	next  *moveLog[T] // of another RemoveFunc
}

// noteMoves has the items that become due noted from now on.
func (q *TypedDelaying[T]) noteMoves() *moveLog[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moves = &moveLog[T]{next: q.moves}
	return q.moves
}

// endMoves ends a log, which may have ended already.
func (q *TypedDelaying[T]) endMoves(log *moveLog[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := &q.moves
	for *at != nil && *at != log {
		at = &(*at).next
	}
	if *at == log {
		*at = log.next
	}
}

// cancelContext is the type of the contexts from context.WithCancel.
var cancelContext = func() reflect.Type {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return reflect.TypeOf(ctx)
}()

// known reports whether Done and Value of a context call no foreign code. The end of a
// context calls both methods of its parent.
func known(ctx context.Context) bool {
	if c, ok := ctx.(interface{ known() bool }); ok {
		return c.known()
	}
	return reflect.TypeOf(ctx) == cancelContext
}

// endings are the causes with which the contexts of watchers end.
var endings = fifo.Endings{ReAdded: ErrReAdded, Removed: ErrRemoved}

// watch keeps the watcher, or returns why the context of the watcher is over already.
func (q *Typed[T]) watch(hash uint32, item T, w fifo.Watcher) (over error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Watch(hash, item, w, &endings)
}
