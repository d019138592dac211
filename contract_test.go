package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

// The runtime's panic about a value that cannot be hashed reaches the caller, also the caller of an
// AddAfter, and leaves the queue unchanged.
func TestItemThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fifo := workqueue.NewTyped[any]()
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[any]{Queue: fifo})
		q := workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemFastSlowRateLimiter[any](time.Second, time.Second, 1),
			workqueue.TypedRateLimitingQueueConfig[any]{DelayingQueue: delaying})
		q.Add("held")
		q.Get()
		q.Add("queued")
		for _, bad := range []any{[]int{1}, map[int]int{}, func() {}, struct{ s any }{[]int{}}} {
			for name, f := range map[string]func(){
				"Add":            func() { q.Add(bad) },
				"AddAll":         func() { fifo.AddAll("x", bad, "y") },
				"AddAfter":       func() { q.AddAfter(bad, time.Second) },
				"AddAfter 0":     func() { q.AddAfter(bad, 0) },
				"AddRateLimited": func() { q.AddRateLimited(bad) },
				"Done":           func() { q.Done(bad) },
				"Forget":         func() { q.Forget(bad) },
				"NumRequeues":    func() { q.NumRequeues(bad) },
			} {
				var err runtime.Error
				if r, _ := goes(f).(error); !errors.As(r, &err) || !strings.Contains(err.Error(), "hash") {
					t.Errorf("%s of %T: got the panic %v, want the runtime's", name, bad, r)
				}
				if fifo.Len() != 1 || fifo.Held() != 1 || delaying.Waiting() != 0 {
					t.Fatalf("%s of %T: %d items are queued, %d held, %d wait, want 1, 1, 0",
						name, bad, fifo.Len(), fifo.Held(), delaying.Waiting())
				}
				checkInvariants(t, 0, delaying)
			}
		}
		q.AddAfter("late", time.Second)
		q.Done("held")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := fmt.Sprint(takeAllOf(q)); got != "[queued late]" {
			t.Errorf("got %s, want [queued late]", got)
		}
		q.ShutDownWithDrain()
	})
}

const noQueueLimiter = "workqueue: the rate limiter of TypedRateLimiting is nil: give one to its constructor"

func newLimited(l workqueue.TypedRateLimiter[string]) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimitingQueue(l).(*workqueue.TypedRateLimiting[string])
}

// Some programs make a queue with a nil limiter and never call the limiter: client-go accepts nil,
// and controller-runtime's own tests pass nil. Methods without a limiter work, and the others panic
// with a clear text.
func TestNilLimiterIsNeededWhereItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(nil)
		q.AddAll("a", "b")
		item, _ := q.Get()
		q.AddAfter("c", time.Second)
		for name, f := range map[string]func(){
			"AddRateLimited": func() { q.AddRateLimited("d") },
			"Forget":         func() { q.Forget("a") },
			"NumRequeues":    func() { q.NumRequeues("a") },
		} {
			if got := goes(f); got != noQueueLimiter {
				t.Errorf("%s: got the panic %v, want %s", name, got, noQueueLimiter)
			}
		}
		if s := q.Snapshot(9); s.QueuedTotal != 1 || s.InFlightTotal != 1 || s.WaitingTotal != 1 || s.InFlight[0].Failures != 0 {
			t.Errorf("got %v, want one in each state, without failures", s)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var left *workqueue.DrainError[string]
		if err := q.Drain(ended); !errors.As(err, &left) || left.Left.Queued[0].Item != "b" {
			t.Errorf("Drain: got %v, want an error that names b", err)
		}
		q.Done(item)
		q.ShutDown()
	})
}

// A NaN is handed out once for each Add. The queue does not track a NaN, so a drain does not wait
// for a Done that cannot come.
func TestNaN(t *testing.T) {
	nan := math.NaN()
	for name, config := range map[string]workqueue.TypedQueueConfig[float64]{
		"plain":   {},
		"metrics": {Name: "q", MetricsProvider: &recorder{discard: true}, Clock: testingclock.NewFakeClock(epoch)},
		"storage": {Queue: workqueue.DefaultQueue[float64]()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedWithConfig(config)
				q.AddAll(nan, 1, nan, 1, nan)
				checkInvariants(t, 0, q)
				if n := q.Len(); n != 4 {
					t.Fatalf("%d items are queued, want 4", n)
				}
				for i, want := range []float64{nan, 1, nan} {
					got, _ := q.Get()
					if got != want && !math.IsNaN(want) || math.IsNaN(got) != math.IsNaN(want) {
						t.Errorf("step %d: got %v, want %v", i, got, want)
					}
					q.Done(got)
					checkInvariants(t, i, q)
				}
				go q.ShutDownWithDrain()
				synctest.Wait()
				q.Get() // The last item ends the drain and the bubble.
				checkInvariants(t, 4, q)
				if n := q.Held(); n != 0 {
					t.Errorf("%d items are held", n)
				}
			})
		})
	}
}

