package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
)

// A world is a namespace of a scenario, and clients that are not the controller's.
type world struct {
	*clients
}

// newWorld makes a namespace. Nothing deletes its objects: each scenario has a namespace, and the
// servers end with the tests.
func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := newClients(servers.config(), "")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scenario-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = newClients(servers.config(), ns.Name); err != nil {
		t.Fatal(err)
	}
	return &world{c}
}

// controller makes a controller of the world. It is not started, and its requests go through wrap.
func (w *world) controller(t *testing.T, impl implementation, b backoff, wrap transport.WrapperFunc) *controller {
	t.Helper()
	config := servers.config()
	if wrap != nil {
		config.Wrap(wrap)
	}
	c, err := newController(config, w.namespace, impl, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// converge waits until the API server shows nothing open, and the controller is at rest. It gives up when the controller has
// stood still for a time: nothing is queued or handled, and no key was handed out. So it waits
// for as long as a slow machine needs.
func (w *world) converge(ctx context.Context, c *controller, still time.Duration) error {
	for {
		began, handOuts := time.Now(), c.journal.handOuts()
		rest := c.queue.Len() == 0 && c.journal.idle() > 0
		open, err := w.open(ctx)
		if err != nil { // A server that has just started may be busy.
			open = []string{err.Error()}
		}
		if len(open) == 0 && rest && c.journal.handOuts() == handOuts {
			return nil
		}
		if c.queue.Len() == 0 && c.journal.idle() > still {
			return fmt.Errorf("the controller has stood still for %v, and %d objects are open: %v", still, len(open), open[:min(len(open), 5)])
		}
		select { // The lists shall not keep the server from its work.
		case <-time.After(max(100*time.Millisecond, 3*time.Since(began))):
		case <-ctx.Done():
			return fmt.Errorf("%w, and %d objects are open: %v", ctx.Err(), len(open), open[:min(len(open), 5)])
		}
	}
}

// A controller gives each Fleet its Deployment, and takes away the Deployment of a Fleet that is
// gone. It reads from the caches of its informers, and its writes are requests.
type controller struct {
	*clients
	impl        implementation
	queue       queue
	journal     *journal
	handle      handler // reconcile, unless a scenario has replaced it before run
	fleets      cache.SharedIndexInformer
	deployments cache.SharedIndexInformer
	onWrite     func(object metav1.Object) // if not nil, is told of each object that was written
	onEvent     func(k key)                // adds the key, unless a scenario has replaced it before run
	heard       [2]hearing                 // of the informers
}

// newController is not started. The config is that of the controller's own clients.
func newController(config *rest.Config, namespace string, impl implementation, b backoff) (*controller, error) {
	clients, err := newClients(config, namespace)
	if err != nil {
		return nil, err
	}
	c := &controller{clients: clients, impl: impl, queue: impl.queue(b), journal: newJournal()}
	c.handle, c.onEvent = c.reconcile, c.queue.Add
	c.fleets = informer(&Fleet{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return clients.fleets.List(ctx, o)
	}, clients.fleets.Watch)
	c.deployments = informer(&appsv1.Deployment{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return clients.deployments.List(ctx, o)
	}, clients.deployments.Watch)
	for n, i := range []cache.SharedIndexInformer{c.fleets, c.deployments} {
		add := func(object any) {
			c.heard[n].note()
			c.onEvent(ofEvent(object))
		}
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    add,
			UpdateFunc: func(_, o any) { add(o) },
			DeleteFunc: add,
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func informer(object runtime.Object, list cache.ListWithContextFunc, watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}, object, 0, cache.Indexers{})
}

// ofEvent returns the key of the Fleet of an event. A Deployment has the name of its Fleet.
func ofEvent(object any) key {
	name, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		panic(err) // An informer hands over nothing else.
	}
	return key{Namespace: name.Namespace, Name: name.Name}
}

// A hearing is when an informer has told of events.
type hearing struct {
	mu          sync.Mutex
	first, last time.Time // first is zero until the next event after a reset
}

func (h *hearing) note() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	if h.first.IsZero() {
		h.first = h.last
	}
}

func (h *hearing) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = time.Time{}
}

// events returns when the last of the informers had its first event since the reset, and the time of the last event
// of all.
func (c *controller) events() (first, last time.Time) {
	for n := range c.heard {
		h := &c.heard[n]
		h.mu.Lock()
		first, last = later(first, h.first), later(last, h.last)
		h.mu.Unlock()
	}
	return first, last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// run watches and works until ctx ends, and returns when all workers have ended.
func (c *controller) run(ctx context.Context, workers int) error {
	defer c.watch(ctx)()
	defer context.AfterFunc(ctx, func() { c.journal.end(c.queue, workers) })()
	return c.work(ctx, workers)
}

// watch runs the informers until ctx ends. wait returns when they have ended.
func (c *controller) watch(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, i := range []cache.SharedIndexInformer{c.fleets, c.deployments} {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	return running.Wait
}

// work handles keys until ctx ends. It does not begin before the caches have the first list.
func (c *controller) work(ctx context.Context, workers int) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.fleets.HasSynced, c.deployments.HasSynced) {
		c.queue.ShutDown()
		return ctx.Err()
	}
	return c.impl.work(ctx, c.queue, workers, func(ctx context.Context, k key) error {
		defer c.journal.begin(k)()
		return c.handle(ctx, k)
	})
}

