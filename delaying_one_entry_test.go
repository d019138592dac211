package workqueue_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The other order of TestAddOfAWaitingItem_kubernetes110642: what is queued does not
// begin to wait.
func TestAddAfterOfAQueuedItemHandsItOutOnce(t *testing.T) {
	for oneEntry, want := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: oneEntry})
			defer q.ShutDown()
			q.Add("a")
			q.AddRateLimited("a")
			if n := handOuts(q, 2*time.Second); n != want {
				t.Errorf("OneEntry %v: handed out %d times, want %d", oneEntry, n, want)
			}
		})
	}
}

// handOuts takes and finishes items, twice, and returns how many there were.
func handOuts(q *workqueue.TypedRateLimiting[string], pause time.Duration) (n int) {
	for range 2 {
		if item, ok := q.TryGet(); ok {
			q.Done(item)
			n++
		}
		time.Sleep(pause)
		synctest.Wait()
	}
	return n
}

// A retry that a handler asks for while it holds the item must not get lost.
func TestOneEntryKeepsTheRetryOfWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true})
		defer q.ShutDown()
		q.Add("a")
		q.Get()
		q.AddRateLimited("a")
		q.Done("a")
		if s := q.Snapshot(9); names(s.Waiting) != "a" || s.QueuedTotal != 0 {
			t.Errorf("got %v", s)
		}
	})
}

// Adds and plans of a few items from all sides, with a line and with a storage: no
// item is ever in both places, and what is planned comes.
func TestOneEntryFromAllSides(t *testing.T) {
	t.Parallel()
	for _, storage := range []workqueue.Queue[int]{nil, workqueue.DefaultQueue[int]()} {
		below := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: storage})
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below, OneEntry: true})
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				for i := range 500 {
					item := (i*7 + w) % 5
					switch (i + w) % 4 {
					case 0:
						q.Add(item)
					case 1:
						q.AddAfter(item, time.Duration(i%3)*100*time.Microsecond)
					case 2:
						q.Debounce(item, 50*time.Microsecond, 0)
					case 3:
						if item, ok := q.TryGet(); ok {
							q.AddAfter(item, 10*time.Microsecond)
							q.Done(item)
						}
					}
					checkInvariants(t, i, q)
				}
			})
		}
		workers.Wait()
		q.ShutDown()
	}
}

// Another queue below cannot say whether an item is queued. A type around a Typed may
// have an Add of its own.
func TestOneEntryNeedsATypedBelow(t *testing.T) {
	for _, below := range []workqueue.TypedInterface[string]{
		bare{workqueue.NewTyped[string]()}, struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()},
	} {
		got, _ := goes(func() {
			workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true, Queue: below})
		}).(string)
		if !strings.HasPrefix(got, "workqueue: OneEntry cannot ask a ") {
			t.Errorf("%T: got %q", below, got)
		}
	}
}

// What the layers below can be told can be told to a rate limiting queue.
func TestRateLimitingConfigHasAllOptionsOfTheLayersBelow(t *testing.T) {
	all := reflect.TypeFor[workqueue.TypedRateLimitingQueueConfig[string]]()
	for _, below := range []reflect.Type{
		reflect.TypeFor[workqueue.TypedDelayingQueueConfig[string]](), reflect.TypeFor[workqueue.TypedQueueConfig[string]](),
	} {
		for i := range below.NumField() {
			option := below.Field(i)
			has, ok := all.FieldByName(option.Name)
			// The Queue of a FIFO stores items, that of the others is a layer.
			if !ok || has.Type != option.Type && option.Name != "Queue" {
				t.Errorf("%v of %v: got %v", option.Name, below, has)
			}
		}
	}
}

// The crashes of TestPanicOnTheGoroutineOfADelayingQueue_D12 are logged by a Logger that
// has come the same way.
func TestRateLimitingQueuePassesOnItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recordingBelow{TypedInterface: workqueue.NewTyped[string]()}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Queue: r})
		defer q.ShutDown()
		q.Add("a")
		if len(r.added) != 1 {
			t.Errorf("the queue below got %q, want a", r.added)
		}
	})
}

type recordingBelow struct {
	workqueue.TypedInterface[string]
	added []string
}

func (r *recordingBelow) Add(item string) {
	r.added = append(r.added, item)
	r.TypedInterface.Add(item)
}

// With OneEntry, a worker that is parked comes for what is added, as without.
func TestOneEntryWakesAWorker(t *testing.T) {
	for name, add := range map[string]func(q *workqueue.TypedDelaying[string]){
		"Add":        func(q *workqueue.TypedDelaying[string]) { q.Add("a") },
		"AddAll":     func(q *workqueue.TypedDelaying[string]) { q.AddAll("a") },
		"AddAfter":   func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 0) },
		"Reschedule": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) },
		"Debounce":   func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 0, 0) },
	} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true})
				if waits {
					q.AddAfter("a", time.Hour)
				}
				got := ""
				go func() { got, _ = q.Get() }()
				synctest.Wait()
				add(q)
				synctest.Wait()
				if got != "a" {
					t.Errorf("%s, while it waits %v: the worker has got %q", name, waits, got)
				}
				q.ShutDown()
			})
		}
	}
}
