package wait

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/spread"
)

// Backoff is a sequence of retry intervals. The n-th interval, counted from 0, is
//
//	Duration * Factor^min(n, Steps)
//
// until Cap ends the growth, rounded down to a nanosecond at each step: an interval of some
// nanoseconds may stay. An interval is never negative: a Duration below zero counts as zero, a
// Factor or Jitter that is below zero or not a number as absent, and an interval that exceeds the
// range of a [time.Duration] is its maximum.
//
// The zero value is a sequence of zeros. Copies are independent. Step changes its
// Backoff and must not be called concurrently.
type Backoff struct {
	// Duration is the first interval.
	Duration time.Duration
	// Factor multiplies the interval at each step; 0 leaves the interval as it is.
	Factor float64
	// Jitter is the largest part of an interval that is added to the interval at random.
	// The sum can exceed Cap, and does not enter the next interval.
	Jitter float64
	// Steps is how often the interval may still change. Steps is 0 once Cap has cut an
	// interval. An interval that is exactly Cap leaves Steps as it is.
	Steps int
	// Cap is the largest interval to grow to, without jitter; 0 is none. Cap does not
	// reduce the first interval. If the Duration exceeds Cap from the start, the second
	// interval is Cap at most, unless Steps or Factor is 0.
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
		b.Duration = scaled(interval, b.Factor)
		if b.Cap > 0 && b.Duration > b.Cap && b.Factor > 0 {
			b.Duration, b.Steps = b.Cap, 0
		}
	} else {
		b.Steps = 0
	}
	if b.Jitter > 0 {
		return spread.Add(interval, b.Jitter, rand.Float64())
	}
	return interval
}

// scaled returns d * factor, or d if there is no factor. d is not negative.
func scaled(d time.Duration, factor float64) time.Duration {
	if d == 0 || !(factor > 0) {
		return d
	}
	product := float64(d) * factor
	switch {
	case product >= math.MaxInt64:
		return math.MaxInt64
	case factor >= 1: // A float64 does not hold every d: the product of 1 can be less.
		return max(d, time.Duration(product))
	}
	return time.Duration(product)
}

// DelayFunc returns a function that steps through a copy of b. The function must not be
// called concurrently.
func (b Backoff) DelayFunc() DelayFunc { return b.Step }

// DelayWithReset returns a function that steps through a copy of b, and starts over at
// the first call after each resetInterval, however often it was called in between. The interval counts from
// the last start, so a call that comes late starts over late. If
// resetInterval is not positive, the function stays at the first interval. The function
// may be called concurrently. DelayWithReset panics if the clock is nil and there is a
// growth to start over.
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
// 1, a negative duration for zero, and the sum saturates. Jitter may be called
// concurrently.
func Jitter(duration time.Duration, maxFactor float64) time.Duration {
	if !(maxFactor > 0) {
		maxFactor = 1
	}
	return spread.Add(duration, maxFactor, rand.Float64())
}

// A BackoffManager says how long to wait before the next try, as a timer.
type BackoffManager interface {
	// Backoff starts a wait and returns the timer that fires when the wait is over.
	// There is one timer: each call gives up the wait before and sets the timer anew.
	// So a BackoffManager serves one goroutine at a time.
	Backoff() clock.Timer
}

// NewExponentialBackoffManager returns a manager whose waits grow. The interval starts
// over when the last wait began longer ago than resetDuration. After n more calls of
// Backoff the interval is
//
//	min(initBackoff * backoffFactor^n, maxBackoff / (1 + jitter))
//
// to which jitter adds up to that fraction of the interval at random, so that processes
// that fail for long do not retry together, and no wait exceeds maxBackoff.
//
// A maxBackoff that is not positive is none, and a backoffFactor of 0 leaves the
// interval as it is. A negative initBackoff, and a backoffFactor or jitter that is
// negative or not a number, count as zero. NewExponentialBackoffManager panics if the
// clock is nil. The manager may be called concurrently; its timer serves one goroutine.
//
// Deprecated: As in apimachinery. Use [Backoff.DelayWithReset] and [DelayFunc.Until] or
// [DelayFunc.Timer]. That sequence needs Steps, starts over while the function fails, not
// only after a pause, and its jitter can exceed the Cap.
func NewExponentialBackoffManager(initBackoff, maxBackoff, resetDuration time.Duration, backoffFactor, jitter float64, c clock.Clock) BackoffManager {
	mustClock(c)
	if maxBackoff <= 0 {
		maxBackoff = math.MaxInt64
	}
	ceiling := spread.Ceiling(maxBackoff, jitter)
	initial := Backoff{
		Duration: min(initBackoff, ceiling), Factor: backoffFactor, Jitter: jitter, Steps: math.MaxInt, Cap: ceiling,
	}
	current, last := initial, c.Now()
	return &backoffManager{clock: c, delay: func() time.Duration {
		now := c.Now()
		if now.Sub(last) > resetDuration {
			current = initial
		}
		last = now
		return min(current.Step(), maxBackoff)
	}}
}

// NewJitteredBackoffManager returns a manager of waits of the same duration, to
// which jitter adds up to that fraction of the duration at random. A jitter that is not
// positive adds nothing, and a negative duration counts as zero. If the clock is nil,
// Backoff panics.
//
// The manager may be called concurrently; its timer serves one goroutine.
//
// Deprecated: As in apimachinery. Use [JitterUntil], or [Backoff.Timer] of a Backoff with
// the duration and the jitter.
func NewJitteredBackoffManager(duration time.Duration, jitter float64, c clock.Clock) BackoffManager {
	return &backoffManager{clock: c, delay: Backoff{Duration: duration, Jitter: jitter}.DelayFunc()}
}

type backoffManager struct {
	clock clock.Clock

	mu sync.Mutex
	// The fields below are guarded by mu.

	delay DelayFunc
	timer clock.Timer // nil before the first call
}

func (m *backoffManager) Backoff() clock.Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	delay := m.delay()
	if m.timer == nil {
		mustClock(m.clock)
		m.timer = m.clock.NewTimer(delay)
		return m.timer
	}
	stopTimer(m.timer)
	m.timer.Reset(delay)
	return m.timer
}

// stopTimer stops a timer and takes out of its channel what it may have sent there,
// which timers of fake clocks do not do by themselves.
func stopTimer(t clock.Timer) {
	t.Stop()
	select {
	case <-t.C():
	default:
	}
}

func mustClock(c clock.PassiveClock) {
	if c == nil {
		panic("wait: clock is nil")
	}
}
