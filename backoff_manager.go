package workqueue

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// A BackoffManager says how long to wait before the next try, as a timer. It
// has the method set of the interface of the same name in
// k8s.io/apimachinery/pkg/util/wait: a value of one type is assignable to the
// other.
type BackoffManager interface {
	// Backoff starts a wait and returns the timer that fires when it is over.
	// There is one timer, which each call sets anew: the wait before is given
	// up by it. So a BackoffManager serves one goroutine at a time.
	Backoff() clock.Timer
}

// NewExponentialBackoffManager returns a manager whose waits grow. The interval starts
// over when the last wait began longer ago than resetDuration. After n more calls of
// Backoff it is
//
//	min(initBackoff * backoffFactor^n, maxBackoff / (1 + jitter))
//
// to which jitter adds up to that fraction of it at random, so that processes that
// fail for long do not retry together, and no wait exceeds maxBackoff.
//
// A maxBackoff that is not positive is none, and a backoffFactor of 0 leaves the
// interval as it is. A negative initBackoff, and a backoffFactor or jitter that is
// negative or not a number, count as zero. It panics if the clock is nil. The manager
// may be called concurrently; its timer serves one goroutine.
func NewExponentialBackoffManager(initBackoff, maxBackoff, resetDuration time.Duration, backoffFactor, jitter float64, c clock.Clock) BackoffManager {
	mustClock(c)
	waits := newCurve(Backoff{Duration: initBackoff, Factor: backoffFactor, Jitter: jitter, Cap: maxBackoff})
	interval, last := waits.first, c.Now()
	return &backoffManager{clock: c, delay: func() time.Duration {
		now := c.Now()
		if now.Sub(last) > resetDuration {
			interval = waits.first
		}
		last = now
		wait := waits.wait(interval, rand.Float64())
		interval = waits.next(interval)
		return wait
	}}
}

// NewJitteredBackoffManager returns a manager of waits of the same duration, to
// which jitter adds up to that fraction of it at random; it adds nothing if it
// is not positive. A negative duration counts as zero. If the clock is nil,
// Backoff panics.
//
// The manager may be called concurrently; its timer serves one goroutine.
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
		panic("workqueue: clock is nil")
	}
}
