package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

const forever = time.Duration(math.MaxInt64)

// A wait is what the model of the delays knows of an item that waits.
type wait struct {
	since, due time.Duration
	turn       int // of those due at a time
	bounced    bool
	latest     time.Duration // if bounced
}

// A timetable is the model of a TypedRateLimiting. The FIFO is that of a storage
// that takes nothing.
type timetable struct {
	model
	now      time.Duration
	waits    map[string]*wait
	added    map[string]time.Duration // since when what is queued is so
	turn     int
	oneEntry bool
	failures map[string]int
}

func (m *timetable) addNow(item string) {
	if !m.closed && (m.states[item] == "" || m.states[item] == held) {
		m.added[item] = m.now
	}
	m.add(item, &faulty{fired: true})
}

func (m *timetable) addAfter(item string, d time.Duration) {
	if d <= 0 {
		if m.oneEntry {
			delete(m.waits, item)
		}
		m.addNow(item)
		return
	}
	if m.hasEntry(item) {
		return
	}
	due := m.now + d
	w := m.waits[item]
	if w == nil {
		m.begin(item, due)
		return
	}
	if w.bounced {
		w.latest = min(w.latest, due)
	}
	if due < w.due {
		m.move(w, due)
	}
}

// hasEntry reports whether OneEntry keeps an item from waiting.
func (m *timetable) hasEntry(item string) bool {
	s := m.states[item]
	return m.oneEntry && s != "" && s != held
}

func (m *timetable) begin(item string, due time.Duration) *wait {
	w := &wait{since: m.now}
	m.waits[item] = w
	m.move(w, due)
	return w
}

func (m *timetable) move(w *wait, due time.Duration) {
	m.turn++
	w.due, w.turn = due, m.turn
}

func (m *timetable) reschedule(item string, d time.Duration) {
	if d <= 0 {
		delete(m.waits, item)
		m.addNow(item)
	} else if m.hasEntry(item) {
		return
	} else if w := m.waits[item]; w == nil {
		m.begin(item, m.now+d)
	} else {
		w.bounced = false
		m.move(w, m.now+d)
	}
}

func (m *timetable) debounce(item string, quiet, most time.Duration) {
	if quiet <= 0 {
		m.reschedule(item, 0)
		return
	}
	if m.hasEntry(item) {
		return
	}
	due, latest := m.now+quiet, forever
	if most > 0 {
		latest = m.now + most
	}
	w := m.waits[item]
	if w == nil {
		w = m.begin(item, min(due, latest))
		w.bounced, w.latest = true, latest
		return
	}
	if latest = w.due; w.bounced {
		latest = w.latest
	}
	if due = min(due, latest); due < w.due || w.due < latest {
		m.move(w, due)
	}
}

// ordered returns what waits, in the order in which it will be added.
func (m *timetable) ordered() []string {
	return slices.SortedFunc(maps.Keys(m.waits), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.waits[a].due, m.waits[b].due), cmp.Compare(m.waits[a].turn, m.waits[b].turn))
	})
}

func (m *timetable) set(now time.Duration) {
	m.now = now
	for _, item := range m.ordered() {
		if m.waits[item].due <= now {
			delete(m.waits, item)
			m.addNow(item)
		}
	}
}

// A delayed is an attacked queue with delays.
type delayed struct {
	t     *testing.T
	rnd   *rand.Rand
	clock *testingclock.FakeClock
	epoch time.Time
	queue *workqueue.TypedRateLimiting[string]
	model *timetable
	timed bool
}

func TestDelays(t *testing.T) {
	play(t, 150, func(t *testing.T, rnd *rand.Rand) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			d := newDelayed(t, rnd)
			most := 50 + rnd.IntN(300)
			for ; calls < most && !t.Failed(); calls++ {
				what := d.step()
				synctest.Wait()
				d.check(what)
			}
			d.finish()
		})
		return calls
	})
}

func newDelayed(t *testing.T, rnd *rand.Rand) *delayed {
	d := &delayed{t: t, rnd: rnd, epoch: time.Unix(1e9, 0), timed: rnd.IntN(2) == 0}
	d.clock = testingclock.NewFakeClock(d.epoch)
	d.model = &timetable{
		model:    model{states: make(map[string]string)},
		waits:    make(map[string]*wait),
		added:    make(map[string]time.Duration),
		failures: make(map[string]int),
		oneEntry: rnd.IntN(2) == 0,
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	d.queue = workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
		Clock: d.clock, KeepTimes: d.timed, OneEntry: d.model.oneEntry,
	})
	return d
}

