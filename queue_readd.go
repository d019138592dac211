package workqueue

import (
	"context"
	"reflect"
)

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

// A watcher is told of the next add of a held item: the add ends the context of the
// watcher. An item may have more than one watcher.
type watcher struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	more   *watcher
}

// live returns the watchers whose contexts have not ended, nil for none. The zero watcher
// counts as ended.
func (w watcher) live() (more *watcher) {
	if w.more != nil {
		more = w.more.live()
	}
	if w.ctx == nil || w.ctx.Err() != nil {
		return more
	}
	return &watcher{w.ctx, w.cancel, more}
}

// watch tells the watcher when the item is added again. If the item was added again
// already, watch reports true and does not keep the watcher.
func (q *Typed[T]) watch(hash uint32, item T, w watcher) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.watch(hash, item, w)
}
