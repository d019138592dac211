package workqueue

import (
	"context"
	"reflect"
)

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
