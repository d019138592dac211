package workqueue_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func newClocked(clock *hookedClock) *workqueue.TypedDelaying[string] {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
}

// How a fake clock moves, and which items are added then.
type move struct {
	by   time.Duration
	want []string
}

func TestFakeClock(t *testing.T) {
	const day = 24 * time.Hour
	for name, moves := range map[string][]move{
		"in one step over all":         {{time.Hour, []string{"1s", "30s", "1h"}}},
		"exactly to each":              {{time.Second, []string{"1s"}}, {29 * time.Second, []string{"30s"}}, {time.Hour - 30*time.Second, []string{"1h"}}},
		"to just before":               {{time.Second - 1, nil}, {1, []string{"1s"}}, {29*time.Second - 1, nil}, {1, []string{"30s"}}},
		"not at all":                   {{0, nil}, {time.Second, []string{"1s"}}, {0, nil}},
		"in steps of the heartbeat":    {{10 * time.Second, []string{"1s"}}, {10 * time.Second, nil}, {10 * time.Second, []string{"30s"}}, {10 * time.Second, nil}},
		"a day back, then forth":       {{-day, nil}, {time.Second, nil}, {day, []string{"1s"}}, {time.Hour, []string{"30s", "1h"}}},
		"a day forth, then back":       {{day, []string{"1s", "30s", "1h"}}, {-day, nil}, {day, nil}},
		"back between two":             {{2 * time.Second, []string{"1s"}}, {-time.Minute, nil}, {time.Minute, nil}, {28 * time.Second, []string{"30s"}}},
		"back to before it was made":   {{-100 * 365 * day, nil}, {100 * 365 * day, nil}, {time.Second, []string{"1s"}}},
		"beyond the range and back":    {{200 * 365 * day, []string{"1s", "30s", "1h"}}, {200 * 365 * day, nil}, {-200 * 365 * day, nil}},
		"before the range and back":    {{-200 * 365 * day, nil}, {-200 * 365 * day, nil}, {200 * 365 * day, nil}, {200 * 365 * day, nil}, {time.Second, []string{"1s"}}},
		"in a thousand steps of 36 ms": slices.Concat(slices.Repeat([]move{{36 * time.Millisecond, nil}}, 27), []move{{36 * time.Millisecond, []string{"1s"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newHookedClock()
				q := newClocked(clock)
				q.AddAfter("1h", time.Hour)
				q.AddAfter("30s", 30*time.Second)
				q.AddAfter("1s", time.Second)
				for i, m := range moves {
					synctest.Wait()
					clock.SetTime(clock.Now().Add(m.by))
					synctest.Wait()
					if got := takeAllOf(q); !slices.Equal(got, m.want) {
						t.Errorf("step %d, by %v: got %q, want %q", i, m.by, got, m.want)
					}
					checkInvariants(t, i, q)
				}
				q.ShutDown()
			})
		})
	}
}

// A timer of the fake clock has fired, and nobody took its tick. The timer must not be armed again
// with the tick in its channel: the next step would send a second tick there, and block for ever
// with the lock of the clock held.
func TestClockSteppedTwiceWhileTheTimerIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := newClocked(clock)
		steps := 0
		clock.onArmed = func() {
			if steps++; steps <= 4 {
				clock.Step(10 * time.Second)
			}
		}
		q.AddAfter("a", 25*time.Second)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q, want a", got)
		}
		clock.onArmed = nil
		q.AddAfter("b", 25*time.Second)
		for range 3 {
			synctest.Wait()
			clock.Step(10 * time.Second)
		}
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"b"}) {
			t.Errorf("got %q, want b", got)
		}
		q.ShutDown()
		if clock.stale > 0 {
			t.Errorf("%d times the timer was armed with a tick in its channel", clock.stale)
		}
	})
}

// The clock is stepped between two readings, before there is a timer. The first reading finds
// nothing due.
func TestClockSteppedBeforeThereIsATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := newClocked(clock)
		reads := 0 // by AddAfter, and then by the goroutine
		clock.onRead = func() {
			if reads++; reads == 2 {
				clock.Step(time.Second)
			}
		}
		q.AddAfter("a", time.Second)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) || len(clock.armed()) > 0 {
			t.Errorf("got %q, want a, without a timer", got)
		}
		q.ShutDown()
	})
}

