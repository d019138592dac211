package workqueue

import (
	"context"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
)

// ItemInfoFromContext returns what Run knows of the item that the handler, OnGiveUp or
// OnResult with this context is called for. It reports false for any other context,
// and for that of a Run with items of another type.
//
// Age is how long the item was queued before it was handed out, and Priority that which
// it was handed out with. They are 0 if that is not known: if the queue keeps no times or
// is not ours, and once the item was added again or is done. Failures is how often it has
// failed in a row by now.
func ItemInfoFromContext[T comparable](ctx context.Context) (info ItemInfo[T], ok bool) {
	c, ok := ctx.Value(itemKey[T]{}).(*itemContext[T])
	if !ok {
		return info, false
	}
	info = ItemInfo[T]{Item: c.item, State: ItemInFlight, Failures: c.run.failuresOf(c.item)}
	if c.run.typed != nil {
		info.Age, info.Priority = c.run.typed.heldFor(c.item)
	}
	return info, true
}

// itemKey is the key of the itemContext in a context.
type itemKey[T comparable] struct{}

// An itemContext is the context of one item: that of all handlers, with a logger
// and an ItemInfo, which are made only when somebody asks. It is immutable. A new one
// is needed for each item, as goroutines of a handler may outlive it. It is small, as
// that is all that an item costs in memory.
type itemContext[T comparable] struct {
	run  *runner[T]
	item T
}

// The end of the context is that of all handlers, handling.

func (c *itemContext[T]) Deadline() (deadline time.Time, ok bool) { return c.run.handling.Deadline() }
func (c *itemContext[T]) Done() <-chan struct{}                   { return c.run.handling.Done() }
func (c *itemContext[T]) Err() error                              { return c.run.handling.Err() }

// known is asked by ReAddContext: a cancel asks for Done and Value with the lock of the
// queue held.
func (c *itemContext[T]) known() bool { return known(c.run.handling) }

func (c *itemContext[T]) Value(key any) any {
	if key == loggerKey {
		return c.run.logger.WithValues("item", c.item)
	}
	if _, ok := key.(itemKey[T]); ok {
		return c
	}
	return c.run.handling.Value(key)
}

// loggerKey is the key under which logr looks for a logger. logr keeps it to itself, so
// a context finds out what it is asked for.
var loggerKey = func() any {
	var asked keyCatcher
	logr.FromContext(&asked)
	return asked.key
}()

type keyCatcher struct {
	context.Context
	key any
}

func (c *keyCatcher) Value(key any) any {
	c.key = key
	return nil
}

// chunkBytes is the size of the pieces in which a worker allocates the contexts of
// its items. To allocate each by itself takes three times as long. A handler that
// keeps one context keeps its piece in memory.
const chunkBytes = 1024

// newContext returns the context for the item that the worker holds.
func (w *worker[T]) newContext() *itemContext[T] {
	if w.used == len(w.contexts) {
		w.contexts = make([]itemContext[T], max(1, chunkBytes/int(unsafe.Sizeof(itemContext[T]{}))))
		w.used = 0
	}
	c := &w.contexts[w.used]
	w.used++
	c.run, c.item = w.runner, w.item
	return c
}

// context returns what newContext has returned last.
func (w *worker[T]) context() *itemContext[T] { return &w.contexts[w.used-1] }

// loggerFor returns the logger of the options, or else of the context.
func loggerFor(ctx context.Context, option *logr.Logger) logr.Logger {
	if option == nil {
		if l, err := logr.FromContext(ctx); err == nil {
			return l
		}
	}
	return loggerOrDefault(option)
}
