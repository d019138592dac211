package wait

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// NeverStop is a channel that is never closed: Until(f, period, NeverStop) has no end. A nil
// channel does the same. In a bubble of [testing/synctest] use a nil channel: NeverStop was made
// outside of the bubble, so the time of the bubble stands still while a loop waits for NeverStop.
var NeverStop <-chan struct{} = make(chan struct{})

// Forever is [Until] with no end.
func Forever(f func(), period time.Duration) { Until(f, period, nil) }

// Until runs f, waits for the period, and so on until stopCh is closed. A nil
// channel is never closed. Until panics if f is nil.
func Until(f func(), period time.Duration, stopCh <-chan struct{}) {
	JitterUntil(f, period, 0, true, stopCh)
}

// UntilWithContext is [Until] until ctx is done.
func UntilWithContext(ctx context.Context, f func(context.Context), period time.Duration) {
	JitterUntilWithContext(ctx, f, period, 0, true)
}

// NonSlidingUntil is [Until] with periods that begin when f begins: a run that takes
// longer than its period is followed by the next run at once.
func NonSlidingUntil(f func(), period time.Duration, stopCh <-chan struct{}) {
	JitterUntil(f, period, 0, false, stopCh)
}

// NonSlidingUntilWithContext is [NonSlidingUntil] until ctx is done.
func NonSlidingUntilWithContext(ctx context.Context, f func(context.Context), period time.Duration) {
	JitterUntilWithContext(ctx, f, period, 0, false)
}

// JitterUntil runs f once in each period until stopCh is closed. A jitterFactor
// that is positive prolongs each period at random by up to that fraction of the
// period. The period begins when f ends if sliding is true, else when f begins: then a
// run that takes longer than its period is followed by the next run at once.
//
// A nil channel is never closed; a period that is not positive is no wait. JitterUntil
// panics if f is nil.
func JitterUntil(f func(), period time.Duration, jitterFactor float64, sliding bool, stopCh <-chan struct{}) {
	BackoffUntil(f, NewJitteredBackoffManager(period, jitterFactor, clock.RealClock{}), sliding, stopCh)
}

// JitterUntilWithContext is [JitterUntil] until ctx is done.
func JitterUntilWithContext(ctx context.Context, f func(context.Context), period time.Duration, jitterFactor float64, sliding bool) {
	BackoffUntilWithContext(ctx, f, NewJitteredBackoffManager(period, jitterFactor, clock.RealClock{}), sliding)
}

// BackoffUntil runs f, waits as long as the manager says, and so on until
// stopCh is closed. The wait begins when f ends if sliding is true, else when
// f begins.
//
// A nil channel is never closed. The first run panics if f or the manager is
// nil.
func BackoffUntil(f func(), backoff BackoffManager, sliding bool, stopCh <-chan struct{}) {
	backoffUntil(stopCh, f, backoff, sliding)
}

// BackoffUntilWithContext is [BackoffUntil] until ctx is done.
func BackoffUntilWithContext(ctx context.Context, f func(ctx context.Context), backoff BackoffManager, sliding bool) {
	var run func()
	if f != nil {
		run = func() { f(ctx) }
	}
	backoffUntil(ctx.Done(), run, backoff, sliding)
}

func backoffUntil(stop <-chan struct{}, f func(), backoff BackoffManager, sliding bool) {
	// A select between a timer and a stop that are both ready takes either, so the loop
	// also asks for the stop alone.
	for !isClosed(stop) {
		timer := runOnce(f, backoff, sliding)
		select {
		case <-stop:
			stopTimer(timer)
		case <-timer.C():
		}
	}
}

func isClosed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// runOnce runs f and returns the timer of the wait after the run.
func runOnce(f func(), backoff BackoffManager, sliding bool) clock.Timer {
	switch {
	case f == nil:
		panic("wait: function to run is nil")
	case backoff == nil:
		panic("wait: backoff manager is nil")
	}
	if !sliding {
		timer := backoff.Backoff()
		f()
		return timer
	}
	f()
	return backoff.Backoff()
}

// A Timer is a series of waits: a loop receives from C, works, and calls Next
// for the next wait. The first wait begins with the first call of C. A Timer must not be
// used concurrently, and its owner must call Stop.
type Timer interface {
	// C returns the channel that says that a wait is over.
	C() <-chan time.Time
	// Next begins the next wait; before the first wait Next does nothing. Call Next
	// after a tick was received.
	Next()
	// Stop ends the wait, if there is one.
	Stop()
}

