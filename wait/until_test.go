package wait_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue/wait"
)

// A runner is one of the functions under test, with a period of 100 ms.
type runner struct {
	name    string
	sliding bool
	run     func(ctx context.Context, f func(context.Context))
}

const period = 100 * time.Millisecond

func runners() []runner {
	plain := func(f func(context.Context)) func() { return func() { f(nil) } }
	jittered := func() wait.BackoffManager {
		return wait.NewJitteredBackoffManager(period, 0, clock.RealClock{})
	}
	return []runner{
		{"Until", true, func(ctx context.Context, f func(context.Context)) {
			wait.Until(plain(f), period, ctx.Done())
		}},
		{"UntilWithContext", true, func(ctx context.Context, f func(context.Context)) {
			wait.UntilWithContext(ctx, f, period)
		}},
		{"JitterUntil", true, func(ctx context.Context, f func(context.Context)) {
			wait.JitterUntil(plain(f), period, 0, true, ctx.Done())
		}},
		{"JitterUntil, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			wait.JitterUntil(plain(f), period, 0, false, ctx.Done())
		}},
		{"NonSlidingUntil", false, func(ctx context.Context, f func(context.Context)) {
			wait.NonSlidingUntil(plain(f), period, ctx.Done())
		}},
		{"NonSlidingUntilWithContext", false, func(ctx context.Context, f func(context.Context)) {
			wait.NonSlidingUntilWithContext(ctx, f, period)
		}},
		{"JitterUntilWithContext, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			wait.JitterUntilWithContext(ctx, f, period, -1, false)
		}},
		{"BackoffUntil", true, func(ctx context.Context, f func(context.Context)) {
			wait.BackoffUntil(plain(f), jittered(), true, ctx.Done())
		}},
		{"BackoffUntil, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			wait.BackoffUntil(plain(f), jittered(), false, ctx.Done())
		}},
		{"BackoffUntilWithContext", true, func(ctx context.Context, f func(context.Context)) {
			wait.BackoffUntilWithContext(ctx, f, jittered(), true)
		}},
	}
}

func onEachRunner(t *testing.T, test func(t *testing.T, r runner)) {
	for _, r := range runners() {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, r) })
		})
	}
}

// A run of 30 ms begins each 130 ms if the period begins at its end, else each
// 100 ms. The fourth, of 250 ms, takes longer than its period: the next one
// follows 100 ms later or at once. A stop in the last ends it all without
// another wait.
func TestUntilPeriods(t *testing.T) {
	onEachRunner(t, func(t *testing.T, r runner) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var begun []time.Duration
		r.run(ctx, func(context.Context) {
			begun = append(begun, time.Since(start)/time.Millisecond)
			switch len(begun) {
			case 4:
				time.Sleep(250 * time.Millisecond)
			case 6:
				cancel()
			}
			time.Sleep(30 * time.Millisecond)
		})
		want := []time.Duration{0, 130, 260, 390, 770, 900}
		if !r.sliding {
			want = []time.Duration{0, 100, 200, 300, 580, 680}
		}
		if !slices.Equal(begun, want) {
			t.Errorf("runs began at %d ms, want %d", begun, want)
		}
		if end, last := time.Since(start)/time.Millisecond, want[5]+30; end != last {
			t.Errorf("returned at %d ms, want %d", end, last)
		}
	})
}

func TestUntilStoppedBefore(t *testing.T) {
	onEachRunner(t, func(t *testing.T, r runner) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		r.run(ctx, func(context.Context) { t.Error("a run after the stop") })
		if d := time.Since(start); d != 0 {
			t.Errorf("returned after %v", d)
		}
	})
}

func TestUntilStoppedWhileWaiting(t *testing.T) {
	onEachRunner(t, func(t *testing.T, r runner) {
		ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer cancel()
		start := time.Now()
		runs := 0
		r.run(ctx, func(context.Context) { runs++ })
		if d := time.Since(start); runs != 4 || d != 350*time.Millisecond {
			t.Errorf("%d runs, returned after %v, want 4 and 350ms", runs, d)
		}
	})
}

// When the stop and the timer are both ready, a select may choose the timer.
func TestUntilNeverRunsOnceMore(t *testing.T) {
	t.Parallel()
	for range 100 {
		onEachRunner(t, func(t *testing.T, r runner) {
			ctx, cancel := context.WithCancel(t.Context())
			runs := 0
			r.run(ctx, func(context.Context) {
				if runs++; runs == 3 {
					cancel()
					time.Sleep(2 * period) // Not sliding: the timer has fired.
				}
			})
			if runs != 3 {
				t.Errorf("%d runs, want 3", runs)
			}
		})
	}
	for range 200 { // With a wait of nothing, the timer is ready at once.
		stop := make(chan struct{})
		runs := 0
		wait.Until(func() {
			if runs++; runs == 3 {
				close(stop)
			}
		}, 0, stop)
		if runs != 3 {
			t.Fatalf("%d runs, want 3", runs)
		}
	}
}

func TestBackoffUntilGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var begun []time.Duration
		manager := wait.NewExponentialBackoffManager(time.Second, 5*time.Second, time.Minute, 2, 0, clock.RealClock{})
		wait.BackoffUntilWithContext(ctx, func(context.Context) {
			begun = append(begun, time.Since(start)/time.Second)
			switch len(begun) {
			case 6: // Healthy for longer than the reset.
				time.Sleep(time.Hour)
			case 8:
				cancel()
			}
		}, manager, true)
		if want := []time.Duration{0, 1, 3, 7, 12, 17, 3618, 3620}; !slices.Equal(begun, want) {
			t.Errorf("runs began at %d s, want %d", begun, want)
		}
	})
}

func TestJitterUntilJitters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last time.Time
		runs, longest := 0, time.Duration(0)
		wait.JitterUntilWithContext(ctx, func(context.Context) {
			if d := time.Since(last); runs > 0 && (d < period || d > 3*period) {
				t.Errorf("run %d after %v, want %v to %v", runs, d, period, 3*period)
			} else if runs > 0 {
				longest = max(longest, d)
			}
			last = time.Now()
			if runs++; runs == 200 {
				cancel()
			}
		}, period, 2, true)
		if longest < 2*period {
			t.Errorf("the longest period was %v, want up to %v", longest, 3*period)
		}
	})
}

// A stop leaves no timer behind, of whichever clock.
func TestBackoffUntilStopsItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testclock.NewFakeClock(time.Now())
		manager := wait.NewJitteredBackoffManager(period, 0, c)
		stop := make(chan struct{})
		runs := 0
		go wait.BackoffUntil(func() { runs++ }, manager, true, stop)
		synctest.Wait()
		c.Step(period)
		synctest.Wait()
		close(stop)
		synctest.Wait()
		if runs != 2 || c.HasWaiters() {
			t.Errorf("%d runs, timer left: %v; want 2, false", runs, c.HasWaiters())
		}
	})
}

// apimachinery's functions log the panic and panic on.
func TestUntilPanicReachesTheCaller(t *testing.T) {
	onEachRunner(t, func(t *testing.T, r runner) {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
		}()
		r.run(t.Context(), func(context.Context) { panic("boom") })
	})
}

func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, runs := time.Now(), 0
		wantPanic(t, "boom", func() {
			wait.Forever(func() {
				if runs++; runs == 1000 {
					panic("boom")
				}
			}, period)
		})
		if d := time.Since(start); d != 999*period {
			t.Errorf("1000 runs took %v, want %v", d, 999*period)
		}
	})
}

func TestUntilBadInput(t *testing.T) {
	manager := wait.NewJitteredBackoffManager(period, 0, clock.RealClock{})
	ctx := t.Context()
	const noFunc, noManager = "wait: function to run is nil", "wait: backoff manager is nil"
	wantPanic(t, noFunc, func() { wait.Until(nil, period, nil) })
	wantPanic(t, noFunc, func() { wait.UntilWithContext(ctx, nil, period) })
	wantPanic(t, noFunc, func() { wait.BackoffUntil(nil, manager, true, nil) })
	wantPanic(t, noFunc, func() { wait.BackoffUntilWithContext(ctx, nil, manager, true) })
	wantPanic(t, noManager, func() { wait.BackoffUntil(func() {}, nil, true, nil) })
	wantPanic(t, noManager, func() { wait.BackoffUntilWithContext(ctx, func(context.Context) {}, nil, true) })
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	wait.Until(nil, period, stopped.Done())
	wait.BackoffUntilWithContext(stopped, nil, nil, true)
}

func TestUntilWithNegativePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, runs := time.Now(), 0
		wait.JitterUntilWithContext(ctx, func(context.Context) {
			if runs++; runs == 3 {
				cancel()
			}
		}, -time.Second, 1, true)
		if d := time.Since(start); runs != 3 || d != 0 {
			t.Errorf("%d runs in %v, want 3 in 0s", runs, d)
		}
	})
}