func TestNaNInItemsOfEveryKind(t *testing.T) {
	nan := math.NaN()
	passTwice(t, float32(nan))
	passTwice(t, complex(nan, 0))
	passTwice(t, complex64(complex(0, nan)))
	passTwice(t, [2]float64{1, nan})
	passTwice(t, any(nan))
	passTwice(t, fmt.Stringer(stringNaN(nan)))
	passTwice(t, struct{ f float64 }{nan})
	passTwice(t, struct {
		name  string
		inner struct{ f float64 }
	}{"a", struct{ f float64 }{nan}})
}

// passTwice adds and gets a NaN, and checks that the queue keeps nothing. Each Add of a NaN counts
// as a new item.
func passTwice[T comparable](t *testing.T, item T) {
	t.Helper()
	q := workqueue.NewTyped[T]()
	q.AddAll(item, item)
	checkInvariants(t, 2, q)
	if n := q.Len(); n != 2 {
		t.Errorf("%T: %d items are queued, want 2", item, n)
	}
	q.Get()
	q.Get()
	checkInvariants(t, 4, q)
	if n := q.Held(); n != 0 {
		t.Errorf("%T: %d items are held, want none", item, n)
	}
	ctx, cancel := q.ReAddContext(t.Context(), item)
	defer cancel()
	if q.Add(item); ctx.Err() != nil {
		t.Errorf("%T: the Add of one that differs is one of the same item", item)
	}
}

type stringNaN float64

func (stringNaN) String() string { return "NaN" }

func TestNaNInAWaitingWorkersHands(t *testing.T) {
	for _, storage := range []workqueue.Queue[any]{nil, workqueue.DefaultQueue[any]()} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Queue: storage})
			got := make(chan any, 2)
			for range 2 {
				go func() {
					item, _ := q.Get()
					got <- item
				}()
			}
			synctest.Wait()
			q.Add(struct{ key any }{math.NaN()})
			q.Add(struct{ key any }{math.NaN()})
			synctest.Wait()
			if n := len(got); n != 2 {
				t.Errorf("storage %v: %d workers got an item, want 2", storage != nil, n)
			}
			q.ShutDownWithDrain()
		})
	}
}

func TestNaNDelayedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nan := math.NaN()
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[float64](time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[float64]{})
		start := time.Now()
		q.AddAfter(nan, 3*time.Second)
		q.AddAfter(nan, 2*time.Second)
		q.AddRateLimited(nan)
		q.AddRateLimited(nan)
		for i, want := range []time.Duration{1, 1, 2, 3} {
			got, _ := q.Get()
			if at := time.Since(start); at != want*time.Second || !math.IsNaN(got) {
				t.Errorf("item %d: got %v after %v, want NaN after %v", i, got, at, want*time.Second)
			}
			q.Done(got)
		}
		if n := q.NumRequeues(nan); n != 0 {
			t.Errorf("got %d requeues, want 0", n)
		}
		q.Forget(nan)
		q.ShutDownWithDrain()
	})
}

// Zeros of both signs are the same item, as they are the same key of a map.
func TestNegativeZero(t *testing.T) {
	q := workqueue.NewTyped[float64]()
	q.AddAll(0, math.Copysign(0, -1))
	if n := q.Len(); n != 1 {
		t.Errorf("%d items are queued, want 1", n)
	}
	item, _ := q.Get()
	q.Done(-item)
	q.ShutDownWithDrain()
}

// Items of a megabyte, compared by their contents.
func TestLargeItems(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[string]()
	for i := range 20 {
		q.Add(strings.Repeat("x", 1<<20) + fmt.Sprint(i%10))
	}
	if n := len(takeAll(q)); n != 10 {
		t.Errorf("got %d items, want 10", n)
	}
}

// The table in docs/semantics.md has calls, and the states of an item afterwards. A waiting item waits for 10 s.
// Most calls name 5 s and 20 s.
func TestInterplayOfCallsAndStates(t *testing.T) {
	t.Parallel()
	playPage(t, section(read(t, "docs/semantics.md"), "Taking back and putting off"), 67, func(call string) []string {
		switch {
		case strings.Contains(call, "ItemPace"):
			return []string{"Typed"}
		case strings.Contains(call, "Firm"), strings.Contains(call, ", with "):
			return []string{"Typed", "storage"}
		}
		return []string{"Typed", "storage", "foreign"}
	}, interplayCell)
}

