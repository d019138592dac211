package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// This file has the code of README.md and of docs/testing.md that a reader can copy, and its tests.

// A balancer has a cloud make a load balancer for each Ingress. The cloud names the time of the next
// question.
type balancer struct {
	client.Client
	ensure func(context.Context, *networkingv1.Ingress) (again time.Duration, err error)
}

func (b *balancer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var ingress networkingv1.Ingress
	if err := b.Get(ctx, req.NamespacedName, &ingress); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again, err := b.ensure(ctx, &ingress)
	if err != nil || again == 0 {
		return reconcile.Result{}, err
	}
	return ctrlqueue.DeferFor(ctx, again), nil
}

func ExampleDeferFor() {
	_ = func(mgr manager.Manager, b *balancer) error { // The manager that WrapManager has returned.
		return ctrl.NewControllerManagedBy(mgr).Named("balancer").
			For(&networkingv1.Ingress{}, builder.WithPredicates(ctrlqueue.WakeOn("balancer", nil))).
			Owns(&corev1.Service{}).
			Complete(b)
	}
}

// The cloud asks for three waits of a minute. An event of the status ends none of them. A change of the spec and
// the deletion end theirs at once, also if they come while the reconcile runs.
func TestOnlyTheSpecEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 1}}
		changed := old.DeepCopy()
		changed.Generation = 2
		objects := fake.NewClientBuilder().WithObjects(old).Build()
		from := time.Now()
		var asked []time.Duration
		b := &balancer{Client: objects, ensure: func(context.Context, *networkingv1.Ingress) (time.Duration, error) {
			asked = append(asked, time.Since(from))
			time.Sleep(time.Second)
			return time.Minute, nil
		}}
		c := start(t, "balancer", options{}, b.Reconcile)
		filter := ctrlqueue.WakeOn("balancer", nil)
		add := func(reconciled bool) { // As the handler of For.
			if reconciled {
				c.q.Add(request("web"))
			}
		}
		add(filter.Create(event.CreateEvent{Object: old}))
		for _, e := range []struct {
			at     time.Duration
			object *networkingv1.Ingress
		}{{10 * time.Second, old}, {30 * time.Second, changed}, {30500 * time.Millisecond, changed}, {60 * time.Second, old}} {
			time.Sleep(time.Until(from.Add(e.at)))
			add(filter.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: e.object}))
		}
		time.Sleep(time.Until(from.Add(100 * time.Second)))
		synctest.Wait()
		if got, want := fmt.Sprint(asked), "[0s 30s 31s 1m32s]"; got != want {
			t.Errorf("asked at %s, want %s", got, want)
		}
		if err := objects.Delete(t.Context(), old); err != nil {
			t.Error(err)
		}
		add(filter.Delete(event.DeleteEvent{Object: old}))
		synctest.Wait()
		if info, found := c.q.Find(request("web")); found || len(asked) != 4 {
			t.Errorf("after the deletion %v waits, asked at %v", info, asked)
		}
		c.end(t)
	})
}

// An object fails always, and has ten events a second for a minute. Without GiveUpFor what is given up begins anew with
// the next event, with short waits. README.md has the figures.
func TestGivenUpObjectWithEvents(t *testing.T) {
	for _, row := range []struct {
		name    string
		options options
		calls   int
	}{
		{"nothing", options{}, 613},
		{"StrictBackoff", options{StrictBackoff: true}, 14},
		{"MaxAttempts", options{MaxAttempts: 5}, 3000},
		{"MaxAttempts and StrictBackoff", options{MaxAttempts: 5, StrictBackoff: true}, 3000},
		{"GiveUpFor and StrictBackoff", options{MaxAttempts: 5, GiveUpFor: 24 * time.Hour, StrictBackoff: true}, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			c := start(t, "balancer", row.options, func(context.Context, reconcile.Request) (reconcile.Result, error) {
				calls++
				return reconcile.Result{}, errors.New("no quota")
			})
			for range 600 {
				c.q.Add(request("web"))
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if calls != row.calls {
				t.Errorf("%s: %d reconciles, want %d", row.name, calls, row.calls)
			}
			c.end(t)
		})
	}
}

