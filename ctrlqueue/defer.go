package ctrlqueue

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// DeferFor returns a result for a reconcile to return when its object must not be reconciled again
// before d has passed, whatever events come: the wait is firm, see [workqueue.AddOptions]. The handler of an
// event that shall end the wait calls [Queue.Wake]. A Wake during the reconcile counts too: the object then
// comes again at once.
//
// The wait begins when the reconcile returns, also if the reconcile returns another result: the longer
// of the two times counts. A reconcile that returns an error too, or panics, has failed, and its retry is
// due at the later of the two times. A failure that gives the object up ends the wait, unless the [Options] have a
// GiveUpFor, and so does CancelOnReAdd if a change has cut the reconcile short.
// Of several calls in a reconcile the longest d counts. If no d is positive, the object comes again at once. It
// keeps the priority of the hand-out.
//
// ctx must be a context as for [ReAddContext]. With any other, as in a test or without the Reconciler of
// the [Binding], DeferFor only returns a Result with the RequeueAfter d, which an event cuts short. A
// drain at the end of the manager hands out what is queued, and drops what waits.
func DeferFor(ctx context.Context, d time.Duration) reconcile.Result {
	if h, ok := ctx.Value(handOutKey{}).(interface{ deferFor(d time.Duration) }); ok {
		h.deferFor(d)
	}
	return reconcile.Result{RequeueAfter: max(d, time.Nanosecond)}
}

// WakeOn returns a predicate for the objects of a controller, by its name: builder.WithPredicates of For. It
// lets all events through. A deletion, and an update for which changed returns true, first end the wait of the
// object, by [Queue.Wake], and forget its failures, by [Queue.Forget]: a wait of [DeferFor], of GiveUpFor of the
// [Options], and of a backoff. A nil changed compares the generations, the times of deletion and the UIDs: the spec
// has changed, the object goes as soon as its finalizers are done, or it was deleted and created again while the
// watch was down. Some kinds have no generation, such as ConfigMap, Secret and ServiceAccount.
//
// It is a predicate, as the Wake must come before the Add of the event handler: after the Add a worker could have
// taken the object, and the Wake would end its next wait. So a worker can take the object between the two, and
// reconciles it twice for one event. A predicate that drops an event before this one keeps the Wake from coming.
//
// If no queue has that name when the first event of such a kind comes, and other queues of this package are there,
// WakeOn logs a line: the name may be wrong.
//
// Beware of a changed that is true for every event: nothing is left of the waits then.
func WakeOn(controller string, changed func(before, after client.Object) bool) predicate.Predicate {
	if changed == nil {
		changed = specChanged
	}
	var first sync.Once
	wake := func(object client.Object) {
		q, ok := Lookup[reconcile.Request](controller)
		first.Do(func() {
			if others := Names(); !ok && len(others) > 0 {
				log.Log.WithName("workqueue").Info("WakeOn finds no queue of this name, and ends no wait", "controller", controller, "queues", others)
			}
		})
		if ok {
			req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
			q.Forget(req) // Otherwise the first failure of the new spec would wait for the backoff of the old one.
			q.Wake(req)
		}
	}
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			if changed(e.ObjectOld, e.ObjectNew) {
				wake(e.ObjectNew)
			}
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool { wake(e.Object); return true },
	}
}

func specChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
}