// playPage plays the table of a page: each row is a call, with the state afterwards of an item that was in each of the
// states. belows returns the kinds of queues below, and a page must not lose rows.
func playPage(t *testing.T, page string, rows int, belows func(call string) []string, cell func(t *testing.T, call, state, below string) string) {
	table := rowsOf(page)
	if len(table) != rows {
		t.Errorf("the page has %d rows, want %d", len(table), rows)
	}
	states := []string{"idle", "waiting", "queued", "in flight", "again", "in flight, waiting"}
	for _, row := range table {
		cells := cellsOf(row)
		call, wants := cells[0], cells[1:]
		if len(wants) != len(states) {
			t.Fatalf("the row of %s has %d states, want %d", call, len(wants), len(states))
		}
		for i, state := range states {
			for _, below := range belows(call) {
				t.Run(call+"/"+state+"/"+below, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						if got := cell(t, call, state, below); got != wants[i] {
							t.Errorf("%s of an item that is %s: got %q, want %q", call, state, got, wants[i])
						}
					})
				})
			}
		}
	}
}

// A cell is a call of a delaying queue, with and without a Typed below. The limiter says 5 s. With
// StrictBackoff the wait of 10 s comes from the limiter, and with a firm wait from an AddWith. With
// ItemPace the item has used both of its tokens, unless it is queued or was added again.
func interplayCell(t *testing.T, call, state, below string) string {
	config := workqueue.TypedRateLimitingQueueConfig[string]{Clock: testingclock.NewFakeClock(epoch)}
	call, option, _ := strings.Cut(call, ", with ")
	limiter := changeableOf(5 * time.Second)
	switch option {
	case "OneEntry":
		config.OneEntry = true
	case "ItemPace":
		config.ItemPace = workqueue.Rate{Limit: everyThree.Limit, Burst: 2}
	case "StrictBackoff":
		config.StrictBackoff = true
	}
	switch below {
	case "storage":
		config.Queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
	case "foreign":
		config.Queue = struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()}
	}
	q := workqueue.NewTypedRateLimiting[string](limiter, config)
	defer q.ShutDown()
	later := func() { q.AddAfter("a", 10*time.Second) }
	switch option {
	case "a firm wait":
		later = func() { q.AddWith(workqueue.AddOptions{After: 10 * time.Second, Firm: true}, "a") }
	case "StrictBackoff":
		later = func() {
			limiter.wait = func(string) time.Duration { return 10 * time.Second }
			q.AddRateLimited("a")
		}
	case "ItemPace":
		for range map[string]int{"idle": 2, "waiting": 2, "in flight": 1, "in flight, waiting": 1}[state] {
			handOut(q, "a")
		}
	}
	bring(q, state, interplayAdds{first: func() { q.Add("a") }, again: func() { q.Add("a") }, later: later})
	limiter.wait = changeableOf(5 * time.Second).wait
	if before := describeLimiter(q.Snapshot(9)); before != strings.Replace(state, "waiting", "waiting 10s", 1) {
		t.Fatalf("in the beginning the item is %s", before)
	}
	result := apply(q, call)
	synctest.Wait()
	checkInvariants(t, 0, q.Delaying())
	return describeLimiter(q.Snapshot(9)) + result
}

// interplayAdds bring an item to a state: the add of an idle item, the add of a held item, and the
// call that makes an item wait for 10 s.
type interplayAdds struct{ first, again, later func() }

// bring brings the item a to a state.
func bring(q *workqueue.TypedRateLimiting[string], state string, adds interplayAdds) {
	state, waits := strings.CutSuffix(state, "waiting")
	if waits {
		defer adds.later()
	}
	switch strings.TrimSuffix(state, ", ") {
	case "queued":
		adds.first()
	case "in flight":
		adds.first()
		q.Get()
	case "again":
		adds.first()
		q.Get()
		adds.again()
	}
}

