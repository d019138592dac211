package workqueue_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The table in docs/semantics.md under "Above a queue of another make": a call, and its result
// above a queue that has only the methods of client-go.
var aboveBare = []struct {
	call  string
	apply func(q layered) any
	want  string // the result, or the panic, where T is the type below
}{
	{"GetContext", func(q layered) any { _, err := q.GetContext(context.Background()); return err }, "panics"},
	{"TryGet", func(q layered) any { _, ok := q.TryGet(); return ok }, "panics"},
	{"Remove", func(q layered) any { return q.Remove("waits") }, "panics"},
	{"Snapshot", func(q layered) any { return q.Snapshot(9) }, "panics"},
	{"Items", func(q layered) any { return slices.Collect(q.Items()) }, "panics"},
	{"Stats", func(q layered) any { return q.Stats() }, "panics"},
	{"ReAddContext", func(q layered) any {
		ctx, cancel := q.ReAddContext(context.Background(), "a")
		defer cancel()
		return ctx.Err()
	}, "panics"},
	{"Reschedule", func(q layered) any { q.Reschedule("a", 1); return "works" }, "panics"},
	{"Debounce", func(q layered) any { q.Debounce("a", 1, 1); return "works" }, "panics"},
	{"AddAll", func(q layered) any { return q.AddAll("a", "b") }, "2"},
	{"AddWith, without a priority", func(q layered) any { return q.AddWith(workqueue.AddOptions{}, "a", "b") }, "2"},
	{"AddWith, with a priority", func(q layered) any { q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a"); return q.Len() }, "panics"},
	{"AddWith, with a priority and After", func(q layered) any {
		q.AddWith(workqueue.AddOptions{Priority: prio(1), After: time.Hour}, "a") // This ended the program an hour later.
		return q.Len()
	}, "panics"},
	{"GetInfo", func(q layered) any { _, err := q.GetInfo(context.Background()); return err }, "panics"},
	{"Drain", func(q layered) any { return q.Drain(context.Background()) }, "<nil>"},
}

// A layered has the methods of the two upper layers beyond the interface of client-go.
type layered interface {
	workqueue.TypedDelayingInterface[string]
	GetContext(ctx context.Context) (string, error)
	TryGet() (string, bool)
	Remove(item string) bool
	Snapshot(limit int) workqueue.Snapshot[string]
	Items() iter.Seq[workqueue.ItemInfo[string]]
	Stats() workqueue.QueueStats
	ReAddContext(ctx context.Context, item string) (context.Context, context.CancelFunc)
	Reschedule(item string, d time.Duration) bool
	Debounce(item string, quiet, maxWait time.Duration) bool
	AddAll(items ...string) int
	AddWith(options workqueue.AddOptions, items ...string) int
	GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error)
	Drain(ctx context.Context) error
}

// A method that the queue below lacks has returned an error, false or a part of the answer in some
// layers, and has panicked in others.
func TestOneRuleForWhatTheLayerBelowLacks(t *testing.T) {
	bareTyped := func() workqueue.TypedInterface[string] { return bare{workqueue.NewTyped[string]()} }
	for name, row := range map[string]struct {
		open  func() layered
		below string
		own   []string // the methods that the layer has itself
	}{
		"delaying": {func() layered {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bareTyped()})
		}, "workqueue_test.bare", []string{"Reschedule", "Debounce"}},
		"rate limiting": {func() layered {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: bareDelaying{workqueue.NewTypedDelayingQueue[string]()},
			})
		}, "workqueue_test.bareDelaying", nil},
		"rate limiting above delaying": {func() layered {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Queue: bareTyped()})
		}, "workqueue_test.bare", []string{"Reschedule", "Debounce"}},
	} {
		for _, call := range aboveBare {
			q := row.open()
			q.AddAfter("waits", time.Hour)
			want := call.want
			if slices.Contains(row.own, call.call) {
				want = "works"
			}
			var got any
			if panicked := goes(func() { got = call.apply(q) }); panicked != nil {
				method, _, _ := strings.Cut(call.call, ",")
				if got = "panics"; panicked != fmt.Sprintf("workqueue: %s needs all methods of a queue of this package below, and %s lacks some", method, row.below) {
					got = panicked
				}
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s: %s: got %v, want %s", name, call.call, got, want)
			}
			q.ShutDown()
		}
	}
}

