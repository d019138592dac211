package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// This file has the code of README.md and of docs/testing.md that a reader can copy, and its tests.

// A writer waits after each write until its cache shows the write.
type writer struct {
	client.Client

	mu      sync.Mutex
	written map[reconcile.Request]string // the resource version of a write that the cache has to show; guarded by mu
}

const writing = "writing" // is stored while a write is under way

func (r *writer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var object corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &object); err != nil {
		if apierrors.IsNotFound(err) {
			r.store(req, "")
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if waits, _ := r.look(req, &object); waits {
		return ctrlqueue.DeferFor(ctx, time.Minute), nil
	}
	if !change(&object) {
		return reconcile.Result{}, nil
	}
	r.store(req, writing)
	if err := r.Update(ctx, &object); err != nil {
		r.store(req, "")
		return reconcile.Result{}, err
	}
	r.store(req, object.ResourceVersion) // Update has set the new version.
	return ctrlqueue.DeferFor(ctx, time.Minute), nil
}

// look reports whether the object is older than the last write, and whether it shows the write for the first
// time. While the write is under way, any object may be the one.
func (r *writer) look(req reconcile.Request, object client.Object) (waits, arrived bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	written, ok := r.written[req]
	if ok && written != writing {
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
		if waits = err == nil && order < 0; !waits {
			delete(r.written, req)
		}
	}
	return waits, ok && !waits
}

// store notes the version of a write, or [writing] before it; "" is no write.
func (r *writer) store(req reconcile.Request, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written[req] = version; version == "" {
		delete(r.written, req)
	}
}

// handler adds the object of each event, and ends the wait of the object if the event shows the write.
func (r *writer) handler() handler.Funcs {
	type queue = clientgo.TypedRateLimitingInterface[reconcile.Request]
	arrived := func(object client.Object, q queue, deleted bool) {
		req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
		if _, shown := r.look(req, object); shown || deleted {
			if ours, ok := ctrlqueue.Lookup[reconcile.Request]("writer"); ok {
				ours.Wake(req)
			}
		}
		q.Add(req)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { arrived(e.Object, q, false) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { arrived(e.ObjectNew, q, false) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { arrived(e.Object, q, true) },
	}
}

func ExampleDeferFor() {
	_ = func(mgr manager.Manager) error { // The manager that WrapManager has returned.
		r := &writer{Client: mgr.GetClient(), written: map[reconcile.Request]string{}}
		return ctrl.NewControllerManagedBy(mgr).
			Named("writer").
			Watches(&corev1.ConfigMap{}, r.handler()).
			Complete(r)
	}
}

// handOver takes an object out of the queue of its controller.
func handOver(req reconcile.Request) {
	if q, ok := ctrlqueue.Lookup[reconcile.Request]("writer"); ok {
		q.Remove(req) // Or RemoveFunc, for a namespace.
		q.Forget(req) // The failures of an object that nobody works on stay otherwise.
	}
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startScript(t, "writer", options{}, fail, fail)
		p.q.Add(request("a"))
		time.Sleep(time.Millisecond)
		handOver(request("a"))
		time.Sleep(time.Hour)
		if len(p.began) != 1 || p.q.NumRequeues(request("a")) != 0 {
			t.Errorf("%d reconciles and %d failures, want 1 and 0", len(p.began), p.q.NumRequeues(request("a")))
		}
		p.end(t)
	})
}

// change counts data["have"] up to 800, one step for each write.
func change(object *corev1.ConfigMap) bool {
	have, _ := strconv.Atoi(object.Data["have"])
	if have == 800 {
		return false
	}
	object.Data = map[string]string{"have": strconv.Itoa(have + 1)}
	return true
}

// A lagging client has one object, and shows a write after a time.
type lagging struct {
	client.Client
	behind  time.Duration
	arrived func(old, object *corev1.ConfigMap)
	other   func() // an event that comes before the cache shows the write

	mu            sync.Mutex
	truth, cached *corev1.ConfigMap // cached is nil when the object is deleted; guarded by mu
	reads, stale  int               // guarded by mu
}

func (c *lagging) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if c.cached == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	c.cached.DeepCopyInto(object.(*corev1.ConfigMap))
	return nil
}

func (c *lagging) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object.GetResourceVersion() != c.truth.ResourceVersion {
		c.stale++
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, object.GetName(), errors.New("stale"))
	}
	version, _ := strconv.Atoi(c.truth.ResourceVersion)
	object.SetResourceVersion(strconv.Itoa(version + 1))
	c.truth = object.(*corev1.ConfigMap).DeepCopy()
	written := c.truth
	time.AfterFunc(c.behind/2, c.other)
	time.AfterFunc(c.behind, func() {
		c.mu.Lock()
		old := c.cached
		c.cached = written
		c.mu.Unlock()
		c.arrived(old, written)
	})
	return nil
}

