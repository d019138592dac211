package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// What a layer below lacks is said, not made up.
func TestLayersAboveAQueueWithoutTheNewMethods(t *testing.T) {
	low := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	high := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: bareDelaying{workqueue.NewTypedDelayingQueue[string]()},
	})
	defer low.ShutDown()
	defer high.ShutDown()
	for _, get := range []func(ctx context.Context) (string, error){low.GetContext, high.GetContext} {
		if _, err := get(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("GetContext: %v", err)
		}
	}
	for name, call := range map[string]func(){
		"TryGet":     func() { low.TryGet() },
		"TryGet ":    func() { high.TryGet() },
		"Reschedule": func() { high.Reschedule("a", 1) },
		"Debounce":   func() { high.Debounce("a", 1, 1) },
	} {
		if goes(call) == nil {
			t.Errorf("%s has not panicked", name)
		}
	}
	high.AddAll("a", "b")
	low.AddAll("a", "b")
	if high.Len() != 2 || low.Len() != 2 {
		t.Errorf("AddAll: %d and %d items", high.Len(), low.Len())
	}
	if high.Remove("a") || low.Remove("a") {
		t.Error("Remove has found something")
	}
	if low.AddAfter("a", time.Hour); !low.Remove("a") {
		t.Error("Remove has not found what waits")
	}
	if low.Watch("a", func() {}) || high.Watch("a", func() {}) {
		t.Error("a queue that cannot tell of an Add says that it can")
	}
}

type bareDelaying struct {
	workqueue.TypedDelayingInterface[string]
}

// The upper layers pass on what they get.
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

// Above a queue that cannot tell of Adds, nobody can.
func TestLayersDoNotWatchAForeignQueue(t *testing.T) {
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	q.Add("a")
	q.Get()
	if q.Watch("a", func() {}) || delaying.Watch("a", func() {}) {
		t.Error("the item seems to be watched")
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
	told := 0
	tells := q.Watch("b", func() { told++ })
	q.Add("b")
	q.Add("b")
	if !tells || told != 1 {
		t.Errorf("the queue tells: %v; told %d times of the Add", tells, told)
	}
}

// What waits is seen even if what is below cannot be looked into.
func TestSnapshotAboveAForeignQueue(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	defer q.ShutDown()
	q.Add("a")
	q.AddAfter("b", time.Hour)
	if s := q.Snapshot(9); s.QueuedTotal != 1 || len(s.Queued) != 0 || names(s.Waiting) != "b" {
		t.Errorf("got %v", s)
	}
}
