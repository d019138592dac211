package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

func TestItemBackoffRateLimiter(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name string
		b    wait.Backoff
		want string
	}{
		{"zero value", wait.Backoff{}, "0s 0s 0s"},
		{"constant", wait.Backoff{Duration: s}, "1s 1s 1s"},
		{"grows without steps", wait.Backoff{Duration: s, Factor: 2}, "1s 2s 4s 8s"},
		{"and with negative ones", wait.Backoff{Duration: s, Factor: 2, Steps: -1}, "1s 2s 4s 8s"},
		{"steps end the growth", wait.Backoff{Duration: s, Factor: 3, Steps: 2}, "1s 3s 9s 9s 9s"},
		{"a single step", wait.Backoff{Duration: s, Factor: 3, Steps: 1}, "1s 3s 3s 3s"},
		{"the cap ends the growth only", wait.Backoff{Duration: s, Factor: 3, Cap: 5 * s}, "1s 3s 5s 5s 5s 5s"},
		{"cap and steps", wait.Backoff{Duration: s, Factor: 2, Steps: 5, Cap: 3 * s}, "1s 2s 3s 3s 3s 3s 3s"},
		{"cap of the first", wait.Backoff{Duration: s, Factor: 3, Cap: s}, "1s 1s 1s"},
		{"shrinks", wait.Backoff{Duration: s, Factor: 0.5}, "1s 500ms 250ms"},
		{"smallest cap", wait.Backoff{Duration: 1, Factor: 2, Cap: 1}, "1ns 1ns"},
		{"a cap that no float64 holds", wait.Backoff{Duration: forever - 1, Cap: forever - 1}, "2562047h47m16.854775806s"},
		{"and one between two of them", wait.Backoff{Duration: 1<<53 + 1, Cap: 1<<53 + 1}, "2501h59m59.254740993s"},
		{"no jitter to speak of", wait.Backoff{Duration: s, Factor: 2, Jitter: 1e-17}, "1s 2s 4s"},
	} {
		l := workqueue.NewTypedItemBackoffRateLimiter[string](row.b)
		n := len(strings.Fields(row.want))
		for _, item := range []string{"a", "b"} {
			if got := whens(l, item, n); got != row.want {
				t.Errorf("%s, item %s: got %q, want %q", row.name, item, got, row.want)
			}
		}
		l.Forget("a")
		if a, b := l.NumRequeues("a"), l.NumRequeues("b"); a != 0 || b != n || l.Len() != 1 {
			t.Errorf("%s: %d and %d failures of %d items, want 0 and %d of 1", row.name, a, b, l.Len(), n)
		}
		if got := whens(l, "a", n); got != row.want {
			t.Errorf("%s, after Forget: got %q, want %q", row.name, got, row.want)
		}
		checkInvariants(t, 0, l)
	}
}

// The cap holds with jitter, and there is jitter at the cap.
func TestItemBackoffRateLimiterJitter(t *testing.T) {
	const limit = 12 * time.Second
	for _, jitter := range []float64{0.1, 0.5, 1, 5, 1e6, 1e300} {
		l := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{
			Duration: time.Millisecond, Factor: 2, Jitter: jitter, Cap: limit,
		})
		ceiling := max(1, time.Duration(float64(limit)/(1+jitter)))
		low, high := limit, time.Duration(0)
		for n := range 3000 {
			interval := ceiling
			if n < 20 {
				interval = min(time.Millisecond<<n, ceiling)
			}
			d := l.When(1)
			if most := float64(interval) * (1 + jitter); d < interval || d > limit || float64(d) > most+1 {
				t.Fatalf("jitter %v, wait %d: got %v, want %v to %v", jitter, n, d, interval, min(limit, time.Duration(most)))
			}
			if n > 20 {
				low, high = min(low, d), max(high, d)
			}
		}
		if span := (limit - ceiling) / 20; jitter < 1e300 && (low > ceiling+span || high < limit-span) {
			t.Errorf("jitter %v: at the cap the waits are from %v to %v, want %v to %v", jitter, low, high, ceiling, limit)
		}
	}
}

