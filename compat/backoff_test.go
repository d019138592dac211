//lint:file-ignore SA1019 The managers are compared with those they stand in for.

package compat_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	ourwait "github.com/seed16c08ea7/workqueue/wait"
)

// These lines compile because a Backoff of one package converts to the Backoff of the other: the
// fields have the same names, types and order. A BackoffManager is assignable in both directions.
var (
	_ = ourwait.Backoff(wait.Backoff{})
	_ = wait.Backoff(ourwait.Backoff{})
	_ = ourwait.DelayFunc(wait.Backoff{}.DelayFunc())
	_ = wait.DelayFunc(ourwait.Backoff{}.DelayFunc())
)

func _(a wait.BackoffManager, b ourwait.BackoffManager) { a, b = b, a }

// The constructors of the two packages differ only in the name of the interface that they return.
type (
	exponential = func(init, limit, reset time.Duration, factor, jitter float64, c clock.Clock) wait.BackoffManager
	jittered    = func(d time.Duration, jitter float64, c clock.Clock) wait.BackoffManager
)

func ourExponential(init, limit, reset time.Duration, factor, jitter float64, c clock.Clock) wait.BackoffManager {
	return ourwait.NewExponentialBackoffManager(init, limit, reset, factor, jitter, c)
}

func ourJittered(d time.Duration, jitter float64, c clock.Clock) wait.BackoffManager {
	return ourwait.NewJitteredBackoffManager(d, jitter, c)
}

