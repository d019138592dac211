package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

const million = 1_000_000

// retained returns the bytes by which the live heap has grown over f, whose
// result stays referenced.
func retained(f func() any) int64 {
	var before, after runtime.MemStats
	collect()
	runtime.ReadMemStats(&before)
	kept := f()
	collect()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// collect runs the garbage collector, and waits for cleanups: on a busy machine
// those of many queues come late, and keep what they are called with.
func collect() {
	for range 3 {
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(done chan struct{}) { close(done) }, done)
		runtime.GC()
		<-done
	}
}

// Debounce notes more of an item than the other calls. That comes back as the
// rest does, also when the queue swings and another item stays.
func TestMemoryOfDebouncedItemsReturns(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	for name, f := range map[string]func() any{
		"removed": func() any { return debouncedMillion(1, removeAll) },
		"fired":   func() any { return debouncedMillion(1, fireAll) },
		"swings":  func() any { return debouncedMillion(3, fireAll) },
	} {
		t.Run(name, func(t *testing.T) {
			if bytes := retained(f); bytes > million/2 {
				t.Errorf("%d bytes are retained, want at most %d", bytes, million/2)
			}
		})
	}
}

func debouncedMillion(swings int, end func(q *workqueue.TypedDelaying[string], clock *testingclock.FakeClock)) any {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	for range swings {
		q.AddAfter("others", 24*time.Hour)
		for i := range million {
			q.Debounce(itemOf(i), time.Minute, time.Hour)
		}
		end(q, clock)
	}
	return q
}

func removeAll(q *workqueue.TypedDelaying[string], _ *testingclock.FakeClock) {
	for i := range million {
		q.Remove(itemOf(i))
	}
}

func fireAll(q *workqueue.TypedDelaying[string], clock *testingclock.FakeClock) {
	clock.Step(time.Hour)
	for range million {
		item, _ := q.Get()
		q.Done(item)
	}
}

// Whatever makes items wait, and whatever ends that, leaves no more than a byte
// of each, and what the last few hundred take.
func TestMemoryReturnsHoweverAWaitBeginsAndEnds(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	const n, few = 50_000, 100_000
	type queue = *workqueue.TypedRateLimiting[int]
	for begin, wait := range map[string]func(q queue, item int){
		"AddAfter":             func(q queue, item int) { q.AddAfter(item, time.Minute) },
		"AddRateLimited":       func(q queue, item int) { q.AddRateLimited(item) },
		"Reschedule":           func(q queue, item int) { q.Reschedule(item, time.Minute) },
		"Debounce":             func(q queue, item int) { q.Debounce(item, time.Minute, time.Hour) },
		"Debounce, AddAfter":   func(q queue, item int) { q.Debounce(item, time.Minute, time.Hour); q.AddAfter(item, time.Second) },
		"Debounce, Reschedule": func(q queue, item int) { q.Debounce(item, time.Minute, time.Hour); q.Reschedule(item, time.Hour) },
	} {
		for end, leave := range map[string]func(q queue, clock *testingclock.FakeClock, item int){
			"Remove":     func(q queue, _ *testingclock.FakeClock, item int) { q.Remove(item) },
			"Add":        func(q queue, _ *testingclock.FakeClock, item int) { q.Add(item); finish(q) },
			"Reschedule": func(q queue, _ *testingclock.FakeClock, item int) { q.Reschedule(item, 0); finish(q) },
			"the clock": func(q queue, clock *testingclock.FakeClock, item int) {
				if item == 0 {
					clock.Step(time.Hour)
				}
				finish(q)
			},
		} {
			bytes := retained(func() any {
				clock := testingclock.NewFakeClock(epoch)
				q := workqueue.NewTypedRateLimiting(minute{}, workqueue.TypedRateLimitingQueueConfig[int]{Clock: clock, OneEntry: true})
				for i := range n {
					wait(q, i)
				}
				for i := range n {
					leave(q, clock, i)
				}
				if s := q.Snapshot(0); s.QueuedTotal+s.InFlightTotal+s.WaitingTotal > 0 {
					t.Errorf("%s, %s: left are %v", begin, end, s)
				}
				return q
			})
			if bytes > n+few {
				t.Errorf("%s, %s: %d bytes are retained, want at most %d", begin, end, bytes, n+few)
			}
		}
	}
}

func finish(q workqueue.TypedInterface[int]) {
	item, _ := q.Get()
	q.Done(item)
}

// A minute is a limiter that says so of everything.
type minute struct{}

func (minute) When(int) time.Duration { return time.Minute }
func (minute) Forget(int)             {}
func (minute) NumRequeues(int) int    { return 0 }

func itemOf(i int) string { return "namespace/some-object-" + strconv.Itoa(i) }

func drainedMillion() any {
	q := workqueue.NewTyped[string]()
	for i := range million {
		q.Add(itemOf(i))
	}
	for range million {
		item, _ := q.Get()
		q.Done(item)
	}
	return q
}

func heldMillion(config workqueue.TypedQueueConfig[string]) any {
	q := workqueue.NewTypedWithConfig(config)
	for i := range million {
		q.Add(itemOf(i))
	}
	for range million {
		q.Get()
	}
	for i := range million {
		q.Done(itemOf(i))
	}
	return q
}