func apply(q *workqueue.TypedRateLimiting[string], call string) (result string) {
	if next, ok := strings.CutPrefix(call, "Wake and "); ok {
		defer apply(q, next)
		return fmt.Sprint(" ", q.Wake("a"))
	}
	verb, arg, _ := strings.Cut(call, " ")
	arg, endless := strings.CutSuffix(arg, ", without a maximum")
	d, _ := time.ParseDuration(arg)
	maxWait := time.Hour
	if endless {
		maxWait = 0
	}
	switch verb {
	case "Add":
		q.Add("a")
	case "AddAll":
		q.AddAll("a")
	case "AddAfter":
		q.AddAfter("a", d)
	case "AddRateLimited":
		q.AddRateLimited("a")
	case "Reschedule":
		q.Reschedule("a", d)
	case "Debounce":
		q.Debounce("a", d, maxWait)
	case "AddWith":
		d, _ := time.ParseDuration(strings.TrimPrefix(arg, "Firm "))
		q.AddWith(workqueue.AddOptions{After: d, Firm: true}, "a")
	case "Wake":
		return fmt.Sprint(" ", q.Wake("a"))
	case "WakeFunc":
		return fmt.Sprint(" ", q.WakeFunc(func(item string) bool { return item == "a" }))
	case "Remove":
		return fmt.Sprint(" ", q.Remove("a"))
	case "RemoveFunc":
		return fmt.Sprint(" ", q.RemoveFunc(func(item string) bool { return item == "a" }))
	case "Done":
		q.Done("a")
	case "ShutDown":
		q.ShutDown()
	case "Drain":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if e, ok := q.Drain(ctx).(*workqueue.DrainError[string]); ok {
			return "; left " + describeLimiter(e.Left)
		}
	}
	return ""
}

// describeLimiter returns the states of the only item, such as "queued, waiting 10s".
func describeLimiter(s workqueue.Snapshot[string]) string {
	return describePlaces(s, func(place string, _ workqueue.ItemInfo[string]) string { return place })
}

// describePlaces returns the states of the only item, as show writes them.
func describePlaces(s workqueue.Snapshot[string], show func(place string, info workqueue.ItemInfo[string]) string) string {
	var places []string
	for _, info := range slices.Concat(s.Queued, s.InFlight, s.Waiting) {
		places = append(places, show(map[workqueue.ItemState]string{
			workqueue.ItemQueued: "queued", workqueue.ItemInFlight: "in flight", workqueue.ItemInFlightAgain: "again",
			workqueue.ItemWaiting: fmt.Sprint("waiting ", info.Due.Sub(epoch)),
		}[info.State], info))
	}
	if len(places) == 0 {
		return "idle"
	}
	return strings.Join(places, ", ")
}

// A constant is a limiter with the same delay for all items.
type constant time.Duration

func (c constant) When(string) time.Duration { return time.Duration(c) }
func (constant) Forget(string)               {}
func (constant) NumRequeues(string) int      { return 3 }

// allLimiters returns the limiters, for items of a type.
func allLimiters[T comparable]() map[string]workqueue.TypedRateLimiter[T] {
	exponential := func() workqueue.TypedRateLimiter[T] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[T](time.Millisecond, time.Minute)
	}
	return map[string]workqueue.TypedRateLimiter[T]{
		"default":      workqueue.DefaultTypedControllerRateLimiter[T](),
		"item default": workqueue.DefaultTypedItemBasedRateLimiter[T](),
		"fast slow":    workqueue.NewTypedItemFastSlowRateLimiter[T](1, 2, 3),
		"bucket":       &workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(1e6, 1)},
		"max wait":     workqueue.NewTypedWithMaxWaitRateLimiter(exponential(), time.Second),
		"item backoff": workqueue.NewTypedItemBackoffRateLimiter[T](wait.Backoff{
			Duration: 1, Factor: 2, Jitter: 1, Cap: time.Second,
		}),
		"expiring":     workqueue.NewTypedExpiringRateLimiter(exponential(), time.Hour),
		"soon expired": workqueue.NewTypedExpiringRateLimiter(exponential(), 1),
	}
}

func TestLimitersConcurrent(t *testing.T) {
	t.Parallel()
	for name, l := range allLimiters[int]() {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for worker := range 4 {
				wg.Go(func() {
					for n := range 2000 {
						useLimiter(t, l, n%100, worker+n)
					}
				})
			}
			wg.Wait()
			checkInvariants(t, 0, l)
			for key := range 100 {
				l.Forget(key)
				if n := l.NumRequeues(key); n != 0 {
					t.Fatalf("key %d has %d failures after Forget", key, n)
				}
			}
			if sized, ok := l.(interface{ Len() int }); ok && sized.Len() != 0 {
				t.Errorf("%d records after all are forgotten", sized.Len())
			}
		})
	}
}

func useLimiter(t *testing.T, l workqueue.TypedRateLimiter[int], key, n int) {
	switch n % 8 {
	case 0:
		l.Forget(key)
	case 1:
		l.NumRequeues(key)
	case 2:
		_ = fmt.Sprint(l)
	default:
		if d := l.When(key); d < 0 {
			t.Errorf("key %d waits %v", key, d)
		}
	}
}

