package wait_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue/wait"
)

const forever = time.Duration(math.MaxInt64)

func TestBackoffStep(t *testing.T) {
	const s = time.Second
	inf := math.Inf(1)
	for _, row := range []struct {
		name string
		b    wait.Backoff
		want string // the intervals, and what is left
	}{
		{"zero value", wait.Backoff{}, "0s 0s; 0s 0"},
		{"no steps", wait.Backoff{Duration: s, Factor: 2}, "1s 1s 1s; 1s 0"},
		{"negative steps", wait.Backoff{Duration: s, Factor: 2, Steps: -3}, "1s 1s; 1s 0"},
		{"no factor", wait.Backoff{Duration: s, Steps: 2}, "1s 1s 1s; 1s 0"},
		{"doubles for its steps", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, "1s 2s 4s 8s 8s; 8s 0"},
		{"steps are left", wait.Backoff{Duration: s, Factor: 2, Steps: 9}, "1s 2s; 4s 7"},
		{"cap ends the steps", wait.Backoff{Duration: s, Factor: 2, Steps: 9, Cap: 5 * s}, "1s 2s 4s 5s 5s; 5s 0"},
		{"cap met, not exceeded", wait.Backoff{Duration: s, Factor: 2, Steps: 9, Cap: 4 * s}, "1s 2s; 4s 7"},
		{"cap below the first", wait.Backoff{Duration: 9 * s, Factor: 2, Steps: 9, Cap: 4 * s}, "9s 4s 4s; 4s 0"},
		{"smallest cap", wait.Backoff{Duration: 3, Factor: 2, Steps: 9, Cap: 1}, "3ns 1ns 1ns; 1ns 0"},
		{"cap without factor", wait.Backoff{Duration: 9 * s, Steps: 9, Cap: 4 * s}, "9s 9s; 9s 7"},
		{"negative cap is none", wait.Backoff{Duration: s, Factor: 2, Steps: 3, Cap: -s}, "1s 2s 4s; 8s 0"},
		{"shrinks", wait.Backoff{Duration: s, Factor: 0.5, Steps: 2}, "1s 500ms 250ms 250ms; 250ms 0"},

		{"negative duration", wait.Backoff{Duration: -s, Factor: 2, Steps: 3}, "0s 0s; 0s 1"},
		{"negative factor", wait.Backoff{Duration: s, Factor: -2, Steps: 3}, "1s 1s; 1s 1"},
		{"factor not a number", wait.Backoff{Duration: s, Factor: math.NaN(), Steps: 3}, "1s 1s; 1s 1"},
		{"infinite factor", wait.Backoff{Duration: s, Factor: inf, Steps: 3, Cap: 5 * s}, "1s 5s 5s; 5s 0"},
		{"infinite factor of nothing", wait.Backoff{Factor: inf, Jitter: inf, Steps: 3}, "0s 0s; 0s 1"},
		{"saturates", wait.Backoff{Duration: 1 << 62, Factor: 2, Steps: 3},
			"1281023h53m38.427387904s 2562047h47m16.854775807s; 2562047h47m16.854775807s 1"},
		{"negative jitter", wait.Backoff{Duration: s, Jitter: -1, Steps: 3}, "1s 1s; 1s 1"},
		{"jitter not a number", wait.Backoff{Duration: s, Jitter: math.NaN(), Steps: 3}, "1s 1s; 1s 1"},
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
	var b *wait.Backoff
	if d := b.Step(); d != 0 {
		t.Errorf("got %v, want 0", d)
	}
}

// Jitter is added to what Cap allows and does not enter the next interval:
// both as documented for the type of this name.
func TestBackoffStepJitterComesAfterTheCap(t *testing.T) {
	b := wait.Backoff{Duration: 4 * time.Second, Factor: 2, Jitter: 0.5, Steps: 3, Cap: 10 * time.Second}
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

func TestDelayFuncLeavesTheBackoffAlone(t *testing.T) {
	b := wait.Backoff{Duration: time.Second, Factor: 3, Steps: 2}
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
	shared := wait.Backoff{Duration: 1, Factor: 2, Steps: 40}.DelayFunc().Concurrent()
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
	growing := wait.Backoff{Duration: s, Factor: 2, Steps: 6}
	for _, row := range []struct {
		name  string
		b     wait.Backoff
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
		{"no factor", wait.Backoff{Duration: s, Steps: 6}, 10 * s, 3 * s, "1s 1s 1s"},
		{"one step", wait.Backoff{Duration: s, Factor: 2, Steps: 1}, 10 * s, 6 * s, "1s 1s 2s 1s 2s 1s"},
		{"no steps", wait.Backoff{Duration: s, Factor: 2, Steps: -1}, 10 * s, 0, "1s 1s 1s"},
		{"cap", wait.Backoff{Duration: s, Factor: 2, Steps: 6, Cap: 3 * s}, 10 * s, 4 * s, "1s 2s 1s 2s 3s 1s"},
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
	delay := wait.Backoff{Duration: 1, Factor: 2, Steps: 30}.DelayWithReset(testclock.NewFakeClock(time.Unix(0, 0)), time.Hour)
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
			d := wait.Jitter(row.d, row.factor)
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

func TestDelayWithResetWithoutClock(t *testing.T) {
	growing := wait.Backoff{Duration: 5, Factor: 2, Steps: 9}
	wantPanic(t, "wait: clock is nil", func() { growing.DelayWithReset(nil, time.Second) })
	// Where there is nothing to start over, nobody needs to know the time.
	for _, next := range []wait.DelayFunc{
		growing.DelayWithReset(nil, 0),
		wait.Backoff{Duration: 5, Steps: 9}.DelayWithReset(nil, time.Second),
		wait.Backoff{Duration: 5, Factor: 2}.DelayWithReset(nil, time.Second),
	} {
		if a, b := next(), next(); a != 5 || b != 5 {
			t.Errorf("got %d and %d, want 5 twice", a, b)
		}
	}
	once := wait.Backoff{Duration: 5, Factor: 2, Steps: 1}.DelayWithReset(testclock.NewFakeClock(time.Unix(0, 0)), time.Second)
	if a, b := once(), once(); a != 5 || b != 10 {
		t.Errorf("a growth of one step: got %d and %d, want 5 and 10", a, b)
	}
}

// A metronome is a fake clock that notes the durations its timers are set to.
type metronome struct {
	*testclock.FakeClock
	set []time.Duration
}

func newMetronome() *metronome {
	return &metronome{FakeClock: testclock.NewFakeClock(time.Unix(0, 0))}
}

func (m *metronome) NewTimer(d time.Duration) clock.Timer {
	m.set = append(m.set, d)
	return beat{m.FakeClock.NewTimer(d), m}
}

type beat struct {
	clock.Timer
	metronome *metronome
}

func (b beat) Reset(d time.Duration) bool {
	b.metronome.set = append(b.metronome.set, d)
	return b.Timer.Reset(d)
}

// waits calls Backoff n times, with the gap after each, and returns the waits.
func (m *metronome) waits(manager wait.BackoffManager, n int, gap time.Duration) string {
	m.set = nil
	for range n {
		manager.Backoff()
		m.Step(gap)
	}
	return intervals(func() time.Duration {
		d := m.set[0]
		m.set = m.set[1:]
		return d
	}, n)
}

func TestExponentialBackoffManager(t *testing.T) {
	const s = time.Second
	inf := math.Inf(1)
	for _, row := range []struct {
		name             string
		init, max, reset time.Duration
		factor, jitter   float64
		gap              time.Duration
		want             string
	}{
		{"doubles up to the maximum", s, 7 * s, 10 * s, 2, 0, 3 * s, "1s 2s 4s 7s 7s 7s"},
		{"a gap of the reset is not longer", s, 7 * s, 10 * s, 2, 0, 10 * s, "1s 2s 4s 7s 7s"},
		{"a longer one starts over", s, 7 * s, 10 * s, 2, 0, 10*s + 1, "1s 1s 1s"},
		{"no reset", s, 7 * s, 0, 2, 0, 0, "1s 2s 4s 7s"},
		{"no maximum", s, 0, time.Hour, 2, 0, s, "1s 2s 4s 8s"},
		{"smallest maximum", s, 1, time.Hour, 2, 0, s, "1ns 1ns"},
		{"negative maximum", s, -s, time.Hour, 2, 0, s, "1s 2s 4s 8s"},
		{"no factor", s, 7 * s, time.Hour, 0, 0, s, "1s 1s 1s"},
		{"shrinks", s, 7 * s, time.Hour, 0.5, 0, s, "1s 500ms 250ms"},
		{"initial above the maximum", 9 * s, 7 * s, time.Hour, 2, 0, s, "7s 7s"},
		{"negative initial", -s, 7 * s, time.Hour, 2, 0, s, "0s 0s"},
		{"negative factor", s, 7 * s, time.Hour, -2, 0, s, "1s 1s"},
		{"factor not a number", s, 7 * s, time.Hour, math.NaN(), 0, s, "1s 1s"},
		{"infinite factor", s, 7 * s, time.Hour, inf, 0, s, "1s 7s"},
		{"negative jitter", s, 7 * s, time.Hour, 2, -1, s, "1s 2s 4s 7s"},
		{"jitter not a number", s, 7 * s, time.Hour, 2, math.NaN(), s, "1s 2s 4s 7s"},
		{"infinite jitter", s, 7 * s, time.Hour, 2, inf, s, "7s 7s 7s"},
		{"saturates", 1 << 61, 0, time.Hour, 3, 0, s, "640511h56m49.213693952s 1921535h50m27.641081856s 2562047h47m16.854775807s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMetronome()
			manager := wait.NewExponentialBackoffManager(row.init, row.max, row.reset, row.factor, row.jitter, m)
			if got := m.waits(manager, len(strings.Fields(row.want)), row.gap); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// The reset counts from the start of the last wait: a manager that is used
// goes on growing however long it lives, and is not reset by its first call.
func TestExponentialBackoffManagerResetsAfterAPause(t *testing.T) {
	m := newMetronome()
	manager := wait.NewExponentialBackoffManager(time.Second, time.Minute, 10*time.Second, 2, 0, m)
	m.Step(time.Hour)
	for i, row := range []struct {
		gap  time.Duration
		want string
	}{
		{9 * time.Second, "1s 2s 4s 8s 16s"},
		{11 * time.Second, "32s 1s 1s"},
		{0, "1s 2s 4s"},
	} {
		if got := m.waits(manager, len(strings.Fields(row.want)), row.gap); got != row.want {
			t.Errorf("row %d: got %q, want %q", i, got, row.want)
		}
	}
}

func TestExponentialBackoffManagerJitterStaysBelowTheMaximum(t *testing.T) {
	m := newMetronome()
	const limit = 8 * time.Second
	manager := wait.NewExponentialBackoffManager(time.Second, limit, time.Hour, 2, 1, m)
	low, high := forever, time.Duration(0)
	for i := range 2000 {
		manager.Backoff()
		interval := min(time.Second<<min(i, 10), limit/2)
		d := m.set[i]
		if d < interval || d > 2*interval {
			t.Fatalf("wait %d: got %v, want %v to %v", i, d, interval, 2*interval)
		}
		if i >= 2 {
			low, high = min(low, d), max(high, d)
		}
	}
	if low > limit*6/10 || high < limit*9/10 {
		t.Errorf("at the maximum the waits are from %v to %v, want %v to %v", low, high, limit/2, limit)
	}
}

func TestJitteredBackoffManager(t *testing.T) {
	for _, row := range []struct {
		d        time.Duration
		jitter   float64
		min, max time.Duration
	}{
		{time.Second, 0, time.Second, time.Second},
		{time.Second, -1, time.Second, time.Second},
		{time.Second, math.NaN(), time.Second, time.Second},
		{time.Second, 0.5, time.Second, 3 * time.Second / 2},
		{0, 0.5, 0, 0},
		{-time.Second, 0.5, 0, 0},
		{forever, 0.5, forever, forever},
	} {
		m := newMetronome()
		manager := wait.NewJitteredBackoffManager(row.d, row.jitter, m)
		for i := range 100 {
			manager.Backoff()
			if d := m.set[i]; d < row.min || d > row.max {
				t.Fatalf("%v jitter %v: got %v, want %v to %v", row.d, row.jitter, d, row.min, row.max)
			}
		}
	}
}

// There is one timer, and setting it anew takes back what it has sent: else
// the next wait would be over at once. With apimachinery the outcome is
// documented as undefined.
func TestBackoffManagerTimerIsSetAnew(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(0, 0))
	manager := wait.NewJitteredBackoffManager(time.Second, 0, c)
	first := manager.Backoff()
	c.Step(time.Second)
	second := manager.Backoff()
	if first != second {
		t.Error("a second timer")
	}
	select {
	case <-second.C():
		t.Error("the second wait was over at once")
	default:
	}
	c.Step(time.Second)
	select {
	case <-second.C():
	default:
		t.Error("the second wait does not end")
	}
}

func TestBackoffManagersConcurrent(t *testing.T) {
	for _, manager := range []wait.BackoffManager{
		wait.NewJitteredBackoffManager(time.Hour, 1, clock.RealClock{}),
		wait.NewExponentialBackoffManager(time.Hour, 2*time.Hour, time.Hour, 2, 1, clock.RealClock{}),
	} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					manager.Backoff()
				}
			})
		}
		wg.Wait()
		manager.Backoff().Stop()
	}
}

func TestBackoffManagersWithoutClock(t *testing.T) {
	jittered := wait.NewJitteredBackoffManager(1, 1, nil)
	wantPanic(t, "wait: clock is nil", func() { jittered.Backoff() })
	wantPanic(t, "wait: clock is nil", func() { wait.NewExponentialBackoffManager(1, 1, 1, 1, 1, nil) })
}

// TestModelBackoff and FuzzBackoff step through a Backoff and compute each interval
// exactly from the interval before.
func TestModelBackoff(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	}()
	rnd := rand.New(rand.NewPCG(seed, 0))
	odd := []float64{0, -1, 1, 1 + 1e-15, 0.5, 2, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300}
	for range 5000 {
		factor, jitter := 4*rnd.Float64(), 2*rnd.Float64()
		if rnd.IntN(2) == 0 {
			factor = odd[rnd.IntN(len(odd))]
		}
		if rnd.IntN(2) == 0 {
			jitter = odd[rnd.IntN(len(odd))]
		}
		duration := rnd.Int64() >> rnd.IntN(64)
		limit := (rnd.Int64() >> rnd.IntN(64)) * rnd.Int64N(2)
		playBackoff(t, duration-1, factor, jitter, rnd.IntN(60)-5, limit-2)
	}
}