// Several steps in a row, each between a reading and the arming of the timer.
func TestClockSteppedBeforeEachArming(t *testing.T) {
	for steps := 1; steps <= 8; steps++ {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := newClocked(clock)
			arms := 0
			clock.onArm = func() {
				if arms++; arms <= steps {
					clock.Step(time.Second)
				}
			}
			q.AddAfter("a", time.Duration(steps)*time.Second)
			synctest.Wait()
			if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%d steps: got %q, want a", steps, got)
			}
			if got := clock.armed(); len(got) != steps || got[steps-1] != time.Second {
				t.Errorf("%d steps: armed %v, want a second less each time, down to one", steps, got)
			}
			q.ShutDown()
		})
	}
}

// A clock that never returns the same time twice, as a clock that embeds the real one. The loop
// must go to sleep, and not arm its timer again and again.
func TestClockThatNeverStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := newClocked(clock)
		clock.onRead = func() { clock.Step(time.Microsecond) }
		q.AddAfter("a", time.Second)
		synctest.Wait()
		if n := len(clock.armed()); n != 8 {
			t.Errorf("the timer was armed %d times for one item, want 8", n)
		}
		clock.onRead = nil
		clock.Step(time.Hour)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q, want a", got)
		}
		q.ShutDown()
	})
}

// Readings of a leaping clock jump, and its timers do not notice.
type leapingClock struct {
	*testingclock.FakeClock
	leap time.Duration
}

func (c *leapingClock) Now() time.Time                  { return c.FakeClock.Now().Add(c.leap) }
func (c *leapingClock) Since(t time.Time) time.Duration { return c.FakeClock.Since(t) + c.leap }

// An eager clock leaps an hour when a timer is made.
type eagerClock struct{ leapingClock }

func (c *eagerClock) NewTimer(d time.Duration) clock.Timer {
	defer func() { c.leap += time.Hour }()
	return c.FakeClock.NewTimer(d)
}

// A test that waits until a fake clock has waiters must not find a timer without use.
func TestTimerThatComesTooLateIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &eagerClock{leapingClock{FakeClock: testingclock.NewFakeClock(epoch)}}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
		q.AddAfter("a", time.Second)
		synctest.Wait()
		if q.Len() != 1 || clock.HasWaiters() {
			t.Errorf("%d items are queued, want 1; a timer is left: %v", q.Len(), clock.HasWaiters())
		}
		q.ShutDown()
	})
}

func TestHeartbeatNoticesAClockThatLeaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &leapingClock{FakeClock: testingclock.NewFakeClock(epoch)}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
		q.AddAfter("a", time.Hour)
		synctest.Wait()
		clock.leap = time.Hour
		clock.Step(10*time.Second - 1)
		synctest.Wait()
		if n := q.Len(); n != 0 {
			t.Fatalf("%d items before the heartbeat", n)
		}
		clock.Step(1)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q at the heartbeat, want a", got)
		}
		q.ShutDown()
	})
}

// One timer, armed for the head or for a heartbeat, and only when the head changes.
func TestTimerIsArmedForTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := newClocked(clock)
		for i, row := range []struct {
			do   string
			f    func()
			want []time.Duration
		}{
			{"the first item", func() { q.AddAfter("a", 5*time.Second) }, []time.Duration{5 * time.Second}},
			{"a later one", func() { q.AddAfter("b", time.Hour) }, nil},
			{"the same later", func() { q.AddAfter("a", 6*time.Second) }, nil},
			{"an earlier one", func() { q.AddAfter("c", 3*time.Second) }, []time.Duration{3 * time.Second}},
			{"that one earlier", func() { q.AddAfter("b", time.Second) }, []time.Duration{time.Second}},
			{"the head is due", func() { clock.Step(time.Second) }, []time.Duration{2 * time.Second}},
			{"the head put off", func() { q.Reschedule("c", 3*time.Second) }, []time.Duration{3 * time.Second}},
			{"to the same time", func() { q.Reschedule("c", 3*time.Second) }, nil},
			{"behind another", func() { q.Reschedule("c", time.Minute) }, []time.Duration{4 * time.Second}},
			{"and back", func() { q.Reschedule("c", 2*time.Second) }, []time.Duration{2 * time.Second}},
			{"one of the others put off", func() { q.Reschedule("a", 5*time.Second) }, nil},
			{"the head is debounced", func() { q.Debounce("d", time.Second, 9*time.Second) }, []time.Duration{time.Second}},
			{"and again", func() { q.Debounce("d", 2*time.Second, 9*time.Second) }, []time.Duration{2 * time.Second}},
			{"all are due", func() { clock.Step(time.Minute) }, nil},
			{"a late one", func() { q.AddAfter("a", time.Hour) }, []time.Duration{10 * time.Second}},
			{"a heartbeat", func() { clock.Step(10 * time.Second) }, []time.Duration{10 * time.Second}},
		} {
			row.f()
			synctest.Wait()
			if got := clock.armed(); !slices.Equal(got, row.want) {
				t.Errorf("step %d: %s: armed %v, want %v", i, row.do, got, row.want)
			}
		}
		q.ShutDown()
		if n := clock.Waiters(); n > 1 {
			t.Errorf("%d timers are left", n)
		}
	})
}

