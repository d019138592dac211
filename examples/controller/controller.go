package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

const (
	// mirrorLabel set to "true" on a ConfigMap asks for a Secret of the same
	// name with the same data.
	mirrorLabel = "example.com/mirror"

	// managedLabel with managedValue marks a Secret as ours. A Secret without
	// it is never touched, whatever its name.
	managedLabel = "app.kubernetes.io/managed-by"
	managedValue = "mirror-controller"

	// drainTimeout stays below the 30 seconds that a pod gets by default
	// between SIGTERM and SIGKILL.
	drainTimeout = 20 * time.Second
)

// queue holds names, not objects: two changes of one object are one item, and
// whoever works on it reads the newest state from the cache.
type queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "mirror"},
	)
}

// controller keeps one Secret in step with each labelled ConfigMap.
type controller struct {
	client     kubernetes.Interface
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
	caches     []cache.DoneChecker
	queue      queue
	log        *slog.Logger
}

// newController must be called before the factory is started, so that the
// informers it asks for are among those that start.
func newController(client kubernetes.Interface, factory informers.SharedInformerFactory, q queue, log *slog.Logger) (*controller, error) {
	configMaps := factory.Core().V1().ConfigMaps()
	secrets := factory.Core().V1().Secrets()
	c := &controller{
		client:     client,
		configMaps: configMaps.Lister(),
		secrets:    secrets.Lister(),
		queue:      q,
		log:        log,
	}
	// Both kinds share one handler because source and mirror share their name.
	// The events of Secrets bring back a mirror that somebody removed, and at
	// the start they find the mirror whose source went while nobody watched.
	for _, informer := range []cache.SharedIndexInformer{configMaps.Informer(), secrets.Informer()} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    c.enqueue,
			UpdateFunc: func(_, obj any) { c.enqueue(obj) },
			DeleteFunc: c.enqueue,
		})
		if err != nil {
			return nil, fmt.Errorf("adding an event handler: %w", err)
		}
		// The registration is synced when the handler has seen the first list,
		// the informer already when its cache holds it.
		c.caches = append(c.caches, registration.HasSyncedChecker())
	}
	return c, nil
}

// enqueue adds the name of an object that may need work. Too often is cheap,
// the queue merges what it already holds; too seldom is a bug.
func (c *controller) enqueue(obj any) {
	// A deletion that fell into a gap of the watch arrives as a tombstone. Its
	// object is out of date, its name is not.
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		c.log.Error("event without a name", "object", obj, "err", err)
		return
	}
	if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		c.log.Info("deletion found by a new list", "key", name)
	}
	c.queue.Add(name)
}

// run works until ctx is done, then finishes what is queued and in flight.
// A controller runs once.
func (c *controller) run(ctx context.Context, workers int) error {
	// Last of all, so that no path leaves the queue open.
	defer c.queue.ShutDown()
	// Syncing before the caches are full would take every mirror whose source
	// is not listed yet for an orphan and delete it.
	if !cache.WaitFor(ctx, "", c.caches...) {
		return errors.New("stopped before the caches were filled")
	}

	// The signal ends the intake, not the work: what a worker holds at that
	// moment still has to reach the API server.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(work) })
	}
	c.log.Info("running", "workers", workers)
	<-ctx.Done()

	c.log.Info("draining", "queued", c.queue.Len())
	timer := time.AfterFunc(drainTimeout, func() {
		abandon()
		c.queue.ShutDown() // Ends the wait of ShutDownWithDrain.
	})
	defer timer.Stop()
	c.queue.ShutDownWithDrain()
	running.Wait()
	c.log.Info("drained", "queued", c.queue.Len())
	return nil
}

func (c *controller) runWorker(ctx context.Context) {
	for c.processNextWorkItem(ctx) {
	}
}

// processNextWorkItem syncs one item and reports whether there may be another.
func (c *controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	// Until Done, the queue keeps the key from every other worker and remembers
	// that it was added again. A missing Done loses the key for ever.
	defer c.queue.Done(key)

	if err := c.sync(ctx, key); err != nil {
		// A queue that is shut down ignores this: what fails during the drain is
		// found by the first list of the next start.
		c.queue.AddRateLimited(key)
		c.log.Warn("sync failed", "key", key, "failures", c.queue.NumRequeues(key), "err", err)
		return true
	}
	// Without Forget the next failure, days later, would start at the delay
	// where this one ended.
	c.queue.Forget(key)
	return true
}

// sync makes the Secret of a name what the ConfigMap of that name asks for. It
// looks at the present state only and never at the event that led to it, which
// is why events may be merged, repeated or missed.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	source, err := c.source(key)
	if err != nil {
		return err
	}
	mirror, err := c.secrets.Secrets(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.create(ctx, source)
	case err != nil:
		return err
	case mirror.Labels[managedLabel] != managedValue:
		if source == nil {
			return nil
		}
		return fmt.Errorf("secret %s is in the way and not ours", key)
	case source == nil:
		return c.remove(ctx, mirror)
	}
	return c.update(ctx, source, mirror)
}

// source returns the ConfigMap that wants a mirror, or nil.
func (c *controller) source(key cache.ObjectName) (*corev1.ConfigMap, error) {
	source, err := c.configMaps.ConfigMaps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && source.Labels[mirrorLabel] != "true" {
		return nil, nil
	}
	return source, err
}

func (c *controller) create(ctx context.Context, source *corev1.ConfigMap) error {
	if source == nil {
		return nil
	}
	mirror := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace,
			Name:      source.Name,
			Labels:    map[string]string{managedLabel: managedValue},
		},
		Data: mirrorData(source),
	}
	_, err := c.client.CoreV1().Secrets(mirror.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	return err
}

func (c *controller) update(ctx context.Context, source *corev1.ConfigMap, mirror *corev1.Secret) error {
	data := mirrorData(source)
	if maps.EqualFunc(mirror.Data, data, bytes.Equal) {
		return nil
	}
	// What a lister returns belongs to the cache and to all its readers.
	mirror = mirror.DeepCopy()
	mirror.Data = data
	_, err := c.client.CoreV1().Secrets(mirror.Namespace).Update(ctx, mirror, metav1.UpdateOptions{})
	return err
}

func (c *controller) remove(ctx context.Context, mirror *corev1.Secret) error {
	// The cache may be behind: the precondition spares a successor that was
	// given the same name.
	precondition := metav1.NewPreconditionDeleteOptions(string(mirror.UID))
	err := c.client.CoreV1().Secrets(mirror.Namespace).Delete(ctx, mirror.Name, *precondition)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func mirrorData(source *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(source.Data)+len(source.BinaryData))
	maps.Copy(data, source.BinaryData)
	for name, value := range source.Data {
		data[name] = []byte(value)
	}
	return data
}
