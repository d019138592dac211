package compat_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/seed16c08ea7/workqueue"
)

// Run refuses the queues of others, and ours above them, by their type, and leaves them open.
func TestRunRefusesForeignQueues(t *testing.T) {
	for name, open := range map[string]func() clientgo.TypedRateLimitingInterface[key]{
		"client-go": func() clientgo.TypedRateLimitingInterface[key] {
			return clientgo.NewTypedRateLimitingQueue(theirLimiter())
		},
		"controller-runtime": func() clientgo.TypedRateLimitingInterface[key] {
			return priorityqueue.New("", func(o *priorityqueue.Opts[key]) { o.RateLimiter = theirLimiter() })
		},
		"ours on client-go's delays": func() clientgo.TypedRateLimitingInterface[key] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
				DelayingQueue: clientgo.NewTypedDelayingQueue[key](),
			})
		},
		"client-go's on our delays": func() clientgo.TypedRateLimitingInterface[key] {
			return clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter(), clientgo.TypedRateLimitingQueueConfig[key]{
				DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[key]{}),
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			defer q.ShutDown()
			q.Add("a")
			err := workqueue.Run(t.Context(), q, func(context.Context, key) error { t.Errorf("%s: called", name); return nil }, workqueue.RunOptions[key]{})
			if !errors.Is(err, errors.ErrUnsupported) || q.ShuttingDown() || q.Len() != 1 {
				t.Errorf("%s: got %v with %d items queued", name, err, q.Len())
			}
		})
	}
}

// What client-go calls drained may be queued still. Nothing of it is left out
// by Drain.
func TestDrainOfClientGoWaitsForWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: clientgo.NewTypedDelayingQueue[key](),
		})
		q.Add("a")
		q.Add("b")
		q.Get()
		result := make(chan error, 1)
		go func() { result <- q.Drain(t.Context()) }()
		time.Sleep(time.Second)
		for _, item := range []key{"a", "b"} {
			q.Done(item)
			time.Sleep(time.Second)
			if item == "a" {
				q.Get()
			}
			if drained := len(result) > 0; drained != (item == "b") {
				t.Fatalf("after Done(%q): drained: %v", item, drained)
			}
		}
		if err := <-result; err != nil {
			t.Errorf("got %v of a drain that was complete", err)
		}
	})
}
