//go:build !explore

package gate

import (
	"sync"
	"time"
)

// A Mutex guards the state of a queue. With the build tag explore it is another type: the package
// explore then decides which goroutine goes on, from one lock to the next. Point and Select do
// nothing without the tag, and the compiled queue does not have them.
type Mutex = sync.Mutex

// Point precedes a wait that follows an unlock. In between, other goroutines may run.
func Point() {}

// Select is Point before a select, and returns the channels of the select. With the tag, at most
// one of the channels that are ready is left: a select takes any channel that is ready, and a
// schedule could not be played again.
func Select(timer <-chan time.Time, token, cancel <-chan struct{}) (_ <-chan time.Time, _, _ <-chan struct{}) {
	return timer, token, cancel
}
