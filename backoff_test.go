package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

const (
	forever = time.Duration(math.MaxInt64)
)

func TestBackoffStep(t *testing.T) {
	const s = time.Second
	inf := math.Inf(1)
	for _, row := range []struct {
		name string
		b    workqueue.Backoff
		want string // the intervals, and what is left
	}{
		{"zero value", workqueue.Backoff{}, "0s 0s; 0s 0"},
		{"no steps", workqueue.Backoff{Duration: s, Factor: 2}, "1s 1s 1s; 1s 0"},
		{"negative steps", workqueue.Backoff{Duration: s, Factor: 2, Steps: -3}, "1s 1s; 1s 0"},
		{"no factor", workqueue.Backoff{Duration: s, Steps: 2}, "1s 1s 1s; 1s 0"},
		{"doubles for its steps", workqueue.Backoff{Duration: s, Factor: 2, Steps: 3}, "1s 2s 4s 8s 8s; 8s 0"},
		{"steps are left", workqueue.Backoff{Duration: s, Factor: 2, Steps: 9}, "1s 2s; 4s 7"},
		{"cap ends the steps", workqueue.Backoff{Duration: s, Factor: 2, Steps: 9, Cap: 5 * s}, "1s 2s 4s 5s 5s; 5s 0"},
		{"cap met, not exceeded", workqueue.Backoff{Duration: s, Factor: 2, Steps: 9, Cap: 4 * s}, "1s 2s; 4s 7"},
		{"cap below the first", workqueue.Backoff{Duration: 9 * s, Factor: 2, Steps: 9, Cap: 4 * s}, "9s 4s 4s; 4s 0"},
		{"smallest cap", workqueue.Backoff{Duration: 3, Factor: 2, Steps: 9, Cap: 1}, "3ns 1ns 1ns; 1ns 0"},
		{"cap without factor", workqueue.Backoff{Duration: 9 * s, Steps: 9, Cap: 4 * s}, "9s 9s; 9s 7"},
		{"negative cap is none", workqueue.Backoff{Duration: s, Factor: 2, Steps: 3, Cap: -s}, "1s 2s 4s; 8s 0"},
		{"shrinks", workqueue.Backoff{Duration: s, Factor: 0.5, Steps: 2}, "1s 500ms 250ms 250ms; 250ms 0"},

		{"negative duration", workqueue.Backoff{Duration: -s, Factor: 2, Steps: 3}, "0s 0s; 0s 1"},
		{"negative factor", workqueue.Backoff{Duration: s, Factor: -2, Steps: 3}, "1s 1s; 1s 1"},
		{"factor not a number", workqueue.Backoff{Duration: s, Factor: math.NaN(), Steps: 3}, "1s 1s; 1s 1"},
		{"infinite factor", workqueue.Backoff{Duration: s, Factor: inf, Steps: 3, Cap: 5 * s}, "1s 5s 5s; 5s 0"},
		{"infinite factor of nothing", workqueue.Backoff{Factor: inf, Jitter: inf, Steps: 3}, "0s 0s; 0s 1"},
		{"saturates", workqueue.Backoff{Duration: 1 << 62, Factor: 2, Steps: 3},
			"1281023h53m38.427387904s 2562047h47m16.854775807s; 2562047h47m16.854775807s 1"},
		{"negative jitter", workqueue.Backoff{Duration: s, Jitter: -1, Steps: 3}, "1s 1s; 1s 1"},
		{"jitter not a number", workqueue.Backoff{Duration: s, Jitter: math.NaN(), Steps: 3}, "1s 1s; 1s 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := row.b
			n := len(strings.Fields(row.want)) - 2
			got := fmt.Sprintf("%s; %v %d", intervals(b.Step, n), b.Duration, b.Steps)
			if got != row.want {
				t.Errorf("%+v: got %q, want %q", row.b, got, row.want)
			}
		})
	}
}

// intervals calls next n times.
func intervals(next func() time.Duration, n int) string {
	got := make([]string, n)
	for i := range got {
		got[i] = next().String()
	}
	return strings.Join(got, " ")
}

