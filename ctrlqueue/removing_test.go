package ctrlqueue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// While the queue adds what a reconcile has asked for, foreign code adds another object, and a Remove or a ShutDown waits
// already: all three waited for ever.
func TestForeignCodeBesideTheEndOfAReconcile(t *testing.T) {
	for name, waits := range map[string]func(q *requestQueue){
		"Remove":   func(q *requestQueue) { q.Remove(request("z")) },
		"ShutDown": func(q *requestQueue) { q.ShutDown() },
	} {
		for _, kind := range []string{"limiter", "order"} {
			synctest.Test(t, func(t *testing.T) {
				var c *running
				armed, over := false, false
				foreign := func() {
					if armed {
						armed = false
						go waits(c.q)
						time.Sleep(time.Second) // Until it waits.
						c.q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: new(1)}, request("b"))
						over = true
					}
				}
				var o options
				opts := controller.Options{RateLimiter: callingLimiter[reconcile.Request]{when: func() {
					if kind == "limiter" {
						foreign()
					}
				}}}
				o.Order.Group = func(reconcile.Request) string {
					if kind == "order" {
						foreign()
					}
					return ""
				}
				b := ctrlqueue.For(o)
				opts.NewQueue, opts.Reconciler = b.NewQueue, b.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					armed = !over
					return reconcile.Result{}, errors.New("failed")
				}))
				s := newStandIn()
				c = startIn(t, s, s, fresh("calls"), opts)
				c.q.Add(request("a"))
				time.Sleep(time.Minute)
				synctest.Wait()
				if !over {
					t.Errorf("%s, %s: the add has not returned", name, kind)
				}
				c.end(t)
			})
		}
	}
}

// A callingLimiter calls a function, and says a second.
type callingLimiter[R comparable] struct{ when, count func() }

func (l callingLimiter[R]) When(R) time.Duration { l.when(); return time.Second }
func (callingLimiter[R]) Forget(R)               {}
func (l callingLimiter[R]) NumRequeues(R) int {
	if l.count != nil {
		l.count()
	}
	return 0
}

// The function of a RemoveFunc waited for ever when it called the queue.
func TestRemoveFuncThatCallsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ctrlqueue.For(ctrlqueue.Options[string]{}).NewQueue("", nil).(*ctrlqueue.Queue[string])
		q.AddAfter("a", time.Hour)
		q.Add("b")
		removed := q.RemoveFunc(func(item string) bool {
			q.Remove("c")
			q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: new(1)}, "c")
			return item == "a"
		})
		if s := q.Snapshot(9); removed != 1 || s.QueuedTotal != 1 || s.WaitingTotal != 1 {
			t.Errorf("%d are removed, and the queue has %v", removed, s)
		}
		q.ShutDown()
	})
}

// The end asks the limiter for the failures of what waits. A Remove waited for the limiter, and so did each worker.
func TestRemoveBesideALimiterThatBlocksTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var named workqueue.Snapshot[string]
		q := ctrlqueue.For(ctrlqueue.Options[string]{AtEnd: workqueue.EndStop, OnStop: func(_ string, left workqueue.Snapshot[string]) { named = left }}).
			NewQueue("", callingLimiter[string]{count: func() { <-release }}).(*ctrlqueue.Queue[string])
		q.AddAfter("a", time.Hour)
		q.AddAfter("b", time.Hour)
		q.Add("c")
		q.Get()
		go q.ShutDown()
		synctest.Wait()
		if !q.Remove("a") {
			t.Error("not removed")
		}
		close(release)
		synctest.Wait()
		q.Done("c")
		if len(named.Waiting) != 1 || named.Waiting[0].Item != "b" {
			t.Errorf("OnStop was told %+v", named)
		}
		q.RemoveFunc(func(item string) bool {
			if item == "" {
				t.Error("asked about an item that nobody has added")
			}
			return false
		})
	})
}

// After a shutdown that drains, a Reschedule of a new object took it, and the object was lost.
func TestRescheduleAfterAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openStopped(t, fresh("stopped"), stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Minute})
		q.Add("held")
		q.Get()
		q.ShutDown()
		if q.Reschedule("a", time.Hour) {
			t.Error("taken")
		}
		q.Done("held")
	})
}
