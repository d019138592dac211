package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/seed16c08ea7/workqueue"
)

const (
	podsLabel = "example.com/pods" // on a ConfigMap, the number of its pods
	poolLabel = "example.com/pool" // on a pod, the name of its ConfigMap
	byPool    = "pool"             // the index of the pods

	// cacheLag is a time after which the cache shows a write: a safety net, as the event of a write ends the
	// wait before.
	cacheLag = time.Minute
)

// A controller keeps the pods of ConfigMaps.
type controller struct {
	client  kubernetes.Interface
	queue   *workqueue.TypedRateLimiting[cache.ObjectName] // of ConfigMaps
	factory informers.SharedInformerFactory
	filled  []cache.DoneChecker
	configs corelisters.ConfigMapLister
	pods    cache.Indexer
	writes  writes[cache.ObjectName] // of pods
}

// newController returns a controller whose informers are not started yet.
func newController(client kubernetes.Interface, namespace string) (*controller, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	configs, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods().Informer()
	c := &controller{
		client: client,
		queue: workqueue.NewTypedRateLimiting(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "pools"}),
		factory: factory,
		configs: configs.Lister(),
		pods:    pods.GetIndexer(),
	}
	if err := pods.AddIndexers(cache.Indexers{byPool: func(obj any) ([]string, error) {
		return []string{poolOf(obj.(*corev1.Pod)).String()}, nil
	}}); err != nil {
		return nil, err
	}
	for informer, changed := range map[cache.SharedIndexInformer]func(any){
		configs.Informer(): c.configChanged,
		pods:               c.podChanged,
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed,
		})
		if err != nil {
			return nil, err
		}
		c.filled = append(c.filled, registration.HasSyncedChecker())
	}
	return c, nil
}

func poolOf(pod *corev1.Pod) cache.ObjectName {
	return cache.ObjectName{Namespace: pod.Namespace, Name: pod.Labels[poolLabel]}
}

func (c *controller) configChanged(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.queue.Add(key)
	}
}

// podChanged wakes the ConfigMap of a pod if the ConfigMap waits for the event. Wake comes first: after
// the Add, Wake could end the wait for the next write.
func (c *controller) podChanged(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Labels[poolLabel] == "" {
		return
	}
	key := poolOf(pod)
	if _, arrived := c.writes.look(key, c.pods); arrived {
		c.queue.Wake(key)
	}
	c.queue.Add(key)
}

// run works until ctx ends, and then until nothing is queued, for grace at most. A controller runs
// once. The informers end last: the drain needs caches that follow the cluster.
func (c *controller) run(ctx context.Context, t *term, workers int) error {
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer c.queue.ShutDown() // Run may not have begun.
	defer c.factory.Shutdown()
	defer unwatch()
	c.factory.StartWithContext(watching)
	if !cache.WaitFor(ctx, "", c.filled...) {
		return nil // Told to end before the work has begun.
	}
	err := work(ctx, t, c.queue, workers, c.sync)
	if errors.Is(err, workqueue.ErrNotDrained) {
		return nil // Run has logged what is left, such as a key that waits for its retry. The next start lists all.
	}
	return err
}

// work handles the items of the queue. Without the line AtEnd, nothing is begun after the end of
// ctx: right for a controller whose next start finds all work. This controller's does, as the pods of a deleted
// ConfigMap go with their owner.
func work[T comparable](ctx context.Context, t *term, queue *workqueue.TypedRateLimiting[T], workers int, handle func(context.Context, T) error) error {
	return workqueue.Run(ctx, queue, guard(t, handle), workqueue.RunOptions[T]{
		Workers:     workers,
		Timeout:     grace / 2, // A call that hangs costs a worker until then, and a part of the drain.
		MaxAttempts: 15,        // Then the error is logged, and the next event begins anew.
		AtEnd:       workqueue.EndDrain,
		Grace:       grace,
	})
}

// sync creates the pods that lack, and deletes pods too many. A key whose last write the cache does not show has to
// wait.
//
// The pods have names of our own. So a pod whose answer was lost is not created twice: the server refuses the
// second until the cache shows the first. With a generateName, such a key would have to wait for cacheLag.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	if waits, _ := c.writes.look(key, c.pods); waits {
		return workqueue.DeferFor(cacheLag)
	}
	config, err := c.configs.ConfigMaps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // The garbage collector deletes the pods by their owner.
	} else if err != nil {
		return err
	}
	want, err := strconv.Atoi(cmp.Or(config.Labels[podsLabel], "0"))
	if err != nil {
		return workqueue.Permanent(fmt.Errorf("label %s: %w", podsLabel, err)) // Until the next change.
	}
	pods, err := c.podsOf(key)
	if err != nil {
		return err
	}
	var missing []string
	for n := range want {
		name := fmt.Sprintf("%s-%d", key.Name, n)
		if _, there := pods[name]; !there {
			missing = append(missing, name)
		}
		delete(pods, name)
	}
	if err := c.create(ctx, config, missing); err != nil {
		return err
	}
	return c.remove(ctx, pods)
}

// podsOf returns the pods in the cache by name, also the pods with a deletion timestamp: their names are not free
// yet.
func (c *controller) podsOf(key cache.ObjectName) (map[string]*corev1.Pod, error) {
	objects, err := c.pods.ByIndex(byPool, key.String())
	pods := make(map[string]*corev1.Pod, len(objects))
	for _, obj := range objects {
		pod := obj.(*corev1.Pod)
		pods[pod.Name] = pod
	}
	return pods, err
}

// create creates pods. Their events bring the key back. An earlier event finds the version in writes, also if
// only some of the pods could be created.
func (c *controller) create(ctx context.Context, config *corev1.ConfigMap, names []string) error {
	key := cache.MetaObjectToName(config)
	version := ""
	// At the end: the event of the first pod would call Wake, and the retry of a failure after the first pod had no backoff.
	defer func() { c.writes.note(key, version) }()
	for _, name := range names {
		pod, err := c.client.CoreV1().Pods(key.Namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:            name,
				Labels:          map[string]string{poolLabel: key.Name},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		version = pod.ResourceVersion
		klog.FromContext(ctx).Info("Pod created", "pod", klog.KObj(pod))
	}
	return nil
}

// remove deletes pods, without a wait afterwards: a late cache would have the same pods deleted again, and nothing
// changes.
func (c *controller) remove(ctx context.Context, pods map[string]*corev1.Pod) error {
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		klog.FromContext(ctx).Info("Pod deleted", "pod", klog.KObj(pod))
	}
	return nil
}
