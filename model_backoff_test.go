package workqueue_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// TestModelBackoff and FuzzBackoff step through a Backoff and look at each
// interval beside the one before it: what there is to be said about it can be
// computed exactly from that.
func TestModelBackoff(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	odd := []float64{0, -1, 1, 0.5, 2, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300}
	for range 8 * scripts() {
		factor, jitter := 4*rnd.Float64(), 2*rnd.Float64()
		if rnd.IntN(2) == 0 {
			factor = odd[rnd.IntN(len(odd))]
		}
		if rnd.IntN(2) == 0 {
			jitter = odd[rnd.IntN(len(odd))]
		}
		duration := rnd.Int64() >> rnd.IntN(64)
		limit := rnd.Int64() >> rnd.IntN(64)
		playBackoff(t, duration-1, factor, jitter, rnd.IntN(60)-5, limit-2)
	}
}

func FuzzBackoff(f *testing.F) { f.Fuzz(playBackoff) }

func playBackoff(t *testing.T, duration int64, factor, jitter float64, steps int, limit int64) {
	b := workqueue.Backoff{Duration: time.Duration(duration), Factor: factor, Steps: steps, Cap: time.Duration(limit)}
	jittered := b
	jittered.Jitter = jitter
	m := naiveBackoff{interval: max(0, b.Duration), Backoff: b}
	for i := range 40 {
		got := b.Step()
		if !m.near(got) {
			t.Fatalf("interval %d of %+v is %v, want %v", i, m.Backoff, got, m.interval)
		}
		checkJitter(t, got, jittered.Step(), jitter)
		m.interval = got
		m.step()
		if b.Steps != m.Steps {
			t.Fatalf("after %d steps of %+v there are %d left, want %d", i+1, m.Backoff, b.Steps, m.Steps)
		}
	}
	playItemBackoff(t, jittered, duration, limit)
}

// A naiveBackoff computes the next interval from one, as an exact product that
// is cut off, and is corrected for what its float64 may round.
type naiveBackoff struct {
	workqueue.Backoff
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

// near reports whether an interval differs by no more than a product of float64
// does, and its conversion.
func (m *naiveBackoff) near(got time.Duration) bool {
	return got >= 0 && math.Abs(float64(got)-float64(m.interval)) <= 1+float64(m.interval)/(1<<50)
}

func checkJitter(t *testing.T, interval, wait time.Duration, jitter float64) {
	t.Helper()
	most := interval
	if jitter > 0 {
		most = dueAfter(interval, times(interval, jitter)+1)
	}
	if wait < interval || wait > most+most>>50 && most < math.MaxInt64-most>>50 {
		t.Fatalf("an interval of %v with jitter %v is %v", interval, jitter, wait)
	}
}

func dueAfter(d, more time.Duration) time.Duration {
	if more < 0 || d > math.MaxInt64-more {
		return math.MaxInt64
	}
	return d + more
}

// playItemBackoff looks at the limiter, whose Cap holds for the jitter too and
// whose growth no Steps of 0 end.
func playItemBackoff(t *testing.T, b workqueue.Backoff, duration, limit int64) {
	finite := func(x float64) bool { return x >= 0 && x <= math.MaxFloat64 }
	if duration < 0 || limit < 0 || limit > 0 && limit < duration || !finite(b.Factor) || !finite(b.Jitter) {
		return // Which is a panic, as other tests see.
	}
	b.Duration, b.Cap = time.Duration(duration), time.Duration(limit)
	l := workqueue.NewTypedItemBackoffRateLimiter[string](b)
	random := 0.0
	l.Rand = func() float64 { return random }
	for i := range 40 {
		random = 0
		least := workqueue.NewTypedItemBackoffRateLimiter[string](b)
		least.Rand = l.Rand
		for range i {
			least.When("a")
		}
		interval := least.When("a")
		random = float64(i%11) / 11
		wait := l.When("a")
		ceiling := max(1, float64(limit)/(1+b.Jitter)) * (1 + 1e-12)
		if wait < interval || limit > 0 && (wait > b.Cap || float64(interval) > ceiling) {
			t.Fatalf("wait %d of %+v is %v, of an interval of %v", i, b, wait, interval)
		}
		checkJitter(t, interval, wait, b.Jitter)
		if l.NumRequeues("a") != i+1 {
			t.Fatalf("%d requeues after %d failures", l.NumRequeues("a"), i+1)
		}
	}
}
