package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestZeroValueIsAQueue(t *testing.T) {
	timeline(t, func() workqueue.TypedInterface[string] { return new(workqueue.Typed[string]) },
		step{"len", "0"}, step{"done a", ""}, step{"w: get", "blocks"}, step{"add a", ""},
		step{"w: returns", "a"}, step{"add a", ""}, step{"drainer: drain", "blocks"}, step{"done a", ""},
		step{"get", "a"}, step{"done a", ""}, step{"drainer: returns", ""}, step{"shutting", "true"})
}

// A worker must see every version of an item that was announced before an Add, and no two workers
// may hold an item at once.
func TestConcurrentAccounting(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]workqueue.TypedQueueConfig[int]{
		"plain":   {},
		"metrics": {Name: "q", MetricsProvider: &recorder{discard: true}},
		"storage": {Queue: &shelf[int]{}},
	} {
		t.Run(name, func(t *testing.T) { account(t, workqueue.NewTypedWithConfig(config)) })
	}
}

func account(t *testing.T, q *workqueue.Typed[int]) {
	const items, producers, workers, adds = 40, 4, 4, 3000
	var version, seen, holders [items]atomic.Int64
	var producing, working sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			for i := range adds {
				item := (i*(p+1) + p) % items
				version[item].Add(1)
				if i%5 == 0 {
					q.AddAll(item, item)
				} else {
					q.Add(item)
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			for {
				item, err := take(t, q, w)
				if err != nil {
					return
				}
				if n := holders[item].Add(1); n != 1 {
					t.Errorf("%d workers hold %d", n, item)
				}
				seen[item].Store(version[item].Load())
				holders[item].Add(-1)
				q.Done(item)
			}
		})
	}
	producing.Wait()
	q.ShutDownWithDrain()
	working.Wait()
	for i := range items {
		if got, want := seen[i].Load(), version[i].Load(); got != want {
			t.Errorf("item %d: version %d was handed out last, want %d", i, got, want)
		}
	}
	checkInvariants(t, 0, q)
}

// take is Get, and GetContext for every other worker.
func take(t *testing.T, q *workqueue.Typed[int], worker int) (int, error) {
	if worker%2 == 0 {
		return q.GetContext(t.Context())
	}
	item, shutdown := q.Get()
	if shutdown {
		return item, workqueue.ErrShutDown
	}
	return item, nil
}

func TestRemoveTakesTheDepthDown(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch)})
		q.Add("a")
		if waits {
			q.AddAfter("a", time.Hour)
		}
		r.take()
		q.Remove("a")
		if got := count(r, "depth-1"); got != 1 {
			t.Errorf("waiting %v: the depth went down %d times", waits, got)
		}
		q.Remove("a")
		if got := r.take(); len(got) > 0 {
			t.Errorf("waiting %v: Remove of nothing is counted as %q", waits, got)
		}
		q.ShutDown()
	}
}

// The Add of an item that was removed, and is still in the storage, wakes a worker.
func TestAddOfARemovedItemWakesAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStored(workqueue.DefaultQueue[string]())
		defer q.ShutDown()
		go q.Get()
		synctest.Wait()
		arrive := q.Approach() // Otherwise the worker would drop the removed item.
		q.Add("a")
		q.Remove("a")
		arrive()
		synctest.Wait()
		checkInvariants(t, 0, q)
		if n := q.Parked(); n != 1 {
			t.Errorf("%d workers wait for nothing, want 1", n)
		}
		q.Add("a")
		synctest.Wait()
		checkInvariants(t, 1, q)
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait for the item", n)
		}
	})
}

// prioritized returns a queue with an order by priority, and the recorder of its metrics.
func prioritized(clock *testingclock.FakeClock) (*workqueue.TypedRateLimiting[string], *recorder) {
	p := &recorder{}
	return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: p, Clock: clock,
		Order: workqueue.Order[string]{},
	}), p
}

