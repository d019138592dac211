// Package explore plays every interleaving of small programs on a queue, and compares each with the
// specification, package spec. It needs the build tag explore:
//
//	make explore        all programs, many minutes
//	make test           those of a Typed, with at most two preemptions, some seconds
//	go test -tags explore ./internal/explore -run Listed -program drain -preemptions 9
//
// A program is what each of two to four goroutines calls. It runs in a bubble of testing/synctest, one
// goroutine at a time, from one scheduling point to the next. A scheduling point is the beginning of a
// call, a lock of a [gate.Mutex], and the wait of a worker after its unlock. After each step,
// synctest.Wait says who has come to a point, who is blocked and who has ended. So channels, contexts,
// timers and WaitGroups need no hook. Locks need one, because a bubble does not count a goroutine that
// waits for a mutex as blocked.
//
// A preemption is a step of another goroutine although the last one could go on. The explorer plays all
// schedules with at most so many preemptions: most faults need two at most.
//
// Three things are checked at the end of a schedule, when all goroutines have ended or are blocked:
//
//   - the specification allows the results of all calls, and what the queue holds, in some order of the
//     calls: a call that returned before another began comes first
//   - after that order, each call that is blocked may block: no wake-up is lost
//   - the queue counts as many parked workers as there are blocked calls of Get
//
// The explorer does not see what happens between two scheduling points: the memory model, atomics,
// a TryLock that fails, foreign code. The race detector, the stress program and package
// linearizability look there.
package explore