type bareDelaying struct {
	workqueue.TypedDelayingInterface[string]
}

// No Get comes between the items of an AddAll.
func TestLayersAddAllAtOnce(t *testing.T) {
	r := &recorder{}
	config := workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r}
	for name, open := range map[string]func() drainer{
		"delaying": func() drainer { return workqueue.NewTypedDelaying(config) },
		"rate limiting": func() drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: workqueue.NewTypedDelaying(config),
			})
		},
	} {
		q := open()
		var lens []int
		r.setHook(func(event string) {
			if event == "adds+1" {
				lens = append(lens, q.Len())
			}
		})
		q.(extended).AddAll("a", "b", "c")
		if !slices.Equal(lens, []int{3, 3, 3}) {
			t.Errorf("%s: %v items were queued when the Adds were counted, want 3 each time", name, lens)
		}
		q.ShutDown()
	}
}

func TestLayersPassOn(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true})
	defer q.ShutDown()
	q.Reschedule("a", time.Hour)
	q.Debounce("b", time.Hour, time.Hour)
	q.AddAll("b", "c")
	if s := q.Snapshot(9); names(s.Queued) != "b c" || names(s.Waiting) != "a" {
		t.Errorf("got %v", s)
	}
	got, err := q.GetContext(t.Context())
	next, ok := q.TryGet()
	if fmt.Sprintf("%v %v %v %v", got, err, next, ok) != "b <nil> c true" {
		t.Error(got, err, next, ok)
	}
	if _, ok := q.TryGet(); ok {
		t.Error("TryGet of an empty queue")
	}
	ctx, cancel := q.ReAddContext(t.Context(), "b")
	defer cancel()
	if q.Add("b"); context.Cause(ctx) != workqueue.ErrReAdded {
		t.Errorf("after the Add the context says %v", context.Cause(ctx))
	}
}

// A web handler answered 202 for an item that came after the shutdown: the adds did not report that
// the queue had refused the item.
func TestAddsReportWhatTheQueueTook(t *testing.T) {
	t.Parallel()
	type adder interface {
		AddAll(items ...string) int
		AddWith(options workqueue.AddOptions, items ...string) int
		ShutDown()
	}
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	const fifo, delaying, limiting = 0, 1, 2
	calls := []struct {
		layer int // the lowest layer that has the call
		call  string
		add   func(q adder) int
		want  int
	}{
		{fifo, "AddAll", func(q adder) int { return q.AddAll("a", "b", "b") }, 3},
		{fifo, "AddAll of what is queued", func(q adder) int { return q.AddAll("a", "c") }, 2},
		{fifo, "AddAll of nothing", func(q adder) int { return q.AddAll() }, 0},
		{fifo, "AddAll in pieces", func(q adder) int { return q.AddAll(many...) }, len(many)},
		{fifo, "AddWith", func(q adder) int { return q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a") }, 1},
		{fifo, "AddWith of two", func(q adder) int { return q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a", "d") }, 2},
		{delaying, "After", func(q adder) int { return q.AddWith(workqueue.AddOptions{After: time.Hour}, "w", "x", "w") }, 3},
		{limiting, "RateLimited", func(q adder) int { return q.AddWith(workqueue.AddOptions{RateLimited: true}, "y", "z") }, 2},
	}
	delayed := workqueue.NewTypedDelaying[string]
	type delayingConfig = workqueue.TypedDelayingQueueConfig[string]
	type limitingConfig = workqueue.TypedRateLimitingQueueConfig[string]
	for _, layer := range []struct {
		layer int
		name  string
		q     adder
	}{
		{fifo, "plain", workqueue.NewTyped[string]()},
		{fifo, "with times", workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true})},
		{delaying, "plain", delayed(delayingConfig{})},
		{delaying, "OneEntry", delayed(delayingConfig{OneEntry: true})},
		{delaying, "with metrics", delayed(delayingConfig{Name: "q", MetricsProvider: &recorder{}})},
		{delaying, "above another", delayed(delayingConfig{Queue: struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()}})},
		{limiting, "plain", workqueue.NewTypedRateLimiting(constant(0), limitingConfig{})},
		{limiting, "OneEntry", workqueue.NewTypedRateLimiting(constant(0), limitingConfig{OneEntry: true})},
		{limiting, "with a delay", workqueue.NewTypedRateLimiting(constant(time.Hour), limitingConfig{})},
		{limiting, "above another", workqueue.NewTypedRateLimiting(constant(0), limitingConfig{
			DelayingQueue: struct {
				*workqueue.TypedDelaying[string]
			}{delayed(delayingConfig{})},
		})},
	} {
		for _, down := range []bool{false, true} {
			if down {
				layer.q.ShutDown()
			}
			for _, row := range calls {
				want := row.want
				if down {
					want = 0
				}
				if row.layer > layer.layer {
					continue
				}
				if got := row.add(layer.q); got != want {
					t.Errorf("layer %d, %s: %s took %d, want %d, shut down %v", layer.layer, layer.name, row.call, got, want, down)
				}
			}
		}
	}
}

// A refusing is a queue below that refuses the items of AddWith.
type refusing struct{ *workqueue.Typed[string] }

func (refusing) AddWith(workqueue.AddOptions, ...string) int { return 0 }

type refusingDelaying struct {
	*workqueue.TypedDelaying[string]
}

func (refusingDelaying) AddWith(workqueue.AddOptions, ...string) int { return 0 }

// A queue below of another make reports how many items with a priority it has taken.
func TestAddsReportWhatTheQueueBelowTook(t *testing.T) {
	low := refusing{workqueue.NewTyped[string]()}
	middle := refusingDelaying{workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})}
	for name, c := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
		"the queue": {Queue: low}, "the delaying queue": {DelayingQueue: middle},
	} {
		q := workqueue.NewTypedRateLimiting(constant(0), c)
		for _, options := range []workqueue.AddOptions{{}, {RateLimited: true}, {After: time.Hour}} {
			if options.After > 0 && c.Queue != nil {
				continue // The items wait above the queue.
			}
			options.Priority = prio(1)
			if got := q.AddWith(options, "a", "b"); got != 0 {
				t.Errorf("%s takes none: AddWith %+v took %d", name, options, got)
			}
		}
		q.ShutDown()
	}
}