// start runs the controller until the test ends, or until stop. stop returns when all workers
// have ended, and reports what the journal has against the queue.
func (c *controller) start(t *testing.T, workers int) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- c.run(ctx, workers) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-over, c.journal.err())
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// cached returns the object of an informer, or the zero value.
func cached[T any](i cache.SharedIndexInformer, k key) (object T) {
	if o, found, _ := i.GetStore().GetByKey(k.String()); found {
		object = o.(T)
	}
	return object
}

func (c *controller) reconcile(ctx context.Context, k key) error {
	return c.settle(ctx, cached[*Fleet](c.fleets, k), cached[*appsv1.Deployment](c.deployments, k))
}

// settle brings the Deployment in line with its Fleet, and then says so in the status. Both may be nil.
func (c *controller) settle(ctx context.Context, fleet *Fleet, deployment *appsv1.Deployment) error {
	if err := c.fit(ctx, fleet, deployment); err != nil || fleet == nil || fleet.Status.ObservedGeneration == fleet.Generation {
		return err
	}
	fleet = fleet.DeepCopy()
	fleet.Status.ObservedGeneration = fleet.Generation
	fleet, err := c.clients.fleets.UpdateStatus(ctx, fleet, metav1.UpdateOptions{})
	return ignore(c.wrote(fleet, err), notFound)
}

// wrote tells of a write that has not failed.
func (c *controller) wrote(object metav1.Object, err error) error {
	if err == nil && c.onWrite != nil {
		c.onWrite(object)
	}
	return err
}

// fit makes the Deployment that of the Fleet. Both may be nil.
func (c *controller) fit(ctx context.Context, fleet *Fleet, deployment *appsv1.Deployment) (err error) {
	if deployment != nil && (fleet == nil || !metav1.IsControlledBy(deployment, fleet)) {
		err = c.clients.deployments.Delete(ctx, deployment.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(deployment.UID))})
		if err = ignore(err, notFound, conflict); err != nil {
			return err
		}
		deployment = nil
	}
	switch {
	case fleet == nil:
	case deployment == nil:
		deployment, err = c.clients.deployments.Create(ctx, fleet.deployment(), metav1.CreateOptions{})
		err = c.wrote(deployment, err)
	case !fleet.matches(deployment):
		deployment = deployment.DeepCopy()
		deployment.Spec = fleet.deployment().Spec
		deployment, err = c.clients.deployments.Update(ctx, deployment, metav1.UpdateOptions{})
		err = c.wrote(deployment, err)
	}
	return err
}

// A journal sees each hand-out of a key, from its begin to its end.
type journal struct {
	mu      sync.Mutex
	held    map[key]int
	total   int
	last    time.Time // of the last begin or end
	bound   int       // how many keys may still be handed out; negative is any number
	doubled error     // the first of its kind, as a broken queue breaks in every hand-out
	late    error     // the same
}

func newJournal() *journal { return &journal{held: make(map[key]int), last: time.Now(), bound: -1} }

// begin notes a hand-out. The caller calls end before Done.
func (j *journal) begin(k key) (end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.total++
	j.last = time.Now()
	if j.held[k]++; j.held[k] > 1 && j.doubled == nil {
		j.doubled = fmt.Errorf("%v is handed out to %d workers at a time", k, j.held[k])
	}
	switch {
	case j.bound == 0 && j.late == nil:
		j.late = fmt.Errorf("%v is handed out after the end", k)
	case j.bound > 0:
		j.bound--
	}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.last = time.Now()
		if j.held[k]--; j.held[k] == 0 {
			delete(j.held, k)
		}
	}
}

// end bounds what may be handed out from now on. client-go's queue hands out after ShutDown what
// is queued. In addition each worker may hold a key whose hand-out has not begun, and a key that
// was added again.
func (j *journal) end(q queue, workers int) {
	for !q.ShuttingDown() { // The workers shut the queue down because of the same ctx.
		time.Sleep(time.Millisecond)
	}
	n := q.Len() + 2*workers
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bound = n
}

// handOuts returns how many keys were handed out.
func (j *journal) handOuts() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}

// ended returns when the last hand-out has ended. No key may be held.
func (j *journal) ended() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// idle returns for how long no key was held, or 0.
func (j *journal) idle() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.held) > 0 {
		return 0
	}
	return time.Since(j.last)
}

// err is what the journal has against the queue.
func (j *journal) err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.doubled, j.late)
}
