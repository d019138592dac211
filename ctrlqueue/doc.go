// Package ctrlqueue makes the queues of controllers that are written on
// sigs.k8s.io/controller-runtime, in place of its own priority queue. One line in the
// options of a controller switches it:
//
//	ctrl.NewControllerManagedBy(mgr).
//		For(&corev1.Pod{}).
//		WithOptions(controller.Options{
//			NewQueue: ctrlqueue.NewQueue(ctrlqueue.Options[reconcile.Request]{}),
//		}).
//		Complete(r)
//
// and [Manager] switches all controllers of a manager.
//
// A [Queue] follows the rules of controller-runtime's: a key has one entry, with the
// highest priority and the earliest time that it was added with, and the initial list
// of a controller, and its resyncs, come behind everything else. The README of the
// module has a table of the differences, each with its reason and its test.
//
// Beyond that, [Reconciler] lets a running reconcile hear that its object has changed,
// and lets the queue be drained when the manager ends; [Lookup] finds the queue of a
// controller, to look into it; and [Options] have fairness across namespaces, limits
// for groups of objects, and a debounce of events.
package ctrlqueue
