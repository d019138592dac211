package gate

import (
	"time"

	"k8s.io/utils/clock"
)

// An Alarm is a timer that is made once and armed again and again. It belongs to one goroutine
// at a time. The zero Alarm has no timer yet.
type Alarm struct {
	timer clock.Timer // nil until the alarm is armed
}

// C is the channel of the timer. The alarm must be armed.
func (a *Alarm) C() <-chan time.Time { return a.timer.C() }

// Arm sets the timer. The clock is the same in each call.
func (a *Alarm) Arm(c clock.WithTicker, d time.Duration) {
	if a.timer == nil {
		a.timer = c.NewTimer(d)
		return
	}
	a.Disarm()
	a.timer.Reset(d)
}

// Disarm keeps the timer from firing while nobody listens, and takes back a tick that
// nobody has received. Otherwise a fake clock that fires the timer again would wait for
// room for the next tick, with the lock of the clock held.
func (a *Alarm) Disarm() {
	if a.timer == nil {
		return
	}
	a.timer.Stop()
	select {
	case <-a.timer.C():
	default:
	}
}