// Few of them, so that many are due at the same time.
func (d *delayed) duration() time.Duration {
	return time.Duration(d.rnd.IntN(12)-1) * time.Second
}

func (d *delayed) step() (what string) {
	item := string(rune('a' + d.rnd.IntN(12)))
	m, by := d.model, d.duration()
	switch d.rnd.IntN(12) {
	case 0:
		d.queue.Add(item)
		m.addAfter(item, 0)
		return "Add " + item
	case 1, 2:
		d.queue.AddAfter(item, by)
		m.addAfter(item, by)
		return fmt.Sprint("AddAfter ", item, by)
	case 3:
		d.queue.Reschedule(item, by)
		m.reschedule(item, by)
		return fmt.Sprint("Reschedule ", item, by)
	case 4, 5:
		most := 2 * d.duration()
		if most > 0 {
			most = max(most, by)
		}
		d.queue.Debounce(item, by, most)
		m.debounce(item, by, most)
		return fmt.Sprint("Debounce ", item, by, most)
	case 6:
		d.queue.AddRateLimited(item)
		m.addAfter(item, min(time.Minute, time.Second<<m.failures[item]))
		m.failures[item]++
		return "AddRateLimited " + item
	case 7:
		return d.moveClock(by)
	case 8:
		got, ok := d.queue.TryGet()
		if want := m.take(); got != want || ok != (want != "") {
			d.t.Errorf("TryGet: got %q, want %q", got, want)
		}
		return "TryGet"
	case 9:
		if m.states[item] == again {
			// Since the Add that marked it.
			defer m.done(item, &faulty{fired: true})
		} else {
			m.done(item, &faulty{fired: true})
		}
		d.queue.Done(item)
		return "Done " + item
	case 10:
		return d.remove(item)
	default:
		d.queue.Forget(item)
		delete(m.failures, item)
		return "Forget " + item
	}
}

// moveClock sets the clock forth, or back now and then.
func (d *delayed) moveClock(by time.Duration) string {
	if d.rnd.IntN(4) == 0 {
		by = -3 * by
	}
	d.clock.SetTime(d.clock.Now().Add(by))
	synctest.Wait()
	d.model.set(d.model.now + by)
	return fmt.Sprint("the clock moved by ", by)
}

func (d *delayed) remove(item string) string {
	_, waited := d.model.waits[item]
	delete(d.model.waits, item)
	if got, want := d.queue.Remove(item), d.model.remove(item) || waited; got != want {
		d.t.Errorf("Remove %s: got %v, want %v", item, got, want)
	}
	return "Remove " + item
}

func (d *delayed) check(what string) {
	limit := []int{0, 1, 3, math.MaxInt}[d.rnd.IntN(4)]
	s := d.queue.Snapshot(limit)
	if got, want := d.told(s.Queued), d.queued(limit); got != want || s.QueuedTotal != d.model.queued() {
		d.t.Errorf("after %s: queued:\n got %s of %d\nwant %s of %d", what, got, s.QueuedTotal, want, d.model.queued())
	}
	if got, want := d.told(s.Waiting), d.waiting(limit); got != want || s.WaitingTotal != len(d.model.waits) {
		d.t.Errorf("after %s: waiting:\n got %s of %d\nwant %s of %d", what, got, s.WaitingTotal, want, len(d.model.waits))
	}
	if got, want := s.InFlightTotal, d.model.count(held, again); got != want || len(s.InFlight) != min(got, limit) {
		d.t.Errorf("after %s: %d in flight, want %d", what, got, want)
	}
	if got, want := d.queue.Len(), d.model.queued(); got != want {
		d.t.Errorf("after %s: Len is %d, want %d", what, got, want)
	}
}

func (d *delayed) told(infos []workqueue.ItemInfo[string]) (told string) {
	for _, info := range infos {
		told += fmt.Sprintf("%s %d", info.Item, info.Position)
		if d.timed {
			told += fmt.Sprint(" for ", info.Age)
		}
		if info.State == workqueue.ItemWaiting {
			told += fmt.Sprint(" due ", info.Due.Sub(d.epoch))
		}
		told += fmt.Sprintf(" %d failures; ", info.Failures)
	}
	return told
}

func (d *delayed) queued(limit int) (told string) {
	for place, item := range d.model.line[:min(limit, len(d.model.line))] {
		told += fmt.Sprintf("%s %d", item, 1+place)
		if d.timed {
			told += fmt.Sprint(" for ", max(0, d.model.now-d.model.added[item]))
		}
		told += fmt.Sprintf(" %d failures; ", d.model.failures[item])
	}
	return told
}