// Timer returns a timer whose waits are the intervals of b, and leaves b as it is. The
// timer is one of three kinds:
//
//   - With Steps above 1, or a Jitter that is not 0, each wait begins with Next.
//   - Else all waits are the Duration. The timer ticks by itself like a [time.Ticker],
//     so a wait is shorter by the time of the work before it.
//   - Else, with a Duration that is not positive, there is no wait: C is closed.
func (b Backoff) Timer() Timer {
	switch {
	case b.Steps > 1 || b.Jitter != 0:
		return b.DelayFunc().Timer(clock.RealClock{})
	case b.Duration > 0:
		return &periodTimer{period: b.Duration}
	}
	return noWaitTimer{}
}

// A periodTimer is a Timer of waits of one length.
type periodTimer struct {
	period  time.Duration
	current *time.Ticker // nil before the first call of C and after Stop
}

func (t *periodTimer) C() <-chan time.Time {
	if t.current == nil {
		t.current = time.NewTicker(t.period)
	}
	return t.current.C
}

func (t *periodTimer) Next() {}

func (t *periodTimer) Stop() {
	if t.current != nil {
		t.current.Stop()
		t.current = nil
	}
}

// A noWaitTimer is a Timer whose waits are over.
type noWaitTimer struct{}

func (noWaitTimer) C() <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

func (noWaitTimer) Next() {}
func (noWaitTimer) Stop() {}

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

// Timer returns a timer whose waits are the results of f, measured by the clock.
// Each wait begins with Next. Timer panics if the clock is nil.
func (f DelayFunc) Timer(c clock.Clock) Timer {
	mustClock(c)
	return &delayTimer{clock: c, delay: f}
}

// A delayTimer is a Timer whose waits begin with Next.
type delayTimer struct {
	clock   clock.Clock
	delay   DelayFunc
	current clock.Timer // nil before the first call of C and after Stop
}

func (t *delayTimer) C() <-chan time.Time {
	if t.current == nil {
		t.current = t.clock.NewTimer(t.delay())
	}
	return t.current.C()
}

func (t *delayTimer) Next() {
	if t.current == nil {
		return
	}
	stopTimer(t.current)
	t.current.Reset(t.delay())
}

func (t *delayTimer) Stop() {
	if t.current != nil {
		t.current.Stop()
		t.current = nil
	}
}

// A ConditionWithContextFunc says whether a condition is met. An error ends the loop
// that asks.
type ConditionWithContextFunc func(ctx context.Context) (done bool, err error)

// Until asks the condition, waits as long as f says, and so on. Until returns nil when
// the condition is met, the error that the condition returns, or the error of ctx when
// ctx is done. If immediate is true, the first question comes at once, even if ctx is
// done already; else the first question comes after the first wait. A wait begins when
// the condition has answered if sliding is true, else when the condition is asked.
//
// A panic of the condition reaches the caller. Until panics if the condition is
// nil and has to be asked.
func (f DelayFunc) Until(ctx context.Context, immediate, sliding bool, condition ConditionWithContextFunc) error {
	waits := f.Timer(clock.RealClock{})
	defer waits.Stop()
	over, err := false, error(nil)
	if immediate {
		if !sliding {
			waits.C() // Begins the first wait.
		}
		over, err = condition.ask(ctx)
	}
	for !over {
		over, err = condition.askNext(ctx, waits, sliding)
	}
	return err
}

func (f ConditionWithContextFunc) ask(ctx context.Context) (over bool, err error) {
	if f == nil {
		panic("wait: condition is nil")
	}
	over, err = f(ctx)
	return over || err != nil, err
}

// askNext waits and asks, and reports whether the answer is the last one.
func (f ConditionWithContextFunc) askNext(ctx context.Context, waits Timer, sliding bool) (over bool, err error) {
	if err := waitForTick(ctx, waits.C()); err != nil {
		return true, err
	}
	if !sliding {
		waits.Next()
	}
	if over, err = f.ask(ctx); sliding && !over {
		waits.Next()
	}
	return over, err
}

// waitForTick waits for a tick. A context that has ended comes before a tick.
func waitForTick(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
	case <-tick:
	}
	return ctx.Err()
}
