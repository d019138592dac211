package workqueue

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// A Timer is a series of waits: a loop receives from C, works, and calls Next
// for the next wait. It has the method set of the interface of the same name in
// k8s.io/apimachinery/pkg/util/wait: a value of one type is assignable to the
// other.
//
// The first wait begins with the first call of C. A Timer must not be used
// concurrently, and its owner must call Stop.
type Timer interface {
	// C returns the channel that says that a wait is over.
	C() <-chan time.Time
	// Next begins the next wait; before the first one it does nothing. It is
	// called after a tick was received.
	Next()
	// Stop ends the wait. It does nothing if there is none.
	Stop()
}

// Timer returns a timer whose waits are the intervals of b, which it leaves as it
// is. It is one of three kinds:
//
//   - With Steps above 1, or a Jitter that is not 0, each wait begins with Next.
//   - Else all waits are the Duration. It ticks by itself like a [time.Ticker],
//     so that a wait is shorter by what the work before it took.
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

// Timer returns a timer whose waits are what f returns, measured by the clock.
// Each wait begins with Next. It panics if the clock is nil.
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

// A ConditionWithContextFunc says whether what is waited for is there. An error
// ends the waiting.
type ConditionWithContextFunc func(ctx context.Context) (done bool, err error)

// Until asks the condition, waits as long as f says, and so on until the
// condition is done or returns an error, which Until returns, or ctx is done:
// then the error is that of ctx. The first question comes at once if immediate is
// true, also when ctx is done already, and else after the first wait. A wait
// begins when the condition has answered if sliding is true, else when it is
// asked.
//
// A panic of the condition reaches the caller. Until panics if the condition is
// nil and it has to be asked.
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

func (f ConditionWithContextFunc) ask(ctx context.Context) (over bool, err error) {
	if f == nil {
		panic("workqueue: condition is nil")
	}
	over, err = f(ctx)
	return over || err != nil, err
}

// waitForTick waits for a tick. A context that has ended comes before one.
func waitForTick(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
	case <-tick:
	}
	return ctx.Err()
}