func (d *delayed) waiting(limit int) (told string) {
	ordered := d.model.ordered()
	for place, item := range ordered[:min(limit, len(ordered))] {
		w := d.model.waits[item]
		told += fmt.Sprintf("%s %d", item, 1+place)
		if d.timed {
			told += fmt.Sprint(" for ", max(0, d.model.now-w.since))
		}
		told += fmt.Sprintf(" due %v %d failures; ", w.due, d.model.failures[item])
	}
	return told
}

// finish drains the queue in vain: the error has all of it.
func (d *delayed) finish() {
	ended, cancel := context.WithCancel(d.t.Context())
	cancel()
	err := d.queue.Drain(ended)
	left, _ := errors.AsType[*workqueue.DrainError[string]](err)
	switch {
	case d.model.queued()+d.model.count(held, again) == 0:
		if err != nil {
			d.t.Errorf("Drain of nothing: %v", err)
		}
	case left == nil:
		d.t.Errorf("Drain: got %v, want what is left", err)
	default:
		if got, want := d.told(left.Left.Waiting), d.waiting(math.MaxInt); got != want {
			d.t.Errorf("Drain: waiting:\n got %s\nwant %s", got, want)
		}
		if got, want := d.told(left.Left.Queued), d.queued(math.MaxInt); got != want {
			d.t.Errorf("Drain: queued:\n got %s\nwant %s", got, want)
		}
	}
	d.queue.ShutDown()
	if d.clock.HasWaiters() {
		d.t.Error("a timer is left")
	}
}

// TestClientGo makes the calls that both have. Items are due at different times,
// as those due at the same time come in any order there.
func TestClientGo(t *testing.T) {
	play(t, 60, func(t *testing.T, rnd *rand.Rand) int {
		const calls = 200
		synctest.Test(t, func(t *testing.T) {
			clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
			ours := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
			theirs := clientgo.NewTypedDelayingQueueWithConfig(clientgo.TypedDelayingQueueConfig[string]{Clock: clock})
			p := &pair{t: t, rnd: rnd, clock: clock, queues: []workqueue.TypedDelayingInterface[string]{ours, theirs}}
			for n := 0; n < calls && !t.Failed(); n++ {
				p.step(n)
			}
			p.finish()
			synctest.Wait()
			clock.Step(time.Minute) // Its goroutine lives that long.
		})
		return calls
	})
}

// A pair is one of our queues and one of theirs.
type pair struct {
	t      *testing.T
	rnd    *rand.Rand
	clock  *testingclock.FakeClock
	queues []workqueue.TypedDelayingInterface[string]
	held   []string // a Done of what nobody holds queues it twice there
}

func (p *pair) step(n int) {
	item, what := string(rune('a'+p.rnd.IntN(8))), p.rnd.IntN(6)
	delay := time.Duration(p.rnd.IntN(10))*time.Second + time.Duration(n)
	done := 0
	if len(p.held) > 0 {
		done = p.rnd.IntN(len(p.held))
	}
	if what == 5 {
		p.clock.Step(delay)
		synctest.Wait()
	}
	results := [2]string{}
	got := ""
	for i, q := range p.queues {
		switch {
		case what == 0:
			q.Add(item)
		case what == 1 || what == 2:
			q.AddAfter(item, delay)
		case what == 3 && len(p.held) > 0:
			q.Done(p.held[done])
		case what == 4 && q.Len() > 0:
			got, _ = q.Get()
			results[i] = got
		}
		synctest.Wait()
		results[i] += fmt.Sprint(q.Len())
	}
	if got != "" {
		p.held = append(p.held, got)
	} else if what == 3 && len(p.held) > 0 {
		p.held = slices.Delete(p.held, done, done+1)
	}
	p.compare(fmt.Sprint("call ", n, ", ", what, item), results)
}

func (p *pair) compare(what string, results [2]string) {
	if results[0] != results[1] {
		p.t.Errorf("%s: got %s, client-go has %s", what, results[0], results[1])
	}
}

func (p *pair) finish() {
	results := [2]string{}
	for i, q := range p.queues {
		q.ShutDown()
		for q.Len() > 0 {
			item, _ := q.Get()
			results[i] += item
		}
		_, shutdown := q.Get()
		results[i] += fmt.Sprint(shutdown, q.ShuttingDown())
	}
	p.compare("in the end", results)
}
