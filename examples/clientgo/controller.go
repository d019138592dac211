package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

	// cacheLag is a time after which the cache shows a write. It is a safety net, as the event of a write
	// ends the wait for it, except after an answer that was lost.
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

// podChanged wakes the ConfigMap of a pod if it waits for this event. Wake comes first: after
// the Add it could end the wait for the next write.
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
func (c *controller) run(ctx context.Context, workers int) error {
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer c.factory.Shutdown()
	defer unwatch()
	c.factory.StartWithContext(watching)
	if !cache.WaitFor(ctx, "", c.filled...) {
		return nil // Told to end before the work has begun.
	}
	return work(ctx, c.queue, workers, c.sync, c.giveUp)
}

// work handles the items of the queue. Without the line AtEnd, nothing is begun after the end of
// ctx: right for a controller whose next start lists all objects.
func work[T comparable](ctx context.Context, queue *workqueue.TypedRateLimiting[T], workers int, handle func(context.Context, T) error,
	giveUp func(context.Context, T, error)) error {
	return workqueue.Run(ctx, queue, handle, workqueue.RunOptions[T]{
		Workers:     workers,
		Timeout:     grace / 2, // A call that hangs costs a worker until then, and a part of the drain.
		MaxAttempts: 15,
		OnGiveUp:    giveUp,
		AtEnd:       workqueue.EndDrain,
		Grace:       grace,
	})
}

// giveUp logs a key that is not tried again before its next event. If the answer of a write was lost, that event has
// to wait for the cache all the same.
func (c *controller) giveUp(ctx context.Context, key cache.ObjectName, err error) {
	klog.FromContext(ctx).Error(err, "Given up")
	if errors.Is(err, errAnswerLost) {
		c.queue.AddWith(workqueue.AddOptions{After: cacheLag, Firm: true}, key)
	}
}

// sync creates the pods that lack, or deletes one too many. It does not work with a cache that is
// behind its own writes.
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
	switch {
	case err != nil:
		return err
	case len(pods) < want:
		return c.create(ctx, config, want-len(pods))
	case len(pods) > want:
		return c.remove(ctx, pods[want])
	}
	return nil
}

// podsOf returns the pods in the cache that are not being deleted, by name.
func (c *controller) podsOf(key cache.ObjectName) (pods []*corev1.Pod, err error) {
	objects, err := c.pods.ByIndex(byPool, key.String())
	for _, obj := range objects {
		if pod := obj.(*corev1.Pod); pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, err
}

var errAnswerLost = errors.New("a pod may have been created all the same")

// create creates n pods. Their events bring the key back. What comes before finds the version in
// writes, also if only some of the pods could be created.
//
// A pod whose answer was lost may be there, and the server has chosen its name. So the key waits for
// cacheLag, whatever events come, and then sees the pod or not. A name of our own would not need the wait:
// the server refuses it the second time.
func (c *controller) create(ctx context.Context, config *corev1.ConfigMap, n int) error {
	key := cache.MetaObjectToName(config)
	version := "" // Noted at the end: a Wake for the first pod would end the wait for the answer that was lost.
	for range n {
		pod, err := c.client.CoreV1().Pods(key.Namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName:    key.Name + "-",
				Labels:          map[string]string{poolLabel: key.Name},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}}},
		}, metav1.CreateOptions{})
		switch {
		case err == nil:
			version = pod.ResourceVersion
			klog.FromContext(ctx).Info("Pod created", "pod", klog.KObj(pod))
		case isRefused(err):
			c.writes.note(key, version)
			return err
		default:
			return errors.Join(errAnswerLost, err, workqueue.DeferFor(cacheLag))
		}
	}
	c.writes.note(key, version)
	return nil
}

// remove deletes a pod. It needs no wait: a late cache would have the same pod deleted again, which
// changes nothing.
func (c *controller) remove(ctx context.Context, pod *corev1.Pod) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	klog.FromContext(ctx).Info("Pod deleted", "pod", klog.KObj(pod))
	return nil // The event of the deletion brings the key back.
}
