package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// many items pass through a queue, or lie there, where a test looks at memory.
const many = 300_000

// retained returns the growth of the live heap in bytes while f runs. The result of f stays
// referenced.
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

// collect runs the garbage collector and waits for cleanups. On a busy machine the cleanups of many
// queues come late, and keep their arguments alive until then.
func collect() {
	for range 3 {
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(done chan struct{}) { close(done) }, done)
		runtime.GC()
		<-done
	}
}

// Debounce keeps more for an item than other calls. The memory is given back like all other memory, also
// when the number of items swings and one item stays.
func TestMemoryOfDebouncedItemsReturns(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	bytes := retained(func() any {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
		for range 3 {
			q.AddAfter("others", 24*time.Hour)
			for i := range many {
				q.Debounce(itemOf(i), time.Minute, time.Hour)
			}
			clock.Step(time.Hour)
			for range many {
				item, _ := q.Get()
				q.Done(item)
			}
		}
		return q
	})
	if bytes > many/2 {
		t.Errorf("%d bytes are retained, want at most %d", bytes, many/2)
	}
}

// Each way to make items wait, and each way to end the waits, keeps at most a byte for each item
// and the memory of the last few hundred.
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

// A minute is a limiter that says a minute for every item.
type minute struct{}

func (minute) When(int) time.Duration { return time.Minute }
func (minute) Forget(int)             {}
func (minute) NumRequeues(int) int    { return 0 }

func itemOf(i int) string { return "namespace/some-object-" + strconv.Itoa(i) }

// removedMany removes nothing after RemoveFunc: no later removal gives memory back.
func removedMany() any {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	for i := range many {
		q.AddWith(workqueue.AddOptions{After: time.Duration(i%2) * time.Hour}, i)
	}
	q.RemoveFunc(func(item int) bool { return item%1000 > 1 })
	return q
}

// groupedMany has had 300,000 groups and priorities. The queue may keep nothing for the name of a
// group.
func groupedMany() any {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.Order[int]{
		OldestEvery: 10,
		Group:       strconv.Itoa,
		Priority:    func(item int) int { return item },
	}})
	for i := range 300_000 {
		q.Add(i)
	}
	q.RemoveFunc(func(item int) bool { return item != 200_000 })
	return q
}

func drainedMany() any {
	q := workqueue.NewTyped[string]()
	for i := range many {
		q.Add(itemOf(i))
	}
	for range many {
		item, _ := q.Get()
		q.Done(item)
	}
	return q
}

func heldMany(config workqueue.TypedQueueConfig[string]) any {
	q := workqueue.NewTypedWithConfig(config)
	for i := range many {
		q.Add(itemOf(i))
	}
	for range many {
		q.Get()
	}
	for i := range many {
		q.Done(itemOf(i))
	}
	return q
}

func firedMany() any {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	for i := range many {
		q.AddAfter(itemOf(i), time.Duration(1+i%1000)*time.Millisecond)
	}
	clock.Step(time.Second)
	for range many {
		item, _ := q.Get()
		q.Done(item)
	}
	return q
}

func droppedMany() any {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	for i := range many {
		q.AddAfter(itemOf(i), time.Hour)
	}
	q.ShutDown()
	return q
}

func forgottenMany() any {
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0))
	for i := range many {
		q.AddRateLimited(itemOf(i))
	}
	for range many {
		item, _ := q.Get()
		q.Forget(item)
		q.Done(item)
	}
	return q
}

func nanMany(q *workqueue.Typed[float64]) any {
	for range many {
		q.Add(math.NaN())
	}
	for range many {
		q.Get()
	}
	return q
}

func delayedNaNMany() any {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{Clock: clock})
	for range many {
		q.AddAfter(math.NaN(), time.Second)
	}
	clock.Step(time.Second)
	for range many {
		q.Get()
	}
	return q
}

func steadyMany() any {
	q := workqueue.NewTyped[string]()
	for i := range many {
		q.Add(itemOf(i))
		if i%1000 == 999 {
			takeAll(q)
		}
	}
	return q
}

// A queue does not keep its last items alive.
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
		"a record beyond its item": {r - 2*wordSize, 16},
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

// The memory of a queue with 100,000 waiting items, keys included.
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

// The memory of a queue that was made and never used. Programs have thousands of such queues.
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
	if bytes > 1850 {
		t.Error(bytes, "bytes, want at most 1850: a field of Typed, TypedDelaying or FIFO may have crossed a size class of the allocator")
	}
}

