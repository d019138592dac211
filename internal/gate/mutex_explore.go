//go:build explore

package gate

import (
	"sync"
	"time"
)

// A Scheduler decides which goroutine goes on, and which of several ways.
type Scheduler interface {
	// Lock returns when m is free and it is the turn of the caller, and sets m.Held.
	Lock(m *Mutex)
	// Point returns when it is the turn of the caller.
	Point()
	// Choose returns a number below n.
	Choose(n int) int
}

// Explorer schedules the goroutines that use a Mutex. Without an Explorer the runtime does. An
// Explorer comes and goes while no goroutine holds a Mutex.
var Explorer Scheduler

// A Mutex is a lock that asks the Explorer.
type Mutex struct {
	Held bool // by a goroutine of the Explorer
	real sync.Mutex
}

// Lock locks m.
func (m *Mutex) Lock() {
	if Explorer == nil {
		m.real.Lock()
		return
	}
	Explorer.Lock(m)
}

// TryLock is Lock. A TryLock that fails is followed by another wait for the same lock.
func (m *Mutex) TryLock() bool {
	m.Lock()
	return true
}

// Unlock unlocks m, also if the Explorer is gone since the Lock.
func (m *Mutex) Unlock() {
	if m.Held {
		m.Held = false
		return
	}
	m.real.Unlock()
}

// Point asks the Explorer.
func Point() {
	if Explorer != nil {
		Explorer.Point()
	}
}

// Select is Point, and chooses one of several channels that are ready.
func Select(timer <-chan time.Time, token, cancel <-chan struct{}) (_ <-chan time.Time, _, _ <-chan struct{}) {
	if Explorer == nil {
		return timer, token, cancel
	}
	Explorer.Point()
	var ready []int
	for i, is := range []bool{len(timer) > 0, len(token) > 0, isClosed(cancel)} {
		if is {
			ready = append(ready, i)
		}
	}
	if len(ready) < 2 {
		return timer, token, cancel
	}
	switch ready[Explorer.Choose(len(ready))] {
	case 0:
		return timer, nil, nil
	case 1:
		return nil, token, nil
	default:
		return nil, nil, cancel
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
