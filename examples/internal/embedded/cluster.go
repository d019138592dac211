package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	framework "k8s.io/client-go/tools/cache/testing"
)

// A Cluster has ConfigMaps and Secrets, within the process. It makes the two troubles
// that a controller must survive on a real cluster: watches break, and writes take time
// and fail. Only the writes of the controller do, which are the exported methods.
type Cluster struct {
	configMaps *store[*corev1.ConfigMap]
	secrets    *store[*corev1.Secret]
	watched    chan struct{} // receives a value when a watch opens

	mu       sync.Mutex // guards the fields below
	latency  time.Duration
	rng      *rand.Rand
	rate     float64        // share of all writes that fail
	failures map[string]int // how many more writes fail, by name
	writes   writeCounts
}

// writeCounts are the writes of the controller.
type writeCounts struct {
	ended    int // with or without an error
	injected int // failed on purpose
	refused  int // failed for another reason, mostly a conflict
	cut      int // the controller cancelled the write before its end
}

// NewCluster returns an empty cluster. The seed decides which writes fail.
func NewCluster(seed uint64) *Cluster {
	watched := make(chan struct{}, 16)
	return &Cluster{
		configMaps: newStore[*corev1.ConfigMap]("configmaps", watched),
		secrets:    newStore[*corev1.Secret]("secrets", watched),
		watched:    watched,
		latency:    5 * time.Millisecond,
		rng:        rand.New(rand.NewPCG(seed, 2)),
		failures:   make(map[string]int),
	}
}

// Close ends the goroutines of the cluster. The controller must have ended.
func (c *Cluster) Close() {
	c.configMaps.Shutdown()
	c.secrets.Shutdown()
}

// SetLatency sets how long a write takes; some take up to three times as long.
func (c *Cluster) SetLatency(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = d
}

// Put creates or replaces a ConfigMap, as a user of the cluster does.
func (c *Cluster) Put(source *corev1.ConfigMap) {
	if c.configMaps.create(source) != nil {
		_ = c.configMaps.update(source) // The ConfigMap exists, and without a version nothing conflicts.
	}
}

// Secret returns the named Secret, or nil.
func (c *Cluster) Secret(name cache.ObjectName) *corev1.Secret { return c.secrets.all()[name] }

// ConfigMaps returns the source of an informer.
func (c *Cluster) ConfigMaps() cache.ListerWatcher { return c.configMaps }

// Secrets returns the source of an informer.
func (c *Cluster) Secrets() cache.ListerWatcher { return c.secrets }

// CreateSecret fails if a Secret has the name.
func (c *Cluster) CreateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.write(ctx, secret.Name, func() error { return c.secrets.create(secret) })
}

// UpdateSecret fails with a conflict if the Secret was changed since it was read.
func (c *Cluster) UpdateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.write(ctx, secret.Name, func() error { return c.secrets.update(secret) })
}

// DeleteSecret fails with a conflict if the Secret has another UID.
func (c *Cluster) DeleteSecret(ctx context.Context, name cache.ObjectName, uid types.UID) error {
	return c.write(ctx, name.Name, func() error { return c.secrets.remove(name, uid) })
}

// write takes as long as the way to an API server. An injected failure comes before the
// write, so the stored object is unchanged.
func (c *Cluster) write(ctx context.Context, name string, do func() error) error {
	latency, failed := c.draw(name)
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		c.count(func(w *writeCounts) { w.cut++ })
		return ctx.Err()
	}
	if failed {
		c.count(func(w *writeCounts) { w.ended++; w.injected++ })
		return apierrors.NewServiceUnavailable("injected failure")
	}
	err := do()
	c.count(func(w *writeCounts) {
		w.ended++
		if err != nil {
			w.refused++
		}
	})
	return err
}

// draw returns how long a write takes, and whether it fails.
func (c *Cluster) draw(name string) (latency time.Duration, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latency = c.latency + time.Duration(c.rng.Int64N(2*int64(c.latency)))
	if c.failures[name] > 0 {
		c.failures[name]--
		return latency, true
	}
	return latency, c.rng.Float64() < c.rate
}

