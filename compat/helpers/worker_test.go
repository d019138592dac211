package helpers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A worker makes keys of objects and reconciles the keys, as karmada's AsyncWorker does: a key that
// fails is tried 15 times, unless its namespace is on the way out.
type worker struct {
	queue     *workqueue.TypedRateLimiting[string]
	key       func(object any) (string, error)
	reconcile func(ctx context.Context, key string) error
}

const maxAttempts = 15

var errTerminating = errors.New("the namespace ends")

func newWorker(key func(object any) (string, error), reconcile func(ctx context.Context, key string) error) *worker {
	return &worker{key: key, reconcile: reconcile, queue: workqueue.NewTypedRateLimiting(
		workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{Name: "worker"})}
}

// Enqueue adds the key of an object. An object of somebody else has no key.
func (w *worker) Enqueue(object any) {
	if key, err := w.key(object); err == nil && key != "" {
		w.queue.Add(key)
	}
}

// Run reconciles keys until ctx ends. What is queued then is dropped.
func (w *worker) Run(ctx context.Context, workers int) error {
	return workqueue.Run(ctx, w.queue, func(ctx context.Context, key string) error {
		if err := w.reconcile(ctx, key); !errors.Is(err, errTerminating) {
			return err
		}
		return nil
	}, workqueue.RunOptions[string]{Workers: workers, MaxAttempts: maxAttempts, Logger: quiet()})
}

func TestWorker(t *testing.T) {
	keyOf := func(object any) (string, error) {
		switch object := object.(type) {
		case string:
			return object, nil
		case error:
			return "no key", object
		}
		return "", nil
	}
	synctest.Test(t, func(t *testing.T) {
		var failure error // changes only while nothing is queued
		var mu sync.Mutex // guards the counts
		var calls, atWork, most int
		w := newWorker(keyOf, func(_ context.Context, key string) error {
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				calls, atWork = calls+max(0, n), atWork+n
				most = max(most, atWork)
			}
			count(1)
			defer count(-1)
			time.Sleep(time.Second)
			return failure
		})
		expect := func(what string, want int) {
			t.Helper()
			time.Sleep(24 * time.Hour)
			synctest.Wait() // So the workers are before us for the race detector, too.
			if calls != want {
				t.Errorf("%s: %d calls, want %d", what, calls, want)
			}
			calls = 0
			if n := w.queue.NumRequeues("default/web"); n != 0 {
				t.Errorf("%s: the limiter knows %d failures", what, n)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		wait := start(func() error { return w.Run(ctx, 3) })

		w.Enqueue("default/web")
		synctest.Wait()
		for range 99 {
			w.Enqueue("default/web")
		}
		expect("100 events of one object, 99 of them while a worker has it", 2)
		w.Enqueue(nil)
		w.Enqueue(errors.New("not an object"))
		expect("objects without a key", 0)
		for i := range 9 {
			w.Enqueue(fmt.Sprint("default/", i))
		}
		expect("9 objects", 9)
		if most != 3 {
			t.Errorf("%d keys were at work at a time, want 3", most)
		}
		failure = errors.New("conflict")
		w.Enqueue("default/web")
		expect("an object that fails", maxAttempts)
		w.Enqueue("default/web")
		expect("a new event of an object that was given up", maxAttempts)
		failure = fmt.Errorf("create: %w", errTerminating)
		w.Enqueue("default/web")
		expect("an object in a namespace that ends", 1)

		stop()
		wait()
		w.Enqueue("default/web")
		expect("after the end", 0)
	})
}
