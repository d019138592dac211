package workqueue

import (
	"context"
	"sync"
	"time"
)

// This file drains a queue below that was configured and has only the methods of
// TypedInterface. Its ShutDownWithDrain has three weaknesses:
//
//   - It takes no context, so nothing but a ShutDown ends it early.
//   - A ShutDown ends all of its calls, also those of other callers.
//   - That of client-go may return while items are queued. It waits until no item
//     is held, and that is also true between two items of one worker.
//
// So all calls of Drain share one drain of the queue below, which goes on in a
// goroutine of its own. A call whose context ends leaves it. The last call to leave
// ends it by a ShutDown: nobody is left whom that could hurt.

// drainBelow drains a queue below, until ctx is done or the drains are halted. A
// queue with a Drain of its own does that itself, and needs nothing of this file.
func drainBelow[T comparable](ctx context.Context, queue TypedInterface[T], drains *drains) error {
	if q, ok := queue.(drainer); ok {
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

// drains are those of a queue below, one at a time. Its mutex is held for no call
// of a queue. The zero value is ready for use.
type drains struct {
	mu      sync.Mutex
	current *sharedDrain // nil if there is none
}

// A sharedDrain is a drain that several calls may wait for. It is over when ended
// is closed, whether it is complete or was halted.
type sharedDrain struct {
	halt, ended chan struct{} // are closed to end it, and when it has
	complete    bool          // nothing was left; written before ended is closed

	// The fields below are guarded by the mutex of drains.
	calls  int  // that wait
	halted bool // halt is closed
}

// join returns the current drain, and starts one if there is none. A caller does not
// join a drain that was halted: it would get an incomplete result, although nobody
// has ended its own call. It waits for the end of that one, and then starts another.
// Starting it at once would be wrong too: the ShutDown of the old one is repeated
// until it has worked, and would end the new one.
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

// end comes from the goroutine of the drain. The next join starts a new one.
func (ds *drains) end(d *sharedDrain) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.current = nil
	close(d.ended)
}

// leave ends the drain if no other call waits for it, and then waits for its end:
// the caller returns with no goroutine of its own left behind.
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

// halt ends the current drain for all who wait for it, as a ShutDown must.
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

// isComplete may be called at any time. The channel orders its reading of complete
// after the writing.
func (d *sharedDrain) isComplete() bool {
	select {
	case <-d.ended:
		return d.complete
	default:
		return false
	}
}

// shutDownUntilEmpty drains the queue in three steps, and reports whether nothing is
// left.
//
//  1. ShutDownWithDrain. Afterwards no item is held that was held before, and since
//     the queue is shut down, no Done queues an item again. So the number of queued
//     items only falls from here on.
//  2. Wait until no item is queued. Workers may still hold the last ones.
//  3. ShutDownWithDrain again, which waits for these.
//
// The ShutDown at the end is for client-go's delaying queue: only that ends its
// goroutine, which otherwise stays for up to 10 seconds.
func shutDownUntilEmpty[T comparable](queue TypedInterface[T], halt <-chan struct{}) (complete bool) {
	complete = shutDownWithDrain(queue, halt) && awaitEmpty(queue, halt) && shutDownWithDrain(queue, halt)
	if complete {
		endBelow(queue, queue.ShutDown)
	}
	return complete
}

// shutDownWithDrain calls the ShutDownWithDrain of a queue and waits for it, also
// after a halt. It reports whether that has returned by itself.
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
	// A ShutDown ends only a drain that waits already. The call above may not have
	// come that far, and nothing tells when it has. So the ShutDown is repeated until
	// the drain has returned.
	for wait := time.Millisecond; ; wait *= 2 {
		endBelow(queue, queue.ShutDown)
		select {
		case <-returned:
			return false
		case <-time.After(wait):
		}
	}
}

// endBelow calls one of the shutdowns of a queue that may be shut down already. The
// queue of controller-runtime panics then. That panic is dropped, as it says nothing
// new. A panic of a queue that is not shut down afterwards goes on.
func endBelow[T comparable](queue TypedInterface[T], shutDown func()) {
	defer func() {
		if v := recover(); v != nil && !queue.ShuttingDown() {
			panic(v)
		}
	}()
	shutDown()
}

// awaitEmpty waits until nothing is queued, and reports whether that is so. No queue
// tells when its Len becomes 0, so it asks, at first every millisecond and then less
// often.
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
