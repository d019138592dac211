//go:build explore

package explore

import (
	"runtime"
	"sync"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// An Explorer plays a program again and again, with another schedule each time. It goes depth first
// through the decisions of a schedule: who takes the next step, and which channel a select takes.
//
// The caller is in a bubble of testing/synctest. With GOMAXPROCS 1 the goroutines that one step wakes
// or starts run in the same order each time. Otherwise a schedule can diverge from its beginning.
type Explorer struct {
	Bound int // preemptions of a schedule at most; negative is any number

	Schedules int // played so far
	Steps     int // of all schedules
	Deepest   int // decisions of a schedule, at most
	Diverged  int // decisions that had other ways when they were played again

	path []decision

	// Of one schedule.

	depth int     // decisions so far
	used  int     // preemptions so far
	now   int     // steps so far
	last  *thread // which took the last step
	begun *thread // which has begun a call in this step, and comes to its first lock

	mu      sync.Mutex // of the threads: those that a step has woken come to their points at the same time
	threads []*thread
	over    bool // the schedule has ended
	locked  bool
}

// A thread is a goroutine that has come to a scheduling point: one of the program, or one that the
// queue has started.
type thread struct {
	class uintptr // the function that the goroutine began with
	grant chan struct{}
	ready bool        // at a point
	wants *gate.Mutex // the lock at which the thread waits; nil at another point
}

// A decision is one of several ways on.
type decision struct {
	taken int
	costs []int // of each way: preemptions up to here
}

// Each plays all schedules. begin makes a queue, and starts the goroutines of the program by Go. end
// gets told of the end of a schedule, when no goroutine can go on, and reports whether to play further.
func (e *Explorer) Each(begin func(), end func() (further bool)) {
	for further := true; further; {
		e.depth, e.used, e.now, e.last, e.threads = 0, 0, 0, nil, nil
		e.over, e.locked = false, false
		begin()
		gate.Explorer = e
		e.run()
		gate.Explorer = nil
		e.abandon()
		e.Schedules++
		e.Deepest = max(e.Deepest, e.depth)
		further = end() && e.next()
	}
}

// entries return the functions with which the goroutines of a program begin. Each is another piece of
// code, so that runtime.Callers tells the goroutines apart. It takes a microsecond, and the number of
// the goroutine in the text of runtime.Stack takes ten.
var entries = [...]func(f func()) func(){
	func(f func()) func() { return func() { f() } },
	func(f func()) func() { return func() { f() } },
	func(f func()) func() { return func() { f() } },
	func(f func()) func() { return func() { f() } },
	func(f func()) func() { return func() { f() } },
}

// Go starts a goroutine of the program, whose steps are calls that begin with Begin.
func (e *Explorer) Go(f func()) {
	t := &thread{grant: make(chan struct{})}
	e.threads = append(e.threads, t)
	entry := entries[len(e.threads)-1](func() {
		t.class = classOf()
		f()
	})
	go entry()
	synctest.Wait()
}

// Now returns the number of steps so far.
func (e *Explorer) Now() int { return e.now }

// Locked reports whether a goroutine waits for a lock. At the end of a schedule it waits for ever.
func (e *Explorer) Locked() bool { return e.locked }

// Begin is the scheduling point before a call of the nth goroutine of the program, from 0. A call that
// locks has nothing to do with other goroutines before its first lock: Begin is the scheduling point of
// that lock too. After the end of the schedule Begin ends the goroutine.
func (e *Explorer) Begin(n int, locks bool) {
	if e.over {
		runtime.Goexit()
	}
	e.await(e.threads[n], nil)
	if locks {
		e.begun = e.threads[n]
	}
}

// Lock is the scheduling point before a critical section.
func (e *Explorer) Lock(m *gate.Mutex) {
	t := e.begun // If there is one, no other goroutine runs.
	e.begun = nil
	switch {
	case t == nil:
		e.await(e.me(), m)
	case m.Held:
		e.await(t, m)
	}
	m.Held = true
}

// Point is the scheduling point before a wait on a channel.
func (e *Explorer) Point() { e.await(e.me(), nil) }

// Choose is a decision that is no step.
func (e *Explorer) Choose(n int) int {
	costs := make([]int, n)
	for i := range costs {
		costs[i] = e.used
	}
	return e.decide(costs)
}

// await returns when it is the turn of the thread.
func (e *Explorer) await(t *thread, m *gate.Mutex) {
	e.mu.Lock()
	t.ready, t.wants = true, m
	e.mu.Unlock()
	<-t.grant
	if e.over {
		runtime.Goexit()
	}
}

// me returns the thread of the calling goroutine, or a new one for a goroutine that the queue has
// started. Of several goroutines that began with the same function, those at a point are others.
func (e *Explorer) me() *thread {
	class := classOf()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last != nil && e.last.class == class && !e.last.ready {
		return e.last
	}
	for _, t := range e.threads {
		if t.class == class && !t.ready {
			return t
		}
	}
	t := &thread{class: class, grant: make(chan struct{})}
	e.threads = append(e.threads, t)
	return t
}

var classes = map[uintptr]uintptr{} // by the return address in the function

var classesMu sync.Mutex

// classOf returns the entry of the function that the goroutine began with.
func classOf() uintptr {
	var pcs [128]uintptr
	n := runtime.Callers(2, pcs[:])
	pc := pcs[n-2] // The last one is runtime.goexit.
	classesMu.Lock()
	defer classesMu.Unlock()
	class, ok := classes[pc]
	if !ok {
		class = runtime.FuncForPC(pc - 1).Entry()
		classes[pc] = class
	}
	return class
}

// run takes steps until no thread can go on.
func (e *Explorer) run() {
	for {
		synctest.Wait()
		ways := e.ways()
		if len(ways) == 0 {
			return
		}
		costs := make([]int, len(ways))
		for i, t := range ways {
			costs[i] = e.used
			if t != e.last && ways[0] == e.last {
				costs[i]++
			}
		}
		at := e.decide(costs)
		t := ways[at]
		e.last, e.begun, e.used = t, nil, costs[at]
		e.now++
		e.Steps++
		t.ready = false
		t.grant <- struct{}{}
	}
}

// ways returns the threads that can take the next step, and first the thread that took the last one.
func (e *Explorer) ways() (ways []*thread) {
	if e.last != nil && e.last.canGo() {
		ways = append(ways, e.last)
	}
	for _, t := range e.threads {
		if t != e.last && t.canGo() {
			ways = append(ways, t)
		}
	}
	return ways
}

func (t *thread) canGo() bool { return t.ready && (t.wants == nil || !t.wants.Held) }

// decide returns the way of this schedule.
func (e *Explorer) decide(costs []int) int {
	if e.depth == len(e.path) {
		e.path = append(e.path, decision{costs: costs})
	}
	d := &e.path[e.depth]
	e.depth++
	if len(d.costs) != len(costs) {
		e.Diverged++
		d.costs = costs
		d.taken = min(d.taken, len(costs)-1)
	}
	return d.taken
}

// next prepares the next schedule: the last decision that has another way takes it. It reports false
// after the last schedule.
func (e *Explorer) next() bool {
	for at := len(e.path) - 1; at >= 0; at-- {
		d := &e.path[at]
		for d.taken++; d.taken < len(d.costs); d.taken++ {
			if e.Bound < 0 || d.costs[d.taken] <= e.Bound {
				e.path = e.path[:at+1]
				return true
			}
		}
	}
	return false
}

// abandon ends the goroutines that wait for a lock that nobody unlocks.
func (e *Explorer) abandon() {
	e.over = true
	for _, t := range e.threads {
		if t.ready {
			e.locked = true
			t.grant <- struct{}{}
		}
	}
	synctest.Wait()
}