// An object is given up after two failures. OnGiveUp is told each time. Events do not bring the object, and the time
// of GiveUpFor, a change of the spec and Wake do. A new spec has two attempts with the first waits.
func TestGiveUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		seconds := func() float64 { return time.Since(from).Seconds() }
		var began, told []float64
		o := options{MaxAttempts: 2, GiveUpFor: time.Minute, OnGiveUp: func(ctx context.Context, controller string, item reconcile.Request, err error) error {
			told = append(told, seconds())
			if ctx.Err() != nil || controller != "balancer" || item != request("web") || err.Error() != "no quota" {
				t.Errorf("told %v %q %v %v", ctx.Err(), controller, item, err)
			}
			return nil
		}}
		c := start(t, "balancer", o, func(context.Context, reconcile.Request) (reconcile.Result, error) {
			began = append(began, seconds())
			return reconcile.Result{}, errors.New("no quota")
		}, fromASecond)
		at := func(second int, do func()) {
			time.Sleep(time.Until(from.Add(time.Duration(second) * time.Second)))
			do()
			synctest.Wait()
		}
		event := func() { c.q.Add(request("web")) }
		at(0, func() { c.q.AddWithOpts(priorityqueue.AddOpts{Priority: new(7)}, request("web")) })
		at(10, event)
		at(20, func() {
			info, _ := c.q.Find(request("web"))
			if got, want := fmt.Sprint(info.Priority, info.Firm, info.Due.Sub(from)), "7 true 1m1s"; got != want {
				t.Errorf("given up as %s, want %s", got, want)
			}
		})
		at(70, func() {
			ctrlqueue.WakeOn("balancer", nil).Update(update(1, 1)) // No change of the spec.
		})
		at(80, func() { ctrlqueue.WakeOn("balancer", nil).Update(update(1, 2)) })
		at(85, func() { // Deleted and created again while the watch was down.
			e := update(1, 1)
			e.ObjectNew.SetUID("2")
			ctrlqueue.WakeOn("balancer", nil).Update(e)
		})
		at(90, func() { c.q.Wake(request("web")) })
		at(100, func() { c.q.Remove(request("web")) })
		at(110, event)
		if got, want := fmt.Sprint(began, told), "[0 1 61 62 80 81 85 86 90 91 110] [1 62 81 86 91]"; got != want {
			t.Errorf("began and told at %s, want %s", got, want)
		}
		c.end(t)
	})
}

func update(before, after int64) event.UpdateEvent {
	web := func(generation int64) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: generation}}
	}
	return event.UpdateEvent{ObjectOld: web(before), ObjectNew: web(after)}
}

// handOver takes an object out of the queue of its controller.
func handOver(req reconcile.Request) {
	if q, ok := ctrlqueue.Lookup[reconcile.Request]("balancer"); ok {
		q.Remove(req) // Or RemoveFunc, for a namespace.
		q.Forget(req) // The failures of an object that nobody works on stay otherwise.
	}
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startScript(t, "balancer", options{}, fail, fail)
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

// A priority that a handler names takes an add out of Quiet, and a Priority function does not. With the function, 0 is
// a name too.
func TestQuietAndPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fair
		o.Quiet = time.Second
		o.Order.Priority = func(reconcile.Request) int { return 7 }
		q := ctrlqueue.For(o).NewQueue("", nil).(*requestQueue)
		defer q.ShutDown()
		urgent.Delete(t.Context(), event.DeleteEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deleted"}}}, q)
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(0)}, request("zero"))
		q.Add(request("other"))
		got := fmt.Sprint(q.Len())
		for range 3 {
			r, priority, _ := q.GetWithPriority()
			q.Done(r)
			got += fmt.Sprint(" ", r.Name, priority)
		}
		if want := "2 deleted10 zero0 other7"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A nightly works on an object at the time that its annotation names, and not before, whatever wakes it.
type nightly struct {
	client.Client
	work func(ctx context.Context, config *corev1.ConfigMap) (reconcile.Result, error)
}

const notBefore = "example.com/not-before"

