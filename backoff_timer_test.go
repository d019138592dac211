package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A loop that receives, works for 30 ms and calls Next.
func TestBackoffTimer(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name    string
		backoff workqueue.Backoff
		want    string
	}{
		{"each wait begins with Next", workqueue.Backoff{Duration: 100 * ms, Factor: 2, Steps: 2}, "100ms 330ms 760ms 1.19s"},
		{"the cap ends the growth", workqueue.Backoff{Duration: 100 * ms, Factor: 2, Steps: 9, Cap: 150 * ms}, "100ms 280ms 460ms 640ms"},
		{"with jitter too", workqueue.Backoff{Duration: 100 * ms, Jitter: -1}, "100ms 230ms 360ms 490ms"}, // One of none.
		{"equal waits tick by themselves", workqueue.Backoff{Duration: 100 * ms, Factor: 2, Steps: 1}, "100ms 200ms 300ms 400ms"},
		{"no wait", workqueue.Backoff{}, "0s 30ms 60ms 90ms"},
		{"negative waits are none", workqueue.Backoff{Duration: -ms}, "0s 30ms 60ms 90ms"},
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
		shortest := workqueue.Backoff{Duration: 1}.Timer()
		start := time.Now()
		<-shortest.C()
		if d := time.Since(start); d != 1 {
			t.Errorf("a tick after %v, want 1ns", d)
		}
		shortest.Stop()
		for _, b := range []workqueue.Backoff{{Duration: time.Second}, {Duration: time.Second, Steps: 5}} {
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
	c := testclock.NewFakeClock(epoch)
	calls := 0
	timer := workqueue.DelayFunc(func() time.Duration { calls++; return time.Second }).Timer(c)
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
	wantPanic(t, "workqueue: clock is nil", func() { workqueue.DelayFunc(nil).Timer(nil) })
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
				b := workqueue.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 5}
				start, got := time.Now(), ""
				asked, waits := 0, 0
				err := workqueue.DelayFunc(func() time.Duration { waits++; return b.Step() }).Until(t.Context(), row.immediate, row.sliding, func(context.Context) (bool, error) {
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
			err := workqueue.Backoff{}.DelayFunc().Until(ctx, immediate, true, func(context.Context) (bool, error) {
				asked = true
				return false, nil
			})
			if err != context.Canceled || asked != immediate {
				t.Errorf("immediate %v: asked %v, got %v, want %v and the error of the context", immediate, asked, err, immediate)
			}
		}
		wantPanic(t, "workqueue: condition is nil", func() { workqueue.Backoff{}.DelayFunc().Until(ctx, true, true, nil) })
	})
}
