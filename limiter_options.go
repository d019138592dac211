package workqueue

import "k8s.io/utils/clock"

// LimiterOptions are the options of limiters that know the time. The zero value is
// valid.
type LimiterOptions struct {
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

func (o LimiterOptions) clock() clock.PassiveClock {
	if o.Clock == nil {
		return clock.RealClock{}
	}
	return o.Clock
}
