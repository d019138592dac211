package workqueue

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// TypedDelayingInterface is a [TypedInterface] that can add an item later, so
// that a worker can retry without spinning. [TypedDelaying] documents it.
type TypedDelayingInterface[T comparable] interface {
	TypedInterface[T]
	// AddAfter adds the item after the duration has passed.
	AddAfter(item T, duration time.Duration)
}

// TypedDelayingQueueConfig are the options of a [TypedDelaying]. The zero
// value is valid.
type TypedDelayingQueueConfig[T comparable] struct {
	// Logger is told of panics in foreign code on the queue's goroutine; nil
	// logs to [slog.Default]. The name of the queue is not added to it.
	Logger *logr.Logger

	// Name labels the metrics. A queue without a name has none.
	Name string

	// MetricsProvider makes the metrics. If nil, it is the one given to
	// [SetProvider] before the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock tells the time that delays are measured in; nil is the real one.
	Clock clock.WithTicker

	// KeepTimes is that of [TypedQueueConfig].
	KeepTimes bool

	// Queue takes the items when they are due, and everything else that is not
	// AddAfter; nil is a [Typed] with the options above. The delaying queue
	// owns it: it is shut down with it.
	Queue TypedInterface[T]

	// OneEntry makes an item be queued or wait, but never both, whichever call
	// comes first. The earlier time wins: an Add of an item that waits ends the
	// wait, and an AddAfter, a Reschedule or a Debounce of an item that is
	// queued, or will be by its Done, makes nothing wait. With an Order, AddAfter and
	// Debounce can raise the item. One that is in flight may wait. Without the
	// option such an item is handed out for either call, on which callers of
	// client-go may rely.
	//
	// A Queue must be a *[Typed] then, as another one cannot be asked whether an
	// item is queued. Its own Add must not be called.
	OneEntry bool

	// Order is that of [TypedQueueConfig], for the Typed below. With a Queue, which
	// has an order of its own, the constructor panics.
	Order Queue[T]
}
