package workqueue

import (
	"runtime"
	"sync"
)

// A [sync.Mutex] that is locked puts its goroutine to sleep at once if others
// can run on the same processor, as is usual with more workers than processors.
// That takes hundreds of nanoseconds, and the lock of a queue is held for some
// tens. So those who find it locked stay awake for a while, here in two ways:
// one that makes the most of the processors, and one that is never late. Nobody
// starves for it, as TryLock fails when the mutex is being passed on, and a lock
// that is held for long, as by a large AddAll, is slept at.
//
//	call                    waits by   because the lock is
//	Add, Get, Done, TryGet  lockSoon   held shortly, and taken for every item
//	AddAfter                lockAwake  held shortly, and sleepers make due items late
//	all others              Lock       held for long, or taken seldom
//
// A call that takes the lock of a [Typed] beneath that of a [TypedDelaying] waits
// for the second as Add does for one item, and by Lock for a batch.
//
// Callers on a path where a nanosecond counts look once themselves, as neither
// function is small enough to be inlined.
//
// The price is the tail. One who yields comes back when all others have run once,
// which is a millisecond behind 1000 goroutines. docs/decisions-locks.md has what was tried
// against that, and what it cost with fewer.

const (
	// The pauses between the looks of lockSoon, in turns of an empty loop, of
	// which 1000 take some 300 ns: the first, and the last. Without pauses the
	// processors take the cache line of the lock from each other all the time.
	firstPause = 1000
	lastPause  = 8000

	// pauseRamps is how often lockSoon goes from the first to the last pause. All of
	// it takes 20 us if nobody else wants the processor. With one ramp, 4
	// producers and 4 workers take 25 % longer.
	pauseRamps = 4

	// maxLooks is how often lockAwake looks, for some 100 us if it is alone. With a
	// quarter of that, 1 of 100 items is 3 ms late in some floods.
	maxLooks = 1024
)

// lockSoon is mu.Lock for short sections. It stays away from the lock for a
// while, longer each time, so that whoever has it can have some more sections
// in a row, and then lets other goroutines run. Against mu.Lock, on two
// processors, 64k items take a fifth to a third less time with 1 to 16 producers and
// 1 to 100 workers.
func lockSoon(mu *sync.Mutex) {
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

// lockAwake is mu.Lock for an AddAfter in a flood of them. Goroutines that wait
// for a mutex sleep, and where all do but one, so do the threads of the other
// processors. One that is woken waits for the kernel, for 3 ms and more behind
// the one that has woken it, and what is to run there, the owner of the lock at
// times, waits with it. So those who wait give way to each other and stay awake.
// In a flood from 8 goroutines 1 of 100 items is late by 0.3 instead of 4 ms for it,
// while an AddAfter takes 260 instead of 190 ns. See BenchmarkLateness.
func lockAwake(mu *sync.Mutex) {
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
