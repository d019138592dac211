package workqueue

import (
	"context"
	"reflect"
)

// ReAddContext returns a context for the work on an item that the caller holds. It
// ends with the cause [ErrReAdded] as soon as the item is added again: by an Add, or
// because it has waited until it was due. If that has happened since the item was
// handed out, the context has ended already, so that no Add is missed between Get and
// this call. It also ends with ctx, and with the CancelFunc, which has to be called.
//
// An Add that the queue does not heed ends nothing: one after a shutdown, or one that
// a Remove has taken back before this call. After Done, and for an item that nobody
// holds or that differs from itself, the context ends with ctx alone. Each call for
// an item returns a context of its own.
//
// The context ends before the Add returns. The Add holds the lock of the queue
// meanwhile, for a time in proportion to the contexts that were derived from this one;
// it calls nothing of ctx. It takes 3 allocations if ctx was made by
// [context.WithCancel] or its like, and 7 otherwise.
func (q *Typed[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	hash := hashOf(item)
	parent, release := ctx, context.CancelFunc(nil)
	// To end a context takes it off the one above, which is asked for Done and Value.
	// With the lock held that must be one whose code is known.
	if !known(ctx) {
		parent, release = context.WithCancel(ctx)
	}
	watched, cancel := context.WithCancelCause(parent)
	if q.watch(hash, item, watcher{ctx: watched, cancel: cancel}) {
		cancel(ErrReAdded)
	}
	if release != nil {
		return watched, release
	}
	return watched, func() { cancel(nil) }
}

// cancelContext is the type of the contexts that context.WithCancel returns.
var cancelContext = func() reflect.Type {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return reflect.TypeOf(ctx)
}()

// known reports whether Done and Value of a context call no foreign code when a context
// below it is cancelled.
func known(ctx context.Context) bool {
	if c, ok := ctx.(interface{ known() bool }); ok {
		return c.known()
	}
	return reflect.TypeOf(ctx) == cancelContext
}

// A watcher is told when an item is added again while it is held: its context ends.
// There may be more of them for the item.
type watcher struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	more   *watcher
}

// live returns the watchers that have not ended, nil for none. The zero watcher has.
func (w watcher) live() (more *watcher) {
	if w.more != nil {
		more = w.more.live()
	}
	if w.ctx == nil || w.ctx.Err() != nil {
		return more
	}
	return &watcher{w.ctx, w.cancel, more}
}

// watch has the watcher told when the item is added again. It reports whether that has
// happened already, and then tells nobody.
func (q *Typed[T]) watch(hash uint32, item T, w watcher) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.watch(hash, item, w)
}

// ReAddContext is that of the queue below, see [Typed.ReAddContext].
func (q *TypedDelaying[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	return below[reAdder[T]](q.queue, "ReAddContext").ReAddContext(ctx, item)
}

// ReAddContext is that of the queue below, see [Typed.ReAddContext].
func (q *TypedRateLimiting[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	return below[reAdder[T]](q.queue, "ReAddContext").ReAddContext(ctx, item)
}