func FuzzBackoff(f *testing.F) { f.Fuzz(playBackoff) }

func playBackoff(t *testing.T, duration int64, factor, jitter float64, steps int, limit int64) {
	b := wait.Backoff{Duration: time.Duration(duration), Factor: factor, Steps: steps, Cap: time.Duration(limit)}
	jittered := b
	jittered.Jitter = jitter
	m := naiveBackoff{interval: max(0, b.Duration), Backoff: b}
	last := time.Duration(0)
	for i := range 40 {
		got := b.Step()
		if !m.near(got) {
			t.Fatalf("interval %d of %+v is %v, want %v", i, m.Backoff, got, m.interval)
		}
		if meetsCap := m.Cap > 0 && got == m.Cap; factor >= 1 && got < last && !meetsCap {
			t.Fatalf("interval %d of %+v is %v, after %v", i, m.Backoff, got, last)
		}
		last = got
		checkJitter(t, got, jittered.Step(), jitter)
		m.interval = got
		m.step()
		if b.Steps != m.Steps {
			t.Fatalf("after %d steps of %+v there are %d left, want %d", i+1, m.Backoff, b.Steps, m.Steps)
		}
	}
}

// A naiveBackoff computes the next interval as an exact product, without the fraction.
type naiveBackoff struct {
	wait.Backoff
	interval time.Duration
}

