//lint:file-ignore SA1019 this is the test of the deprecated names

package workqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// The names of the types are interchangeable with the typed ones, or are
// interfaces with their methods.
var (
	_ workqueue.TypedInterface[any]             = workqueue.Interface(nil)
	_ workqueue.TypedDelayingInterface[any]     = workqueue.DelayingInterface(nil)
	_ workqueue.TypedRateLimitingInterface[any] = workqueue.RateLimitingInterface(nil)
	_ workqueue.TypedRateLimiter[any]           = workqueue.RateLimiter(nil)

	_ workqueue.Interface = (*workqueue.Type)(nil)

	_ *workqueue.Typed[any]                                  = (*workqueue.Type)(nil)
	_ workqueue.TypedQueueConfig[any]                        = workqueue.QueueConfig{}
	_ workqueue.TypedDelayingQueueConfig[any]                = workqueue.DelayingQueueConfig{}
	_ workqueue.TypedRateLimitingQueueConfig[any]            = workqueue.RateLimitingQueueConfig{}
	_ *workqueue.TypedBucketRateLimiter[any]                 = (*workqueue.BucketRateLimiter)(nil)
	_ *workqueue.TypedItemExponentialFailureRateLimiter[any] = (*workqueue.ItemExponentialFailureRateLimiter)(nil)
	_ *workqueue.TypedItemFastSlowRateLimiter[any]           = (*workqueue.ItemFastSlowRateLimiter)(nil)
	_ *workqueue.TypedMaxOfRateLimiter[any]                  = (*workqueue.MaxOfRateLimiter)(nil)
	_ *workqueue.TypedWithMaxWaitRateLimiter[any]            = (*workqueue.WithMaxWaitRateLimiter)(nil)
)

func TestUntypedQueues(t *testing.T) {
	for name, open := range map[string]func() workqueue.Interface{
		"New":           func() workqueue.Interface { return workqueue.New() },
		"NewNamed":      func() workqueue.Interface { return workqueue.NewNamed("q") },
		"NewWithConfig": func() workqueue.Interface { return workqueue.NewWithConfig(workqueue.QueueConfig{}) },
		"NewDelayingQueueWithCustomQueue": func() workqueue.Interface {
			return workqueue.NewDelayingQueueWithCustomQueue(workqueue.New(), "q")
		},
	} {
		q := open()
		for _, item := range []any{1, "a", nil, 1, struct{ a, b int }{1, 2}, 1.5} {
			q.Add(item)
		}
		for i, want := range []any{1, "a", nil, struct{ a, b int }{1, 2}, 1.5} {
			if got, shutdown := q.Get(); got != want || shutdown {
				t.Errorf("%s: step %d: got %v, %v, want %v", name, i, got, shutdown, want)
			}
			q.Done(want)
		}
		q.ShutDownWithDrain()
	}
}

func TestUntypedDelayingQueues(t *testing.T) {
	below := workqueue.New()
	for name, open := range map[string]func(*testingclock.FakeClock) workqueue.DelayingInterface{
		"NewDelayingQueue":      func(*testingclock.FakeClock) workqueue.DelayingInterface { return workqueue.NewDelayingQueue() },
		"NewNamedDelayingQueue": func(*testingclock.FakeClock) workqueue.DelayingInterface { return workqueue.NewNamedDelayingQueue("q") },
		"TypedNewDelayingQueue": func(*testingclock.FakeClock) workqueue.DelayingInterface {
			return workqueue.TypedNewDelayingQueue[any]()
		},
		"NewDelayingQueueWithCustomQueue": func(*testingclock.FakeClock) workqueue.DelayingInterface {
			return workqueue.NewDelayingQueueWithCustomQueue(below, "q")
		},
		"NewDelayingQueueWithCustomClock": func(c *testingclock.FakeClock) workqueue.DelayingInterface {
			return workqueue.NewDelayingQueueWithCustomClock(c, "q")
		},
		"NewDelayingQueueWithConfig": func(c *testingclock.FakeClock) workqueue.DelayingInterface {
			return workqueue.NewDelayingQueueWithConfig(workqueue.DelayingQueueConfig{Clock: c})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := testingclock.NewFakeClock(epoch)
			q := open(clock)
			q.AddAfter("a", time.Hour)
			synctest.Wait()
			if q.Len() != 0 {
				t.Errorf("%s: an item is early", name)
			}
			clock.Step(time.Hour)
			time.Sleep(time.Hour) // Of the two clocks, one is the queue's.
			if item, _ := q.Get(); item != "a" {
				t.Errorf("%s: got %v, want a", name, item)
			}
			q.ShutDown()
		})
	}
	if !below.ShuttingDown() {
		t.Error("NewDelayingQueueWithCustomQueue: the queue was not used")
	}
}