func TestBackoffStepOfNilIsZero(t *testing.T) {
	var b *workqueue.Backoff
	if d := b.Step(); d != 0 {
		t.Errorf("got %v, want 0", d)
	}
}

// Jitter is added to what Cap allows and does not enter the next interval:
// both as documented for the type of this name.
func TestBackoffStepJitterComesAfterTheCap(t *testing.T) {
	b := workqueue.Backoff{Duration: 4 * time.Second, Factor: 2, Jitter: 0.5, Steps: 3, Cap: 10 * time.Second}
	above := 0
	for i, interval := range []time.Duration{4, 8, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10} {
		interval *= time.Second
		d := b.Step()
		if d < interval || d > interval*3/2 {
			t.Errorf("step %d: got %v, want %v to %v", i, d, interval, interval*3/2)
		}
		if d > b.Cap {
			above++
		}
	}
	if above == 0 {
		t.Error("no interval exceeds the cap by its jitter")
	}
}

func TestBackoffStepNeverNegativeAndMonotone(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	odd := []float64{0, 1, 1 + 1e-15, 1.5, 2, 1e300, -1, math.NaN(), math.Inf(1), math.Inf(-1)}
	for range 2000 {
		b := workqueue.Backoff{
			Duration: time.Duration(r.Int64() >> r.IntN(63)),
			Factor:   odd[r.IntN(len(odd))],
			Steps:    r.IntN(100),
			Cap:      time.Duration(r.Int64()>>r.IntN(63)) * time.Duration(r.IntN(2)),
		}
		if r.IntN(8) == 0 {
			b.Duration = -b.Duration
		}
		before, last := b, time.Duration(0)
		for i := range 120 {
			d := b.Step()
			if i == 1 && before.Cap > 0 && before.Duration > before.Cap {
				last = 0 // The one time that it goes down.
			}
			if d < last {
				t.Fatalf("%+v, step %d: %v after %v", before, i, d, last)
			}
			last = d
		}
		b = before
		b.Jitter = odd[r.IntN(len(odd))]
		for i := range 120 {
			if d := b.Step(); d < 0 {
				t.Fatalf("%+v, step %d: %v", before, i, d)
			}
		}
	}
}

func TestDelayFuncLeavesTheBackoffAlone(t *testing.T) {
	b := workqueue.Backoff{Duration: time.Second, Factor: 3, Steps: 2}
	before := b
	first, second := b.DelayFunc(), b.DelayFunc().Concurrent()
	for _, next := range []func() time.Duration{first, second} {
		if got, want := intervals(next, 4), "1s 3s 9s 9s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if b != before {
		t.Errorf("the backoff became %+v", b)
	}
}

func TestDelayFuncConcurrent(t *testing.T) {
	shared := workqueue.Backoff{Duration: 1, Factor: 2, Steps: 40}.DelayFunc().Concurrent()
	var mu sync.Mutex
	var got []time.Duration
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				d := shared()
				mu.Lock()
				got = append(got, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	for i, d := range got {
		if d != 1<<i {
			t.Fatalf("call %d: got %d, want %d", i, d, 1<<i)
		}
	}
}

// The reset comes with the first call that is later than the interval, counted
// from the reset before or, for the first, from construction: calls in between
// do not put it off.
func TestDelayWithReset(t *testing.T) {
	const s = time.Second
	growing := workqueue.Backoff{Duration: s, Factor: 2, Steps: 6}
	for _, row := range []struct {
		name  string
		b     workqueue.Backoff
		reset time.Duration
		gap   time.Duration // before each call
		want  string
	}{
		{"no time passes", growing, 10 * s, 0, "1s 2s 4s 8s 16s 32s 1m4s 1m4s"},
		{"often enough in between", growing, 10 * s, 3 * s, "1s 2s 4s 1s 2s 4s 8s 1s 2s 4s 8s 1s"},
		{"at the interval is not later", growing, 10 * s, 10 * s, "1s 1s 2s 1s 2s"},
		{"later each time", growing, 10 * s, 11 * s, "1s 1s 1s"},
		{"zero", growing, 0, s, "1s 1s 1s"},
		{"zero, and no time passes", growing, 0, 0, "1s 1s 1s"},
		{"the smallest, and no time passes", growing, 1, 0, "1s 2s 4s"},
		{"negative", growing, -s, s, "1s 1s 1s"},
		{"no factor", workqueue.Backoff{Duration: s, Steps: 6}, 10 * s, 3 * s, "1s 1s 1s"},
		{"one step", workqueue.Backoff{Duration: s, Factor: 2, Steps: 1}, 10 * s, 6 * s, "1s 1s 2s 1s 2s 1s"},
		{"no steps", workqueue.Backoff{Duration: s, Factor: 2, Steps: -1}, 10 * s, 0, "1s 1s 1s"},
		{"cap", workqueue.Backoff{Duration: s, Factor: 2, Steps: 6, Cap: 3 * s}, 10 * s, 4 * s, "1s 2s 1s 2s 3s 1s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testclock.NewFakeClock(time.Unix(0, 0))
			delay := row.b.DelayWithReset(c, row.reset)
			next := func() time.Duration {
				c.Step(row.gap)
				return delay()
			}
			if got := intervals(next, len(strings.Fields(row.want))); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestDelayWithResetConcurrent(t *testing.T) {
	delay := workqueue.Backoff{Duration: 1, Factor: 2, Steps: 30}.DelayWithReset(testclock.NewFakeClock(time.Unix(0, 0)), time.Hour)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				delay()
			}
		})
	}
	wg.Wait()
	if got := delay(); got != 1<<30 {
		t.Errorf("after 40 calls: got %d, want %d", got, 1<<30)
	}
}