func generator(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// rounds returns n, and a fifth of n under the race detector, which makes a round ten times as slow and
// finds nothing where only one goroutine runs.
func rounds(n int) int {
	if len(buildFlags()) > 0 {
		return n / 5
	}
	return n
}

// anyBackoff returns a Backoff without jitter whose numbers stay in the range.
func anyBackoff(r *rand.Rand) wait.Backoff {
	factors := []float64{0, 0.5, 0.9, 1, 1.1, 1.5, 2, 3, 10}
	return wait.Backoff{
		Duration: time.Duration(r.Int64N(int64(time.Minute))),
		Factor:   factors[r.IntN(len(factors))],
		Steps:    r.IntN(10) - 1,
		Cap:      time.Duration(r.Int64N(int64(time.Hour))) * time.Duration(r.IntN(2)),
	}
}

func TestBackoffStepByStep(t *testing.T) {
	r := generator(t)
	for range rounds(20_000) {
		theirs := anyBackoff(r)
		start, ours := theirs, ourwait.Backoff(theirs)
		for n := range 15 {
			want, got := theirs.Step(), ours.Step()
			if got != want || wait.Backoff(ours) != theirs {
				t.Fatalf("%+v, step %d: theirs %v, leaving %+v; ours %v, leaving %+v", start, n, want, theirs, got, ours)
			}
		}
	}
}

func TestDelayFuncsStepByStep(t *testing.T) {
	r := generator(t)
	for range rounds(5000) {
		b := anyBackoff(r)
		reset := time.Duration(r.Int64N(int64(time.Minute)) - int64(time.Second))
		c := testclock.NewFakeClock(time.Unix(0, 0))
		theirs := []wait.DelayFunc{b.DelayFunc(), b.DelayWithReset(c, reset)}
		ours := []ourwait.DelayFunc{ourwait.Backoff(b).DelayFunc(), ourwait.Backoff(b).DelayWithReset(c, reset)}
		for n := range 30 {
			for i := range theirs {
				if want, got := theirs[i](), ours[i](); got != want {
					t.Fatalf("%+v, reset %v, function %d, call %d: theirs %v, ours %v", b, reset, i, n, want, got)
				}
			}
			c.Step(anyPause(r, reset))
		}
	}
}

// anyPause returns no pause, a random pause, or a pause at the edge.
func anyPause(r *rand.Rand, edge time.Duration) time.Duration {
	switch r.IntN(4) {
	case 0:
		return max(0, edge+time.Duration(r.IntN(3)-1))
	case 1:
		return time.Duration(r.Int64N(int64(time.Minute)))
	case 2:
		return time.Duration(r.Int64N(int64(time.Second)))
	}
	return 0
}

// The duration of a timer is the duration that its clock was asked for.
type askedClock struct {
	*testclock.FakeClock
	asked time.Duration
}

type askedTimer struct {
	clock.Timer
	clock *askedClock
}

func (c *askedClock) NewTimer(d time.Duration) clock.Timer {
	c.asked = d
	return askedTimer{c.FakeClock.NewTimer(d), c}
}

func (t askedTimer) Reset(d time.Duration) bool {
	t.clock.asked = d
	return t.Timer.Reset(d)
}

func newAskedClock() *askedClock {
	return &askedClock{FakeClock: testclock.NewFakeClock(time.Unix(0, 0))}
}

// call waits until the manager's timer has fired, as users do, and returns the duration of the
// timer.
func (c *askedClock) call(t *testing.T, m wait.BackoffManager) time.Duration {
	t.Helper()
	timer := m.Backoff()
	c.Step(max(0, c.asked))
	select {
	case <-timer.C():
	default:
		t.Fatalf("the timer of %v has not fired", c.asked)
	}
	return c.asked
}

func TestBackoffManagersStepByStep(t *testing.T) {
	r := generator(t)
	for range rounds(5000) {
		b := anyBackoff(r)
		init, limit := b.Duration, max(b.Cap, b.Duration)
		reset := time.Duration(r.Int64N(int64(10 * time.Minute)))
		a, o := newAskedClock(), newAskedClock()
		theirs := wait.NewExponentialBackoffManager(init, limit, reset, b.Factor, 0, a)
		ours := ourExponential(init, limit, reset, b.Factor, 0, o)
		for n := range 20 {
			if want, got := a.call(t, theirs), o.call(t, ours); got != want {
				t.Fatalf("%v to %v, reset %v, factor %v, call %d: theirs %v, ours %v", init, limit, reset, b.Factor, n, want, got)
			}
			// The edge is counted from the call, and each call has waited.
			pause := anyPause(r, reset-o.asked)
			a.Step(pause)
			o.Step(pause)
		}
	}
}

// Both spread the same intervals over the same range, evenly: the bounds hold
// for each, and the means differ by less than 1 in 50 of the range.
func TestJitterByItsDistribution(t *testing.T) {
	const n = 20_000
	for _, row := range []struct {
		d      time.Duration
		factor float64
	}{{time.Second, 0.5}, {time.Second, 1}, {time.Minute, 3}, {time.Second, 0}, {time.Second, -1}, {7, 2}, {0, 1}} {
		for name, of := range map[string][2]func() time.Duration{
			"Jitter": {
				func() time.Duration { return wait.Jitter(row.d, row.factor) },
				func() time.Duration { return ourwait.Jitter(row.d, row.factor) },
			},
			"Step": {
				func() time.Duration { return (&wait.Backoff{Duration: row.d, Jitter: row.factor}).Step() },
				func() time.Duration { return (&ourwait.Backoff{Duration: row.d, Jitter: row.factor}).Step() },
			},
			"NewJitteredBackoffManager": {
				managed(wait.NewJitteredBackoffManager, row.d, row.factor),
				managed(ourJittered, row.d, row.factor),
			},
		} {
			spread := time.Duration(row.factor * float64(row.d))
			if row.factor <= 0 && name == "Jitter" {
				spread = row.d
			}
			spread = max(0, spread)
			var mean [2]float64
			for side, next := range of {
				for range n {
					d := next()
					if d < row.d || d > row.d+spread {
						t.Fatalf("%s(%v, %v), side %d: %v", name, row.d, row.factor, side, d)
					}
					mean[side] += float64(d) / n
				}
			}
			if math.Abs(mean[0]-mean[1]) > float64(spread)/50+1 {
				t.Errorf("%s(%v, %v): mean of theirs %v, of ours %v", name, row.d, row.factor, mean[0], mean[1])
			}
		}
	}
}

func managed(newManager jittered, d time.Duration, jitter float64) func() time.Duration {
	c := newAskedClock()
	m := newManager(d, jitter, c)
	return func() time.Duration {
		m.Backoff()
		return c.asked
	}
}

// loops are the loops of a package; f gets no context.
type loops map[string]func(ctx context.Context, f func(), sliding bool)

const loopPeriod = 100 * time.Millisecond

func theirLoops() loops {
	growing := func() wait.BackoffManager {
		return wait.NewExponentialBackoffManager(loopPeriod, 5*loopPeriod, time.Second, 2, 0, clock.RealClock{})
	}
	return loops{
		"Until":            func(ctx context.Context, f func(), _ bool) { wait.Until(f, loopPeriod, ctx.Done()) },
		"UntilWithContext": func(ctx context.Context, f func(), _ bool) { wait.UntilWithContext(ctx, alone(f), loopPeriod) },
		"NonSlidingUntil":  func(ctx context.Context, f func(), _ bool) { wait.NonSlidingUntil(f, loopPeriod, ctx.Done()) },
		"NonSlidingUntilWithContext": func(ctx context.Context, f func(), _ bool) {
			wait.NonSlidingUntilWithContext(ctx, alone(f), loopPeriod)
		},
		"JitterUntil": func(ctx context.Context, f func(), s bool) { wait.JitterUntil(f, loopPeriod, 0, s, ctx.Done()) },
		"JitterUntilWithContext": func(ctx context.Context, f func(), s bool) {
			wait.JitterUntilWithContext(ctx, alone(f), loopPeriod, -1, s)
		},
		"BackoffUntil":            func(ctx context.Context, f func(), s bool) { wait.BackoffUntil(f, growing(), s, ctx.Done()) },
		"BackoffUntilWithContext": func(ctx context.Context, f func(), s bool) { wait.BackoffUntilWithContext(ctx, alone(f), growing(), s) },
	}
}

func ourLoops() loops {
	growing := func() ourwait.BackoffManager {
		return ourwait.NewExponentialBackoffManager(loopPeriod, 5*loopPeriod, time.Second, 2, 0, clock.RealClock{})
	}
	return loops{
		"Until":            func(ctx context.Context, f func(), _ bool) { ourwait.Until(f, loopPeriod, ctx.Done()) },
		"UntilWithContext": func(ctx context.Context, f func(), _ bool) { ourwait.UntilWithContext(ctx, alone(f), loopPeriod) },
		"NonSlidingUntil":  func(ctx context.Context, f func(), _ bool) { ourwait.NonSlidingUntil(f, loopPeriod, ctx.Done()) },
		"NonSlidingUntilWithContext": func(ctx context.Context, f func(), _ bool) {
			ourwait.NonSlidingUntilWithContext(ctx, alone(f), loopPeriod)
		},
		"JitterUntil": func(ctx context.Context, f func(), s bool) { ourwait.JitterUntil(f, loopPeriod, 0, s, ctx.Done()) },
		"JitterUntilWithContext": func(ctx context.Context, f func(), s bool) {
			ourwait.JitterUntilWithContext(ctx, alone(f), loopPeriod, -1, s)
		},
		"BackoffUntil": func(ctx context.Context, f func(), s bool) { ourwait.BackoffUntil(f, growing(), s, ctx.Done()) },
		"BackoffUntilWithContext": func(ctx context.Context, f func(), s bool) {
			ourwait.BackoffUntilWithContext(ctx, alone(f), growing(), s)
		},
	}
}

func alone(f func()) func(context.Context) { return func(context.Context) { f() } }

// The loops begin the same runs at the same times, and return at the same time, for runs of any
// length and a stop at any time: before, in or between runs. Runs end at odd milliseconds, stops
// come at even milliseconds, and periods end at either: no two at once, whose order is open.
func TestLoopsStepByStep(t *testing.T) {
	r := generator(t)
	theirs, ours := theirLoops(), ourLoops()
	for range 50 {
		var lengths []time.Duration
		for range 30 {
			lengths = append(lengths, time.Duration(r.IntN(300))*time.Millisecond+time.Microsecond)
		}
		stop := time.Duration(r.IntN(4000))*time.Millisecond + 500*time.Microsecond
		if r.IntN(10) == 0 {
			stop = 0
		}
		for name := range theirs {
			for _, sliding := range []bool{true, false} {
				want := journal(t, theirs[name], lengths, stop, sliding)
				got := journal(t, ours[name], lengths, stop, sliding)
				if !slices.Equal(want, got) {
					t.Fatalf("%s, sliding %v, stop at %v, runs of %v:\ntheirs %v\nours   %v", name, sliding, stop, lengths, want, got)
				}
			}
		}
	}
}

// journal returns the start time of each run, and then the time when the loop returned.
func journal(t *testing.T, loop func(context.Context, func(), bool), lengths []time.Duration, stop time.Duration, sliding bool) (at []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), stop)
		defer cancel()
		loop(ctx, func() {
			at = append(at, time.Since(start))
			time.Sleep(lengths[len(at)%len(lengths)])
		}, sliding)
		at = append(at, time.Since(start))
	})
	return at
}

