package workqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A step of a timeline is a call and its result: "" for a call that returns nothing, and "blocks"
// for a call that does not return before all other goroutines wait too.
//
// A call is a verb with its arguments, see stage.call. An actor makes each call that shall block:
// "w1: get". The step "w1: returns" has the result of the call later.
type step struct{ do, want string }

// A stage is where the steps of a timeline play.
type stage struct {
	t      *testing.T
	queue  workqueue.TypedInterface[string]
	actors map[string]*act
}

// An act is an actor's last call.
type act struct {
	returned chan struct{}
	result   string
}

// timeline plays the steps in virtual time, and checks the invariants after each step. At the end
// no call may block, and no goroutine may be left.
func timeline(t *testing.T, open func() workqueue.TypedInterface[string], steps ...step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		s := &stage{t: t, queue: open(), actors: map[string]*act{}}
		for i, step := range steps {
			if got := s.play(step.do); got != step.want {
				t.Errorf("step %d, %q: got %q, want %q", i, step.do, got, step.want)
			}
			checkInvariants(t, i, s.queue)
			checkQuiet(t, i, s.queue)
		}
		s.queue.ShutDown()
		synctest.Wait()
		for name, a := range s.actors {
			if a.outcome() == "blocks" {
				t.Fatalf("in the end, the last call of %q still blocks", name)
			}
		}
	})
}

func (s *stage) play(do string) string {
	words := strings.Fields(do)
	name := ""
	if strings.HasSuffix(words[0], ":") {
		name, words = words[0], words[1:]
	}
	switch words[0] {
	case "returns":
		return s.actors[name].outcome()
	case "sleep":
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d)
		synctest.Wait()
		return ""
	}
	a := &act{returned: make(chan struct{})}
	s.actors[name] = a
	go func() {
		defer close(a.returned)
		a.result = s.call(words[0], words[1:])
	}()
	synctest.Wait()
	return a.outcome()
}

func (a *act) outcome() string {
	select {
	case <-a.returned:
		return a.result
	default:
		return "blocks"
	}
}

// extended has the methods of the concrete queues that the interface lacks.
type extended interface {
	AddAll(items ...string) int
	TryGet() (string, bool)
}

func (s *stage) call(verb string, args []string) string {
	switch q := s.queue; verb {
	case "add":
		q.Add(args[0])
	case "addall":
		q.(extended).AddAll(args...)
	case "after":
		d, _ := time.ParseDuration(args[0])
		q.(workqueue.TypedDelayingInterface[string]).AddAfter(args[1], d)
	case "done":
		q.Done(args[0])
	case "len":
		return fmt.Sprint(q.Len())
	case "get":
		item, shutdown := q.Get()
		if shutdown {
			return "shutdown " + item
		}
		return item
	case "try":
		item, ok := q.(extended).TryGet()
		if !ok {
			return "nothing " + item
		}
		return item
	case "shutdown":
		q.ShutDown()
	case "drain":
		q.ShutDownWithDrain()
	case "shutting":
		return fmt.Sprint(q.ShuttingDown())
	default:
		panic("no such call: " + verb)
	}
	return ""
}

// checkInvariants reports the step at which an invariant breaks. Under the race detector only one
// step of four is checked: the checks take most of the time of the models, and all tests also run
// without the race detector.
func checkInvariants(t *testing.T, step int, queue any) {
	t.Helper()
	if raceEnabled && step%4 != 0 {
		return
	}
	if c, ok := queue.(interface{ CheckInvariants() error }); ok {
		if err := c.CheckInvariants(); err != nil {
			t.Fatalf("after step %d: %v", step, err)
		}
	}
}

// checkQuiet checks the invariants that hold only while all goroutines wait.
func checkQuiet(t *testing.T, step int, queue any) {
	t.Helper()
	if c, ok := queue.(interface{ CheckQuiet() error }); ok {
		if err := c.CheckQuiet(); err != nil {
			t.Fatalf("at rest after step %d: %v", step, err)
		}
	}
}

