package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func short(impl implementation) *options {
	return &options{
		duration: 2 * time.Minute, seed: rand.Uint64(), goroutines: 32, visitors: 5000,
		patience: time.Minute, impl: impl, failFast: true,
	}
}

func TestStress(t *testing.T) {
	o := short(ours)
	o.duration = 3 * time.Second
	if found := stress(o); found.violations() > 0 {
		found.print(t.Output())
		t.Errorf("violations, with seed %d", o.seed)
	}
}

// A metric of an AddAfter ends the goroutine, and on the way out the order of the add panics: the item was
// not added, and nobody can repeat the call.
func TestAddOfAnEndingGoroutineThatAnOrderRefuses(t *testing.T) {
	r := newRound(short(ours), newTally(), rand.New(rand.NewPCG(1, 1)))
	defer r.queue.ShutDown()
	for item, ends := range []func(){runtime.Goexit, func() {
		defer panic(fault(badOrder))
		runtime.Goexit()
	}} {
		alone(func() { r.add(item, func(int) { ends() }) })
		if accepted, want := r.accounts[item].accepted.Load() == 1, item == 0; accepted != want {
			t.Errorf("item %d: accepted is %t", item, accepted)
		}
	}
}

// Each of these is our queue with one fault, and the violations of which one must be found within
// some seconds.
var broken = []struct {
	name  string
	wrap  func(*workqueue.TypedRateLimiting[int]) queue
	finds []string
}{
	{"an Add of a held item is dropped at times", func(q *workqueue.TypedRateLimiting[int]) queue {
		return &dropsAdds{TypedRateLimiting: q}
	}, []string{lost, lostAtEnd}},
	{"an item is handed out twice", func(q *workqueue.TypedRateLimiting[int]) queue {
		return &handsOutTwice{TypedRateLimiting: q}
	}, []string{twoWorkers, phantom}},
	{"a hand-out is lost with the context", func(q *workqueue.TypedRateLimiting[int]) queue {
		return cancelDrops{q}
	}, []string{lost, lostAtEnd, hang, leftQueued}},
	{"a Done is lost at times", func(q *workqueue.TypedRateLimiting[int]) queue {
		return dropsDone{q}
	}, []string{lost, lostAtEnd, hang, leftQueued, wrongDrain, lengthWrong}},
	{"a drain returns at once", func(q *workqueue.TypedRateLimiting[int]) queue {
		return drainsEarly{q}
	}, []string{earlyDrain, wrongDrain}},
	{"a Drain forgets one of what it leaves", func(q *workqueue.TypedRateLimiting[int]) queue {
		return drainForgets{q}
	}, []string{wrongDrain}},
	{"ShutDown does not end what waits", func(q *workqueue.TypedRateLimiting[int]) queue {
		return leaks{q}
	}, []string{goroutines, memory}},
	{"Remove takes back another item too", func(q *workqueue.TypedRateLimiting[int]) queue {
		return removesMore{q}
	}, []string{lost, lostAtEnd}},
	{"Reschedule is at times for ever", func(q *workqueue.TypedRateLimiting[int]) queue {
		return reschedulesNever{q}
	}, []string{lost}},
}

func TestStressFindsWhatIsBroken(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			expect(t, short(implementation{name: b.name, limits: true, shares: true, plain: ours.plain,
				make: func(r *recipe) queue {
					return b.wrap(makeOurs(r).(*workqueue.TypedRateLimiting[int]))
				}}), b.finds...)
		})
	}
}

func TestStressFindsALostDueItem(t *testing.T) {
	expect(t, short(implementation{name: "due", limits: true, plain: ours.plain, make: func(r *recipe) queue {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Clock: r.clock, Queue: &dropsDue{Typed: workqueue.NewTyped[int]()},
		})
	}}), lost, lostAtEnd)
}

func TestStressFindsDisorder(t *testing.T) {
	expect(t, short(implementation{name: "stack", make: makeOurs, plain: func() queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: &stack{}})
	}}), disorder)
}

// expect fails unless one of the kinds of violations is found, and is the first.
func expect(t *testing.T, o *options, kinds ...string) {
	t.Helper()
	from := time.Now()
	// A run ends with the first violation, which can be a consequence of the fault with another
	// name, or of a busy machine: then more patience helps.
	for patience := 500 * time.Millisecond; patience < time.Minute; patience += patience / 2 {
		again := *o // A round that hangs still reads its own options.
		again.patience = patience
		found := stress(&again)
		for _, kind := range found.kinds() {
			if slices.Contains(kinds, kind) {
				t.Logf("%s: found after %v: %s, %s", o.impl.name, time.Since(from).Round(time.Millisecond), kind, found.examples[kind])
				return
			}
		}
		found.print(t.Output())
		if found.violations() == 0 {
			break
		}
		o.seed++
	}
	t.Errorf("%s: want one of %q, with seed %d", o.impl.name, kinds, o.seed)
}

type dropsAdds struct {
	*workqueue.TypedRateLimiting[int]
	mu   sync.Mutex
	held map[int]bool
}

func (q *dropsAdds) Get() (int, bool) {
	item, shutdown := q.TypedRateLimiting.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held == nil {
		q.held = map[int]bool{}
	}
	q.held[item] = true
	return item, shutdown
}

