package controllerruntime

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options are those of the queues that a [NewQueue] makes. The zero value is valid: it
// gives the rules of controller-runtime's own queue. Options may be used for several
// controllers, as each queue gets an order of its own.
type Options[R comparable] struct {
	// OldestEvery makes at least every n-th hand-out that of the item which has been
	// queued longest, whatever its priority: without it a flood of urgent items
	// starves all others. 0, as in controller-runtime, never does.
	OldestEvery int

	// Group divides the items into groups, which take turns, so that one that floods
	// delays another by at most a round; nil is one group. [Namespace] is that of the
	// object of a request.
	//
	// The groups take turns within each level of priority, as the highest priority
	// goes first. With MaxInFlight it is the other way round: the groups take turns
	// whatever the priorities are, and each has levels of its own, because a limit is
	// one for all levels.
	Group func(R) string

	// Weight is how many items of a group make its turn; nil gives each group 1.
	Weight func(group string) int

	// MaxInFlight is how many items of a group may be reconciled at a time; 0 is no
	// limit, as is nil. The others keep their places and occupy no worker.
	MaxInFlight func(group string) int

	// Order, if it is not nil, makes the order of each queue in place of the options
	// above. It must return a new one each time. See [workqueue.Queue]; if it is no
	// [workqueue.PrioritizedQueue] all items have the priority 0, those of the initial
	// list too.
	Order func() workqueue.Queue[R]

	// Quiet puts an add off until its item was not added for that long, so that a
	// burst of events leads to one reconcile. Most is how long it is put off at most,
	// from the first add on; 0 is no bound. Adds that name a delay, a limiter or a
	// priority other than 0 are not put off, which includes the initial list.
	Quiet, Most time.Duration

	// Drain lets workers finish what is queued when the manager ends, for that long.
	// What waits is dropped, and what fails then is not retried. It must be shorter
	// than GracefulShutdownTimeout of the manager. 0 is controller-runtime's end: what
	// is queued is dropped.
	//
	// It needs Stopped, and reconcilers that are wrapped by [Reconciler] or
	// [Manager]: the context that controller-runtime gives to a reconcile has ended
	// by then.
	Drain time.Duration

	// Stopped is the context that the Start of the manager is given. The queue is
	// drained only if it has ended: a manager that stops because it has lost its
	// leadership must not reconcile any more.
	Stopped context.Context

	// Clock tells the time that delays are measured in; nil is the real one.
	Clock clock.WithTicker

	// Logger is told of panics in foreign code on the goroutine of the queue, and of a
	// drain whose time is over; nil logs to that of controller-runtime.
	Logger *logr.Logger
}

// Namespace returns the namespace of the object of a request, for the Group of
// [Options].
func Namespace(r reconcile.Request) string { return r.Namespace }

// check panics if the options make no sense.
func (o Options[R]) check() {
	o.checkOrder()
	switch {
	case min(o.Quiet, o.Most, o.Drain) < 0:
		panic(fmt.Sprintf("controllerruntime: a duration is negative: Quiet %v, Most %v, Drain %v", o.Quiet, o.Most, o.Drain))
	case o.Most > 0 && o.Quiet == 0:
		panic("controllerruntime: Most needs a Quiet")
	case o.Drain > 0 && o.Stopped == nil:
		panic("controllerruntime: Drain needs Stopped, the context that the manager is started with")
	}
}

func (o Options[R]) checkOrder() {
	switch {
	case o.OldestEvery < 0:
		panic(fmt.Sprint("controllerruntime: OldestEvery is negative: ", o.OldestEvery))
	case o.Group == nil && (o.Weight != nil || o.MaxInFlight != nil):
		panic("controllerruntime: Weight and MaxInFlight need a Group")
	case o.Order != nil && (o.Group != nil || o.OldestEvery != 0):
		panic("controllerruntime: an Order takes the place of Group and OldestEvery")
	}
}

// order returns the order of a new queue.
func (o Options[R]) order() workqueue.Queue[R] {
	switch {
	case o.Order != nil:
		return o.Order()
	case o.Group == nil:
		return o.levels(nil)
	case o.MaxInFlight == nil:
		return o.levels(func() workqueue.Queue[R] { return o.groups(nil) })
	}
	return o.groups(func() workqueue.Queue[R] { return o.levels(nil) })
}

func (o Options[R]) levels(within func() workqueue.Queue[R]) workqueue.Queue[R] {
	return workqueue.NewPriorityQueue(workqueue.PriorityOptions[R]{OldestEvery: o.OldestEvery, Within: within})
}

func (o Options[R]) groups(within func() workqueue.Queue[R]) workqueue.Queue[R] {
	return workqueue.NewFairQueue(workqueue.FairOptions[R, string]{
		Group: o.Group, Weight: o.Weight, Within: within, MaxInFlight: o.MaxInFlight,
	})
}
