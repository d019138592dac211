package ctrlqueue

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Manager returns mgr with one difference: the controllers that are added to it get a
// queue of this package, and a [Reconciler] around theirs. controller-runtime has no
// option for all controllers of a manager. The builders and New take it in place of
// mgr:
//
//	mgr, err := ctrl.NewManager(...)
//	mgr = ctrlqueue.Manager(mgr, ctrlqueue.Options[reconcile.Request]{})
//
// It replaces the queue of each controller of [reconcile.Request]s, also one that
// NewQueue or UsePriorityQueue of its options has chosen: a controller that has been
// made does not tell. Add those that shall keep theirs to mgr itself. Controllers of
// other types of requests keep theirs.
//
// A controller has a field for its queue, which is set by its name. If a version of
// controller-runtime has no such field, Add returns an error. Manager panics if the
// options make no sense.
func Manager(mgr manager.Manager, options Options[reconcile.Request]) manager.Manager {
	options.check()
	return &switching{Manager: mgr, options: options}
}

type switching struct {
	manager.Manager
	options Options[reconcile.Request]
}

type newQueueFunc[R comparable] = func(string, clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R]

// Add implements [manager.Manager].
func (s *switching) Add(r manager.Runnable) error {
	if c, ok := r.(controller.Controller); ok {
		if err := s.switchQueue(c); err != nil {
			return err
		}
	}
	return s.Manager.Add(r)
}

// switchQueue sets two fields of a controller that was not started yet. Its type is
// internal, its fields are exported.
func (s *switching) switchQueue(c controller.Controller) error {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("ctrlqueue: a %T is no controller of a known version of controller-runtime: use NewQueue", c)
	}
	queue, okQueue := field[newQueueFunc[reconcile.Request]](v, "NewQueue")
	do, okDo := field[reconcile.Reconciler](v, "Do")
	if !okQueue || !okDo {
		return fmt.Errorf("ctrlqueue: a %T has not the fields NewQueue and Do that were expected: use NewQueue", c)
	}
	var own atomic.Pointer[Queue[reconcile.Request]] // Made when the controller starts.
	*queue = func(name string, limiter clientgo.TypedRateLimiter[reconcile.Request]) clientgo.TypedRateLimitingInterface[reconcile.Request] {
		q := newQueue(name, limiter, s.options)
		own.Store(q)
		return q
	}
	*do = &reconciler[reconcile.Request]{next: *do, find: func(context.Context) *Queue[reconcile.Request] { return own.Load() }}
	return nil
}

// field returns a pointer to a field of the struct that v points to.
func field[F any](v reflect.Value, name string) (*F, bool) {
	f := v.Elem().FieldByName(name)
	if !f.IsValid() || !f.CanAddr() || !f.CanInterface() {
		return nil, false
	}
	p, ok := f.Addr().Interface().(*F)
	return p, ok
}