// All chance comes from Rand, whose results are not trusted.
func TestItemBackoffRateLimiterRand(t *testing.T) {
	for _, row := range []struct {
		random float64
		want   string
	}{
		{0, "1s 2s 4s 5s 5s"},
		{0.5, "1.5s 3s 6s 7.5s 7.5s"},
		{1, "2s 4s 8s 10s 10s"},
		{7, "8s 10s 10s 10s"},
		{-7, "1s 2s 4s 5s 5s"},
		{math.NaN(), "10s 10s"},
	} {
		l := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{
			Duration: time.Second, Factor: 2, Jitter: 1, Cap: 10 * time.Second,
		})
		l.Rand = func() float64 { return row.random }
		if got := whens(l, "a", len(strings.Fields(row.want))); got != row.want {
			t.Errorf("random number %v: got %q, want %q", row.random, got, row.want)
		}
	}
	end := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: 1 << 62, Jitter: 1})
	end.Rand = func() float64 { return 1 }
	if got := end.When("a"); got != forever {
		t.Errorf("with jitter up to the end of time: got %v, want %v", got, forever)
	}
	same := func() string {
		l := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1})
		l.Rand = rand.New(rand.NewPCG(1, 2)).Float64
		return whens(l, "a", 20)
	}
	if a, b := same(), same(); a != b {
		t.Errorf("the same seed gives %q and %q", a, b)
	}
}

func TestItemBackoffRateLimiterBadInput(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		b    wait.Backoff
		want string
	}{
		{wait.Backoff{Duration: -s}, "workqueue: Backoff.Duration -1s is negative"},
		{wait.Backoff{Duration: 3 * s, Cap: 2 * s}, "workqueue: Backoff.Cap 2s is below Backoff.Duration 3s"},
		{wait.Backoff{Cap: -s}, "workqueue: Backoff.Cap -1s is below Backoff.Duration 0s"},
		{wait.Backoff{Factor: -1}, "workqueue: Backoff.Factor -1 is not a finite number of at least 0"},
		{wait.Backoff{Factor: math.NaN()}, "workqueue: Backoff.Factor NaN is not a finite number of at least 0"},
		{wait.Backoff{Factor: math.Inf(1)}, "workqueue: Backoff.Factor +Inf is not a finite number of at least 0"},
		{wait.Backoff{Jitter: -0.1}, "workqueue: Backoff.Jitter -0.1 is not a finite number of at least 0"},
		{wait.Backoff{Jitter: math.NaN()}, "workqueue: Backoff.Jitter NaN is not a finite number of at least 0"},
		{wait.Backoff{Jitter: math.Inf(1)}, "workqueue: Backoff.Jitter +Inf is not a finite number of at least 0"},
		{wait.Backoff{Duration: s, Cap: s, Factor: 1, Jitter: 1}, ""},
		{wait.Backoff{Factor: math.MaxFloat64, Jitter: math.MaxFloat64}, ""},
	} {
		wantPanic(t, row.want, func() { workqueue.NewTypedItemBackoffRateLimiter[string](row.b) })
	}
}

// A long streak does not overflow: the wait stays the same for ever.
func TestItemBackoffRateLimiterNeverEnds(t *testing.T) {
	t.Parallel()
	l := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{
		Duration: time.Second, Factor: 10, Jitter: 0.5, Steps: 3, Cap: time.Minute,
	})
	for n := range 100_000 {
		if d := l.When("a"); n > 3 && (d < 40*time.Second || d > time.Minute) {
			t.Fatalf("wait %d: got %v, want 40s to 1m", n, d)
		}
	}
}

// Limiters of any backoff, beside twins. The random number of a twin is 0, so twins return the
// bare intervals.
func TestModelItemBackoff(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range 8 * scripts() {
		b := wait.Backoff{
			Duration: time.Duration(rnd.Int64() >> rnd.IntN(64)),
			Factor:   4 * rnd.Float64(),
			Jitter:   math.Pow(10, float64(rnd.IntN(30)-10)) * float64(rnd.IntN(2)),
			Steps:    rnd.IntN(20) - 5,
		}
		if rnd.IntN(2) == 0 {
			b.Cap = max(b.Duration, time.Duration(rnd.Int64()>>rnd.IntN(64)))
		}
		playItemBackoff(t, b, rnd)
	}
}

