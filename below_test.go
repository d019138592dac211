package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The table in docs/semantics.md under "Above a queue of another make", a row each: a
// call, and what it does above a queue that has only the methods of client-go.
var aboveBare = []struct {
	call  string
	apply func(q layered) any
	want  string // the result, or the panic, where T is the type below
}{
	{"GetContext", func(q layered) any { _, err := q.GetContext(context.Background()); return err }, "panics: T has no GetContext"},
	{"TryGet", func(q layered) any { _, ok := q.TryGet(); return ok }, "panics: T has no TryGet"},
	{"Remove", func(q layered) any { return q.Remove("waits") }, "panics: T has no Remove"},
	{"Snapshot", func(q layered) any { return q.Snapshot(9) }, "panics: T has no Snapshot"},
	{"ReAddContext", func(q layered) any {
		ctx, cancel := q.ReAddContext(context.Background(), "a")
		defer cancel()
		return ctx.Err()
	}, "panics: T has no ReAddContext"},
	{"Reschedule", func(q layered) any { q.Reschedule("a", 1); return "works" }, "panics: T has no Reschedule"},
	{"Debounce", func(q layered) any { q.Debounce("a", 1, 1); return "works" }, "panics: T has no Debounce"},
	{"AddAll", func(q layered) any { q.AddAll("a", "b"); return q.Len() }, "2"},
	{"AddWith, without a priority", func(q layered) any { q.AddWith(workqueue.AddOptions{}, "a", "b"); return q.Len() }, "2"},
	{"AddWith, with a priority", func(q layered) any { q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a"); return q.Len() }, "panics: T has no AddWith"},
	{"AddWith, with a priority and After", func(q layered) any {
		q.AddWith(workqueue.AddOptions{Priority: prio(1), After: time.Hour}, "a") // Ended the program an hour later.
		return q.Len()
	}, "panics: T has no AddWith"},
	{"GetWithPriority", func(q layered) any {
		q.Add("a")
		item, priority, shutdown := q.GetWithPriority()
		return fmt.Sprint(item, priority, shutdown)
	}, "a0 false"},
	{"Drain", func(q layered) any { return q.Drain(context.Background()) }, "<nil>"},
}

// A layered is what the two upper layers have beside the interface of client-go.
type layered interface {
	workqueue.TypedDelayingInterface[string]
	GetContext(ctx context.Context) (string, error)
	TryGet() (string, bool)
	Remove(item string) bool
	Snapshot(limit int) workqueue.Snapshot[string]
	ReAddContext(ctx context.Context, item string) (context.Context, context.CancelFunc)
	Reschedule(item string, d time.Duration)
	Debounce(item string, quiet, most time.Duration)
	AddAll(items ...string)
	AddWith(options workqueue.AddOptions, items ...string)
	GetWithPriority() (item string, priority int, shutdown bool)
	Drain(ctx context.Context) error
}

// A method above a queue that lacks what it needs has returned an error here, false or
// a part there, and has panicked elsewhere.
func TestOneRuleForWhatTheLayerBelowLacks(t *testing.T) {
	bareTyped := func() workqueue.TypedInterface[string] { return bare{workqueue.NewTyped[string]()} }
	for name, row := range map[string]struct {
		open  func() layered
		below string
		own   []string // what the layer has itself
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
				text, _ := panicked.(string)
				text, ours := strings.CutPrefix(text, "workqueue: "+row.below+" ")
				got = fmt.Sprintf("panics: T %s", text)
				if !ours {
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
