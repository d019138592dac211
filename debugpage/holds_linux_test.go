package debugpage_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// BenchmarkHolds measures the calls by which a request takes the lock of a queue with a million
// items. A call takes the lock once or more often, and does more than that, so its time is a bound
// for a hold. Of Items the time from an item to the next is a bound: the lock is taken for a piece
// of the walk in between. The times are those of the processor for the thread: a machine that has
// other work stops any code for milliseconds.
func BenchmarkHolds(b *testing.B) {
	q := queueOfMany(b, 1_000_000)
	for _, call := range []struct {
		name string
		call func(note func(time.Duration))
	}{
		{"Stats", func(note func(time.Duration)) { note(worked(func() { q.Stats() })) }},
		{"Snapshot", func(note func(time.Duration)) { note(worked(func() { q.Snapshot(100) })) }},
		{"Items", func(note func(time.Duration)) {
			last := processorTime()
			for range q.Items() {
				now := processorTime()
				if d := now - last; d > time.Microsecond { // Otherwise in the midst of a piece.
					note(d)
				}
				last = now
			}
		}},
	} {
		b.Run("call="+call.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took []time.Duration
			for b.Loop() {
				call.call(func(d time.Duration) { took = append(took, d) })
			}
			report := durations(b, took)
			report("us/median", 0.5)
			report("us/p99", 0.99)
			report("us/longest", 1)
		})
	}
}

func worked(f func()) time.Duration {
	start := processorTime()
	f()
	return processorTime() - start
}

// processorTime returns for how long the thread has run. While other programs have the
// processor, the time stands still.
func processorTime() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}