func playItemBackoff(t *testing.T, b wait.Backoff, rnd *rand.Rand) {
	bare, l := workqueue.NewTypedItemBackoffRateLimiter[string](b), workqueue.NewTypedItemBackoffRateLimiter[string](b)
	bare.Rand = func() float64 { return 0 }
	l.Rand = rnd.Float64
	limit := forever
	if b.Cap > 0 {
		limit = b.Cap
	}
	ceiling, want := max(1, float64(limit)/(1+b.Jitter)), 0.0
	for i := range 40 {
		interval, d := bare.When("a"), l.When("a")
		if d < interval || d > limit || float64(d) > 1+float64(interval)*(1+b.Jitter)*(1+1e-12) {
			t.Fatalf("wait %d of %+v is %v, of an interval of %v", i, b, d, interval)
		}
		switch {
		case i == 0:
			want = min(ceiling, float64(b.Duration))
		case b.Steps <= 0 || i <= b.Steps:
			want = min(ceiling, want*b.Factor)
		}
		if math.Abs(float64(interval)-want) > 1+want*1e-12 {
			t.Fatalf("interval %d of %+v is %v, want %v", i, b, interval, time.Duration(want))
		}
		want = float64(interval)
		if l.NumRequeues("a") != i+1 {
			t.Fatalf("%d requeues after %d failures", l.NumRequeues("a"), i+1)
		}
	}
}

// The table of docs/choosing.md says which outage an item survives, with a Jitter of 0.5: the sum of the waits between its
// attempts, of the shortest and of the longest.
func TestOutageThatAnItemSurvives(t *testing.T) {
	page := read(t, "docs/choosing.md")
	for _, row := range []struct {
		attempts int
		backoff  wait.Backoff
		want     string
	}{
		{10, wait.Backoff{Duration: 200 * time.Millisecond, Cap: time.Minute, Factor: 2}, "| 10 | 200 ms | 2 | 1 min | 1.5 to 2.3 min |"},
		{8, wait.Backoff{Duration: 15 * time.Second, Cap: 10 * time.Minute, Factor: 2}, "| 8 | 15 s | 2 | 10 min | 21 to 32 min |"},
		{8, wait.Backoff{Duration: 15 * time.Second, Cap: time.Hour, Factor: 3}, "| 8 | 15 s | 3 | 1 h | 1.8 to 2.8 h |"},
		{30, wait.Backoff{Duration: time.Second, Cap: 10 * time.Minute, Factor: 2}, "| 30 | 1 s | 2 | 10 min | 2.4 to 3.5 h |"},
		{20, wait.Backoff{Duration: 10 * time.Second, Cap: time.Hour, Factor: 2}, "| 20 | 10 s | 2 | 1 h | 8 to 12 h |"},
	} {
		var sums [2]time.Duration
		for random := range sums {
			row.backoff.Jitter = 0.5
			l := workqueue.NewTypedItemBackoffRateLimiter[string](row.backoff)
			l.Rand = func() float64 { return float64(random) }
			for range row.attempts - 1 {
				sums[random] += l.When("a")
			}
		}
		unit, name := time.Minute, "min"
		if sums[0] > time.Hour {
			unit, name = time.Hour, "h"
		}
		digits := func(d time.Duration) string { return fmt.Sprintf("%.2g", d.Seconds()/unit.Seconds()) }
		outage := fmt.Sprintf("| %s to %s %s |", digits(sums[0]), digits(sums[1]), name)
		if !strings.HasSuffix(row.want, outage) || !strings.Contains(page, row.want) {
			t.Errorf("an outage of %s, and the page has the row %v: %s", outage, strings.Contains(page, row.want), row.want)
		}
	}
}
