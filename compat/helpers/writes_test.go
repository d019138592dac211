package helpers_test

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

const writing = "writing" // is noted while a write is under way

// note notes the version of a write, or [writing] before it; "" is no write.
func (w *writes) note(key, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[key] = version; version == "" {
		delete(w.last, key)
	}
}

// look reports whether the store does not show the last write yet, and whether it shows the write for the first
// time. While the write is under way, any event may be that of the write.
func (w *writes) look(key string, store cache.Store) (waits, arrived bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.last[key]
	if ok && written != writing {
		order, err := resourceversion.CompareResourceVersion(store.LastStoreSyncResourceVersion(), written)
		if waits = err == nil && order < 0; !waits {
			delete(w.last, key)
		}
	}
	return waits, ok && !waits
}

// A parent is a controller whose objects have two children each, in a cache that is late.
type parent struct {
	queue    *workqueue.TypedRateLimiting[string]
	children cache.Store
	writes   writes

	mu      sync.Mutex
	created map[string]int // children by key; guarded by mu
	refused int            // calls for the broken key; guarded by mu
	version int            // guarded by mu
	watch   chan *corev1.Pod
}

func (c *parent) sync(ctx context.Context, key string) error {
	if waits, _ := c.writes.look(key, c.children); waits {
		return workqueue.DeferFor(time.Minute)
	}
	if c.has(key) == 2 {
		return nil
	}
	c.writes.note(key, writing)
	child, err := c.create(ctx, key)
	if err != nil {
		c.writes.note(key, "")
		return err
	}
	c.writes.note(key, child.ResourceVersion)
	return workqueue.DeferFor(time.Minute)
}

func (c *parent) childChanged(key string) {
	if _, arrived := c.writes.look(key, c.children); arrived {
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
	if key == "broken" {
		c.refused++
		return nil, errors.New("refused")
	}
	c.version++
	c.created[key]++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: key, Name: fmt.Sprint(key, "-", c.version), ResourceVersion: strconv.Itoa(c.version)}}
	c.watch <- pod
	return pod, nil
}

// The cache lags, and other events come all the time. Each object gets its two children and not one more, and
// does not wait for the minute. The events of a key that is refused do not end its strict backoff: a Wake for each
// event that finds no write under way made 1,000 calls.
func TestAControllerWaitsForItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &parent{
			queue: workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{StrictBackoff: true}),
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
				c.childChanged("broken")
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
		if c.refused > 15 { // 5 ms, doubled 13 times, is 41 s.
			t.Errorf("%d calls for the key that is refused, want the 14 of the backoff", c.refused)
		}
		if len(c.writes.last) > 0 {
			t.Errorf("%d writes are kept", len(c.writes.last))
		}
	})
}