func firedMillion() any {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	for i := range million {
		q.AddAfter(itemOf(i), time.Duration(1+i%1000)*time.Millisecond)
	}
	clock.Step(time.Second)
	for range million {
		item, _ := q.Get()
		q.Done(item)
	}
	return q
}

func droppedMillion() any {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	for i := range million {
		q.AddAfter(itemOf(i), time.Hour)
	}
	q.ShutDown()
	return q
}

func forgottenMillion() any {
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0))
	for i := range million {
		q.AddRateLimited(itemOf(i))
	}
	for range million {
		item, _ := q.Get()
		q.Forget(item)
		q.Done(item)
	}
	return q
}

func nanMillion(q *workqueue.Typed[float64]) any {
	for range million {
		q.Add(math.NaN())
	}
	for range million {
		q.Get()
	}
	return q
}

func delayedNaNMillion() any {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{Clock: clock})
	for range million {
		q.AddAfter(math.NaN(), time.Second)
	}
	clock.Step(time.Second)
	for range million {
		q.Get()
	}
	return q
}

func steadyMillion() any {
	q := workqueue.NewTyped[string]()
	for i := range million {
		q.Add(itemOf(i))
		if i%1000 == 999 {
			takeAll(q)
		}
	}
	return q
}

// Nor does a queue keep the last of the items alive.
func TestFinishedItemsAreCollected(t *testing.T) {
	if raceEnabled {
		t.Skip("the figures mean nothing under the race detector")
	}
	for name, open := range map[string]func() workqueue.TypedDelayingInterface[*[1 << 20]byte]{
		"plain": workqueue.NewTypedDelayingQueue[*[1 << 20]byte],
		"storage": func() workqueue.TypedDelayingInterface[*[1 << 20]byte] {
			return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*[1 << 20]byte]{
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[*[1 << 20]byte]{
					Queue: workqueue.DefaultQueue[*[1 << 20]byte](),
				}),
			})
		},
	} {
		bytes := retained(func() any {
			q := open()
			for range 30 {
				q.Add(new([1 << 20]byte))
				q.AddAfter(new([1 << 20]byte), time.Nanosecond)
			}
			for range 60 {
				item, _ := q.Get()
				q.Done(item)
			}
			return q
		})
		if bytes > 1<<20/2 {
			t.Errorf("%s: %d bytes of 60 MiB are retained", name, bytes)
		}
	}
}

func TestSizes(t *testing.T) {
	r, s, n, times := workqueue.Sizes()
	for name, size := range map[string]struct{ got, want uintptr }{
		"a record beyond its item": {r - 2*wordSize, 8},
		"a slot":                   {s, 8},
		"a node":                   {n, 16},
		"the times of an item":     {times, 16},
	} {
		if size.got > size.want {
			t.Errorf("%s has %d bytes, want at most %d", name, size.got, size.want)
		}
	}
}

const wordSize = 4 << (^uintptr(0) >> 63)

// What a waiting queue of 100,000 items costs, keys included.
func TestBytesOfAQueuedItem(t *testing.T) {
	if raceEnabled || testing.Short() || wordSize != 8 {
		t.Skip("the figures are those of a 64-bit build without the race detector")
	}
	const n = 100_000
	items := make([]string, n)
	for i := range items {
		items[i] = itemOf(i)
	}
	for _, row := range []struct {
		name string
		f    func() any
		most int64
	}{
		{"queued", func() any {
			q := workqueue.NewTyped[string]()
			for _, item := range items {
				q.Add(item)
			}
			return q
		}, 68},
		{"waiting", func() any {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: testingclock.NewFakeClock(epoch)})
			for _, item := range items {
				q.AddAfter(item, time.Hour)
			}
			return q
		}, 80},
		{"debounced", func() any {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: testingclock.NewFakeClock(epoch)})
			for _, item := range items {
				q.Debounce(item, time.Minute, time.Hour)
			}
			return q
		}, 88},
	} {
		if bytes := retained(row.f) / n; bytes > row.most {
			t.Errorf("%s: %d bytes an item, want at most %d", row.name, bytes, row.most)
		}
	}
	runtime.KeepAlive(items)
}

// A queue that was made and never used. Programs have thousands of these.
func TestBytesOfAnIdleQueue(t *testing.T) {
	if raceEnabled {
		t.Skip("the figures mean nothing under the race detector")
	}
	const n = 1000
	queues := make([]any, 0, n)
	bytes := retained(func() any {
		for range n {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			q.Add("a")
			takeAllOf(q)
			queues = append(queues, q)
		}
		return queues
	}) / n
	if bytes > 2048 {
		t.Error(fmt.Sprint(bytes, " bytes, want at most 2048"))
	}
}

// silent is a provider whose metrics do nothing.
type silent struct{}

func (silent) NewDepthMetric(string) workqueue.GaugeMetric                         { return noop{} }
func (silent) NewAddsMetric(string) workqueue.CounterMetric                        { return noop{} }
func (silent) NewLatencyMetric(string) workqueue.HistogramMetric                   { return noop{} }
func (silent) NewWorkDurationMetric(string) workqueue.HistogramMetric              { return noop{} }
func (silent) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric { return noop{} }
func (silent) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return noop{}
}
func (silent) NewRetriesMetric(string) workqueue.CounterMetric { return noop{} }

type noop struct{}

func (noop) Inc()            {}
func (noop) Dec()            {}
func (noop) Set(float64)     {}
func (noop) Observe(float64) {}
