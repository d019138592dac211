// Package gate has what a queue waits with: for its lock, and for its goroutines to end.
package gate

import (
	"runtime"
	"sync"
)

// A [sync.Mutex] that is locked puts its goroutine to sleep at once if others can run on
// the same processor, which takes longer than the lock of a queue is held. So those who
// find it locked stay awake for a while. docs/decisions-locks.md has what that gains.
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
// each time, so that whoever has it can have some more sections in a row, and then lets
// other goroutines run. Where a nanosecond counts, callers look once themselves before.
func LockSoon(mu *sync.Mutex) {
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

// LockAwake is mu.Lock for an AddAfter in a flood of them: those who wait give way to each
// other and stay awake, as due items are late where all but one sleep. See
// BenchmarkLateness.
func LockAwake(mu *sync.Mutex) {
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
