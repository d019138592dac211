package helpers_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// This file has the code of docs/migrating.md for a controller that waits for its own writes, and its test.

// writes has the resource version of the last write for each key, until the cache shows the write.
type writes struct {
	mu   sync.Mutex
	last map[string]string
}

func (w *writes) note(key, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[key] = version
}

func (w *writes) shown(key string, store cache.Store) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(store.LastStoreSyncResourceVersion(), w.last[key])
	if w.last[key] != "" && err == nil && order < 0 {
		return false
	}
	delete(w.last, key)
	return true
}

// A parent is a controller whose objects have two children each, in a cache that is late.
type parent struct {
	queue    *workqueue.TypedRateLimiting[string]
	children cache.Store
	writes   writes

	mu      sync.Mutex
	created map[string]int // children by key; guarded by mu
	version int            // guarded by mu
	watch   chan *corev1.Pod
}

func (c *parent) sync(ctx context.Context, key string) error {
	if !c.writes.shown(key, c.children) {
		return workqueue.DeferFor(time.Minute)
	}
	if c.has(key) == 2 {
		return nil
	}
	child, err := c.create(ctx, key)
	if err != nil {
		return err
	}
	c.writes.note(key, child.ResourceVersion)
	return workqueue.DeferFor(time.Minute)
}

func (c *parent) childChanged(key string) {
	if c.writes.shown(key, c.children) {
		c.queue.Wake(key)
	}
	c.queue.Add(key)
}

func (c *parent) has(key string) (n int) {
	for _, child := range c.children.List() {
		if child.(*corev1.Pod).GenerateName == key {
			n++
		}
	}
	return n
}

// create makes a child, for which the watch has an event.
func (c *parent) create(_ context.Context, key string) (*corev1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.created[key]++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: key, Name: fmt.Sprint(key, "-", c.version), ResourceVersion: strconv.Itoa(c.version)}}
	c.watch <- pod
	return pod, nil
}

// The cache lags, and other events come all the time. Each object gets its two children and not one more, and
// does not wait for the minute.
func TestAControllerWaitsForItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &parent{
			queue: workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{}),
			children: cache.NewStore(cache.MetaNamespaceKeyFunc),
			writes:   writes{last: map[string]string{}},
			created:  map[string]int{},
			watch:    make(chan *corev1.Pod, 100),
		}
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Second)
		defer stop()
		go func() {
			for pod := range c.watch { // The cache shows a child half a second after the one before.
				time.Sleep(500 * time.Millisecond)
				c.children.Add(pod)
				c.childChanged(pod.GenerateName)
			}
		}()
		go func() {
			defer close(c.watch)
			for ctx.Err() == nil {
				for n := range 20 {
					c.queue.Add(fmt.Sprint("object", n))
				}
				time.Sleep(50 * time.Millisecond)
			}
		}()
		if err := workqueue.Run(ctx, c.queue, c.sync, workqueue.RunOptions[string]{Workers: 4}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // The events and the watch have ended.
		for n := range 20 {
			if key := fmt.Sprint("object", n); c.created[key] != 2 {
				t.Errorf("%s has %d children, want 2", key, c.created[key])
			}
		}
		if len(c.writes.last) > 0 {
			t.Errorf("%d writes are kept", len(c.writes.last))
		}
	})
}
