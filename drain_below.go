package workqueue

import (
	"context"
	"sync"
	"time"
)

// This file is the drain of a queue below that was configured and has no more
// than ShutDownWithDrain. No context ends that, a ShutDown ends all of them, and
// the one of client-go returns while items are queued: it waits until nothing is
// held, which is so between any two items that a worker gets. So all calls of
// Drain share one drain of the queue below, and the last to leave ends it.

// drainBelow drains a queue below, until ctx is done or the drains are halted.
func drainBelow[T comparable](ctx context.Context, queue TypedInterface[T], drains *drains) error {
	if q, ok := queue.(interface {
		Drain(ctx context.Context) error
	}); ok {
		return q.Drain(ctx)
	}
	d := drains.join(func(halt <-chan struct{}) bool { return shutDownUntilEmpty(queue, halt) })
	select {
	case <-d.ended:
	case <-ctx.Done():
		drains.leave(d)
	}
	if d.isComplete() {
		return nil
	}
	e := &DrainError[T]{Err: ctx.Err(), Snapshot: Snapshot[T]{QueuedTotal: queue.Len()}}
	if e.Err == nil {
		e.Err = ErrShutDown
	}
	return e
}

// drains are those of a queue below, one at a time. The zero value is ready for
// use.
type drains struct {
	mu      sync.Mutex
	current *sharedDrain // nil if there is none
}

// A sharedDrain is one that several calls may wait for.
type sharedDrain struct {
	halt, ended chan struct{} // are closed to end it, and when it has
	complete    bool          // nothing was left; written before ended is closed

	// The fields below are guarded by the mutex of drains.
	calls  int  // that wait
	halted bool // halt is closed
}

// join returns the current drain, and starts it if there is none. One that has
// been halted is not for those that come later: its ShutDown would end theirs.
func (ds *drains) join(run func(halt <-chan struct{}) (complete bool)) *sharedDrain {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for ds.current != nil && ds.current.halted {
		ended := ds.current.ended
		ds.mu.Unlock()
		<-ended
		ds.mu.Lock()
	}
	if ds.current == nil {
		d := &sharedDrain{halt: make(chan struct{}), ended: make(chan struct{})}
		ds.current = d
		go func() {
			d.complete = run(d.halt)
			ds.end(d)
		}()
	}
	ds.current.calls++
	return ds.current
}

func (ds *drains) end(d *sharedDrain) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.current = nil
	close(d.ended)
}

// leave ends the drain if no other call waits for it, and waits for its end.
func (ds *drains) leave(d *sharedDrain) {
	ds.mu.Lock()
	d.calls--
	last := d.calls == 0
	if last {
		d.haltLocked()
	}
	ds.mu.Unlock()
	if last {
		<-d.ended
	}
}

// halt ends the current drain, as a ShutDown does.
func (ds *drains) halt() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.current != nil {
		ds.current.haltLocked()
	}
}

func (d *sharedDrain) haltLocked() {
	if !d.halted {
		d.halted = true
		close(d.halt)
	}
}

func (d *sharedDrain) isComplete() bool {
	select {
	case <-d.ended:
		return d.complete
	default:
		return false
	}
}

// shutDownUntilEmpty reports whether nothing is left. Whatever is held after the first
// call of ShutDownWithDrain was got since, and will not be queued again: from
// then on what is queued becomes less, and when nothing is, a second call waits
// for the last of it. The goroutine of client-go's delaying queue ends with a
// ShutDown only, and otherwise lingers for up to 10 seconds.
func shutDownUntilEmpty[T comparable](queue TypedInterface[T], halt <-chan struct{}) (complete bool) {
	complete = shutDownWithDrain(queue, halt) && awaitEmpty(queue, halt) && shutDownWithDrain(queue, halt)
	if complete {
		endBelow(queue, queue.ShutDown)
	}
	return complete
}

// shutDownWithDrain reports whether the ShutDownWithDrain of a queue has returned
// by itself. It has returned in any case.
func shutDownWithDrain[T comparable](queue TypedInterface[T], halt <-chan struct{}) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		endBelow(queue, queue.ShutDownWithDrain)
	}()
	select {
	case <-returned:
		return true
	case <-halt:
	}
	// One that is called after a ShutDown waits none the less, and nothing tells
	// when the call has got there. So the ShutDown is repeated until it has been
	// of use.
	for wait := time.Millisecond; ; wait *= 2 {
		endBelow(queue, queue.ShutDown)
		select {
		case <-returned:
			return false
		case <-time.After(wait):
		}
	}
}

// endBelow calls one of the shutdowns of a queue, which may have had one. The one of
// controller-runtime panics then, of which nobody has to know.
func endBelow[T comparable](queue TypedInterface[T], shutDown func()) {
	defer func() {
		if v := recover(); v != nil && !queue.ShuttingDown() {
			panic(v)
		}
	}()
	shutDown()
}

// awaitEmpty waits until nothing is queued, and reports whether that is so. As no
// queue tells, it looks from time to time.
func awaitEmpty[T comparable](queue TypedInterface[T], halt <-chan struct{}) bool {
	const most = 16 * time.Millisecond
	for wait := time.Millisecond; queue.Len() > 0; wait = min(2*wait, most) {
		select {
		case <-halt:
			return false
		case <-time.After(wait):
		}
	}
	return true
}
