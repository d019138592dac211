// Package gate has the lock of a queue, and two waits: for the lock, and for the end of the
// goroutines of the queue.
package gate

import "runtime"

// Lock of a [Mutex] puts the goroutine to sleep at once if the mutex is taken and
// other goroutines can run on the same processor. To sleep takes longer than the lock of a
// queue is held. So callers who find the lock taken stay awake for a while.
// docs/decisions-locks.md has the measurements.
//
//	call                    waits by   because the lock is
//	Add, Get, Done, TryGet  LockSoon   held shortly, and taken for every item
//	AddAfter                LockAwake  held shortly, and sleepers make due items late
//	all others              Lock       held for long, or taken seldom

const (
	// The pauses of LockSoon, in turns of an empty loop: the first, and the last.
	firstPause = 1000
	lastPause  = 8000

	pauseRamps = 4    // how often LockSoon goes from the first to the last pause
	maxLooks   = 1024 // how often LockAwake looks
)

// LockSoon is mu.Lock for short sections. It stays away from the lock for a while, longer
// each time, so the holder of the lock can have more sections in a row. Then LockSoon lets
// other goroutines run. Where a nanosecond counts, callers try TryLock before LockSoon.
func LockSoon(mu *Mutex) {
	for range pauseRamps {
		for pause := firstPause; pause <= lastPause; pause *= 2 {
			if mu.TryLock() {
				return
			}
			for range pause {
			}
		}
		runtime.Gosched()
	}
	mu.Lock()
}

// LockAwake is mu.Lock for an AddAfter in a flood of calls. Waiting callers give way to
// each other and stay awake: if all callers but one sleep, due items are late, see
// BenchmarkLateness.
func LockAwake(mu *Mutex) {
	for n := range maxLooks {
		if mu.TryLock() {
			return
		}
		if n%4 == 3 {
			runtime.Gosched()
		}
	}
	mu.Lock()
}