// The metrics count AddWith and GetInfo like Add and Get: a new item once, with the time in the
// queue.
func TestMetricsOfItemsWithAPriority(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q, p := prioritized(clock)
	defer q.ShutDown()
	for i, row := range []struct {
		f    func()
		want []string
	}{
		{func() { q.AddWith(workqueue.AddOptions{Priority: prio(2)}, "a") }, []string{"adds+1", "depth+1"}},
		{func() { q.AddWith(workqueue.AddOptions{Priority: prio(3)}, "a") }, nil},
		{func() { q.AddWith(workqueue.AddOptions{Priority: prio(2)}, "b", "a", "c") }, []string{"adds+1", "depth+1", "adds+1", "depth+1"}},
		{func() { clock.Step(time.Second); q.GetInfo(t.Context()) }, []string{"depth-1", "latency(1)"}},
		{func() { q.AddWith(workqueue.AddOptions{RateLimited: true, Priority: prio(1)}, "d") }, []string{"adds+1", "depth+1", "retries+1"}},
		{func() { q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(1)}, "e") }, []string{"retries+1"}},
	} {
		p.take()
		row.f()
		got := p.take()
		slices.Sort(got)
		slices.Sort(row.want)
		if !slices.Equal(got, row.want) {
			t.Errorf("step %d: the metrics were told %q, want %q", i, got, row.want)
		}
	}
}

// A Typed has no limiter, and no order needs a priority of 0.
func TestAddWithOfATyped(t *testing.T) {
	q := workqueue.NewTyped[int]()
	defer q.ShutDown()
	for want, options := range map[string]workqueue.AddOptions{
		"an After of 0s, RateLimited true and Firm false":   {RateLimited: true},
		"an After of 1ns, RateLimited false and Firm false": {After: 1},
		"an After of 0s, RateLimited false and Firm true":   {Firm: true},
	} {
		want = "workqueue: AddWith of *workqueue.Typed[int] with " + want + ": it has no delays and no limiter"
		if got := goes(func() { q.AddWith(options, 1) }); got != want || q.Len() != 0 {
			t.Errorf("got the panic %v with %d items, want %s", got, q.Len(), want)
		}
	}
	if q.AddWith(workqueue.AddOptions{}, 1, 2); q.Len() != 2 {
		t.Errorf("%d items are queued, want 2", q.Len())
	}
}

// AddWith with a priority works on every queue, except on a queue with a Queue as storage. There
// AddWith panics on each layer, before anything is added.
func TestPriorityBesideAQueueOfTheConfig(t *testing.T) {
	const want = "workqueue: AddWith with priority 0: the queue stores its items in a *workqueue.sequence[int], which knows no priorities"
	typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.DefaultQueue[int]()})
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{Queue: typed})
	defer q.ShutDown()
	for _, options := range []workqueue.AddOptions{{Priority: prio(0)}, {Priority: prio(0), After: time.Hour}, {Priority: prio(0), RateLimited: true}} {
		if got := goes(func() { q.AddWith(options, 1) }); got != want {
			t.Errorf("%+v: got the panic %v, want %s", options, got, want)
		}
	}
	if s := q.Snapshot(1); s.QueuedTotal+s.WaitingTotal != 0 || q.NumRequeues(1) != 0 {
		t.Errorf("got %+v", s)
	}
	if got := goes(func() { typed.AddWith(workqueue.AddOptions{Priority: prio(0)}, 1) }); got != want || typed.Len() != 0 {
		t.Errorf("the Typed: got the panic %v with %d items, want %s", got, typed.Len(), want)
	}
	q.AddWith(workqueue.AddOptions{}, 1, 2)
	if taken := typed.AddWith(workqueue.AddOptions{}, 1); taken != 1 {
		t.Errorf("the Typed took %d items without a priority, want 1", taken)
	}
	if info, err := q.GetInfo(t.Context()); info.Item != 1 || info.Priority != 0 || err != nil {
		t.Errorf("got %+v, %v, want 1 with the priority 0", info, err)
	}
}

// Tests of foreign code that fails in an unusual place. Each such failure has once lost or doubled
// an item, or kept a lock.

// A metric that does not return loses no NaN, and the age of the NaN goes on.
func TestMetricThatFailsForWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Name: "q", MetricsProvider: r, Clock: clock})
		defer q.ShutDown()
		q.Add(math.NaN())
		q.Add(1)
		clock.Step(time.Second)
		r.setHook(func(event string) {
			if event == "latency(1)" {
				panic("metric")
			}
		})
		if got := goes(func() { q.TryGet() }); got != "metric" {
			t.Errorf("got the panic %v, want that of the metric", got)
		}
		checkInvariants(t, 0, q)
		clock.Step(time.Second)
		if got, want := q.Snapshot(1).String(), "2 queued, 0 in flight, 0 waiting\nNaN: queued for 2s"; got != want {
			t.Errorf("queued first: got %s, want %s", got, want)
		}
		if got := fmt.Sprint(takeAll(q)); got != "[NaN 1]" {
			t.Errorf("got %s after the panic, want [NaN 1]", got)
		}
	})
}

