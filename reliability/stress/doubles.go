package main

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// A fault is the value of a panic in foreign code.
type fault string

// A trap makes foreign code misbehave now and then. The limiter, the storage, the
// metrics and the functions of an order each contain a trap.
type trap struct {
	name  string
	odds  int  // 1 of odds calls misbehaves; 0 for never
	dies  bool // may panic
	exits bool // may end its goroutine
	calls func()
}

// Foreign code calls spring first. In most calls spring does nothing. Otherwise
// spring sleeps, calls the queue, panics or ends the goroutine.
func (t *trap) spring() {
	if t == nil || t.odds == 0 || rand.IntN(t.odds) > 0 {
		return
	}
	switch kind := rand.IntN(4); {
	case kind == 0 && t.dies:
		panic(fault(t.name))
	case kind == 1 && t.exits:
		runtime.Goexit()
	case kind == 2 && t.calls != nil:
		t.calls()
	default:
		time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
	}
}

// A limiter is a rate limiter with a trap.
type limiter struct {
	typedLimiter
	trap *trap
}

type typedLimiter interface {
	When(item int) time.Duration
	Forget(item int)
	NumRequeues(item int) int
}

func (l limiter) When(item int) time.Duration {
	l.trap.spring()
	return l.typedLimiter.When(item)
}

func (l limiter) Forget(item int) {
	l.trap.spring()
	l.typedLimiter.Forget(item)
}

func (l limiter) NumRequeues(item int) int {
	l.trap.spring()
	return l.typedLimiter.NumRequeues(item)
}

// A stack is a Queue with a trap: the last in is the first out, and a touched
// item moves to the top. A call that does not return has changed nothing: the
// trap comes before the change.
type stack struct {
	items []int
	trap  *trap
}

func (s *stack) Touch(item int) {
	s.trap.spring()
	if i := slices.Index(s.items, item); i >= 0 {
		s.items = append(slices.Delete(s.items, i, i+1), item)
	}
}

func (s *stack) Push(item int) {
	s.trap.spring()
	s.items = append(s.items, item)
}

func (s *stack) Len() int { return len(s.items) }

func (s *stack) Pop() int {
	s.trap.spring()
	last := len(s.items) - 1
	item := s.items[last]
	s.items = s.items[:last]
	return item
}

// A leaper is the real clock with an offset that jumps. Its timers are real
// timers, and do not notice the jumps.
type leaper struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *leaper) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *leaper) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// leap moves the clock by up to a day in either direction.
func (c *leaper) leap() {
	c.offset.Store(rand.Int64N(int64(48*time.Hour)) - int64(24*time.Hour))
}