// A loop that receives, works for 30 ms and calls Next.
func TestBackoffTimer(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name    string
		backoff wait.Backoff
		want    string
	}{
		{"each wait begins with Next", wait.Backoff{Duration: 100 * ms, Factor: 2, Steps: 2}, "100ms 330ms 760ms 1.19s"},
		{"the cap ends the growth", wait.Backoff{Duration: 100 * ms, Factor: 2, Steps: 9, Cap: 150 * ms}, "100ms 280ms 460ms 640ms"},
		{"with jitter too", wait.Backoff{Duration: 100 * ms, Jitter: -1}, "100ms 230ms 360ms 490ms"}, // One of none.
		{"equal waits tick by themselves", wait.Backoff{Duration: 100 * ms, Factor: 2, Steps: 1}, "100ms 200ms 300ms 400ms"},
		{"no wait", wait.Backoff{}, "0s 30ms 60ms 90ms"},
		{"negative waits are none", wait.Backoff{Duration: -ms}, "0s 30ms 60ms 90ms"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := row.backoff.Timer()
				timer.Next() // Before the first wait, which begins with C.
				start, got := time.Now(), ""
				for range 4 {
					<-timer.C()
					got += fmt.Sprint(" ", time.Since(start))
					time.Sleep(30 * ms)
					timer.Next()
				}
				timer.Stop()
				if got != " "+row.want {
					t.Errorf("ticks at%s, want %s", got, row.want)
				}
			})
		})
	}
}

func TestTimerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shortest := wait.Backoff{Duration: 1}.Timer()
		start := time.Now()
		<-shortest.C()
		if d := time.Since(start); d != 1 {
			t.Errorf("a tick after %v, want 1ns", d)
		}
		shortest.Stop()
		for _, b := range []wait.Backoff{{Duration: time.Second}, {Duration: time.Second, Steps: 5}} {
			timer := b.Timer()
			timer.Stop() // It has not begun.
			c := timer.C()
			timer.Stop()
			timer.Stop()
			timer.Next()
			time.Sleep(time.Minute)
			select {
			case <-c:
				t.Errorf("%+v: a tick after Stop", b)
			default:
			}
			start := time.Now()
			<-timer.C() // Begins anew.
			if d := time.Since(start); d != time.Second {
				t.Errorf("%+v: a tick after %v, want 1s", b, d)
			}
			timer.Stop()
		}
	})
}

// A tick that nobody has received is not taken for the next wait, with a fake
// clock neither, which does not do that by itself.
func TestTimerForgetsATickAtNext(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(0, 0))
	calls := 0
	timer := wait.DelayFunc(func() time.Duration { calls++; return time.Second }).Timer(c)
	if calls != 0 || c.HasWaiters() {
		t.Errorf("%d calls before the first wait, waits: %v", calls, c.HasWaiters())
	}
	timer.C()
	c.Step(time.Second)
	timer.Next()
	if n := len(timer.C()); n != 0 || calls != 2 {
		t.Errorf("%d ticks and %d calls after Next, want 0 and 2", n, calls)
	}
	c.Step(time.Second)
	if n := len(timer.C()); n != 1 {
		t.Errorf("%d ticks after the wait, want 1", n)
	}
	timer.Next()
	if timer.Stop(); c.HasWaiters() {
		t.Error("the clock has a waiter after Stop")
	}
	wantPanic(t, "wait: clock is nil", func() { wait.DelayFunc(nil).Timer(nil) })
}

// Questions that take 30 ms, with waits of 100, 200 and 400 ms.
func TestDelayUntil(t *testing.T) {
	failed := errors.New("failed")
	for _, row := range []struct {
		immediate, sliding bool
		want               string
		waits              int
	}{
		{true, true, "0s 130ms 360ms", 2},
		{true, false, "0s 100ms 300ms", 3},
		{false, true, "100ms 330ms 760ms", 3},
		{false, false, "100ms 300ms 700ms", 4},
	} {
		for _, answer := range []error{nil, failed} {
			synctest.Test(t, func(t *testing.T) {
				b := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 5}
				start, got := time.Now(), ""
				asked, waits := 0, 0
				err := wait.DelayFunc(func() time.Duration { waits++; return b.Step() }).Until(t.Context(), row.immediate, row.sliding, func(context.Context) (bool, error) {
					got += fmt.Sprint(" ", time.Since(start))
					time.Sleep(30 * time.Millisecond)
					asked++
					return asked == 3 && answer == nil, map[bool]error{true: answer}[asked == 3]
				})
				if got != " "+row.want || err != answer || waits != row.waits {
					t.Errorf("immediate %v, sliding %v: asked at%s in %d waits and got %v, want %s, %d and %v",
						row.immediate, row.sliding, got, waits, err, row.want, row.waits, answer)
				}
			})
		}
	}
}

func TestDelayUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the cause"))
		for _, immediate := range []bool{true, false} {
			asked := false
			err := wait.Backoff{}.DelayFunc().Until(ctx, immediate, true, func(context.Context) (bool, error) {
				asked = true
				return false, nil
			})
			if err != context.Canceled || asked != immediate {
				t.Errorf("immediate %v: asked %v, got %v, want %v and the error of the context", immediate, asked, err, immediate)
			}
		}
		wantPanic(t, "wait: condition is nil", func() { wait.Backoff{}.DelayFunc().Until(ctx, true, true, nil) })
	})
}