// A test of a crash runs the test binary again, with the name of the case in this variable.
const crashCase = "WORKQUEUE_CRASH"

// crashes are the ways to fail on the goroutine of a delaying queue, with the text that the process
// must print in addition to the word panic.
var crashes = map[string]struct {
	configure func(config *workqueue.TypedDelayingQueueConfig[string])
	printed   []string
}{
	"queue below": {func(config *workqueue.TypedDelayingQueueConfig[string]) {
		config.Queue = &gate[string]{workqueue.NewTyped[string](), func(string) { panic("foreign code") }}
	}, []string{"foreign code", "Panic while adding delayed items", `err="foreign code"`, "stack=", "waitingLoop"}},
	"metric": {func(config *workqueue.TypedDelayingQueueConfig[string]) {
		r := &recorder{}
		r.setHook(func(event string) {
			if event == "adds+1" {
				panic("foreign code")
			}
		})
		config.Name, config.MetricsProvider = "q", r
	}, []string{"foreign code", "Panic while adding delayed items", "stack=", "waitingLoop"}},
	"logger that ends the goroutine": {func(config *workqueue.TypedDelayingQueueConfig[string]) {
		logger := logr.New(deserter{})
		config.Logger = &logger
		config.Queue = &gate[string]{workqueue.NewTyped[string](), func(string) { panic("foreign code") }}
	}, []string{"foreign code"}},
	"an error as value, to the default logger": {func(config *workqueue.TypedDelayingQueueConfig[string]) {
		config.Logger = nil
		config.Queue = &gate[string]{workqueue.NewTyped[string](), func(string) { panic(os.ErrClosed) }}
	}, []string{os.ErrClosed.Error(), "Panic while adding delayed items"}},
}

// In client-go, depending on a global switch, the loop ends in silence instead.
func TestPanicOnTheGoroutineOfADelayingQueue_D12(t *testing.T) {
	t.Parallel()
	if name := os.Getenv(crashCase); name != "" {
		logger := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
		config := workqueue.TypedDelayingQueueConfig[string]{Logger: &logger}
		crashes[name].configure(&config)
		// The layer above passes all calls on.
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
			Logger: config.Logger, Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock, Queue: config.Queue,
		})
		q.AddAfter("a", time.Millisecond)
		q.Get()
		select {}
	}
	for name, row := range crashes {
		t.Run(name, func(t *testing.T) {
			// The queue works as long as nothing is delayed.
			config := workqueue.TypedDelayingQueueConfig[string]{}
			row.configure(&config)
			workqueue.NewTypedDelaying(config).ShutDown()

			output := crash(t, "^TestPanicOnTheGoroutineOfADelayingQueue_D12$", name)
			for _, want := range append(row.printed, "panic: ") {
				if !strings.Contains(output, want) {
					t.Errorf("%q is missing from what the process has left:\n%s", want, output)
				}
			}
		})
	}
}

// A deserter is a log sink whose Error ends the goroutine.
type deserter struct{}

func (deserter) Init(logr.RuntimeInfo)            {}
func (deserter) Enabled(int) bool                 { return true }
func (deserter) Info(int, string, ...any)         {}
func (deserter) Error(error, string, ...any)      { runtime.Goexit() }
func (d deserter) WithValues(...any) logr.LogSink { return d }
func (d deserter) WithName(string) logr.LogSink   { return d }

// crash runs a case in another process, which must not survive, and returns the output.
func crash(t *testing.T, test, name string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", test, "-test.timeout=2m")
	cmd.Env = append(os.Environ(), crashCase+"="+name)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err == nil || strings.Contains(output.String(), "test timed out") {
		t.Errorf("the process ended with %v, want a crash", err)
	}
	return output.String()
}
