package workqueue

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A lock is the mutex of a queue, for which one goroutine at a time may wait
// without sleeping.
//
// A [sync.Mutex] that is locked puts its goroutine to sleep at once if others
// can run on the same processor, as is usual with more workers than processors.
// To sleep and wake takes hundreds of nanoseconds and sometimes a thread, and a
// queue is locked for some tens. So somebody should be there when the lock comes
// free. One is enough for that. Those beyond take the processors from the one
// who has the lock, and each other's turns: of 1000 goroutines that all stay
// awake, 1 of 100 Adds takes 7 ms with GOMAXPROCS=8 on two processors, 2 ms if
// one does, and 4 in client-go's queue. The others sleep in the order of their
// arrival, and sync.Mutex hands the lock to one who has slept for 1 ms.
//
//	call                    waits by   because the lock is
//	Add, Get, Done, TryGet  lockSoon   held shortly, and taken for every item
//	AddAfter                lockAwake  held shortly, and sleepers make due items late
//	AddAll, all others      Lock       held for long, or taken seldom
//
// Whoever counts nanoseconds calls TryLock first, as neither function is small
// enough to be inlined. TryLock fails while the mutex is handed from sleeper to
// sleeper, so that those who are awake cannot keep them waiting.
//
// The zero value is unlocked. A lock must not be copied.
type lock struct {
	sync.Mutex
	awake atomic.Bool // somebody waits without sleeping
}

const (
	// The pauses between the looks of lockSoon, in turns of an empty loop, of
	// which 1000 take some 300 ns: the first, and the last. Without pauses the
	// processors take the cache line of the lock from each other all the time.
	firstPause = 1000
	lastPause  = 8000

	// ramps is how often lockSoon goes from the first to the last pause. All of
	// it takes 20 us if nobody else wants the processor. With one ramp, 4
	// producers and 4 workers took 25 % longer when all of them stayed awake.
	ramps = 4

	// mostLooks is how often lockAwake looks, for some 100 us if it is alone. With
	// a quarter of that, 1 of 100 items was 3 ms late in some floods when all of
	// them stayed awake.
	mostLooks = 1024
)

// lockSoon is Lock for short sections. Who is awake stays away from the lock for
// a while, longer each time, so that whoever has it can have some more sections
// in a row, and then lets other goroutines run.
func lockSoon(mu *lock) { mu.lockAfter(pauses) }

// lockAwake is Lock for an AddAfter in a flood of them. Goroutines that wait
// for a mutex sleep, and where all do but one, so do the threads of the other
// processors. One that is woken waits for the kernel, for 3 ms and more behind
// the one that has woken it, and what is to run there, the owner of the lock at
// times, waits with it. So one stays awake, and gives way to others.
func lockAwake(mu *lock) { mu.lockAfter(looks) }

// lockAfter is Lock after a wait for the lock, unless somebody waits already.
// wait reports whether it has got the lock.
func (mu *lock) lockAfter(wait func(*lock) bool) {
	if mu.awake.CompareAndSwap(false, true) {
		locked := wait(mu)
		mu.awake.Store(false)
		if locked {
			return
		}
	}
	mu.Lock()
}

func pauses(mu *lock) bool {
	for range ramps {
		for pause := firstPause; pause <= lastPause; pause *= 2 {
			if mu.TryLock() {
				return true
			}
			for range pause {
			}
		}
		runtime.Gosched()
	}
	return false
}

func looks(mu *lock) bool {
	for n := range mostLooks {
		if mu.TryLock() {
			return true
		}
		if n%4 == 3 {
			runtime.Gosched()
		}
	}
	return false
}