// No reconcile writes on a cache that is older than its last write, whatever other events come, and no
// wait lasts until its safety net. The deletion of the object ends the last wait.
func TestWriterWaitsForItsCache(t *testing.T) {
	for _, behind := range []time.Duration{0, 30 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: "9"}}
			api := &lagging{behind: behind, truth: object, cached: object}
			r := &writer{Client: api, written: map[reconcile.Request]string{}}
			c := start(t, "writer", options{}, r.Reconcile)
			h, from := r.handler(), time.Now()
			var took time.Duration
			api.arrived = func(old, object *corev1.ConfigMap) {
				took = time.Since(from)
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: object}, c.q)
			}
			api.other = func() { c.q.Add(request("a")) }
			h.Create(t.Context(), event.CreateEvent{Object: object}, c.q)
			time.Sleep(50 * time.Second)
			synctest.Wait()
			if api.truth.Data["have"] != "800" || api.stale > 0 || took > 800*behind+time.Second {
				t.Errorf("%s of 800 writes in %v, %d on a stale cache", api.truth.Data["have"], took, api.stale)
			}
			if _, waits := c.q.Find(request("a")); waits {
				t.Error("the object waits although the cache shows the last write")
			}
			r.store(request("a"), "99999") // A write that the cache never shows.
			c.q.Add(request("a"))
			synctest.Wait()
			if info, _ := c.q.Find(request("a")); !info.Firm {
				t.Errorf("%v waits, want a firm wait", info)
			}
			reads := api.reads
			api.cached = nil
			h.Delete(t.Context(), event.DeleteEvent{Object: object}, c.q)
			synctest.Wait()
			if api.reads != reads+1 || len(r.written) > 0 {
				t.Errorf("%d reconciles of the deleted object, stored is %v", api.reads-reads, r.written)
			}
			c.end(t)
		})
	}
}

// urgent gives deleted objects priority 10.
var urgent = handler.Funcs{
	DeleteFunc: func(_ context.Context, e event.DeleteEvent, q clientgo.TypedRateLimitingInterface[reconcile.Request]) {
		req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
		if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: new(10)}, req)
		}
	},
}

var fair = ctrlqueue.Options[reconcile.Request]{
	Order: workqueue.Order[reconcile.Request]{
		Group:       ctrlqueue.Namespace,           // The namespaces take turns within a priority.
		GroupsFirst: true,                          // They take turns whatever the priorities are.
		MaxInFlight: func(string) int { return 3 }, // Three workers of each controller for a namespace at most.
	},
}

// A priority that a handler names takes an add out of Quiet, and a Priority function does not.
func TestQuietAndPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fair
		o.Quiet = time.Second
		o.Order.Priority = func(reconcile.Request) int { return 7 }
		q := ctrlqueue.For(o).NewQueue("", nil).(*requestQueue)
		defer q.ShutDown()
		urgent.Delete(t.Context(), event.DeleteEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deleted"}}}, q)
		q.Add(request("other"))
		got := fmt.Sprint(q.Len())
		for range 2 {
			r, priority, _ := q.GetWithPriority()
			q.Done(r)
			got += fmt.Sprint(" ", r.Name, priority)
		}
		if want := "1 deleted10 other7"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// newTestManager returns a manager without a cluster. A test sends events by the informers.
func newTestManager(informers *informertest.FakeInformers) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		NewCache:   func(*rest.Config, cache.Options) (cache.Cache, error) { return informers, nil },
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // Each test makes the controller again.
	})
	if err != nil {
		return nil, err
	}
	return ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{}), nil
}

func TestControllerWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers := &informertest.FakeInformers{}
		mgr, err := newTestManager(informers)
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		if err := ctrl.NewControllerManagedBy(mgr).Named("tested").For(&corev1.ConfigMap{}).
			Complete(failsTwice(&attempts)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		informer, err := informers.FakeInformerFor(ctx, &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- mgr.Start(ctx) }()
		synctest.Wait() // The controller has started, and waits for events.
		informer.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		q, _ := ctrlqueue.Lookup[reconcile.Request]("tested")
		if err := q.WaitEmpty(ctx); err != nil || attempts != 3 {
			t.Errorf("%d attempts, %v", attempts, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func failsTwice(attempts *int) reconcile.Func {
	return func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if *attempts++; *attempts < 3 {
			return reconcile.Result{}, errors.New("failed")
		}
		return reconcile.Result{}, nil
	}
}
