package compat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/seed16c08ea7/workqueue"
)

// runQueues are queues that Run takes as they are. Which of what is left behind
// they let Run name is up to what they have to offer.
var runQueues = []struct {
	name   string
	open   func() clientgo.TypedRateLimitingInterface[key]
	queued string // left behind of the items b and c, queued at the end
}{
	{"ours", func() clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimitingQueue[key](theirLimiter())
	}, "[b c] of 2"},
	{"client-go", func() clientgo.TypedRateLimitingInterface[key] {
		return clientgo.NewTypedRateLimitingQueue(theirLimiter())
	}, "[b c] of 2"},
	{"controller-runtime", func() clientgo.TypedRateLimitingInterface[key] {
		return priorityqueue.New("", func(o *priorityqueue.Opts[key]) { o.RateLimiter = theirLimiter() })
	}, "[] of 2"}, // It drops them, by number.
	{"ours on client-go's delays", func() clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: clientgo.NewTypedDelayingQueue[key](),
		})
	}, "[b c] of 2"},
	{"ours on controller-runtime's delays", func() clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: priorityqueue.New[key](""),
		})
	}, "[] of 2"},
	{"client-go's on our delays", func() clientgo.TypedRateLimitingInterface[key] {
		return clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter(), clientgo.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[key]{}),
		})
	}, "[b c] of 2"},
}

// onRunQueues plays on each of them, in virtual time. That stands still at the end
// of a play, and the bubble reports the goroutines which are left then: a queue
// that a play has ended has none.
func onRunQueues(t *testing.T, play func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], queued string)) {
	for _, tt := range runQueues {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play(t, tt.open(), tt.queued)
			})
		})
	}
}

func runOptions() workqueue.RunOptions[key] {
	logger := logr.Discard()
	return workqueue.RunOptions[key]{Logger: &logger}
}

// Each return does the same on all of them: delays are those of the limiter,
// 1 s and 2 s.
func TestRunReturnsOnForeignQueues(t *testing.T) {
	onRunQueues(t, func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], _ string) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var calls []string
		q.Add("a")
		options := runOptions()
		options.OnGiveUp = func(_ context.Context, item key, err error) { calls = append(calls, fmt.Sprint("gave up: ", err)) }
		var ended sync.WaitGroup
		ended.Go(func() {
			err := workqueue.Run(ctx, q, func(context.Context, key) error {
				calls = append(calls, fmt.Sprint(time.Since(start)))
				switch len(calls) {
				case 1:
					return errors.New("failed")
				case 2:
					panic("boom")
				case 3:
					return workqueue.RequeueAfter(5 * time.Second)
				case 4:
					return workqueue.Permanent(errors.New("broken"))
				}
				return nil
			}, options)
			if err != nil {
				t.Errorf("got %v from Run", err)
			}
		})
		time.Sleep(20 * time.Second)
		q.Add("a")
		time.Sleep(time.Second)
		cancel()
		ended.Wait()
		if got, want := strings.Join(calls, ", "), "0s, 1s, 3s, 8s, gave up: broken, 20s"; got != want {
			t.Errorf("got calls at %s, want %s", got, want)
		}
		if n := q.NumRequeues("a"); n != 0 {
			t.Errorf("%d failures are counted", n)
		}
	})
}

// At the end, each is shut down, once, and what is known to be left is named.
func TestRunEndOnForeignQueues(t *testing.T) {
	onRunQueues(t, func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], queued string) {
		ctx, cancel := context.WithCancel(t.Context())
		q.Add("a")
		var calls []key
		go func() {
			time.Sleep(time.Second)
			q.Add("b")
			q.Add("c")
			q.AddAfter("d", time.Hour)
			time.Sleep(time.Second)
			cancel()
		}()
		var left workqueue.Snapshot[key]
		options := runOptions()
		options.OnStop = func(s workqueue.Snapshot[key]) { left = s }
		err := workqueue.Run(ctx, q, func(ctx context.Context, item key) error {
			calls = append(calls, item)
			<-ctx.Done()
			return ctx.Err()
		}, options)
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if want := []key{"a"}; !slices.Equal(calls, want) {
			t.Errorf("got calls for %v, want %v", calls, want)
		}
		if got := fmt.Sprintf("%v of %d", itemsOf(left.Queued), left.QueuedTotal); got != queued {
			t.Errorf("got %s queued, want %s", got, queued)
		}
		if failed := itemsOf(left.Failed); !slices.Contains(failed, "a") || left.InFlightTotal != 0 {
			t.Errorf("got %v", left)
		}
		if !q.ShuttingDown() {
			t.Error("the queue is not shut down")
		}
		if queued != "[] of 2" { // What the queue of controller-runtime keeps, it keeps.
			q.ShutDownWithDrain() // Or it is reported that this does not return.
		}
	})
}

func itemsOf(infos []workqueue.ItemInfo[key]) (items []key) {
	for _, info := range infos {
		items = append(items, info.Item)
	}
	slices.Sort(items)
	return items
}

// With idle workers, the end is only that they are woken.
func TestRunEndOnIdleForeignQueues(t *testing.T) {
	onRunQueues(t, func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], _ string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		options := runOptions()
		options.Workers = 5
		if err := workqueue.Run(ctx, q, func(context.Context, key) error { return nil }, options); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// A shutdown by somebody else ends Run without one more, which
// controller-runtime's queue would not survive.
func TestRunOnForeignQueuesThatAreShutDown(t *testing.T) {
	for name, turn := range map[string]func(cancel func(), shutDown func()){
		"and ctx lives on":     func(cancel, shutDown func()) { shutDown() },
		"and ctx ends with it": func(cancel, shutDown func()) { shutDown(); cancel() },
		"and ctx ends later":   func(cancel, shutDown func()) { shutDown(); time.Sleep(time.Second); cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], _ string) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				q.Add("a")
				go func() {
					time.Sleep(time.Second)
					turn(cancel, q.ShutDown)
				}()
				err := workqueue.Run(ctx, q, func(context.Context, key) error { time.Sleep(5 * time.Second); return nil }, runOptions())
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
			})
		})
	}
}

// Neither of them tells that an item is added again.
func TestRunCancelOnReAddOnForeignQueues(t *testing.T) {
	onRunQueues(t, func(t *testing.T, q clientgo.TypedRateLimitingInterface[key], _ string) {
		defer q.ShutDown()
		options := runOptions()
		options.CancelOnReAdd = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := workqueue.Run(ctx, q, func(context.Context, key) error { return nil }, options)
		_, ours := q.(*workqueue.TypedRateLimiting[key])
		if supported := !errors.Is(err, errors.ErrUnsupported); supported && !ours {
			t.Errorf("got %v, want that it is not supported", err)
		}
	})
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