// A difference is a step in which the two sides differ, with the effect on each side.
type difference struct {
	what         string
	theirs, ours func() string
	want         [2]string
}

// check shows the difference. The processor decides what client-go makes of a number that a
// duration cannot hold.
func (d difference) check(t *testing.T) {
	t.Helper()
	theirs, ours := d.theirs(), d.ours()
	t.Logf("%s: theirs %s, ours %s", d.what, theirs, ours)
	if theirs != d.want[0] && runtime.GOARCH == "amd64" {
		t.Errorf("%s: theirs %s, want %s", d.what, theirs, d.want[0])
	}
	if ours != d.want[1] {
		t.Errorf("%s: ours %s, want %s", d.what, ours, d.want[1])
	}
}

func printed(f func() time.Duration, n int) string {
	var all []time.Duration
	for range n {
		all = append(all, f())
	}
	return fmt.Sprint(all)
}

// exponentialWaits returns four waits of a manager, and whether jittered waits with a maximum of a
// second exceed the maximum.
func exponentialWaits(newManager exponential, init, limit time.Duration, factor, jitter float64) string {
	c := newAskedClock()
	m := newManager(init, limit, time.Hour, factor, jitter, c)
	return printed(func() time.Duration {
		m.Backoff()
		return c.asked
	}, 4)
}

