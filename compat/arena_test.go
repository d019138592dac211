package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// limiterProbe shows the last delay of a limiter.
type limiterProbe struct {
	clientgo.TypedRateLimiter[string]
	last time.Duration
}

func (p *limiterProbe) When(item string) time.Duration {
	p.last = p.TypedRateLimiter.When(item)
	return p.last
}

// newLimiters makes the same limiter of each package's parts. D8 needs a base
// which is a power of two nanoseconds.
func newLimiters() (theirs, ours *limiterProbe) {
	const base, limit, fast, slow = time.Millisecond, 20 * time.Second, 2 * time.Millisecond, time.Second
	theirs = &limiterProbe{TypedRateLimiter: clientgo.NewTypedMaxOfRateLimiter(
		clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, limit),
		clientgo.NewTypedItemFastSlowRateLimiter[string](fast, slow, 3))}
	ours = &limiterProbe{TypedRateLimiter: workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit),
		workqueue.NewTypedItemFastSlowRateLimiter[string](fast, slow, 3))}
	return theirs, ours
}

// timebase is a way to make time pass for both sides at once.
type timebase struct {
	name  string
	start func() (theirs, ours clock.WithTicker, advance func(time.Duration))
}

// Both are needed. A fake clock steps over many deadlines at once, as a suspended
// machine does, and fires timers while the queues look on; the bubble's clock
// runs through every instant, as the real one does.
var timebases = []timebase{
	{"fake clock", func() (theirs, ours clock.WithTicker, advance func(time.Duration)) {
		a, b := testingclock.NewFakeClock(time.Now()), testingclock.NewFakeClock(time.Now())
		return a, b, func(d time.Duration) { a.Step(d); b.Step(d) }
	}},
	{"bubble time", func() (theirs, ours clock.WithTicker, advance func(time.Duration)) {
		return clock.RealClock{}, clock.RealClock{}, time.Sleep
	}},
}

// arena is where a duel takes place: how time passes, and how ours is built.
type arena struct {
	timebase
	build
}

func (a arena) String() string { return a.timebase.name + ", " + a.build.name }

// Theirs is always the same queue. A change of ours must not show.
type build struct {
	name string
	ours func(workqueue.TypedRateLimiter[string], clock.WithTicker, *meter) queue
}

// builds are our queue with one of its orders, and two queues that take other paths: a queue without
// metrics, whose metrics are not compared, and a queue of three layers above a storage.
func builds() (all []build) {
	all = []build{
		{"plain", func(limiter workqueue.TypedRateLimiter[string], c clock.WithTicker, _ *meter) queue {
			return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Clock: c})
		}},
		{"with storage", func(limiter workqueue.TypedRateLimiter[string], c clock.WithTicker, m *meter) queue {
			inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: "duel", MetricsProvider: oursProvider(m), Clock: c, Queue: clientgo.DefaultQueue[string]()})
			delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				Name: "duel", MetricsProvider: oursProvider(m), Clock: c, Queue: inner})
			return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: "duel", DelayingQueue: delaying})
		}},
	}
	one := func(string) string { return "one" }
	for name, order := range map[string]workqueue.Order[string]{ // Where all items have one priority and one group, each is a FIFO.
		"without an order": {},
		"priority":         {Priority: func(string) int { return 7 }, OldestEvery: 2},
		"oldest":           {Priority: func(item string) int { return int(item[0]) }, OldestEvery: 1},
		"groups":           {Group: one, Weight: func(string) int { return 2 }, MaxInFlight: func(string) int { return 100 }},
		"groups first":     {Group: one, GroupsFirst: true, OldestEvery: 3},
	} {
		all = append(all, build{name, func(limiter workqueue.TypedRateLimiter[string], c clock.WithTicker, m *meter) queue {
			return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: "duel", MetricsProvider: oursProvider(m), Clock: c, Order: order})
		}})
	}
	slices.SortFunc(all[2:], func(a, b build) int { return strings.Compare(a.name, b.name) })
	return all
}

func arenas() (all []arena) {
	for _, b := range builds() {
		for _, base := range timebases {
			all = append(all, arena{base, b})
		}
	}
	return all
}

// runDuel plays ops in a bubble of their own. The wrapper stands between the
// duel and our queue; only the controls have one.
func runDuel(t *testing.T, a arena, ops []op, wrap func(queue) queue) (err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		theirLimiter, ourLimiter := newLimiters()
		theirClock, ourClock, advance := a.start()
		theirMeter, ourMeter := new(meter), new(meter)
		theirs := clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter, clientgo.TypedRateLimitingQueueConfig[string]{
			Name: "duel", MetricsProvider: clientGoProvider(theirMeter), Clock: theirClock})
		ours := a.ours(ourLimiter, ourClock, ourMeter)
		if wrap != nil {
			ours = wrap(ours)
		}
		d := &duel{
			theirs:  &side{queue: theirs, limiter: theirLimiter, meter: theirMeter},
			ours:    &side{queue: ours, limiter: ourLimiter, meter: ourMeter},
			advance: advance,
		}
		err = d.play(ops)
	})
	return err
}

// duels plays a script in some arenas and reports the first difference with the shortest sequence
// of operations.
func duels(t *testing.T, script []byte, in ...arena) error {
	t.Helper()
	ops := decode(script)
	for _, a := range in {
		run := func(ops []op) error { return runDuel(t, a, ops, nil) }
		if run(ops) == nil {
			continue
		}
		ops = shrink(ops, func(ops []op) bool { return run(ops) != nil })
		return fmt.Errorf("%v, script %v: %w", a, ops, run(ops))
	}
	return nil
}