func (n *nightly) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var config corev1.ConfigMap
	if err := n.Get(ctx, req.NamespacedName, &config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	at, err := time.Parse(time.RFC3339, config.Annotations[notBefore])
	if wait := time.Until(at); err == nil && wait > 0 {
		return ctrlqueue.DeferFor(ctx, wait), nil
	}
	return n.work(ctx, &config)
}

// timeMoved has WakeOn end a wait when somebody names another time.
func timeMoved(before, after client.Object) bool {
	return before.GetAnnotations()[notBefore] != after.GetAnnotations()[notBefore]
}

func TestNightly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		config := func(after time.Duration) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
				Annotations: map[string]string{notBefore: from.Add(after).Format(time.RFC3339)}}}
		}
		objects := fake.NewClientBuilder().WithObjects(config(3 * time.Hour)).Build()
		var worked []time.Duration
		n := &nightly{Client: objects, work: func(context.Context, *corev1.ConfigMap) (reconcile.Result, error) {
			worked = append(worked, time.Since(from))
			return reconcile.Result{}, nil
		}}
		c := start(t, "nightly", options{}, n.Reconcile)
		add := func() { c.q.Add(request("web")) } // As the handler of For.
		move := func(old, to time.Duration) func() {
			return func() {
				if err := objects.Update(t.Context(), config(to)); err != nil {
					t.Fatal(err)
				}
				ctrlqueue.WakeOn("nightly", timeMoved).Update(event.UpdateEvent{ObjectOld: config(old), ObjectNew: config(to)})
				add()
			}
		}
		ask := func() {
			if err := askFor("nightly", request("web")); err != nil {
				t.Error(err)
			}
		}
		for _, step := range []func(){add, add, move(3*time.Hour, 2*time.Hour), add, move(2*time.Hour, time.Hour), add, ask, add} {
			step()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := fmt.Sprint(worked), "[1h0m0s]"; got != want {
			t.Errorf("worked at %s, want %s", got, want)
		}
		c.end(t)
	})
}

// askFor has a controller reconcile an object now, whatever the object waits for.
func askFor(controller string, req reconcile.Request) error {
	q, ok := ctrlqueue.Lookup[reconcile.Request](controller)
	if !ok || q.ShuttingDown() {
		return errors.New("the controller does not run") // An HTTP handler answers 503.
	}
	q.Wake(req) // Ends a firm wait, which no add ends. It adds no object that does not wait.
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(100)}, req)
	return nil
}

func TestAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := start(t, "asked", options{}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			calls++
			return ctrlqueue.DeferFor(ctx, time.Hour), nil
		})
		for range 2 { // Before the first event, and in the firm wait.
			if err := askFor("asked", request("a")); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if info, _ := c.q.Find(request("a")); calls != 2 || info.Priority != 100 {
			t.Errorf("%d reconciles, and then %v", calls, info)
		}
		c.end(t)
		if err := askFor("asked", request("a")); err == nil {
			t.Error("the object is taken after the end")
		}
	})
}

// rankAll adds the objects of all events with a priority, those of the initial list too: the handler of For names -100
// for them.
func rankAll(rank func(client.Object) int) handler.EventHandler {
	type adder = clientgo.TypedRateLimitingInterface[reconcile.Request]
	add := func(object client.Object, q adder) {
		priority := rank(object)
		if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q adder) { add(e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q adder) { add(e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q adder) { add(e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q adder) { add(e.Object, q) },
	}
}

func TestRankAll(t *testing.T) {
	q := ctrlqueue.For(options{}).NewQueue("", nil).(*requestQueue)
	defer q.ShutDown()
	bySize := rankAll(func(object client.Object) int { return -len(object.(*corev1.ConfigMap).Data) })
	for size := range 3 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(size)}, Data: map[string]string{}}
		for key := range size {
			object.Data[fmt.Sprint(key)] = ""
		}
		bySize.Create(t.Context(), event.CreateEvent{Object: object, IsInInitialList: size == 0}, q)
	}
	got := ""
	for range 3 {
		r, priority, _ := q.GetWithPriority()
		got += fmt.Sprint(r.Name, priority, " ")
		q.Done(r)
	}
	if want := "00 1-1 2-2 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// WakeOn forgets at each change of the spec, and so began the row of cancels anew: an object whose spec changes more
