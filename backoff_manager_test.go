package workqueue_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A metronome is a fake clock that notes the durations its timers are set to.
type metronome struct {
	*testclock.FakeClock
	set []time.Duration
}

func newMetronome() *metronome {
	return &metronome{FakeClock: testclock.NewFakeClock(time.Unix(0, 0))}
}

func (m *metronome) NewTimer(d time.Duration) clock.Timer {
	m.set = append(m.set, d)
	return beat{m.FakeClock.NewTimer(d), m}
}

type beat struct {
	clock.Timer
	metronome *metronome
}

func (b beat) Reset(d time.Duration) bool {
	b.metronome.set = append(b.metronome.set, d)
	return b.Timer.Reset(d)
}

// waits calls Backoff n times, with the gap after each, and returns the waits.
func (m *metronome) waits(manager workqueue.BackoffManager, n int, gap time.Duration) string {
	m.set = nil
	for range n {
		manager.Backoff()
		m.Step(gap)
	}
	return intervals(func() time.Duration {
		d := m.set[0]
		m.set = m.set[1:]
		return d
	}, n)
}

func TestExponentialBackoffManager(t *testing.T) {
	const s = time.Second
	inf := math.Inf(1)
	for _, row := range []struct {
		name             string
		init, max, reset time.Duration
		factor, jitter   float64
		gap              time.Duration
		want             string
	}{
		{"doubles up to the maximum", s, 7 * s, 10 * s, 2, 0, 3 * s, "1s 2s 4s 7s 7s 7s"},
		{"a gap of the reset is not longer", s, 7 * s, 10 * s, 2, 0, 10 * s, "1s 2s 4s 7s 7s"},
		{"a longer one starts over", s, 7 * s, 10 * s, 2, 0, 10*s + 1, "1s 1s 1s"},
		{"no reset", s, 7 * s, 0, 2, 0, 0, "1s 2s 4s 7s"},
		{"no maximum", s, 0, time.Hour, 2, 0, s, "1s 2s 4s 8s"},
		{"negative maximum", s, -s, time.Hour, 2, 0, s, "1s 2s 4s 8s"},
		{"no factor", s, 7 * s, time.Hour, 0, 0, s, "1s 1s 1s"},
		{"shrinks", s, 7 * s, time.Hour, 0.5, 0, s, "1s 500ms 250ms"},
		{"initial above the maximum", 9 * s, 7 * s, time.Hour, 2, 0, s, "7s 7s"},
		{"negative initial", -s, 7 * s, time.Hour, 2, 0, s, "0s 0s"},
		{"negative factor", s, 7 * s, time.Hour, -2, 0, s, "1s 1s"},
		{"factor not a number", s, 7 * s, time.Hour, math.NaN(), 0, s, "1s 1s"},
		{"infinite factor", s, 7 * s, time.Hour, inf, 0, s, "1s 7s"},
		{"negative jitter", s, 7 * s, time.Hour, 2, -1, s, "1s 2s 4s 7s"},
		{"jitter not a number", s, 7 * s, time.Hour, 2, math.NaN(), s, "1s 2s 4s 7s"},
		{"infinite jitter", s, 7 * s, time.Hour, 2, inf, s, "7s 7s 7s"},
		{"saturates", 1 << 61, 0, time.Hour, 3, 0, s, "640511h56m49.213693952s 1921535h50m27.641081856s 2562047h47m16.854775807s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMetronome()
			manager := workqueue.NewExponentialBackoffManager(row.init, row.max, row.reset, row.factor, row.jitter, m)
			if got := m.waits(manager, len(strings.Fields(row.want)), row.gap); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// The reset counts from the start of the last wait: a manager that is used
// goes on growing however long it lives, and is not reset by its first call.
func TestExponentialBackoffManagerResetsAfterAPause(t *testing.T) {
	m := newMetronome()
	manager := workqueue.NewExponentialBackoffManager(time.Second, time.Minute, 10*time.Second, 2, 0, m)
	m.Step(time.Hour)
	for i, row := range []struct {
		gap  time.Duration
		want string
	}{
		{9 * time.Second, "1s 2s 4s 8s 16s"},
		{11 * time.Second, "32s 1s 1s"},
		{0, "1s 2s 4s"},
	} {
		if got := m.waits(manager, len(strings.Fields(row.want)), row.gap); got != row.want {
			t.Errorf("row %d: got %q, want %q", i, got, row.want)
		}
	}
}

func TestExponentialBackoffManagerJitterStaysBelowTheMaximum(t *testing.T) {
	m := newMetronome()
	const limit = 8 * time.Second
	manager := workqueue.NewExponentialBackoffManager(time.Second, limit, time.Hour, 2, 1, m)
	low, high := forever, time.Duration(0)
	for i := range 2000 {
		manager.Backoff()
		interval := min(time.Second<<min(i, 10), limit/2)
		d := m.set[i]
		if d < interval || d > 2*interval {
			t.Fatalf("wait %d: got %v, want %v to %v", i, d, interval, 2*interval)
		}
		if i >= 2 {
			low, high = min(low, d), max(high, d)
		}
	}
	if low > limit*6/10 || high < limit*9/10 {
		t.Errorf("at the maximum the waits are from %v to %v, want %v to %v", low, high, limit/2, limit)
	}
}

func TestJitteredBackoffManager(t *testing.T) {
	for _, row := range []struct {
		d        time.Duration
		jitter   float64
		min, max time.Duration
	}{
		{time.Second, 0, time.Second, time.Second},
		{time.Second, -1, time.Second, time.Second},
		{time.Second, math.NaN(), time.Second, time.Second},
		{time.Second, 0.5, time.Second, 3 * time.Second / 2},
		{0, 0.5, 0, 0},
		{-time.Second, 0.5, 0, 0},
		{forever, 0.5, forever, forever},
	} {
		m := newMetronome()
		manager := workqueue.NewJitteredBackoffManager(row.d, row.jitter, m)
		for i := range 100 {
			manager.Backoff()
			if d := m.set[i]; d < row.min || d > row.max {
				t.Fatalf("%v jitter %v: got %v, want %v to %v", row.d, row.jitter, d, row.min, row.max)
			}
		}
	}
}

// There is one timer, and setting it anew takes back what it has sent: else
// the next wait would be over at once. With apimachinery the outcome is
// documented as undefined.
func TestBackoffManagerTimerIsSetAnew(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(0, 0))
	manager := workqueue.NewJitteredBackoffManager(time.Second, 0, c)
	first := manager.Backoff()
	c.Step(time.Second)
	second := manager.Backoff()
	if first != second {
		t.Error("a second timer")
	}
	select {
	case <-second.C():
		t.Error("the second wait was over at once")
	default:
	}
	c.Step(time.Second)
	select {
	case <-second.C():
	default:
		t.Error("the second wait does not end")
	}
}

func TestBackoffManagersConcurrent(t *testing.T) {
	for _, manager := range []workqueue.BackoffManager{
		workqueue.NewJitteredBackoffManager(time.Hour, 1, clock.RealClock{}),
		workqueue.NewExponentialBackoffManager(time.Hour, 2*time.Hour, time.Hour, 2, 1, clock.RealClock{}),
	} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					manager.Backoff()
				}
			})
		}
		wg.Wait()
		manager.Backoff().Stop()
	}
}

func TestBackoffManagersWithoutClock(t *testing.T) {
	jittered := workqueue.NewJitteredBackoffManager(1, 1, nil)
	wantPanic(t, "workqueue: clock is nil", func() { jittered.Backoff() })
	wantPanic(t, "workqueue: clock is nil", func() { workqueue.NewExponentialBackoffManager(1, 1, 1, 1, 1, nil) })
}
