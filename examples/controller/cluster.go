package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// A cluster has ConfigMaps and Secrets, within the process. It makes the two troubles
// that a controller must survive on a real cluster: watches break, and writes take time
// and fail. Only the writes of the controller do.
type cluster struct {
	configMaps *store[*corev1.ConfigMap]
	secrets    *store[*corev1.Secret]
	watched    chan struct{} // receives a value when a watch opens

	mu      sync.Mutex
	trouble trouble // guarded by mu
}

// trouble says how the writes of the controller go, and counts them.
type trouble struct {
	rng     *rand.Rand
	latency time.Duration  // of a write; some take up to three times as long
	rate    float64        // share of all writes that fail
	fails   map[string]int // how many more writes fail, by name

	ended    int // writes, with or without an error
	injected int // failed on purpose
	refused  int // failed for another reason, mostly a conflict
	cut      int // cancelled by the controller before the end
}

// newCluster returns an empty cluster. The seed decides which writes fail.
func newCluster(seed uint64) *cluster {
	watched := make(chan struct{}, 16)
	return &cluster{
		configMaps: newStore[*corev1.ConfigMap]("configmaps", watched),
		secrets:    newStore[*corev1.Secret]("secrets", watched),
		watched:    watched,
		trouble:    trouble{latency: 5 * time.Millisecond, rng: rand.New(rand.NewPCG(seed, 2)), fails: make(map[string]int)},
	}
}

// close ends the goroutines of the cluster. The controller must have ended.
func (c *cluster) close() {
	c.configMaps.Shutdown()
	c.secrets.Shutdown()
}

// set changes the trouble.
func (c *cluster) set(change func(t *trouble)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.trouble)
}

// createSecret fails if a Secret has the name.
func (c *cluster) createSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.write(ctx, secret.Name, func() error { return c.secrets.create(secret) })
}

// updateSecret fails with a conflict if the Secret was changed since it was read.
func (c *cluster) updateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.write(ctx, secret.Name, func() error { return c.secrets.update(secret) })
}

// deleteSecret fails with a conflict if the Secret has another UID.
func (c *cluster) deleteSecret(ctx context.Context, name cache.ObjectName, uid types.UID) error {
	return c.write(ctx, name.Name, func() error { return c.secrets.remove(name, uid) })
}

// write takes as long as the way to an API server. An injected failure comes before the
// write, so the stored object is unchanged.
func (c *cluster) write(ctx context.Context, name string, do func() error) error {
	latency, failed := c.draw(name)
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		c.set(func(t *trouble) { t.cut++ })
		return ctx.Err()
	}
	if failed {
		c.set(func(t *trouble) { t.ended++; t.injected++ })
		return apierrors.NewServiceUnavailable("injected failure")
	}
	err := do()
	c.set(func(t *trouble) {
		if t.ended++; err != nil {
			t.refused++
		}
	})
	return err
}

// draw returns how long a write takes, and whether it fails.
func (c *cluster) draw(name string) (latency time.Duration, failed bool) {
	c.set(func(t *trouble) {
		latency = t.latency + time.Duration(t.rng.Int64N(2*int64(t.latency)))
		if failed = t.fails[name] > 0; failed {
			t.fails[name]--
		} else {
			failed = t.rng.Float64() < t.rate
		}
	})
	return latency, failed
}

// awaitWatches returns when n watches were opened since the last call.
func (c *cluster) awaitWatches(ctx context.Context, n int) error {
	for range n {
		select {
		case <-c.watched:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// differences compares every ConfigMap with every Secret of the controller, and returns a line for each name that is
// wrong. It asks neither the caches nor the functions of the controller, which may have the very bug.
func (c *cluster) differences() (wanted int, problems []string) {
	mirrors := make(map[cache.ObjectName]*corev1.Secret)
	for name, secret := range c.secrets.all() {
		if secret.Labels["app.kubernetes.io/managed-by"] == "mirror-controller" {
			mirrors[name] = secret
		}
	}
	for name, source := range c.configMaps.all() {
		if source.Labels["example.com/mirror"] != "true" {
			continue
		}
		wanted++
		secret, found := mirrors[name]
		if !found {
			problems = append(problems, fmt.Sprintf("%s: no Secret", name))
		} else if got, want := string(secret.Data["revision"]), source.Data["revision"]; got != want {
			problems = append(problems, fmt.Sprintf("%s: the Secret has revision %q, the ConfigMap has %q", name, got, want))
		}
		delete(mirrors, name)
	}
	for name := range mirrors {
		problems = append(problems, fmt.Sprintf("%s: a Secret without a ConfigMap", name))
	}
	slices.Sort(problems)
	return wanted, problems
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
