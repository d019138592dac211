package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A clock that is set back after it was read, and before the reader has the
// lock: an item that is delayed in between by what the clock shows then is not
// due by the reading, though the time that this shows is later.
//
// Each row is a call in between. The item a waits until 10 s, and the clock has
// shown that.
var callsInBetween = map[string]struct {
	call func(q *workqueue.TypedDelaying[string])
	item string        // to come
	at   time.Duration // and when
}{
	"AddAfter":                    {func(q *workqueue.TypedDelaying[string]) { q.AddAfter("b", 5*time.Second) }, "b", 5 * time.Second},
	"Reschedule":                  {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("b", 5*time.Second) }, "b", 5 * time.Second},
	"Reschedule of what waits":    {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 5*time.Second) }, "a", 5 * time.Second},
	"Reschedule to the same time": {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 10*time.Second) }, "a", 10 * time.Second},
	"Debounce":                    {func(q *workqueue.TypedDelaying[string]) { q.Debounce("b", 5*time.Second, time.Hour) }, "b", 5 * time.Second},
	"Debounce, at most":           {func(q *workqueue.TypedDelaying[string]) { q.Debounce("b", time.Hour, 5*time.Second) }, "b", 5 * time.Second},
	"Debounce to the same time":   {func(q *workqueue.TypedDelaying[string]) { q.Debounce("d", 10*time.Second, time.Hour) }, "d", 10 * time.Second},
}

func TestItemDelayedSinceTheClockWasReadIsNotAddedEarly(t *testing.T) {
	for name, row := range callsInBetween {
		for below, queue := range map[string]func() workqueue.TypedInterface[string]{
			"own":     func() workqueue.TypedInterface[string] { return nil },
			"foreign": func() workqueue.TypedInterface[string] { return bare{workqueue.NewTyped[string]()} },
		} {
			for reader, read := range map[string]func(q *workqueue.TypedDelaying[string], clock *hookedClock){
				"the goroutine": func(_ *workqueue.TypedDelaying[string], clock *hookedClock) { clock.Step(10 * time.Second) },
				"AddAfter": func(q *workqueue.TypedDelaying[string], clock *hookedClock) {
					clock.leap = 10 * time.Second
					q.AddAfter("c", time.Hour)
				},
				"Reschedule": func(q *workqueue.TypedDelaying[string], clock *hookedClock) {
					clock.leap = 10 * time.Second
					q.Reschedule("c", time.Hour)
				},
				"Debounce": func(q *workqueue.TypedDelaying[string], clock *hookedClock) {
					clock.leap = 10 * time.Second
					q.Debounce("c", time.Hour, time.Hour)
				},
			} {
				t.Run(name+", read by "+reader+", "+below+" queue below", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						clock := newHookedClock()
						q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Queue: queue()})
						defer q.ShutDown()
						q.AddAfter("a", 10*time.Second)
						q.Debounce("d", 10*time.Second, time.Hour)
						synctest.Wait()
						clock.onRead = func() {
							clock.onRead = nil
							clock.leap = 0
							clock.SetTime(epoch)
							row.call(q)
						}
						read(q, clock)
						synctest.Wait()
						checkInvariants(t, 0, q)
						for clock.Since(epoch) < row.at {
							if got := takeAllOf(q); slices.Contains(got, row.item) {
								t.Fatalf("%v before its time", row.at-clock.Since(epoch))
							}
							clock.Step(time.Second)
							synctest.Wait()
						}
						if got := takeAllOf(q); !slices.Contains(got, row.item) {
							t.Errorf("got %q when it is time for %s", got, row.item)
						}
					})
				})
			}
		}
	}
}

// A tampering is a script of what happens to the clock and the queue, which the
// clock plays within its own readings too: some steps for each, after the time
// was taken that it returns. It keeps accounts of when each item may come: once
// the clock has shown the time that it was delayed to, counted from then.
type tampering struct {
	*testingclock.FakeClock
	q *workqueue.TypedDelaying[int]

	mu     sync.Mutex
	script []byte
	inside bool // within a reading; those in it play no steps
	items  []delayed
	wrong  []string
}

