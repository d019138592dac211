package gate_test

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// The keeper looks again when the next token is there, and at least every 100 ms. A part of a
// token shortens the wait.
func TestPacerLooksAgainWhenTheTokenIsThere(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		limit rate.Limit
		burst int
		looks []time.Duration // the first takes the only token, if there is one
		next  time.Duration   // after the last look
	}{
		"no token":        {20, 1, []time.Duration{0, 0}, 50 * ms},
		"half a token":    {20, 1, []time.Duration{0, 25 * ms}, 50 * ms},
		"a slow limit":    {1, 1, []time.Duration{0, 200 * ms}, 300 * ms},
		"a limit of 0":    {0, 1, []time.Duration{0, 20 * ms}, 120 * ms},
		"a burst of 0":    {20, 0, []time.Duration{20 * ms}, 120 * ms},
		"an early look":   {20, 1, []time.Duration{0, 30 * ms, 10 * ms}, 50 * ms},
		"the token again": {20, 1, []time.Duration{0, 50 * ms, 60 * ms}, 100 * ms},
	} {
		epoch := time.Now()
		p := gate.NewPacer(rate.NewLimiter(tt.limit, tt.burst), clock.RealClock{}, epoch)
		allowed := true
		for _, at := range tt.looks {
			allowed = p.Allow(at, true)
		}
		if next := p.Next(); allowed || next.Round(time.Microsecond) != tt.next {
			t.Errorf("%s: allowed %v, the next look is at %v, want %v", name, allowed, next, tt.next)
		}
	}
}

// Each pause is told once. A pause that ended without a token hid the next one.
func TestPacerTellsEachPauseOnce(t *testing.T) {
	epoch := time.Now()
	limiter := rate.NewLimiter(0.1, 0)
	p := gate.NewPacer(limiter, clock.RealClock{}, epoch)
	told := 0
	p.OnPause = func() { told++ }
	for i, step := range []struct{ burst, told int }{{0, 1}, {0, 1}, {1, 1}, {0, 2}, {0, 2}} {
		limiter.SetBurstAt(epoch, step.burst)
		if p.Allow(0, true) {
			t.Fatalf("step %d: there is a token", i)
		}
		p.TellPause()
		if told != step.told {
			t.Errorf("step %d: told %d times, want %d", i, told, step.told)
		}
	}
}
