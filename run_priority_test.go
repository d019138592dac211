package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// An item that fails, is put off or is overtaken comes again with the priority that it
// was handed out with, if that is the least above that of Add too.
func TestRunRetriesWithThePriorityOfTheHandOut(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error{
		"failure": func(context.Context, *workqueue.TypedRateLimiting[string]) error { return errors.New("failed") },
		"put off": func(context.Context, *workqueue.TypedRateLimiting[string]) error {
			return workqueue.RequeueAfter(time.Second)
		},
		"overtaken": func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error {
			q.Add("a")
			q.Remove("a") // Run itself adds it once more then.
			return ctx.Err()
		},
	} {
		for _, of := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				options := workqueue.PriorityOptions[string]{}
				if of {
					options.Of = func(string) int { return 1 }
				}
				q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
					Order: workqueue.NewPriorityQueue(options),
				})
				q.AddWith(workqueue.AddOptions{Priority: map[bool]int{false: 1, true: 0}[of]}, "a")
				var seen []int
				ctx, cancel := context.WithCancel(t.Context())
				workqueue.Run(ctx, q, func(ctx context.Context, item string) error {
					for _, info := range q.Snapshot(1).InFlight {
						seen = append(seen, info.Priority)
					}
					if info, _ := workqueue.ItemInfoFromContext[string](ctx); info.Priority != seen[len(seen)-1] {
						t.Errorf("%s: the context has the priority %d, want %d", name, info.Priority, seen[len(seen)-1])
					}
					if len(seen) == 3 {
						cancel()
						return nil
					}
					return fail(ctx, q)
				}, workqueue.RunOptions[string]{CancelOnReAdd: name == "overtaken"})
				if !slices.Equal(seen, []int{1, 1, 1}) {
					t.Errorf("%s, Of %v: handed out with the priorities %v, want 1 each time", name, of, seen)
				}
			})
		}
	}
}

// An item that Run declines and gives back to a queue that is kept came back with the
// priority 0.
func TestRunGivesBackWithThePriorityOfTheHandOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	metrics := &recorder{}
	metrics.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") { // The item is handed out.
			cancel()
		}
	})
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: metrics,
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	})
	defer q.ShutDown()
	q.AddWith(workqueue.AddOptions{Priority: 7}, "a")
	handle := func(context.Context, string) error { t.Error("a was handled"); return nil }
	if err := workqueue.Run(ctx, q, handle, workqueue.RunOptions[string]{KeepQueue: true}); err != nil {
		t.Fatal(err)
	}
	s := q.Snapshot(1)
	if len(s.Queued) != 1 || s.Queued[0].Priority != 7 || s.InFlightTotal != 0 {
		t.Errorf("got %v, want a queued with priority 7", s)
	}
}

// On layers that are of another type than ours, but have a GetContext, Run gets items by
// that, and they have no priority.
func TestRunOnForeignLayersWithGetContext(t *testing.T) {
	type typed struct{ *workqueue.Typed[string] }
	type delaying struct {
		*workqueue.TypedDelaying[string]
	}
	for name, config := range map[string]func() workqueue.TypedRateLimitingQueueConfig[string]{
		"FIFO": func() workqueue.TypedRateLimitingQueueConfig[string] {
			return workqueue.TypedRateLimitingQueueConfig[string]{Queue: typed{workqueue.NewTyped[string]()}}
		},
		"delaying": func() workqueue.TypedRateLimitingQueueConfig[string] {
			return workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: delaying{workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})},
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), config())
			q.Add("a")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			calls := 0
			err := workqueue.Run(ctx, q, func(ctx context.Context, item string) error {
				if calls++; item != "a" {
					t.Errorf("%s: got %q", name, item)
				}
				if info, ok := workqueue.ItemInfoFromContext[string](ctx); !ok || info.Priority != 0 {
					t.Errorf("%s: got %+v, %v", name, info, ok)
				}
				if calls == 2 {
					return nil
				}
				return errFailed
			}, runOptions{KeepQueue: true, Logger: discard()})
			if err != nil || calls != 2 {
				t.Errorf("%s: got %v after %d calls, want 2", name, err, calls)
			}
			q.ShutDown()
		})
	}
}

// A type that embeds a queue of ours may do more in its methods, so Run uses them, and none
// of them tells a worker with a context of a priority. The retry is a plain one.
func TestRunOnATypeThatEmbedsAQueueRetriesWithoutAPriority(t *testing.T) {
	type embedding struct {
		*workqueue.TypedRateLimiting[string]
	}
	for want, wrap := range map[int]func(q *workqueue.TypedRateLimiting[string]) workqueue.TypedRateLimitingInterface[string]{
		7: func(q *workqueue.TypedRateLimiting[string]) workqueue.TypedRateLimitingInterface[string] { return q },
		2: func(q *workqueue.TypedRateLimiting[string]) workqueue.TypedRateLimitingInterface[string] {
			return embedding{q}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
				Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{Of: func(string) int { return 2 }}),
			})
			q.AddWith(workqueue.AddOptions{Priority: 7}, "a")
			ctx, cancel := context.WithCancel(t.Context())
			var seen []int
			workqueue.Run(ctx, wrap(q), func(context.Context, string) error {
				seen = append(seen, q.Snapshot(1).InFlight[0].Priority)
				if len(seen) == 2 {
					cancel()
				}
				return errFailed
			}, runOptions{Logger: discard()})
			if !slices.Equal(seen, []int{7, want}) {
				t.Errorf("handed out with the priorities %v, want 7 and %d", seen, want)
			}
		})
	}
}
