package workqueue

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// The functions of this file run f again and again on the caller's goroutine,
// until they are told to stop. They look for that before each run: one that
// was told before a run began does not begin it, and returns without waiting
// any further. A run that has begun is left to end. One that was told before the
// first run has no use for its other arguments, and accepts any.
//
// A panic of f reaches the caller: nothing is logged and nothing is retried.

// Until runs f, waits for the period, and so on until stopCh is closed. A nil
// channel never is. It panics if f is nil.
func Until(f func(), period time.Duration, stopCh <-chan struct{}) {
	JitterUntil(f, period, 0, true, stopCh)
}

// UntilWithContext runs f, waits for the period, and so on until ctx is done.
// It panics if f is nil.
func UntilWithContext(ctx context.Context, f func(context.Context), period time.Duration) {
	JitterUntilWithContext(ctx, f, period, 0, true)
}

// JitterUntil runs f once in each period until stopCh is closed. A jitterFactor
// that is positive prolongs each period at random by up to that fraction of
// it. The period begins when f ends if sliding is true, else when f begins: a
// run that takes longer than its period is followed by the next one at once.
//
// A nil channel is never closed; a period that is not positive is no wait. It
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
	// A select between a timer and a stop that are both ready takes either, so
	// that the loop has to ask for the stop by itself too.
	for !isClosed(stop) {
		timer := runOnce(f, backoff, sliding)
		select {
		case <-stop:
			stopTimer(timer)
		case <-timer.C():
		}
	}
}

// runOnce runs f and returns the timer of the wait after it.
func runOnce(f func(), backoff BackoffManager, sliding bool) clock.Timer {
	switch {
	case f == nil:
		panic("workqueue: function to run is nil")
	case backoff == nil:
		panic("workqueue: backoff manager is nil")
	}
	if !sliding {
		timer := backoff.Backoff()
		f()
		return timer
	}
	f()
	return backoff.Backoff()
}

func isClosed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}
