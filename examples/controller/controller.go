package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

const (
	// wantedLabel set to "true" on a ConfigMap asks for a Secret of the same name with the
	// same data.
	wantedLabel = "example.com/mirror"

	// managedLabel with managedValue marks a Secret as ours. The controller never touches a
	// Secret without the label.
	managedLabel = "app.kubernetes.io/managed-by"
	managedValue = "mirror-controller"

	// drainTimeout is shorter than the 30 seconds that a pod gets by default between SIGTERM
	// and SIGKILL.
	drainTimeout = 20 * time.Second

	// resync is how often the informers send every cached object to the handlers again. A
	// correct controller needs no resync. If a bug loses a key, a resync brings the key
	// back.
	resync = 10 * time.Minute
)

func newQueue() *queue {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "mirror"},
	)
}

// A controller keeps a Secret in step with each ConfigMap that asks for one.
type controller struct {
	cluster    *cluster
	queue      *countedQueue
	log        *slog.Logger
	informers  []cache.SharedIndexInformer
	filled     []cache.DoneChecker
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
}

// newController returns a controller whose informers are not started yet.
func newController(cluster *cluster, q *countedQueue, log *slog.Logger) (*controller, error) {
	c := &controller{cluster: cluster, queue: q, log: log}
	configMaps, err := c.watch(cluster.configMaps, &corev1.ConfigMap{})
	if err != nil {
		return nil, err
	}
	secrets, err := c.watch(cluster.secrets, &corev1.Secret{})
	if err != nil {
		return nil, err
	}
	c.configMaps, c.secrets = corelisters.NewConfigMapLister(configMaps), corelisters.NewSecretLister(secrets)
	return c, nil
}

// watch adds an informer, and returns its cache.
func (c *controller) watch(source cache.ListerWatcher, example runtime.Object) (cache.Indexer, error) {
	informer := cache.NewSharedIndexInformer(source, example, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, obj any) { c.enqueue(obj) },
		DeleteFunc: c.enqueue,
	})
	if err != nil {
		return nil, err
	}
	c.informers = append(c.informers, informer)
	// The informer is synced when its cache holds the first list. The registration is
	// synced later, when the handler has seen the list and added every key.
	c.filled = append(c.filled, registration.HasSyncedChecker())
	return informer.GetIndexer(), nil
}

// enqueue adds the name of an object that may need work. An add too many is cheap,
// because the queue merges adds of the same name. A missing add is a bug.
func (c *controller) enqueue(obj any) {
	// A deletion in a gap of the watch arrives as a tombstone. The object in a tombstone
	// is out of date, but the name is right.
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

// run works until ctx is done. Then Run finishes the queued items, the items in flight
// and the planned retries, and shuts the queue down. So a controller runs only once.
func (c *controller) run(ctx context.Context, workers int) error {
	var informers sync.WaitGroup
	// Deferred first, so done last: unwatch must stop the informers before Wait can return.
	defer informers.Wait()
	// The last syncs, too, need a cache that follows the cluster.
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	for _, informer := range c.informers {
		informers.Go(func() { informer.RunWithContext(watching) })
	}
	// An earlier sync would delete good Secrets: without its ConfigMap in the cache, a
	// Secret looks like an orphan.
	if !cache.WaitFor(ctx, "", c.filled...) {
		return nil // ctx has ended, and nothing was begun.
	}
	go c.reportReady(ctx)
	logger := logr.FromSlogHandler(c.log.Handler())
	return workqueue.Run(ctx, c.queue, c.sync, workqueue.RunOptions[cache.ObjectName]{
		Workers: workers, AtEnd: workqueue.EndDrain, Grace: drainTimeout, Logger: &logger,
	})
}

// reportReady waits for the objects of the initial list. The caches are filled, so the queue
// has all of them. The barrier does not wait for later adds and retries. The readiness probe of a pod
// can succeed from then on.
func (c *controller) reportReady(ctx context.Context) {
	if err := c.queue.Barrier(ctx); err == nil {
		c.log.Info("ready")
	}
}

// sync makes the Secret of a name match the ConfigMap of the same name. It looks only at
// the present state, never at an event. So events may be merged, repeated or missed.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	source, err := c.source(key)
	if err != nil {
		return err
	}
	secret, err := c.secrets.Secrets(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.create(ctx, source)
	case err != nil:
		return err
	case secret.Labels[managedLabel] != managedValue:
		if source == nil {
			return nil
		}
		return fmt.Errorf("secret %s is in the way and not ours", key)
	case source == nil:
		return c.remove(ctx, secret)
	}
	return c.update(ctx, source, secret)
}

// source returns the ConfigMap if its label asks for a Secret, otherwise nil.
func (c *controller) source(key cache.ObjectName) (*corev1.ConfigMap, error) {
	source, err := c.configMaps.ConfigMaps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && source.Labels[wantedLabel] != "true" {
		return nil, nil
	}
	return source, err
}

func (c *controller) create(ctx context.Context, source *corev1.ConfigMap) error {
	if source == nil {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace,
			Name:      source.Name,
			Labels:    map[string]string{managedLabel: managedValue},
		},
		Data: dataOf(source),
	}
	return c.logged("secret created", secret, c.cluster.createSecret(ctx, secret))
}

func (c *controller) update(ctx context.Context, source *corev1.ConfigMap, secret *corev1.Secret) error {
	data := dataOf(source)
	if maps.EqualFunc(secret.Data, data, bytes.Equal) {
		c.log.Debug("secret is up to date", "key", cache.MetaObjectToName(secret))
		return nil
	}
	// Only a copy may change: an object of a lister belongs to the cache and all its
	// readers.
	secret = secret.DeepCopy()
	secret.Data = data
	return c.logged("secret updated", secret, c.cluster.updateSecret(ctx, secret))
}

func (c *controller) remove(ctx context.Context, secret *corev1.Secret) error {
	// The cache may be behind, and the Secret gone already.
	err := c.cluster.deleteSecret(ctx, cache.MetaObjectToName(secret), secret.UID)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.logged("secret deleted", secret, err)
}

// logged logs a successful write. Run logs a failed one.
func (c *controller) logged(message string, secret *corev1.Secret, err error) error {
	if err == nil {
		c.log.Info(message, "key", cache.MetaObjectToName(secret))
	}
	return err
}

func dataOf(source *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(source.Data)+len(source.BinaryData))
	maps.Copy(data, source.BinaryData)
	for name, value := range source.Data {
		data[name] = []byte(value)
	}
	return data
}
