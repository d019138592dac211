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
// was handed out with.
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
					options.Of = func(string) int { return 7 }
				}
				q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
					Order: workqueue.NewPriorityQueue(options),
				})
				q.AddWith(workqueue.AddOptions{Priority: map[bool]int{false: 7, true: 0}[of]}, "a")
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
				if !slices.Equal(seen, []int{7, 7, 7}) {
					t.Errorf("%s, Of %v: handed out with the priorities %v, want 7 each time", name, of, seen)
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