// A Typed that somebody else has shut down takes no waiting item of the delaying queue, so nothing
// may wait.
func TestNothingWaitsAboveAQueueThatIsShutDown(t *testing.T) {
	low := workqueue.NewTyped[string]()
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: low})
	defer q.ShutDown()
	low.ShutDown()
	if taken := q.AddWith(workqueue.AddOptions{After: time.Hour}, "a", "b"); taken != 0 || q.Waiting() != 0 {
		t.Errorf("AddWith took %d items, and %d wait", taken, q.Waiting())
	}
}

// Reschedule and Debounce did not report either that nothing waits after a shutdown.
func TestReschedulesReportWhatTheQueueTook(t *testing.T) {
	for name, config := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
		"two entries": {}, "OneEntry": {OneEntry: true}, "above another": {Queue: bare{workqueue.NewTyped[string]()}},
	} {
		q := workqueue.NewTypedRateLimiting(constant(0), config)
		q.Add("queued")
		for _, down := range []bool{false, true} {
			if down {
				q.ShutDown()
			}
			for _, item := range []string{"queued", "a"} {
				for _, d := range []time.Duration{time.Hour, 0} {
					if got := q.Reschedule(item, d); got == down {
						t.Errorf("%s: Reschedule of %s by %v: took it %v, shut down %v", name, item, d, got, down)
					}
					if got := q.Debounce(item, d, time.Hour); got == down {
						t.Errorf("%s: Debounce of %s by %v: took it %v, shut down %v", name, item, d, got, down)
					}
				}
			}
		}
	}
}

// A Debounce with its times in the wrong order put nothing off, and nobody noticed.
func TestDebounceOfTimesInTheWrongOrder(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer q.ShutDown()
	want := "workqueue: Debounce with quiet 1h0m0s and maxWait 1s: maxWait must be at least as long as quiet, or 0"
	if got := goes(func() { q.Debounce("a", time.Hour, time.Second) }); got != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, maxWait := range []time.Duration{0, -1, time.Hour, 2 * time.Hour} {
		if !q.Debounce("a", time.Hour, maxWait) {
			t.Errorf("maxWait %v: not taken", maxWait)
		}
	}
}
