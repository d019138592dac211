package workqueue_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A recorder is a provider whose metrics write down what they are told, and
// call a hook with that before they return.
type recorder struct {
	discard bool
	hook    func(event string)

	mu     sync.Mutex
	events []string
}

// take returns the events since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

func (r *recorder) note(format string, args ...any) {
	if r.discard {
		return
	}
	event := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.events = append(r.events, event)
	hook := r.hook
	r.mu.Unlock()
	if hook != nil {
		hook(event)
	}
}

func (r *recorder) setHook(hook func(event string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

func (r *recorder) NewDepthMetric(string) workqueue.GaugeMetric       { return metric{r, "depth"} }
func (r *recorder) NewAddsMetric(string) workqueue.CounterMetric      { return metric{r, "adds"} }
func (r *recorder) NewLatencyMetric(string) workqueue.HistogramMetric { return metric{r, "latency"} }
func (r *recorder) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return metric{r, "work"}
}
func (r *recorder) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric{r, "unfinished"}
}
func (r *recorder) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric{r, "longest"}
}
func (r *recorder) NewRetriesMetric(string) workqueue.CounterMetric { return metric{r, "retries"} }

// A metric is all kinds of metrics.
type metric struct {
	recorder *recorder
	name     string
}

func (m metric) Inc()              { m.recorder.note("%s+1", m.name) }
func (m metric) Dec()              { m.recorder.note("%s-1", m.name) }
func (m metric) Set(v float64)     { m.recorder.note("%s=%v", m.name, v) }
func (m metric) Observe(v float64) { m.recorder.note("%s(%v)", m.name, v) }

// A shelf is a Queue that hands out the last item first and moves an item that
// is touched to the top. It notes its calls and calls a hook with each before
// it does anything.
type shelf[T comparable] struct {
	items []T
	calls []string
	hook  func(call string)
	quiet bool
}

func (s *shelf[T]) note(call string, item ...T) {
	if s.quiet {
		return
	}
	s.calls = append(s.calls, fmt.Sprintf("%s%v", call, item))
	if s.hook != nil {
		s.hook(call)
	}
}

func (s *shelf[T]) Touch(item T) {
	s.note("touch", item)
	i := slices.Index(s.items, item)
	s.items = append(slices.Delete(s.items, i, i+1), item)
}

func (s *shelf[T]) Push(item T) {
	s.note("push", item)
	s.items = append(s.items, item)
}

func (s *shelf[T]) Len() int {
	if s.hook != nil {
		s.hook("len")
	}
	return len(s.items)
}

func (s *shelf[T]) Pop() T {
	s.note("pop")
	last := len(s.items) - 1
	item := s.items[last]
	s.items = s.items[:last]
	return item
}

// A hookedClock is a fake clock that calls hooks when it is read, after the
// reading was taken, and when a timer is armed, before and after.
type hookedClock struct {
	*testingclock.FakeClock
	onRead  func()
	onArm   func()
	onArmed func()
	leap    time.Duration // is added to what is read; no timer notices

	mu   sync.Mutex
	arms []time.Duration
	// stale counts the timers that were armed with an old tick in the channel.
	// The fake clock blocks for ever, locked, when it sends the next one there.
	stale int
}

// A tickedClock is a fake clock whose timers tick when the test says so. It
// counts those that are not stopped, and calls hooks before it makes and stops
// one.
type tickedClock struct {
	*testingclock.FakeClock
	ticks          chan time.Time
	running        atomic.Int64
	onMake, onStop func()
}

func newTickedClock() *tickedClock {
	return &tickedClock{FakeClock: testingclock.NewFakeClock(epoch), ticks: make(chan time.Time)}
}

func (c *tickedClock) NewTimer(time.Duration) clock.Timer {
	call(c.onMake)
	c.running.Add(1)
	return handTimer{c}
}

type handTimer struct{ clock *tickedClock }

func (t handTimer) C() <-chan time.Time      { return t.clock.ticks }
func (t handTimer) Reset(time.Duration) bool { return false }

func (t handTimer) Stop() bool {
	call(t.clock.onStop)
	t.clock.running.Add(-1)
	return true
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newHookedClock() *hookedClock {
	return &hookedClock{FakeClock: testingclock.NewFakeClock(epoch)}
}

// armed returns for how long timers were armed since the last call.
func (c *hookedClock) armed() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	arms := c.arms
	c.arms = nil
	return arms
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

func (c *hookedClock) Now() time.Time {
	defer call(c.onRead)
	return c.FakeClock.Now().Add(c.leap)
}

func (c *hookedClock) Since(t time.Time) time.Duration {
	defer call(c.onRead)
	return c.FakeClock.Since(t) + c.leap
}

func (c *hookedClock) arming(d time.Duration) {
	c.mu.Lock()
	c.arms = append(c.arms, d)
	c.mu.Unlock()
	call(c.onArm)
}

func (c *hookedClock) NewTimer(d time.Duration) clock.Timer {
	c.arming(d)
	defer call(c.onArmed)
	return hookedTimer{c.FakeClock.NewTimer(d), c}
}

type hookedTimer struct {
	clock.Timer
	clock *hookedClock
}

func (t hookedTimer) Reset(d time.Duration) bool {
	t.clock.arming(d)
	select {
	case <-t.C():
		t.clock.mu.Lock()
		t.clock.stale++
		t.clock.mu.Unlock()
	default:
	}
	defer call(t.clock.onArmed)
	return t.Timer.Reset(d)
}
