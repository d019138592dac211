package workqueue

import "github.com/seed16c08ea7/workqueue/internal/slab"

// Queue stores the queued items of a [Typed] and so decides their order. The Typed hands
// each queued item to Push, and takes the next item from Pop. Touch reports a further Add
// of a stored item: the Queue may then move the item.
//
// The Typed calls the methods with its lock held. So calls are never concurrent, although
// they come from different goroutines. A method must not call the Typed or a queue above it, and
// every other call of the Typed waits while a method runs, as do many calls of a [TypedDelaying] above. Pop is called only when Len is positive. Get
// blocks while Len is zero, and looks again after the next Push or Touch.
//
// A panic in a method reaches the caller of the Typed, and the Typed stays usable. After a
// panic in Push the item is queued all the same, ahead of the stored items. After a panic
// in Touch the item is queued at its old place. After a panic in Len or Pop nothing has
// changed in the Typed.
type Queue[T comparable] interface {
	// Touch reports a further Add of a stored item.
	Touch(item T)
	// Push stores an item.
	Push(item T)
	// Len returns the number of items stored.
	Len() int
	// Pop removes the next item and returns it.
	Pop() (item T)
}

// DefaultQueue returns an empty FIFO in a circular buffer, which grows and shrinks with the
// number of items. Pop of an empty FIFO panics. A Typed without a Queue in its config
// behaves the same and is faster.
func DefaultQueue[T comparable]() Queue[T] {
	return &sequence[T]{}
}

type sequence[T comparable] struct {
	items slab.Ring[T]
}

func (s *sequence[T]) Touch(T)     {}
func (s *sequence[T]) Push(item T) { s.items.Push(item) }
func (s *sequence[T]) Len() int    { return s.items.Len() }

func (s *sequence[T]) Pop() T {
	if s.items.Len() == 0 {
		panic("workqueue: Pop of an empty Queue")
	}
	item := s.items.Pop()
	s.items.Shrink()
	return item
}