// A metric may call Done for the item that was just handed out, and then panic. The queue puts
// nothing back, and the caller gets the panic.
func TestMetricThatFailsAfterItsOwnDone(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
	defer q.ShutDown()
	q.Add("a")
	r.setHook(func(event string) {
		if event == "depth-1" {
			q.Done("a")
			panic("metric")
		}
	})
	if got := goes(func() { q.Get() }); got != "metric" {
		t.Errorf("got the panic %v, want that of the metric", got)
	}
	checkInvariants(t, 0, q)
	if q.Len() != 0 || q.Held() != 0 {
		t.Errorf("%d items are queued and %d held, want none", q.Len(), q.Held())
	}
}

// An Add of a removed item that is still in the storage is not lost if Touch does not return. The
// metrics do not count the Add.
func TestTouchThatFailsForWhatWasRemoved(t *testing.T) {
	r, s := &recorder{}, &shelf[string]{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Queue: s})
	defer q.ShutDown()
	q.Add("a")
	q.Remove("a")
	r.take()
	s.hook = func(string) { panic("storage") }
	if got := goes(func() { q.Add("a") }); got != "storage" {
		t.Errorf("got the panic %v, want that of the storage", got)
	}
	s.hook = nil
	checkInvariants(t, 0, q)
	if n, told := q.Len(), r.take(); n != 1 || len(told) != 0 {
		t.Errorf("%d items are queued and the metrics were told %q, want 1 and nothing", n, told)
	}
	if got := fmt.Sprint(takeAll(q)); got != "[a]" {
		t.Errorf("got %s, want [a]", got)
	}
}

// A storage that hands out an item without a hash does not keep the lock.
func TestStorageThatHandsOutWhatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[any]{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Queue: s})
		q.Add("a")
		s.items = append(s.items, []int{1})
		if got := goes(func() { q.TryGet() }); got == nil {
			t.Error("got no panic")
		}
		if q.Locked() {
			t.Fatal("the lock is kept")
		}
		if got := fmt.Sprint(takeAll(q)); got != "[a]" {
			t.Errorf("got %s, want [a]", got)
		}
		q.ShutDownWithDrain()
	})
}

// A rut hands out the same item again and again, or loses the pushed items.
type rut struct{ says int }

func (*rut) Touch(string) {}
func (*rut) Push(string)  {}
func (r *rut) Len() int   { return r.says }
func (*rut) Pop() string  { return "a" }

// A storage whose Len is never zero, and whose Pop returns held items, does not keep the lock for
// ever.
func TestStorageThatIsNeverEmpty(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &rut{says: 3}})
	q.Add("a")
	q.TryGet()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if item, ok := q.TryGet(); ok {
			t.Errorf("got %s, which is held", item)
		}
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("TryGet keeps the lock")
	}
}

// After a storage has lost an item, Get reports the shutdown. Then a drain has to end too, and
// Drain to return the missing item in its error.
func TestDrainOfAStorageThatLosesItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &rut{}})
		q.Add("a")
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("got %s, want the shutdown", item)
		}
		synctest.Wait()
		select {
		case err := <-drained:
			if got, want := fmt.Sprint(err), "workqueue: drain left 1 queued, 0 in flight, 0 waiting: "+workqueue.ErrShutDown.Error(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		default:
			t.Error("the drain waits for what nobody gets")
			q.ShutDown()
		}
	})
}

// A storage has lost an item, and the worker that finds this out parks. Nothing is left to wait for.
func TestWaitIdleOfAStorageThatLosesItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &rut{}})
		defer q.ShutDown()
		q.Add("a")
		w := startWait(q.WaitIdle)
		w.want(t, "before the Get", "waits")
		go q.Get()
		synctest.Wait()
		w.want(t, "after the Get", "<nil>")
	})
}

// Find knows an item as a Snapshot does, without a Position.
func TestFindOfATyped(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: true})
	defer q.ShutDown()
	urgent := 3
	q.AddWith(workqueue.AddOptions{Priority: &urgent}, "held")
	q.Get()
	q.Add("queued")
	clock.Step(time.Second)
	for item, want := range map[string]string{"held": "{held in_flight 3 1s} true", "queued": "{queued queued 0 1s} true", "other": "{ ItemState(0) 0 0s} false"} {
		info, ok := q.Find(item)
		got := fmt.Sprintf("{%v %v %d %v} %v", info.Item, info.State, info.Priority, info.Age, ok)
		if got != want {
			t.Errorf("got %s of %s, want %s", got, item, want)
		}
	}
}
