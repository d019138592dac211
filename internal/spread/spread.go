// Package spread adds jitter to intervals, within the range of a
// [time.Duration].
package spread

import (
	"math"
	"time"
)

// Add returns d + random*jitter*d, or 0 if d is negative. The sum is formed of
// integers, as a float64 does not hold every duration above 104 days, and the result
// would be less than d at times.
func Add(d time.Duration, jitter, random float64) time.Duration {
	if d <= 0 {
		return 0
	}
	extra := random * jitter * float64(d)
	if extra < float64(math.MaxInt64-d) {
		return d + time.Duration(extra)
	}
	return math.MaxInt64 // Also if extra is not a number, from 0 times infinity.
}

// Ceiling returns the interval at which the growth must end, so that no wait exceeds
// the limit and yet the longest waits have jitter too:
//
//	limit / (1 + jitter)
//
// If the sum of interval and jitter were cut off at the limit, all clients would retry
// at the same time just when an outage has lasted longest. A jitter that is not
// positive is none.
//
// The quotient is rounded, so the caller still has to compare a wait with the limit.
func Ceiling(limit time.Duration, jitter float64) time.Duration {
	if !(jitter > 0) {
		return limit
	}
	quotient := float64(limit) / (1 + jitter)
	if quotient >= math.MaxInt64 {
		return limit
	}
	return max(1, time.Duration(quotient)) // Growth multiplies, and could not leave 0.
}