// noAllocations runs each function until its memory is allocated, and then checks that further
// calls allocate nothing.
func noAllocations(t *testing.T, paths map[string]func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, f := range paths {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func items64() []string {
	items := make([]string, 64)
	for i := range items {
		items[i] = itemOf(i)
	}
	return items
}

// cycle takes each of the items through the queue twice.
func cycle(q workqueue.TypedInterface[string]) func() {
	items := items64()
	return func() {
		for _, item := range items {
			q.Add(item)
			q.Add(item)
		}
		for range items {
			item, _ := q.Get()
			q.Add(item)
			q.Done(item)
		}
		for range items {
			item, _ := q.Get()
			q.Done(item)
			q.Done(item)
		}
		q.Len()
	}
}

func TestAllocationsOfAFIFO(t *testing.T) {
	items := items64()
	plain := workqueue.NewTyped[string]()
	measured := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: workqueue.NoMetrics{}})
	stored := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
	nans := workqueue.NewTyped[float64]()
	exposed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
	})
	measured.Add("held") // Keeps the reporter running: its start allocates.
	measured.Get()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noAllocations(t, map[string]func(){
		"Add, Get, Done":              cycle(plain),
		"Add, Get, Done with metrics": cycle(measured),
		"Add, Get, Done, exposed":     cycle(exposed),
		"Add, Get, Done with storage": cycle(stored),
		"AddAll, TryGet, Done": func() {
			plain.AddAll(items...)
			for item, ok := plain.TryGet(); ok; item, ok = plain.TryGet() {
				plain.Done(item)
			}
		},
		"AddAll, GetContext, Done with metrics": func() {
			measured.AddAll(items...)
			for range items {
				item, _ := measured.GetContext(ctx)
				measured.Done(item)
			}
		},
		"AddAll, Remove": func() {
			plain.AddAll(items...)
			for _, item := range items {
				plain.Remove(item)
			}
		},
		"items not equal to themselves": func() { nans.Add(math.NaN()); nans.Get() },
	})
	measured.ShutDown()
}

func TestAllocationsOfTheLayers(t *testing.T) {
	items := items64()
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: workqueue.NoMetrics{}})
	limited := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour))
	atOnce := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemFastSlowRateLimiter[string](0, 0, 1))
	delaying.Add("held")
	delaying.Get()
	noAllocations(t, map[string]func(){
		"Add, Get, Done, delaying":     cycle(delaying),
		"Add, Get, Done, rate limited": cycle(limited),
		"AddAfter of what waits": func() {
			for _, item := range items {
				delaying.AddAfter(item, time.Hour)
			}
		},
		"AddAfter at once": func() {
			delaying.AddAfter("now", 0)
			item, _ := delaying.Get()
			delaying.Done(item)
		},
		"AddRateLimited, Forget": func() {
			for _, item := range items {
				limited.AddRateLimited(item)
				limited.NumRequeues(item)
				limited.Forget(item)
			}
		},
		"AddRateLimited at once, Get, Forget, Done": func() {
			for _, item := range items {
				atOnce.AddRateLimited(item)
				item, _ := atOnce.Get()
				atOnce.Forget(item)
				atOnce.Done(item)
			}
		},
	})
	for _, q := range []interface{ ShutDown() }{delaying, limited} {
		q.ShutDown()
	}
}

// Distinct items wait and become due, again and again: the agenda, the goroutine and its timer use
// their memory again.
func TestAllocationsOfDelays(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock})
	const n = 600
	q.AddAfter(-1, 1000*time.Hour) // Keeps the goroutine: a start allocates now and then.
	f := func() {
		for i := range n {
			q.AddAfter(i, time.Duration(i)*time.Millisecond+1)
		}
		clock.Step(time.Hour / 2)
		for range n {
			item, _ := q.Get()
			q.Done(item)
		}
	}
	f()
	// The fake clock itself allocates for each step and for each timer.
	if allocs := testing.AllocsPerRun(20, f); allocs > n/10 {
		t.Errorf("%v allocations for %d items", allocs, n)
	}
	q.ShutDown()
}