func (c *Cluster) count(add func(w *writeCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.writes)
}

func (c *Cluster) counts() writeCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// setRate sets the share of writes that fail from now on.
func (c *Cluster) setRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = rate
}

// failNext makes the next n writes on a name fail.
func (c *Cluster) failNext(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[name] = n
}

// awaitWatches returns when n watches were opened since the last call.
func (c *Cluster) awaitWatches(ctx context.Context, n int) error {
	for range n {
		select {
		case <-c.watched:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// An object is a *corev1.ConfigMap or a *corev1.Secret.
type object interface {
	metav1.Object
	runtime.Object
}

// A store has the objects of one kind. client-go's source for tests has the list, the
// watches and the resource versions. The store adds what an API server refuses.
type store[T object] struct {
	*framework.FakeControllerSource
	resource schema.GroupResource
	watched  chan<- struct{}

	mu   sync.Mutex // held from the comparison to the write
	uids int        // how many UIDs were given
}

func newStore[T object](resource string, watched chan<- struct{}) *store[T] {
	return &store[T]{
		FakeControllerSource: framework.NewFakeControllerSource(),
		resource:             schema.GroupResource{Resource: resource},
		watched:              watched,
	}
}

// Watch is for an informer.
func (s *store[T]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	w, err := s.FakeControllerSource.Watch(options)
	if err == nil {
		select {
		case s.watched <- struct{}{}:
		default: // Nobody waits for watches any more.
		}
	}
	return w, err
}

// IsWatchListSemanticsUnSupported makes an informer list first and then watch. The source
// has no watch that begins with a list.
func (s *store[T]) IsWatchListSemanticsUnSupported() bool { return true }

// all returns copies of the objects.
func (s *store[T]) all() map[cache.ObjectName]T {
	list, err := s.List(metav1.ListOptions{})
	if err != nil {
		panic(err) // Only with a ListError.
	}
	objects := make(map[cache.ObjectName]T)
	for _, item := range list.(*corev1.List).Items {
		obj := item.Object.(T)
		objects[cache.MetaObjectToName(obj)] = obj
	}
	return objects
}

func (s *store[T]) create(obj T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all()[cache.MetaObjectToName(obj)]; ok {
		return apierrors.NewAlreadyExists(s.resource, obj.GetName())
	}
	obj = obj.DeepCopyObject().(T)
	s.uids++
	obj.SetUID(types.UID(fmt.Sprint(s.resource.Resource, "-", s.uids)))
	s.Add(obj)
	return nil
}

// update returns a conflict if the object's resource version is not the stored version. An
// object without a resource version always passes.
func (s *store[T]) update(obj T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.all()[cache.MetaObjectToName(obj)]
	if !ok {
		return apierrors.NewNotFound(s.resource, obj.GetName())
	}
	if read := obj.GetResourceVersion(); read != "" && read != old.GetResourceVersion() {
		return apierrors.NewConflict(s.resource, obj.GetName(), errors.New("it was changed since it was read"))
	}
	obj = obj.DeepCopyObject().(T)
	obj.SetUID(old.GetUID())
	s.Modify(obj)
	return nil
}

// remove deletes the named object if its UID is uid. An empty uid stands for any.
func (s *store[T]) remove(name cache.ObjectName, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.all()[name]
	if !ok {
		return apierrors.NewNotFound(s.resource, name.Name)
	}
	if uid != "" && uid != obj.GetUID() {
		return apierrors.NewConflict(s.resource, name.Name, fmt.Errorf("it has the UID %s", obj.GetUID()))
	}
	s.Delete(obj)
	return nil
}

// removeUnseen deletes objects without an event, and breaks the watches. So an informer has
// to list again, as after a long time without connection to the API server.
func (s *store[T]) removeUnseen(names ...cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.all()
	for _, name := range names {
		s.DeleteDropWatch(objects[name])
	}
	s.ResetWatch()
}