func (q *dropsAdds) Done(item int) {
	q.mu.Lock()
	delete(q.held, item)
	q.mu.Unlock()
	q.TypedRateLimiting.Done(item)
}

func (q *dropsAdds) Add(item int) {
	q.mu.Lock()
	drop := q.held[item] && rand.IntN(4) == 0
	q.mu.Unlock()
	if !drop {
		q.TypedRateLimiting.Add(item)
	}
}

type handsOutTwice struct {
	*workqueue.TypedRateLimiting[int]
	last atomic.Int64
}

func (q *handsOutTwice) Get() (int, bool) {
	if last := q.last.Swap(-1); last > 0 && rand.IntN(100) == 0 {
		return int(last), false
	}
	item, shutdown := q.TypedRateLimiting.Get()
	q.last.Store(int64(item))
	return item, shutdown
}

type cancelDrops struct {
	*workqueue.TypedRateLimiting[int]
}

func (q cancelDrops) GetContext(ctx context.Context) (int, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	if err == nil && ctx.Err() != nil {
		q.TypedRateLimiting.Done(item)
		return 0, ctx.Err()
	}
	return item, err
}

type dropsDone struct {
	*workqueue.TypedRateLimiting[int]
}

func (q dropsDone) Done(item int) {
	if rand.IntN(500) > 0 {
		q.TypedRateLimiting.Done(item)
	}
}

type drainsEarly struct {
	*workqueue.TypedRateLimiting[int]
}

func (q drainsEarly) ShutDownWithDrain() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q.Drain(ctx)
}

type drainForgets struct {
	*workqueue.TypedRateLimiting[int]
}

func (q drainForgets) Drain(ctx context.Context) error {
	err := q.TypedRateLimiting.Drain(ctx)
	if left, ok := err.(*workqueue.DrainError[int]); ok && left.Left.QueuedTotal > 0 {
		left.Left.QueuedTotal--
	}
	return err
}

type leaks struct {
	*workqueue.TypedRateLimiting[int]
}

func (q leaks) ShutDown() {
	q.TypedRateLimiting.ShutDown()
	time.AfterFunc(0, func() { time.Sleep(time.Hour) })
}

type removesMore struct {
	*workqueue.TypedRateLimiting[int]
}

func (q removesMore) Remove(item int) bool {
	q.TypedRateLimiting.Remove((item + 1) % loose)
	return q.TypedRateLimiting.Remove(item)
}

type reschedulesNever struct {
	*workqueue.TypedRateLimiting[int]
}

func (q reschedulesNever) Reschedule(item int, d time.Duration) bool {
	if rand.IntN(4) == 0 {
		d += 1000 * time.Hour
	}
	return q.TypedRateLimiting.Reschedule(item, d)
}

// A dropsDue sometimes loses an item that comes from the goroutine of the delaying queue, or that
// goes there.
type dropsDue struct{ *workqueue.Typed[int] }

func (q *dropsDue) Add(item int) {
	if rand.IntN(50) > 0 {
		q.Typed.Add(item)
	}
}

func TestTally(t *testing.T) {
	tally := newTally()
	tally.violation(lost, "an item\nand more")
	tally.violation(lost, "another")
	var text strings.Builder
	if tally.print(&text); !strings.Contains(text.String(), ": 2 lost\nlost, for example: an item\n") {
		t.Errorf("got %s", text.String())
	}
}

func TestGrowth(t *testing.T) {
	for name, tt := range map[string]struct {
		heap       func(i int) uint64
		goroutines func(i int) int
		n          int
		want       string
	}{
		"flat":           {func(int) uint64 { return 1 << 20 }, func(int) int { return 9 }, 20, ""},
		"a warm-up":      {func(i int) uint64 { return min(5, uint64(i)) << 20 }, func(i int) int { return min(i, 3) }, 20, ""},
		"noise":          {func(i int) uint64 { return 1<<20 + uint64(i*7%5)<<14 }, func(int) int { return 9 }, 20, ""},
		"one outlier":    {func(i int) uint64 { return 1<<20 + uint64(i/19)<<24 }, func(int) int { return 9 }, 20, ""},
		"memory grows":   {func(i int) uint64 { return 1<<20 + uint64(i)<<15 }, func(int) int { return 9 }, 20, "memory"},
		"goroutines":     {func(int) uint64 { return 1 << 20 }, func(i int) int { return 9 + i/8 }, 20, "goroutines"},
		"too few to say": {func(int) uint64 { return 1 << 20 }, func(int) int { return 9 }, 3, "too few"},
	} {
		var all []sample
		for i := range tt.n {
			all = append(all, sample{heap: tt.heap(i), goroutines: tt.goroutines(i)})
		}
		if err := growth(all); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// A short round with all features comes to rest, and its accounts are right.
func TestSoak(t *testing.T) {
	o := short(ours)
	o.duration = time.Second
	found := soak(o, t.Output(), 2)
	delete(found.found, memory) // A short round has only a warm-up.
	if found.violations() > 0 {
		found.print(t.Output())
		t.Errorf("violations, with seed %d", o.seed)
	}
}