func (m *naiveBackoff) step() {
	if m.Steps--; m.Steps < 0 {
		m.Steps = 0
		return
	}
	if !(m.Factor > 0) {
		return
	}
	if m.interval = times(m.interval, m.Factor); m.Cap > 0 && m.interval > m.Cap {
		m.interval, m.Steps = m.Cap, 0
	}
}

// times is d * factor, without the fraction, and at most the end of time.
func times(d time.Duration, factor float64) time.Duration {
	switch {
	case d == 0:
		return 0
	case math.IsInf(factor, 0):
		return math.MaxInt64
	}
	product := new(big.Rat).SetFloat64(factor)
	product.Mul(product, new(big.Rat).SetInt64(int64(d)))
	whole := new(big.Int).Quo(product.Num(), product.Denom())
	if !whole.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(whole.Int64())
}

// near reports whether an interval differs by no more than the rounding of a product of
// float64, and of its conversion.
func (m *naiveBackoff) near(got time.Duration) bool {
	return got >= 0 && math.Abs(float64(got)-float64(m.interval)) <= 1+float64(m.interval)/(1<<50)
}

func checkJitter(t *testing.T, interval, wait time.Duration, jitter float64) {
	t.Helper()
	most := interval
	if jitter > 0 {
		most = math.MaxInt64
		if extra := times(interval, jitter); extra < most-interval {
			most = interval + extra + 1
		}
	}
	if wait < interval || wait > most+most>>50 && most < math.MaxInt64-most>>50 {
		t.Fatalf("an interval of %v with jitter %v is %v", interval, jitter, wait)
	}
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic: got %v, want %q", got, want)
		}
	}()
	f()
}