func exceeds(newManager exponential) string {
	c := newAskedClock()
	m := newManager(time.Second, time.Second, time.Hour, 2, 1, c)
	longest := time.Duration(0)
	for range rounds(5000) {
		m.Backoff()
		longest = max(longest, c.asked)
	}
	return fmt.Sprint("exceeds the maximum: ", longest > time.Second)
}

// firedTwice reports whether a wait is over at once if it starts after the end of the last wait,
// whose tick nobody received.
func firedTwice(newManager jittered) string {
	c := testclock.NewFakeClock(time.Unix(0, 0))
	m := newManager(time.Second, 0, c)
	m.Backoff()
	c.Step(time.Second)
	return fmt.Sprint("over at once: ", len(m.Backoff().C()) > 0)
}

// backoffDifferences are all differences. The tests above compare other sequences.
func backoffDifferences() []difference {
	step := func(b wait.Backoff) [2]func() string {
		ours := ourwait.Backoff(b)
		return [2]func() string{
			func() string { return printed(b.Step, 3) },
			func() string { return printed(ours.Step, 3) },
		}
	}
	jitter := func(d time.Duration, factor float64) [2]func() string {
		return [2]func() string{
			func() string { return fmt.Sprint(wait.Jitter(d, factor) < 0) },
			func() string { return fmt.Sprint(ourwait.Jitter(d, factor) < 0) },
		}
	}
	manager := func(init, limit time.Duration, factor float64) [2]func() string {
		return [2]func() string{
			func() string { return exponentialWaits(wait.NewExponentialBackoffManager, init, limit, factor, 0) },
			func() string { return exponentialWaits(ourExponential, init, limit, factor, 0) },
		}
	}
	row := func(what string, sides [2]func() string, theirs, ours string) difference {
		return difference{what, sides[0], sides[1], [2]string{theirs, ours}}
	}
	const s = time.Second
	return []difference{
		row("Step: a negative Duration counts as zero",
			step(wait.Backoff{Duration: -s, Factor: 2, Steps: 5}), "[-1s -2s -4s]", "[0s 0s 0s]"),
		row("Step: a negative Factor counts as none",
			step(wait.Backoff{Duration: s, Factor: -2, Steps: 5}), "[1s -2s 4s]", "[1s 1s 1s]"),
		row("Step: a Factor that is not a number counts as none",
			step(wait.Backoff{Duration: s, Factor: math.NaN(), Steps: 5}), fmt.Sprintf("[1s %v %[1]v]", time.Duration(math.MinInt64)), "[1s 1s 1s]"),
		row("Step: an interval beyond the range saturates",
			step(wait.Backoff{Duration: 1 << 62, Factor: 2, Steps: 5}),
			fmt.Sprintf("[%v %v %[2]v]", time.Duration(1<<62), time.Duration(math.MinInt64)),
			fmt.Sprintf("[%v %v %[2]v]", time.Duration(1<<62), time.Duration(math.MaxInt64))),
		row("Step: an infinite Jitter saturates",
			step(wait.Backoff{Duration: s, Jitter: math.Inf(1)}),
			fmt.Sprintf("[%v %[1]v %[1]v]", math.MinInt64+s), fmt.Sprintf("[%v %[1]v %[1]v]", time.Duration(math.MaxInt64))),
		row("Jitter: the sum saturates", jitter(math.MaxInt64, 1), "true", "false"),
		row("Jitter: a negative duration counts as zero", jitter(-s, 1), "true", "false"),
		row("Jitter: a factor that is not a number counts as 1", jitter(s, math.NaN()), "true", "false"),
		row("NewExponentialBackoffManager: no wait exceeds the maximum, the first neither",
			manager(9*s, 4*s, 2), "[9s 4s 4s 4s]", "[4s 4s 4s 4s]"),
		row("NewExponentialBackoffManager: nor with jitter, which takes place below the maximum", [2]func() string{
			func() string { return exceeds(wait.NewExponentialBackoffManager) },
			func() string { return exceeds(ourExponential) },
		}, "exceeds the maximum: true", "exceeds the maximum: false"),
		row("NewExponentialBackoffManager: a negative factor counts as none",
			manager(s, 9*s, -2), "[1s -2s 4s -8s]", "[1s 1s 1s 1s]"),
		row("NewExponentialBackoffManager: a negative interval counts as zero",
			manager(-s, 9*s, 2), "[-1s -2s -4s -8s]", "[0s 0s 0s 0s]"),
		row("Backoff of a manager: the timer forgets a tick that nobody has received", [2]func() string{
			func() string { return firedTwice(wait.NewJitteredBackoffManager) },
			func() string { return firedTwice(ourJittered) },
		}, "over at once: true", "over at once: false"),
	}
}

func TestBackoffDifferences(t *testing.T) {
	for _, d := range backoffDifferences() {
		d.check(t)
	}
}

// This difference is not in the table, as it would print on standard error: apimachinery logs a
// panic in a loop, such as the panic of a nil function, before the panic reaches the caller.
func TestLoopsPanicOn(t *testing.T) {
	for name, loop := range ourLoops() {
		if got := recovered(func() { loop(t.Context(), func() { panic("boom") }, true) }); got != "boom" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