// The bytes that a call allocates show how many of the waiting items the call has looked at. A call
// must not look at all items, as others may wait for the lock.
func TestAllocationsDoNotGrowWithWhatWaits(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const waiting, most = 20_000, 20_000
	for name, f := range map[string]func(q *workqueue.TypedDelaying[int]){
		"Add":               func(q *workqueue.TypedDelaying[int]) { q.Add(7) },
		"AddAfter":          func(q *workqueue.TypedDelaying[int]) { q.AddAfter(7, time.Minute) },
		"Reschedule":        func(q *workqueue.TypedDelaying[int]) { q.Reschedule(7, time.Minute) },
		"Debounce":          func(q *workqueue.TypedDelaying[int]) { q.Debounce(7, time.Minute, time.Hour) },
		"Debounce of a new": func(q *workqueue.TypedDelaying[int]) { q.Debounce(waiting, time.Minute, time.Hour) },
		"Remove":            func(q *workqueue.TypedDelaying[int]) { q.Remove(7) },
		"Snapshot":          func(q *workqueue.TypedDelaying[int]) { q.Snapshot(10) },
		"ShutDown":          func(q *workqueue.TypedDelaying[int]) { q.ShutDown() },
		"ShutDownWithDrain": func(q *workqueue.TypedDelaying[int]) { q.ShutDownWithDrain() },
		"Drain":             func(q *workqueue.TypedDelaying[int]) { q.Drain(context.Background()) },
	} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{OneEntry: true})
		for i := range waiting {
			q.AddAfter(i, time.Hour+time.Duration(i*7919%waiting))
		}
		if bytes := allocated(func() { f(q) }); bytes > most {
			t.Errorf("%s: %d bytes beside %d waiting items, want at most %d", name, bytes, waiting, most)
		}
		q.ShutDown()
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Without options that need a context for each item, the items of a Run share allocations for their
// contexts. Each of these options adds the cost of its context.
func TestAllocationsOfRun(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, tt := range map[string]struct {
		options workqueue.RunOptions[int]
		most    float64 // per item
	}{
		"default options": {workqueue.RunOptions[int]{}, 0.05},
		"max attempts":    {workqueue.RunOptions[int]{MaxAttempts: 3}, 0.05},
		"grace":           {workqueue.RunOptions[int]{Grace: 1}, 0.05},
		"cancel on add":   {workqueue.RunOptions[int]{CancelOnReAdd: 3}, 4},
		"timeout":         {workqueue.RunOptions[int]{Timeout: 1 << 40}, 5},
	} {
		const items = 256
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
		handled := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			workqueue.Run(t.Context(), q, func(_ context.Context, item int) error {
				if item == items-1 {
					handled <- struct{}{}
				}
				return nil
			}, tt.options)
		}()
		pass := func() {
			for i := range items {
				q.Add(i)
			}
			<-handled
		}
		pass()
		if n := testing.AllocsPerRun(100, pass); n > tt.most*items {
			t.Errorf("%s: %v allocations for %d items, want %v each", name, n, items, tt.most)
		}
		q.ShutDown()
		<-ended
	}
}

// An item that passes through Run takes the 24 bytes of its context, or 32 if the queue keeps times,
// and what is lost at the end of each piece of memory. A priority takes nothing. Larger contexts have
// halved the speed of Run once: the garbage collector has to mark them.
func TestBytesOfAnItemOfRun(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	const items = 20_000
	keys := make([]string, items)
	for i := range keys {
		keys[i] = fmt.Sprint("namespace/name-", i)
	}
	for name, tt := range map[string]struct {
		config workqueue.TypedRateLimitingQueueConfig[string]
		add    workqueue.AddOptions
		most   float64
	}{
		"plain":      {most: 26},
		"a priority": {add: workqueue.AddOptions{Priority: prio(7)}, most: 26},
		"times":      {config: workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true}, most: 34},
		"both":       {workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true}, workqueue.AddOptions{Priority: prio(7)}, 34},
	} {
		least := math.Inf(1)
		for range 3 { // What else allocates in the process only adds.
			least = min(least, bytesOfAnItemOfRun(t, tt.config, tt.add, keys))
		}
		if least > tt.most {
			t.Errorf("%s: an item takes %.1f bytes, want at most %v", name, least, tt.most)
		}
	}
}

func bytesOfAnItemOfRun(t *testing.T, config workqueue.TypedRateLimitingQueueConfig[string], add workqueue.AddOptions, keys []string) float64 {
	q := workqueue.NewTypedRateLimiting(nil, config)
	q.AddWith(add, keys...)
	ctx, cancel := context.WithCancel(t.Context())
	var before, after runtime.MemStats
	n, items := 0, len(keys)
	workqueue.Run(ctx, q, func(context.Context, string) error {
		switch n++; n {
		case items / 4: // The table of the queue does not shrink from here to the end.
			runtime.ReadMemStats(&before)
		case items / 2:
			runtime.ReadMemStats(&after)
			cancel()
		}
		return nil
	}, workqueue.RunOptions[string]{Logger: discard()})
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(items/2-items/4)
}

// A worker that has handled one item has allocated contexts for a few items only.
func TestBytesOfAWorkerOfRun(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const workers = 100
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
	for i := range workers {
		q.Add(i)
	}
	at, all := make(chan struct{}), make(chan struct{})
	go func() {
		for range workers { // All workers have begun when each holds an item.
			<-at
		}
		q.ShutDown()
		close(all)
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := workqueue.Run(t.Context(), q, func(context.Context, int) error { at <- struct{}{}; <-all; return nil }, workqueue.RunOptions[int]{Workers: workers})
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / workers; err != workqueue.ErrShutDown || bytes > 4096 {
		t.Errorf("got %v and %d bytes for each worker, want at most 4096", err, bytes)
	}
}
