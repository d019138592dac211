// Package gate has the lock of a queue, and two waits: for the lock, and for the end of the
// goroutines of the queue.
package gate

import (
	"runtime"
	"sync/atomic"
)

// Lock of a [Mutex] puts the goroutine to sleep at once if the mutex is taken and
// other goroutines can run on the same processor. To sleep takes longer than the lock of a
// queue is held. So callers who find the lock taken stay awake for a while.
// docs/decisions-locks.md has the measurements.
//
//	call               waits by        because the lock is
//	Get, Done, TryGet  LockSoon        held shortly, and taken for every item
//	Add                LockSoonOrRest  the same, and a thousand goroutines may add
//	AddAfter           LockAwake       held shortly, and sleepers make due items late
//	all others         Lock            held for long, or taken seldom

const (
	// The pauses of LockSoon, in turns of an empty loop: the first, and the last.
	firstPause = 1000
	lastPause  = 8000

	pauseRamps = 4    // how often LockSoon goes from the first to the last pause
	maxLooks   = 1024 // how often LockAwake looks
	maxWaiting = 64   // with how many callers LockSoonOrRest still waits awake
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

// LockSoonOrRest is LockSoon while at most maxWaiting callers wait, and Lock for any caller beyond.
// waiting counts the callers. If there are more threads than processors, the kernel may stop the thread
// that has the lock. A thousand callers that each stay awake for 20 us would then keep the processors
// from that thread for milliseconds.
func LockSoonOrRest(mu *Mutex, waiting *atomic.Int32) {
	if waiting.Add(1) <= maxWaiting {
		LockSoon(mu)
	} else {
		mu.Lock()
	}
	waiting.Add(-1)
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
