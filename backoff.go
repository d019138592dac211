package workqueue

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Backoff is a sequence of retry intervals. It converts to and from the type of the
// same name in k8s.io/apimachinery/pkg/util/wait, whose fields mean the same.
//
// The n-th interval, counted from 0, is
//
//	Duration * Factor^min(n, Steps)
//
// until Cap ends the growth. An interval is never negative: a Duration below zero
// counts as zero, a Factor or Jitter that is below zero or not a number as absent, and
// what exceeds the range of a [time.Duration] is its maximum. For retries of many
// items use [NewTypedItemBackoffRateLimiter], whose cap holds with the jitter too.
//
// The zero value is a sequence of zeros. Copies are independent. Step changes its
// Backoff and must not be called concurrently.
type Backoff struct {
	// Duration is the first interval.
	Duration time.Duration
	// Factor multiplies the interval at each step; 0 leaves it as it is.
	Factor float64
	// Jitter is how much is added at random to each interval, at most, as a fraction
	// of it. The sum can exceed Cap, and does not enter the next interval.
	Jitter float64
	// Steps is how often the interval may still change. None is left once the
	// interval has met Cap.
	Steps int
	// Cap is the largest interval to grow to, without jitter; 0 is none. It
	// does not reduce a Duration that exceeds it from the start.
	Cap time.Duration
}

// Step returns the interval to wait now, jitter included, and moves b on to the
// next one. A nil Backoff returns 0.
func (b *Backoff) Step() time.Duration {
	if b == nil {
		return 0
	}
	interval := max(0, b.Duration)
	if b.Steps > 0 {
		b.Steps--
		b.Duration = scaledDelay(interval, b.Factor)
		if b.Cap > 0 && b.Duration > b.Cap && b.Factor > 0 {
			b.Duration, b.Steps = b.Cap, 0
		}
	} else {
		b.Steps = 0
	}
	if b.Jitter > 0 {
		return spreadDelay(interval, b.Jitter, rand.Float64())
	}
	return interval
}

// A DelayFunc returns the next interval to wait.
type DelayFunc func() time.Duration

// Concurrent returns a function that returns the same sequence and may be
// called concurrently.
func (f DelayFunc) Concurrent() DelayFunc {
	var mu sync.Mutex
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return f()
	}
}

// DelayFunc returns a function that steps through a copy of b. It must not be
// called concurrently.
func (b Backoff) DelayFunc() DelayFunc { return b.Step }

// DelayWithReset returns a function that steps through a copy of b, and starts over at
// the first call after each resetInterval. (The one that starts over after a pause is
// [NewExponentialBackoffManager].) If resetInterval is not positive, it stays at the
// first interval. The function may be called concurrently. DelayWithReset panics if
// the clock is nil and there is a growth to start over.
func (b Backoff) DelayWithReset(c clock.Clock, resetInterval time.Duration) DelayFunc {
	if resetInterval <= 0 {
		b.Steps = 0
	}
	if b.Steps <= 0 || !(b.Factor > 0) { // All intervals are the same.
		return b.DelayFunc().Concurrent()
	}
	mustClock(c)
	current, started := b, c.Now()
	step := func() time.Duration {
		if now := c.Now(); now.Sub(started) > resetInterval {
			current, started = b, now
		}
		return current.Step()
	}
	return DelayFunc(step).Concurrent()
}

// Jitter returns a duration chosen uniformly at random between duration and
// duration + maxFactor*duration. A maxFactor that is not positive stands for
// 1, a negative duration for zero, and the sum saturates. It may be called
// concurrently.
func Jitter(duration time.Duration, maxFactor float64) time.Duration {
	if !(maxFactor > 0) {
		maxFactor = 1
	}
	return spreadDelay(duration, maxFactor, rand.Float64())
}

// spreadDelay returns d + random*jitter*d. The sum is formed of integers, as a
// float64 does not hold every duration above 104 days, and the result would be
// less than d at times.
func spreadDelay(d time.Duration, jitter, random float64) time.Duration {
	if d <= 0 {
		return 0
	}
	extra := random * jitter * float64(d)
	if extra < float64(math.MaxInt64-d) {
		return d + time.Duration(extra)
	}
	return math.MaxInt64 // Also if extra is not a number, from 0 times infinity.
}

// scaledDelay returns d * factor, or d if there is no factor. d is not negative.
func scaledDelay(d time.Duration, factor float64) time.Duration {
	if d == 0 || !(factor > 0) {
		return d
	}
	product := float64(d) * factor
	switch {
	case product >= math.MaxInt64:
		return math.MaxInt64
	case factor >= 1: // d need not survive its conversion, see spread.
		return max(d, time.Duration(product))
	}
	return time.Duration(product)
}

// A curve is how the waits for one retrier, or one item, grow: a sequence of
// intervals, and jitter is added to each when it is handed out.
//
// No wait exceeds the limit, and yet there is jitter at the limit too: the intervals
// end at
//
//	ceiling == limit / (1 + jitter)
//
// and the waits lie in between. If the sum were cut off at the limit, everybody would
// retry at the same time just when an outage has lasted longest.
type curve struct {
	first   time.Duration
	factor  float64
	jitter  float64
	limit   time.Duration
	ceiling time.Duration
}

// newCurve makes a curve of the fields but Steps; a Cap that is not positive is
// none.
func newCurve(b Backoff) curve {
	c := curve{factor: b.Factor, limit: b.Cap}
	if c.limit <= 0 {
		c.limit = math.MaxInt64
	}
	c.ceiling = c.limit
	if b.Jitter > 0 {
		c.jitter = b.Jitter
		// At least 1 ns: the growth multiplies, and could not leave 0.
		if quotient := float64(c.limit) / (1 + c.jitter); quotient < math.MaxInt64 {
			c.ceiling = max(1, time.Duration(quotient))
		}
	}
	c.first = min(max(0, b.Duration), c.ceiling)
	return c
}

// next returns the interval after the given one.
func (c *curve) next(interval time.Duration) time.Duration {
	return min(scaledDelay(interval, c.factor), c.ceiling)
}

// wait returns an interval with jitter; random is in [0, 1).
func (c *curve) wait(interval time.Duration, random float64) time.Duration {
	return min(spreadDelay(interval, c.jitter, random), c.limit)
}
