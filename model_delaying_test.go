package workqueue_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveDelaying is the model of a TypedDelaying: it sorts what waits.
type naiveDelaying struct {
	naive
	now     time.Duration
	waiting []appointment
}

type appointment struct {
	item        int
	due, latest time.Duration
	priority    int
}

// plan makes the item due at a time, after all others of that time.
func (m *naiveDelaying) plan(a appointment) {
	m.cancel(a.item)
	// The sort is stable, so those of one due time stay in this order.
	m.waiting = append(m.waiting, a)
	slices.SortStableFunc(m.waiting, func(a, b appointment) int { return cmp.Compare(a.due, b.due) })
}

func (m *naiveDelaying) find(item int) (at int) {
	return slices.IndexFunc(m.waiting, func(a appointment) bool { return a.item == item })
}

func (m *naiveDelaying) cancel(item int) (waited bool) {
	at := m.find(item)
	if at >= 0 {
		m.waiting = slices.Delete(m.waiting, at, at+1)
	}
	return at >= 0
}

func (m *naiveDelaying) addAfter(item int, delay time.Duration, priority int) {
	due := m.now + delay
	if m.down || delay <= 0 {
		m.addAt(item, priority)
		return
	}
	at := m.find(item)
	if at < 0 {
		m.plan(appointment{item, due, promised, priority})
		return
	}
	a := &m.waiting[at]
	a.priority = max(a.priority, priority)
	if a.latest != promised {
		a.latest = min(a.latest, due)
	}
	if due < a.due {
		m.plan(appointment{item, due, a.latest, a.priority})
	}
}

// promote ends the wait and adds the item now, with the priority of the wait.
func (m *naiveDelaying) promote(item int) {
	priority := 0
	if at := m.find(item); at >= 0 {
		priority = m.waiting[at].priority
	}
	m.cancel(item)
	m.addAt(item, priority)
}

func (m *naiveDelaying) reschedule(item int, delay time.Duration) {
	switch {
	case m.down:
	case delay <= 0:
		m.promote(item)
	default:
		priority := 0
		if at := m.find(item); at >= 0 {
			priority = m.waiting[at].priority
		}
		m.plan(appointment{item, m.now + delay, promised, priority})
	}
}

func (m *naiveDelaying) debounce(item int, quiet, most time.Duration) {
	due, latest := m.now+quiet, m.now+most
	if most <= 0 {
		latest = math.MaxInt64
	}
	at := m.find(item)
	switch {
	case m.down:
	case quiet <= 0:
		m.promote(item)
	case at < 0:
		m.plan(appointment{item, min(due, latest), latest, 0})
	default:
		a := m.waiting[at]
		bound := a.latest
		if bound == promised {
			bound = a.due
		}
		if due < bound || a.due != bound {
			m.plan(appointment{item, min(due, bound), a.latest, a.priority})
		}
	}
}

func (m *naiveDelaying) step(d time.Duration) {
	m.now += d
	for len(m.waiting) > 0 && m.waiting[0].due <= m.now {
		m.addAt(m.waiting[0].item, m.waiting[0].priority)
		m.waiting = m.waiting[1:]
	}
}

func (m *naiveDelaying) agenda() (waiting []string) {
	for _, a := range m.waiting {
		waiting = append(waiting, fmt.Sprint(a.item, a.due, a.priority))
	}
	return waiting
}

func TestModelDelaying(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playDelaying(t, randomScript(rnd, 300))
	}
}

func FuzzDelaying(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		playDelaying(t, script)
	})
}

func playDelaying(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	span := 1 + int(script[0])
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		var order workqueue.Queue[int]
		m := &naiveDelaying{}
		if len(script)%2 == 0 { // There is a byte to choose an order.
			var line *naive
			order, line = orderOf(script[len(script)-1])
			m.naive = *line
		}
		below := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: order})
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock, Queue: below})
		drains := &drains{queue: q}
		for i := 1; i+1 < len(script); i += opSize {
			op, arg := script[i], script[i+1]
			m.priority = int((op^arg)>>5) - 2
			var call string
			switch item := int(arg) % span; op % 8 {
			case 0: // Delays of up to 23 s, in few different lengths.
				delay := time.Duration(int(op>>3)-8) * time.Second
				if m.order != nil && arg%4 > 0 {
					q.AddWith(workqueue.AddOptions{After: delay, Priority: m.priority}, item)
					m.addAfter(item, delay, m.priority)
					call = fmt.Sprint("AddWith ", m.priority, item, delay)
					break
				}
				q.AddAfter(item, delay)
				m.addAfter(item, delay, 0)
				call = fmt.Sprint("AddAfter ", item, delay)
			case 2:
				call = stepWait(q, m, op>>3, item)
			case 1, 5:
				call = stepClock(clock, m, op>>2, arg)
			default:
				call = stepTyped(below, &m.naive, drains, op>>1%15, item)
			}
			if m.down && !m.draining {
				q.ShutDown() // The call was one of the queue below.
			}
			synctest.Wait()
			if m.down {
				m.waiting = nil
			}
			checkInvariants(t, i/opSize, q)
			compareTyped(t, i/opSize, call, below, &m.naive, drains)
			if got, want := agendaOf(q), fmt.Sprint(m.agenda()); got != want && !m.down {
				t.Fatalf("step %d: %s: waiting are %s, want %s", i/opSize, call, got, want)
			}
		}
		q.ShutDown()
		checkInvariants(t, len(script), q)
	})
}

// stepWait makes one call for an item that waits or may do so.
func stepWait(q *workqueue.TypedDelaying[int], m *naiveDelaying, kind byte, item int) string {
	delay := time.Duration(int(kind>>2)-1) * 3 * time.Second
	switch kind % 4 {
	case 0:
		q.Reschedule(item, delay)
		m.reschedule(item, delay)
		return fmt.Sprint("Reschedule ", item, delay)
	case 1, 2:
		most := delay * time.Duration((int(kind%4)+item)%4-1)
		q.Debounce(item, delay, most)
		m.debounce(item, delay, most)
		return fmt.Sprint("Debounce ", item, delay, most)
	}
	added, waited := m.remove(item), m.cancel(item)
	if got := q.Remove(item); !m.down { // A shutdown from below drops what waits when it is noticed.
		return same(fmt.Sprint("Remove ", item), fmt.Sprint(got), fmt.Sprint(added || waited))
	}
	return "Remove"
}

// stepClock moves the clock of both, sometimes backwards.
func stepClock(clock *testingclock.FakeClock, m *naiveDelaying, kind, arg byte) string {
	by := time.Duration(arg) * 250 * time.Millisecond
	switch {
	case kind%8 == 0:
		by = -by
	case kind == 63:
		by = 24 * time.Hour
	}
	clock.SetTime(clock.Now().Add(by))
	if m.down {
		m.now += by
	} else {
		m.step(by)
	}
	return fmt.Sprint("Step ", by)
}

// agendaOf returns which items wait and until when, as agenda does.
func agendaOf(q *workqueue.TypedDelaying[int]) string {
	var waiting []string
	for _, info := range q.Snapshot(math.MaxInt).Waiting {
		waiting = append(waiting, fmt.Sprint(info.Item, info.Due.Sub(epoch), info.Priority))
	}
	return fmt.Sprint(waiting)
}