func TestJitter(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		d        time.Duration
		factor   float64
		min, max time.Duration
	}{
		{s, 0.1, s, s * 11 / 10},
		{s, 3, s, 4 * s},
		{s, 0, s, 2 * s},
		{s, -5, s, 2 * s},
		{s, math.NaN(), s, 2 * s},
		{s, math.Inf(1), forever, forever},
		{0, 3, 0, 0},
		{0, math.Inf(1), 0, 0},
		{-s, 1, 0, 0},
		{forever, 1, forever, forever},
		{forever - 100, 1e-300, forever - 100, forever - 100},
		{1 << 61, 0.5, 1 << 61, 3 << 60},
	} {
		low, high := forever, time.Duration(math.MinInt64)
		for range 2000 {
			d := workqueue.Jitter(row.d, row.factor)
			low, high = min(low, d), max(high, d)
		}
		if low < row.min || high > row.max {
			t.Errorf("Jitter(%v, %v): got %v to %v, want %v to %v", row.d, row.factor, low, high, row.min, row.max)
		}
		// The chance to miss a tenth at either end is 0.9^2000.
		if tenth := (row.max - row.min) / 10; low > row.min+tenth || high < row.max-tenth {
			t.Errorf("Jitter(%v, %v): got %v to %v, want all of %v to %v", row.d, row.factor, low, high, row.min, row.max)
		}
	}
}

// wantPanic checks what f panics with; "" is for not at all.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	got := goes(f)
	if got == nil {
		got = ""
	}
	if got != want {
		t.Errorf("panic: got %q, want %q", got, want)
	}
}

func TestDelayWithResetWithoutClock(t *testing.T) {
	growing := workqueue.Backoff{Duration: 5, Factor: 2, Steps: 9}
	wantPanic(t, "workqueue: clock is nil", func() { growing.DelayWithReset(nil, time.Second) })
	// Where there is nothing to start over, nobody needs to know the time.
	for _, next := range []workqueue.DelayFunc{
		growing.DelayWithReset(nil, 0),
		workqueue.Backoff{Duration: 5, Steps: 9}.DelayWithReset(nil, time.Second),
		workqueue.Backoff{Duration: 5, Factor: 2}.DelayWithReset(nil, time.Second),
	} {
		if a, b := next(), next(); a != 5 || b != 5 {
			t.Errorf("got %d and %d, want 5 twice", a, b)
		}
	}
	once := workqueue.Backoff{Duration: 5, Factor: 2, Steps: 1}.DelayWithReset(testclock.NewFakeClock(epoch), time.Second)
	if a, b := once(), once(); a != 5 || b != 10 {
		t.Errorf("a growth of one step: got %d and %d, want 5 and 10", a, b)
	}
}