// A delayed item is due at a time, and ripe when the clock has shown that.
type delayed struct {
	due  time.Duration
	ripe bool
	came bool
}

func (c *tampering) Since(t time.Time) time.Duration {
	now := c.FakeClock.Since(t)
	c.mu.Lock()
	plays := !c.inside && len(c.script) > 0
	c.inside = c.inside || plays
	c.mu.Unlock()
	if plays {
		for more := true; more; {
			more = c.play()
		}
		c.mu.Lock()
		c.inside = false
		c.mu.Unlock()
	}
	return now
}

// play plays a step of the script, and reports whether the next one belongs to
// it.
func (c *tampering) play() (more bool) {
	c.mu.Lock()
	if len(c.script) < opSize {
		c.script = nil
		c.mu.Unlock()
		return false
	}
	op, arg := c.script[0], time.Duration(c.script[1])*100*time.Millisecond
	c.script = c.script[opSize:]
	c.mu.Unlock()
	switch op % 8 {
	case 0, 1:
		c.set(c.now() - arg)
	case 2:
		c.set(c.now() + arg)
	case 3:
		c.set(0)
	case 4:
		c.plan(arg+1, c.q.Reschedule)
	case 5:
		c.plan(arg+1, func(item int, d time.Duration) { c.q.Debounce(item, d, time.Hour) })
	default:
		c.plan(arg+1, c.q.AddAfter)
	}
	return op>>3%4 > 0
}

func (c *tampering) now() time.Duration { return c.FakeClock.Since(epoch) }

// set sets the clock. What gets ripe is noted before anybody can see it.
func (c *tampering) set(now time.Duration) {
	c.mu.Lock()
	for i := range c.items {
		c.items[i].ripe = c.items[i].ripe || c.items[i].due <= now
	}
	c.mu.Unlock()
	c.FakeClock.SetTime(epoch.Add(now))
}

// plan delays an item that is new. Nobody moves the clock until it is read.
func (c *tampering) plan(delay time.Duration, call func(item int, delay time.Duration)) {
	c.mu.Lock()
	item := len(c.items)
	c.items = append(c.items, delayed{due: c.now() + delay})
	c.mu.Unlock()
	call(item, delay)
}

// arrive is called with each item that is handed out.
func (c *tampering) arrive(item int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.items[item]
	if !d.ripe || d.came {
		c.wrong = append(c.wrong, fmt.Sprintf("item %d, due at %v, ripe: %v, came before: %v", item, d.due, d.ripe, d.came))
	}
	d.came = true
}

// TestModelClockInReads and FuzzClockInReads set the clock forwards and back
// and delay items, between calls and within readings of the clock. No item may
// come before the clock has shown its time, and all come in the end.
func TestModelClockInReads(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playClockInReads(t, randomScript(rnd, 100))
	}
}

func FuzzClockInReads(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		playClockInReads(t, script)
	})
}

func playClockInReads(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		clock := &tampering{FakeClock: testingclock.NewFakeClock(epoch)}
		config := workqueue.TypedDelayingQueueConfig[int]{Clock: clock}
		if script[0]%2 == 1 {
			config.Queue = &gate[int]{workqueue.NewTyped[int](), func(int) {}}
		}
		q := workqueue.NewTypedDelaying(config)
		clock.q, clock.script = q, script[1:]
		arrivals := func() {
			synctest.Wait()
			checkInvariants(t, len(clock.script), q)
			for _, item := range takeAllOf(q) {
				clock.arrive(item)
			}
		}
		for len(clock.script) > 0 {
			clock.play()
			arrivals()
		}
		clock.set(math.MaxInt64 / 2)
		arrivals()
		if len(clock.wrong) > 0 {
			t.Errorf("too early or twice: %q", clock.wrong)
		}
		for i, d := range clock.items {
			if !d.came {
				t.Errorf("item %d of %d has never come", i, len(clock.items))
			}
		}
		q.ShutDown()
	})
}