func newTyped() workqueue.TypedInterface[string] { return workqueue.NewTyped[string]() }

func newDelaying() workqueue.TypedInterface[string] {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
}

// goes runs f on another goroutine, because f may panic or call runtime.Goexit. goes returns the
// value of the panic.
func goes(f func()) (panicked any) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { panicked = recover() }()
		f()
	})
	wg.Wait()
	return panicked
}

// wantPanic checks the text with which f panics. With "", f must not panic.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	got := goes(f)
	if got == nil {
		got = ""
	}
	if got != want {
		t.Errorf("panic: got %q, want %q", got, want)
	}
}

// takeAll gets each queued item and calls Done.
func takeAll[T comparable](q *workqueue.Typed[T]) (items []T) {
	for {
		item, ok := q.TryGet()
		if !ok {
			return items
		}
		items = append(items, item)
		q.Done(item)
	}
}

// rounds returns n, and n/4 under the race detector: a round is ten times as slow there, and a test
// with one goroutine has no races. All tests also run without the race detector.
func rounds(n int) int {
	if raceEnabled {
		return n / 4
	}
	return n
}

// newRand returns a generator, and logs how to repeat its numbers.
func newRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// goroutines returns how many goroutines the library has in this bubble.
func goroutines() (n int) {
	for _, stack := range stacks() {
		header, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "synctest bubble") && strings.Contains(stack, "\ncreated by github.com/seed16c08ea7/workqueue.(") {
			n++
		}
	}
	return n
}

// stacks returns the stacks of all goroutines.
func stacks() []string {
	buffer := make([]byte, 1<<20)
	for {
		if size := runtime.Stack(buffer, true); size < len(buffer) {
			return strings.Split(string(buffer[:size]), "\n\n")
		}
		buffer = make([]byte, 2*len(buffer))
	}
}

func first[T any](item T, _ bool) T { return item }

// count returns how often the event has happened since the last call.
func count(r *recorder, event string) (n int) {
	for _, e := range r.take() {
		if e == event {
			n++
		}
	}
	return n
}

// prio returns a Priority for AddOptions.
func prio(priority int) *int { return &priority }

// A recorder is a provider. Each of its metrics writes the event down, and calls a hook with the
// event before the method returns.
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

// A metric implements all kinds of metrics.
type metric struct {
	recorder *recorder
	name     string
}

func (m metric) Inc()              { m.recorder.note("%s+1", m.name) }
func (m metric) Dec()              { m.recorder.note("%s-1", m.name) }
func (m metric) Set(v float64)     { m.recorder.note("%s=%v", m.name, v) }
func (m metric) Observe(v float64) { m.recorder.note("%s(%v)", m.name, v) }

// A shelf is a Queue that hands out the last item first. Touch moves an item to the top. A shelf
// notes its calls, and first calls a hook with each.
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

// A hookedClock is a fake clock that calls hooks: after each reading, and before and after a timer
// is armed.
type hookedClock struct {
	*testingclock.FakeClock
	onRead  func()
	onArm   func()
	onArmed func()
	leap    time.Duration // is added to each reading; no timer notices

	mu   sync.Mutex
	arms []time.Duration
	// stale counts the timers that were armed with an old tick in the channel. The fake clock would
	// block for ever, with its lock held, at the next tick of such a timer.
	stale int
}

// A tickedClock is a fake clock whose timers tick when the test says so. A tickedClock counts the
// timers that are not stopped, and calls hooks before a timer is made or stopped.
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

// armed returns the durations of the timers that were armed since the last call.
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

// getRanked gets an item, and returns its priority too.
func getRanked[T comparable](q interface {
	GetInfo(ctx context.Context) (workqueue.ItemInfo[T], error)
}) (item T, priority int) {
	info, err := q.GetInfo(context.Background())
	if err != nil {
		panic(err)
	}
	return info.Item, info.Priority
}