// often than a reconcile takes was never reconciled to the end.
func TestWakeOnLeavesTheBoundOfCancelOnReAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := 0
		c := start(t, "changing", options{CancelOnReAdd: 3}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			if err := works(ctx, 10*time.Second); err != nil {
				return reconcile.Result{}, err
			}
			finished++
			return reconcile.Result{}, nil
		})
		filter := ctrlqueue.WakeOn("changing", nil)
		c.q.Add(request("web"))
		for i := range 60 {
			time.Sleep(5 * time.Second)
			filter.Update(update(int64(i), int64(i)+1))
			c.q.Add(request("web"))
		}
		c.end(t)
		if finished < 10 {
			t.Errorf("%d reconciles in 300 s have come to an end, want one after 3 that were cancelled", finished)
		}
	})
}

// The README recommends a DeferFor beside an error, and controller-runtime logged of each that its time is ignored.
func TestDeferForBesideAnErrorLogsNoWarning(t *testing.T) {
	logger, logged := newLog()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := start(t, "busy", options{}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			n++
			return ctrlqueue.DeferFor(ctx, time.Minute), errors.New("busy")
		}, func(o *controller.Options) {
			o.LogConstructor = func(*reconcile.Request) logr.Logger { return logger }
		})
		c.q.Add(request("a"))
		time.Sleep(150 * time.Second)
		c.end(t)
		if n != 3 {
			t.Errorf("%d reconciles in 150 s, want 3", n)
		}
	})
	lines := logged()
	for _, line := range lines {
		if strings.Contains(line, "RequeueAfter") {
			t.Errorf("logged %s", line)
		}
	}
	if len(lines) == 0 {
		t.Error("nothing was logged")
	}
}

// wakeOnLines has the lines of WakeOn.
var wakeOnLines []string

// A process can set the logger of controller-runtime once, and within its first 30 s.
func init() {
	log.SetLogger(funcr.New(func(_, args string) {
		if strings.Contains(args, "WakeOn") {
			wakeOnLines = append(wakeOnLines, args)
		}
	}, funcr.Options{}))
}

// A wrong name ended no wait, and nothing told.
func TestWakeOnWithAWrongName(t *testing.T) {
	wakeOnLines = nil
	synctest.Test(t, func(t *testing.T) {
		filter := ctrlqueue.WakeOn("right", nil)
		filter.Update(update(1, 2)) // No controller has begun.
		c := start(t, "right", options{}, func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
		for range 2 {
			filter.Update(update(1, 2))
			ctrlqueue.WakeOn("right", nil).Update(update(1, 2))
		}
		if len(wakeOnLines) > 0 {
			t.Errorf("%q is logged for the right name", wakeOnLines)
		}
		wrong := ctrlqueue.WakeOn("wrong", nil)
		for range 2 {
			wrong.Update(update(1, 2))
		}
		if len(wakeOnLines) != 1 || !strings.Contains(wakeOnLines[0], `"controller"="wrong" "queues"=["right"]`) {
			t.Errorf("%q is logged for a wrong name, want one line with both names", wakeOnLines)
		}
		c.end(t)
	})
}

// newTestManager returns a manager without a cluster. A test sends events by the informers.
func newTestManager(informers *informertest.FakeInformers) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return informers, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { // For Owns: the kinds of the owners.
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			return mapper, nil
		},
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
		if err := ctrl.NewControllerManagedBy(mgr).Named("tested").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
			Complete(failsTwice(&attempts)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		informer, err := informers.FakeInformerFor(ctx, &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		owned, err := informers.FakeInformerFor(ctx, &corev1.Secret{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- mgr.Start(ctx) }()
		synctest.Wait() // The controller has started, and waits for events.
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		informer.Add(owner)
		q, _ := ctrlqueue.Lookup[reconcile.Request]("tested")
		if err := q.WaitEmpty(ctx); err != nil || attempts != 3 {
			t.Errorf("%d attempts, %v", attempts, err)
		}
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		owned.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		}})
		if err := q.WaitEmpty(ctx); err != nil || attempts != 4 {
			t.Errorf("%d attempts after the event of a child, %v", attempts, err)
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
