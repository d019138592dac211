package ctrlqueue

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options are those of the queues that a [NewQueue] makes. The zero value is valid: it
// gives the rules of controller-runtime's own queue. Several controllers can have the same
// Options.
type Options[R comparable] struct {
	// OldestEvery n hands out the oldest item at least every n-th time, whatever its
	// priority: without OldestEvery a flood of urgent items starves all others. 0 is never,
	// as in controller-runtime.
	OldestEvery int

	// Group names the group of an item, and the groups take turns: a group that floods
	// delays another by a round at most. nil is one group for all. [Namespace] names the
	// namespace of the object of a request.
	//
	// The groups take turns among the items of the highest priority, or with GroupsFirst
	// among all items.
	Group func(R) string

	// Weight is how many items of the group are handed out in a turn, 1 at least; nil is 1
	// for all.
	Weight func(group string) int

	// MaxInFlight is how many items of the group may be reconciled at a time, whatever
	// their priorities; 0, or a nil function, is any number. The other items of the group
	// stay queued and occupy no worker.
	MaxInFlight func(group string) int

	// GroupsFirst lets the groups take turns whatever the priorities of their items, which
	// then order the items within a group. Without GroupsFirst, the initial list of one
	// group waits for the events of all groups.
	GroupsFirst bool

	// Order is the order of the queues in place of the options above. With its Priority
	// function, an item has a priority also if the add names none.
	Order workqueue.Order[R]

	// Quiet puts an add off until its item was not added for that long, so that a
	// burst of events leads to one reconcile. Most is how long it is put off at most,
	// from the first add on; 0 is no bound. Adds that name a delay, a limiter or a
	// priority other than 0 are not put off, which includes the initial list. If the Order
	// has a Priority function, adds that name 0 are not put off either.
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
		panic(fmt.Sprintf("ctrlqueue: a duration is negative: Quiet %v, Most %v, Drain %v", o.Quiet, o.Most, o.Drain))
	case o.Most > 0 && o.Quiet == 0:
		panic("ctrlqueue: Most needs a Quiet")
	case o.Drain > 0 && o.Stopped == nil:
		panic("ctrlqueue: Drain needs Stopped, the context that the manager is started with")
	}
}

// checkOrder leaves the fields of the order to the constructor of a queue.
func (o Options[R]) checkOrder() {
	if isSet(o.Order) && isSet(o.orderOfFields()) {
		panic("ctrlqueue: an Order takes the place of OldestEvery, Group, Weight, MaxInFlight and GroupsFirst")
	}
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[R]{Order: o.order()})
}

// order returns the order of the queues.
func (o Options[R]) order() workqueue.Order[R] {
	if isSet(o.Order) {
		return o.Order
	}
	return o.orderOfFields()
}

func (o Options[R]) orderOfFields() workqueue.Order[R] {
	return workqueue.Order[R]{
		OldestEvery: o.OldestEvery,
		Group:       o.Group,
		Weight:      o.Weight,
		MaxInFlight: o.MaxInFlight,
		GroupsFirst: o.GroupsFirst,
	}
}

func isSet[R comparable](o workqueue.Order[R]) bool { return !reflect.ValueOf(o).IsZero() }
