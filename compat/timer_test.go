package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	ourwait "github.com/seed16c08ea7/workqueue/wait"
)

func _(a wait.Timer, b ourwait.Timer) { a, b = b, a }

var (
	_ = ourwait.ConditionWithContextFunc(wait.ConditionWithContextFunc(nil))
	_ = wait.ConditionWithContextFunc(ourwait.ConditionWithContextFunc(nil))
)

// The same calls at the same times get the same ticks, for timers of all three
// kinds. Where two would come at once, which is had first is open: the steps are
// of other lengths than the waits.
func TestTimersStepByStep(t *testing.T) {
	r := generator(t)
	for range rounds(5000) {
		b := wait.Backoff{
			Duration: time.Duration(r.IntN(4)-1) * 100 * time.Millisecond,
			Factor:   float64(r.IntN(3)),
			Steps:    r.IntN(5) - 1,
			Jitter:   -float64(r.IntN(2)),
			Cap:      time.Duration(r.IntN(2)) * 350 * time.Millisecond,
		}
		script := make([]byte, 1+r.IntN(15))
		for i := range script {
			script[i] = "ccrrrnnnspx"[r.IntN(11)]
		}
		ours := ourwait.Backoff(b)
		for name, timers := range map[string][2]func() wait.Timer{
			"Backoff": {func() wait.Timer { return b.Timer() }, func() wait.Timer { return ours.Timer() }},
			"DelayFunc": {
				func() wait.Timer { return b.DelayFunc().Timer(clock.RealClock{}) },
				func() wait.Timer { return ours.DelayFunc().Timer(clock.RealClock{}) },
			},
		} {
			want, got := ticks(t, timers[0], script), ticks(t, timers[1], script)
			if want != got {
				t.Fatalf("%s %+v, %s:\ntheirs%s\nours  %s", name, b, script, want, got)
			}
		}
		if wait.Backoff(ours) != b {
			t.Fatalf("Timer has left %+v of %+v", ours, b)
		}
	}
}

// ticks plays calls of C and Next, receipts, steps of time and calls of Stop. It
// returns the ticks, each with its time.
func ticks(t *testing.T, newTimer func() wait.Timer, script []byte) (journal string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer()
		start := time.Now()
		var c <-chan time.Time
		for _, call := range script {
			switch call {
			case 'c':
				c = timer.C()
			case 'r':
				select {
				case tick, ok := <-c:
					journal += fmt.Sprint(" ", time.Since(start), ok, max(0, tick.Sub(start)))
				case <-time.After(time.Hour + time.Millisecond):
					journal += " never"
				}
			case 'n':
				timer.Next()
			case 's':
				time.Sleep(70*time.Millisecond + 1)
			case 'p':
				time.Sleep(time.Second + 3)
			case 'x':
				timer.Stop()
			}
		}
		timer.Stop()
	})
	return journal
}

// Until asks at the same times and returns the same, for answers of any length
// and an end of the context at any time.
func TestDelayUntilStepByStep(t *testing.T) {
	r := generator(t)
	for n := range rounds(2000) {
		p := poll{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(6), time.Duration(r.IntN(800)-100)*time.Millisecond + 1, nil}
		for range 8 {
			p.lengths = append(p.lengths, time.Duration(r.IntN(150))*time.Millisecond+time.Microsecond)
		}
		b := anyPollBackoff(r)
		theirs := p.play(t, func(ctx context.Context, f func(context.Context) (bool, error)) error {
			return b.DelayFunc().Until(ctx, p.immediate, p.sliding, f)
		})
		ours := p.play(t, func(ctx context.Context, f func(context.Context) (bool, error)) error {
			return ourwait.Backoff(b).DelayFunc().Until(ctx, p.immediate, p.sliding, f)
		})
		if !slices.Equal(theirs, ours) {
			t.Fatalf("round %d, %+v, %+v:\ntheirs %v\nours   %v", n, p, b, theirs, ours)
		}
	}
}

func anyPollBackoff(r *rand.Rand) wait.Backoff {
	return wait.Backoff{Duration: time.Duration(1+r.IntN(100)) * time.Millisecond, Factor: 2, Steps: r.IntN(4)}
}

// A poll is what a condition answers, in which time, and when its context ends.
type poll struct {
	immediate, sliding bool
	end                int // the answer that ends it; each other one of them is an error
	stop               time.Duration
	lengths            []time.Duration
}

func (p poll) play(t *testing.T, until func(context.Context, func(context.Context) (bool, error)) error) (journal []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), p.stop)
		defer cancel()
		err := until(ctx, func(c context.Context) (bool, error) {
			journal = append(journal, fmt.Sprint(time.Since(start), c == ctx))
			time.Sleep(p.lengths[len(journal)%len(p.lengths)])
			if len(journal) <= p.end {
				return false, nil
			}
			if p.end%2 == 1 {
				return p.end == 3, errors.New("no use")
			}
			return true, nil
		})
		journal = append(journal, fmt.Sprint(time.Since(start), err))
	})
	return journal
}
