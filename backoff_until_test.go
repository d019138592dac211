package workqueue_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
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
	jittered := func() workqueue.BackoffManager {
		return workqueue.NewJitteredBackoffManager(period, 0, clock.RealClock{})
	}
	return []runner{
		{"Until", true, func(ctx context.Context, f func(context.Context)) {
			workqueue.Until(plain(f), period, ctx.Done())
		}},
		{"UntilWithContext", true, func(ctx context.Context, f func(context.Context)) {
			workqueue.UntilWithContext(ctx, f, period)
		}},
		{"JitterUntil", true, func(ctx context.Context, f func(context.Context)) {
			workqueue.JitterUntil(plain(f), period, 0, true, ctx.Done())
		}},
		{"JitterUntil, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			workqueue.JitterUntil(plain(f), period, 0, false, ctx.Done())
		}},
		{"JitterUntilWithContext, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			workqueue.JitterUntilWithContext(ctx, f, period, -1, false)
		}},
		{"BackoffUntil", true, func(ctx context.Context, f func(context.Context)) {
			workqueue.BackoffUntil(plain(f), jittered(), true, ctx.Done())
		}},
		{"BackoffUntil, not sliding", false, func(ctx context.Context, f func(context.Context)) {
			workqueue.BackoffUntil(plain(f), jittered(), false, ctx.Done())
		}},
		{"BackoffUntilWithContext", true, func(ctx context.Context, f func(context.Context)) {
			workqueue.BackoffUntilWithContext(ctx, f, jittered(), true)
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
		workqueue.Until(func() {
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
		manager := workqueue.NewExponentialBackoffManager(time.Second, 5*time.Second, time.Minute, 2, 0, clock.RealClock{})
		workqueue.BackoffUntilWithContext(ctx, func(context.Context) {
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
		workqueue.JitterUntilWithContext(ctx, func(context.Context) {
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
		manager := workqueue.NewJitteredBackoffManager(period, 0, c)
		stop := make(chan struct{})
		runs := 0
		go workqueue.BackoffUntil(func() { runs++ }, manager, true, stop)
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

// client-go's logs the panic and panics on.
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

func TestUntilBadInput(t *testing.T) {
	manager := workqueue.NewJitteredBackoffManager(period, 0, clock.RealClock{})
	ctx := t.Context()
	const noFunc, noManager = "workqueue: function to run is nil", "workqueue: backoff manager is nil"
	wantPanic(t, noFunc, func() { workqueue.Until(nil, period, nil) })
	wantPanic(t, noFunc, func() { workqueue.UntilWithContext(ctx, nil, period) })
	wantPanic(t, noFunc, func() { workqueue.BackoffUntil(nil, manager, true, nil) })
	wantPanic(t, noFunc, func() { workqueue.BackoffUntilWithContext(ctx, nil, manager, true) })
	wantPanic(t, noManager, func() { workqueue.BackoffUntil(func() {}, nil, true, nil) })
	wantPanic(t, noManager, func() { workqueue.BackoffUntilWithContext(ctx, func(context.Context) {}, nil, true) })
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	workqueue.Until(nil, period, stopped.Done())
	workqueue.BackoffUntilWithContext(stopped, nil, nil, true)
}

func TestUntilWithNegativePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, runs := time.Now(), 0
		workqueue.JitterUntilWithContext(ctx, func(context.Context) {
			if runs++; runs == 3 {
				cancel()
			}
		}, -time.Second, 1, true)
		if d := time.Since(start); runs != 3 || d != 0 {
			t.Errorf("%d runs in %v, want 3 in 0s", runs, d)
		}
	})
}