func TestLimitersAllocateNothingForAKnownKey(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, l := range allLimiters[string]() {
		for range 3 {
			l.When("a")
		}
		if n := testing.AllocsPerRun(1000, func() { l.When("a") }); n != 0 {
			t.Errorf("%s: %v allocations in a When", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { l.When("b"); l.Forget("b") }); n > 0.1 {
			t.Errorf("%s: %v allocations in a When and a Forget of another", name, n)
		}
	}
}

// An item that cannot be compared panics, as in a map. The limiter still works afterwards.
func TestLimitersWithAnItemThatCannotBeCompared(t *testing.T) {
	for name, l := range allLimiters[any]() {
		if name == "bucket" {
			continue // This limiter never looks at the item.
		}
		for _, call := range []func(){
			func() { l.When([]int{}) },
			func() { l.Forget([]int{}) },
		} {
			if goes(call) == nil {
				t.Errorf("%s: no panic", name)
			}
		}
		l.When("a")
		l.Forget("a")
	}
}

// The limiters keep nothing for a NaN, as no Forget could find the NaN.
func TestLimitersWithNaN(t *testing.T) {
	for name, l := range allLimiters[float64]() {
		for range 100 {
			if d := l.When(math.NaN()); d < 0 {
				t.Errorf("%s: wait %v", name, d)
			}
		}
		l.Forget(math.NaN())
		if n := l.NumRequeues(math.NaN()); n != 0 {
			t.Errorf("%s: %d failures", name, n)
		}
		if sized, ok := l.(interface{ Len() int }); ok && sized.Len() != 0 {
			t.Errorf("%s: %d records", name, sized.Len())
		}
	}
}

func BenchmarkWhen(b *testing.B) {
	for name, l := range allLimiters[string]() {
		b.Run("impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.When("key")
			}
		})
	}
}

// The table in docs/ordering.md: a call with a priority for an item in each state. The item was
// brought to its state with priority 3. If the item also waits, the wait has priority 4. The result
// is the state and the priority afterwards.
func TestPriorityOfAnItemInEachState(t *testing.T) {
	t.Parallel()
	playPage(t, section(read(t, "docs/ordering.md"), "Priorities"), 20, func(string) []string {
		return []string{"Typed", "apart", "metrics"}
	}, priorityCell)
}

func priorityCell(t *testing.T, call, state, below string) string {
	clock := testingclock.NewFakeClock(epoch)
	config := workqueue.TypedDelayingQueueConfig[string]{Clock: clock}
	call, config.OneEntry = strings.CutSuffix(call, ", with OneEntry")
	order := workqueue.Order[string]{}
	switch below {
	case "Typed":
		config.Order = order
	case "apart":
		typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: order})
		config.Queue = struct{ *workqueue.Typed[string] }{typed}
		if config.OneEntry { // OneEntry can ask a *Typed only.
			config.Queue = typed
		}
	case "metrics":
		config.Order, config.Name, config.MetricsProvider = order, "q", workqueue.NoMetrics{}
	}
	q := workqueue.NewTypedRateLimiting(constant(5*time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelaying(config),
	})
	defer q.ShutDown()
	bring(q, state, interplayAdds{
		first: func() { q.AddWith(workqueue.AddOptions{Priority: prio(3)}, "a") },
		again: func() {
			q.AddWith(workqueue.AddOptions{Priority: prio(-5)}, "a")
			q.AddWith(workqueue.AddOptions{Priority: prio(3)}, "a")
			q.Add("a")
		},
		later: func() { q.AddWith(workqueue.AddOptions{After: 10 * time.Second, Priority: prio(4)}, "a") },
	})
	for one := range strings.SplitSeq(call, ", ") {
		applyWith(q, clock, one)
	}
	synctest.Wait()
	checkInvariants(t, 0, q)
	return describePriorities(q.Snapshot(9))
}

func applyWith(q *workqueue.TypedRateLimiting[string], clock *testingclock.FakeClock, call string) {
	var options workqueue.AddOptions
	switch {
	case call == "Step":
		synctest.Wait()
		clock.Step(10 * time.Second)
	case strings.HasPrefix(call, "AddWith"):
		call, after, _ := strings.Cut(call, " after ")
		options.After, _ = time.ParseDuration(after)
		call, options.RateLimited = strings.CutSuffix(call, " rate limited")
		p, _ := strconv.Atoi(call[len("AddWith "):])
		options.Priority = &p
		q.AddWith(options, "a")
	default:
		apply(q, call)
	}
}

func describePriorities(s workqueue.Snapshot[string]) string {
	return describePlaces(s, func(place string, info workqueue.ItemInfo[string]) string {
		return fmt.Sprint(place, " ", info.Priority)
	})
}
