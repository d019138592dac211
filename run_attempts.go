package workqueue

import (
	"reflect"
	"sync"
)

// This file has where Run counts the failures of items in a row. The count is one for
// all calls of Run on a queue. A TypedRateLimiting keeps it itself. For a queue of
// another type there is an entry in a map while calls of Run are on it: an entry that
// stayed longer would keep the queue in memory.

// foreignAttempts are the counts for queues that are not ours. One lock is enough for the
// program: it is taken at the start and at the end of a Run on such a queue, and held
// for a look at the map.
var foreignAttempts struct {
	mu     sync.Mutex
	counts map[any]*foreignCount // by queue
}

type foreignCount struct {
	failures any // *failures[T]
	runs     int // calls of Run that use it
}

// attemptsOf returns the count of failures of a queue. The caller has to call release
// at the end of its Run.
//
// A queue whose type cannot be compared is no key of a map. Each Run then counts for
// itself, so that an item may have MaxAttempts in each of them.
func attemptsOf[T comparable](queue TypedRateLimitingInterface[T]) (count *failures[T], release func()) {
	if q, ok := queue.(interface{ failureCounts() *failures[T] }); ok {
		return q.failureCounts(), func() {}
	}
	if !reflect.ValueOf(queue).Comparable() {
		return new(failures[T]), func() {}
	}
	f := &foreignAttempts
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts[queue]
	if c == nil {
		c = &foreignCount{failures: new(failures[T])}
		if f.counts == nil {
			f.counts = make(map[any]*foreignCount)
		}
		f.counts[queue] = c
	}
	c.runs++
	return c.failures.(*failures[T]), func() { releaseAttempts(queue) }
}

// releaseAttempts takes one Run off the entry, and with the last one the entry: a later
// Run on the queue counts from zero.
func releaseAttempts(queue any) {
	f := &foreignAttempts
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.counts[queue]; c.runs > 1 {
		c.runs--
	} else {
		delete(f.counts, queue)
	}
}
