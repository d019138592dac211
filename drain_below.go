package workqueue

import (
	"context"
	"sync"
	"time"
)

// This file is the drain of a queue below, which if it was configured may have
// no more than ShutDownWithDrain. That cannot be ended by a context, and the one
// of client-go returns while items are queued: it waits until nothing is held,
// which is so between any two items that a worker gets.

// drain drains a queue below, until ctx is done or the halts come.
func drain[T comparable](ctx context.Context, queue TypedInterface[T], halts *halts) error {
	if q, ok := queue.(interface {
		Drain(ctx context.Context) error
	}); ok {
		return q.Drain(ctx)
	}
	halted := halts.next()
	// What is held when the first call returns, others got since, and cannot be
	// queued again. So what is queued only becomes less from then on, and when
	// nothing is, a second call waits for the last of it.
	if shutDownWithDrain(ctx, halted, queue) &&
		runEmpty(ctx, halted, queue) &&
		shutDownWithDrain(ctx, halted, queue) {
		return nil
	}
	e := &DrainError[T]{Err: ctx.Err(), Snapshot: Snapshot[T]{QueuedTotal: queue.Len()}}
	if e.Err == nil {
		e.Err = ErrShutDown
	}
	return e
}

// shutDownWithDrain reports whether the ShutDownWithDrain of a queue has returned
// by itself. It has returned in any case.
func shutDownWithDrain[T comparable](ctx context.Context, halted <-chan struct{}, queue TypedInterface[T]) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		end(queue, queue.ShutDownWithDrain)
	}()
	select {
	case <-returned:
		return true
	case <-ctx.Done():
	case <-halted:
	}
	// One that is called after a ShutDown waits none the less, and nothing tells
	// when the call has got there. So the ShutDown is repeated until it has been
	// of use.
	for wait := time.Millisecond; ; wait *= 2 {
		end(queue, queue.ShutDown)
		select {
		case <-returned:
			return false
		case <-time.After(wait):
		}
	}
}

// end calls one of the shutdowns of a queue, which may have had one. The one of
// controller-runtime panics then, of which nobody has to know.
func end[T comparable](queue TypedInterface[T], shutDown func()) {
	defer func() {
		if v := recover(); v != nil && !queue.ShuttingDown() {
			panic(v)
		}
	}()
	shutDown()
}

// runEmpty waits until nothing is queued, and reports whether that is so. As no
// queue tells, it looks from time to time.
func runEmpty[T comparable](ctx context.Context, halted <-chan struct{}, queue TypedInterface[T]) bool {
	const most = 16 * time.Millisecond
	for wait := time.Millisecond; queue.Len() > 0; wait = min(2*wait, most) {
		select {
		case <-ctx.Done():
			return false
		case <-halted:
			return false
		case <-time.After(wait):
		}
	}
	return true
}

// halts are the calls of ShutDown, for the drains to learn of them that the
// queue below does not tell. The zero value is ready for use.
type halts struct {
	mu   sync.Mutex
	call chan struct{} // closed at the next ShutDown; nil if nobody waits for it
}

func (h *halts) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.call == nil {
		h.call = make(chan struct{})
	}
	return h.call
}

func (h *halts) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.call != nil {
		close(h.call)
		h.call = nil
	}
}