func TestUntypedRateLimitingQueues(t *testing.T) {
	limiter := func() workqueue.RateLimiter { return workqueue.NewItemFastSlowRateLimiter(time.Second, time.Minute, 1) }
	for name, open := range map[string]func() workqueue.RateLimitingInterface{
		"NewRateLimitingQueue":      func() workqueue.RateLimitingInterface { return workqueue.NewRateLimitingQueue(limiter()) },
		"NewNamedRateLimitingQueue": func() workqueue.RateLimitingInterface { return workqueue.NewNamedRateLimitingQueue(limiter(), "q") },
		"NewRateLimitingQueueWithConfig": func() workqueue.RateLimitingInterface {
			return workqueue.NewRateLimitingQueueWithConfig(limiter(), workqueue.RateLimitingQueueConfig{})
		},
		"NewRateLimitingQueueWithDelayingInterface": func() workqueue.RateLimitingInterface {
			return workqueue.NewRateLimitingQueueWithDelayingInterface(workqueue.NewDelayingQueue(), limiter())
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			start := time.Now()
			for i, want := range []time.Duration{time.Second, time.Minute, time.Minute} {
				q.AddRateLimited(1)
				if got := q.NumRequeues(1); got != i+1 {
					t.Errorf("%s: got %d requeues, want %d", name, got, i+1)
				}
				q.Get()
				if got := time.Since(start); got != want {
					t.Errorf("%s: attempt %d came after %v, want %v", name, i, got, want)
				}
				start = time.Now()
				q.Done(1)
			}
			q.Forget(1)
			if got := q.NumRequeues(1); got != 0 {
				t.Errorf("%s: got %d requeues after Forget, want 0", name, got)
			}
			q.ShutDown()
		})
	}
}

// That each name makes what it says; the formulas have tests of their own.
func TestUntypedLimiters(t *testing.T) {
	for name, row := range map[string]struct {
		limiter workqueue.RateLimiter
		want    [3]time.Duration
	}{
		"DefaultControllerRateLimiter":         {workqueue.DefaultControllerRateLimiter(), [3]time.Duration{5e6, 10e6, 20e6}},
		"DefaultItemBasedRateLimiter":          {workqueue.DefaultItemBasedRateLimiter(), [3]time.Duration{1e6, 2e6, 4e6}},
		"BucketRateLimiter":                    {&workqueue.BucketRateLimiter{Limiter: rate.NewLimiter(rate.Inf, 1)}, [3]time.Duration{}},
		"NewItemExponentialFailureRateLimiter": {workqueue.NewItemExponentialFailureRateLimiter(1, 3), [3]time.Duration{1, 2, 3}},
		"NewItemFastSlowRateLimiter":           {workqueue.NewItemFastSlowRateLimiter(1, 2, 2), [3]time.Duration{1, 1, 2}},
		"NewMaxOfRateLimiter": {workqueue.NewMaxOfRateLimiter(workqueue.NewItemFastSlowRateLimiter(1, 5, 2), workqueue.NewItemFastSlowRateLimiter(2, 3, 1)),
			[3]time.Duration{2, 3, 5}},
		"NewWithMaxWaitRateLimiter": {workqueue.NewWithMaxWaitRateLimiter(workqueue.NewItemExponentialFailureRateLimiter(1, 100), 3), [3]time.Duration{1, 2, 3}},
	} {
		for i, want := range row.want {
			if got := row.limiter.When("a"); got != want {
				t.Errorf("%s: failure %d: got %v, want %v", name, i, got, want)
			}
		}
		row.limiter.Forget("a")
		if got := row.limiter.NumRequeues("a"); got != 0 {
			t.Errorf("%s: got %d requeues after Forget, want 0", name, got)
		}
	}
}

// The name reaches the metrics, which is all that it is for.
func TestNamesOfUntypedQueues(t *testing.T) {
	t.Cleanup(workqueue.ResetProvider)
	limiter := workqueue.DefaultItemBasedRateLimiter()
	for name, row := range map[string]struct {
		open func(name string) workqueue.Interface
		want string
	}{
		"NewNamed":                  {func(name string) workqueue.Interface { return workqueue.NewNamed(name) }, "[depth of q]"},
		"NewNamedDelayingQueue":     {func(name string) workqueue.Interface { return workqueue.NewNamedDelayingQueue(name) }, "[retries of q depth of q]"},
		"NewNamedRateLimitingQueue": {func(name string) workqueue.Interface { return workqueue.NewNamedRateLimitingQueue(limiter, name) }, "[retries of q depth of q]"},
		"NewDelayingQueueWithCustomQueue": {func(name string) workqueue.Interface {
			return workqueue.NewDelayingQueueWithCustomQueue(workqueue.New(), name)
		}, "[retries of q]"},
		"NewDelayingQueueWithCustomClock": {func(name string) workqueue.Interface {
			return workqueue.NewDelayingQueueWithCustomClock(testingclock.NewFakeClock(epoch), name)
		}, "[retries of q depth of q]"},
	} {
		workqueue.ResetProvider()
		provider := &census{}
		workqueue.SetProvider(provider)
		row.open("q").ShutDown()
		row.open("").ShutDown()
		if got := fmt.Sprint(provider.asked); got != row.want {
			t.Errorf("%s: made metrics for %s, want %s", name, got, row.want)
		}
	}
}
