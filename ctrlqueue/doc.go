// Package ctrlqueue makes the queues of controllers that are written on
// sigs.k8s.io/controller-runtime, in place of controller-runtime's own priority queue.
// [WrapManager] gives the queue to all controllers of a manager, which is the usual way:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{})
//	mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{})
//
// [For] returns a [Binding] for one controller.
//
// A [Queue] follows the rules of controller-runtime's queue. A key has one entry, with the
// highest priority and the earliest time of all its adds. The initial list of a controller,
// and its resyncs, come behind everything else. The README of the module has a table of
// the differences. Each difference has a reason and a test.
//
// Beyond these rules, a running reconcile can hear that its object has changed, see
// [ReAddContext] and CancelOnReAdd of the [Options]. The queue can be drained when the
// manager ends, see AtEnd. [Lookup] finds the queue of a controller, to look into the queue. The
// Options have fairness across namespaces, limits for groups of objects, and a debounce of
// events.
package ctrlqueue
