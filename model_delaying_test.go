package workqueue_test

import (
	"cmp"
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

	floor  time.Duration // of its pace: no call makes it due earlier
	strict bool          // only Reschedule makes it due earlier
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
		m.plan(appointment{item: item, due: due, latest: promised, priority: priority})
		return
	}
	a := &m.waiting[at]
	a.priority = max(a.priority, priority)
	if a.latest != promised {
		a.latest = min(a.latest, due)
	}
	if due < a.due {
		m.plan(appointment{item: item, due: due, latest: a.latest, priority: a.priority})
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
		m.plan(appointment{item: item, due: m.now + delay, latest: promised, priority: priority})
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
		m.plan(appointment{item: item, due: min(due, latest), latest: latest})
	default:
		a := m.waiting[at]
		bound := a.latest
		if bound == promised {
			bound = a.due
		}
		if due < bound || a.due != bound {
			m.plan(appointment{item: item, due: min(due, bound), latest: a.latest, priority: a.priority})
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

func TestModelDelaying(t *testing.T) { playRandom(t, 300, playDelaying) }

func FuzzDelaying(f *testing.F) { f.Fuzz(inParallel(playDelaying)) }

func playDelaying(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	span := 1 + int(script[0])
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		var order workqueue.Order[int]
		m := &naiveDelaying{}
		if len(script)%2 == 0 { // There is a byte to choose an order.
			var line *naive
			order, line = orderOf(script[len(script)-1])
			m.naive = *line
		}
		below := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: order})
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
					q.AddWith(workqueue.AddOptions{After: delay, Priority: prio(m.priority)}, item)
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

// A oneEntry is the model of a queue with OneEntry, and perhaps ItemPace and StrictBackoff: an
// item is queued or waits, an Add ends a wait, and no call ends a wait before its floor. All else
// is that of a naiveDelaying.
type oneEntry struct {
	naiveDelaying
	pace *steppedPace // nil for none
}

// A steppedPace is a limiter for ItemPace. What it says depends on how often it was asked.
type steppedPace struct {
	asked map[int]int
	calls []string
}

func newSteppedPace() *steppedPace { return &steppedPace{asked: map[int]int{}} }

func (p *steppedPace) When(item int) time.Duration {
	p.calls = append(p.calls, fmt.Sprint("When ", item))
	p.asked[item]++
	waits := []time.Duration{2 * time.Second, 0, 5 * time.Second, -time.Second, 3 * time.Second, 0, math.MaxInt64}
	return waits[(item+p.asked[item])%len(waits)]
}

func (p *steppedPace) Forget(item int) {
	p.calls = append(p.calls, fmt.Sprint("Forget ", item))
	p.asked[item]--
}

func (p *steppedPace) NumRequeues(int) int { return 0 }

// take returns the calls since the last take, sorted: a RemoveFunc has no order.
func (p *steppedPace) take() string {
	if p == nil {
		return ""
	}
	slices.Sort(p.calls)
	calls := fmt.Sprint(p.calls)
	p.calls = nil
	return calls
}

// has reports whether the item is queued, or will be by its Done. What was removed is
// not, even if a storage still has it.
func (m *oneEntry) has(item int) bool {
	r := m.naive
	return r.remove(item)
}

// appointmentOf returns the wait of the item, or what a new wait of the item begins with. The pace
// is asked for a new wait only, and not if the item was added again.
func (m *oneEntry) appointmentOf(item int, asked bool) (a appointment, waits bool) {
	if at := m.find(item); at >= 0 {
		return m.waiting[at], true
	}
	a = appointment{item: item, due: math.MaxInt64, latest: promised}
	if m.pace != nil && !asked {
		wait := max(0, m.pace.When(item))
		a.floor = m.now + min(wait, math.MaxInt64-m.now)
	}
	return a, false
}

// bring makes a call that adds the item after a delay.
func (m *oneEntry) bring(call string, item int, delay, most time.Duration) {
	strict := call == "strict" && delay > 0
	marked := strict && slices.Contains(m.again, item) && m.remove(item)
	if m.has(item) {
		m.add(item)
		return
	}
	a, waits := m.appointmentOf(item, marked)
	due := max(m.now+max(0, delay), a.floor)
	if a.strict && call != "Reschedule" {
		due = max(due, a.due)
	}
	switch {
	case delay <= 0 && due <= m.now:
		m.cancel(item)
		m.add(item)
		return
	case call == "Reschedule":
		a.due, a.latest, a.strict = due, promised, false
	case call == "Debounce" && waits:
		bound := a.latest
		if bound == promised {
			bound = a.due
		}
		if due >= bound && a.due == bound {
			return
		}
		a.due = min(due, bound)
	case call == "Debounce":
		a.latest = math.MaxInt64
		if most > 0 {
			a.latest = max(m.now+most, a.floor)
		}
		a.due = min(due, a.latest)
	case strict && waits && due == a.due:
		at := m.find(item)
		m.waiting[at].strict, m.waiting[at].latest = true, promised
		return
	case !waits || due < a.due || strict && !a.strict:
		a.due = due
		if a.latest != promised {
			a.latest = due
		}
		if strict {
			a.strict, a.latest = true, promised
		}
	default:
		if a.latest != promised {
			m.waiting[m.find(item)].latest = min(a.latest, due)
		}
		return
	}
	m.plan(a)
}

// takeBack is Remove.
func (m *oneEntry) takeBack(item int) (removed bool) {
	removed = m.remove(item)
	if m.cancel(item) {
		removed = true
	}
	if removed && m.pace != nil {
		m.pace.Forget(item)
	}
	return removed
}

// TestModelOneEntry plays random calls on a queue with OneEntry and on its model,
// with a line and with a storage, with and without ItemPace and StrictBackoff, and compares what
// is queued, held and waiting, and what ItemPace was asked.
func TestModelOneEntry(t *testing.T) { playRandom(t, 300, playOneEntry) }

func FuzzOneEntry(f *testing.F) { f.Fuzz(inParallel(playOneEntry)) }

func playOneEntry(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	d := &oneEntryDuel{clock: testingclock.NewFakeClock(epoch), span: 1 + int(script[0]>>1)%16}
	if d.span == 16 {
		d.span, d.wide = 256, true // So that tables grow, and shrink again.
	}
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	d.model.stored = config.Queue != nil
	synctest.Test(t, func(t *testing.T) {
		below := workqueue.NewTypedWithConfig(config)
		above := workqueue.TypedRateLimitingQueueConfig[int]{Clock: d.clock, Queue: below, OneEntry: true}
		if script[0]&32 != 0 {
			d.pace, d.model.pace = newSteppedPace(), newSteppedPace()
			above.ItemPace, above.OneEntry = d.pace, false
		}
		if script[0]&64 != 0 {
			above.StrictBackoff, above.OneEntry = true, false
			d.limited = "strict"
		}
		d.q = workqueue.NewTypedRateLimiting(limiterOf(func(int) time.Duration { return d.backoff }), above)
		defer d.q.ShutDown()
		for i := 1; i+1 < len(script); i += opSize {
			// No other wait ends at such a time.
			d.backoff = time.Duration(script[i]>>5)*time.Second + time.Duration(i)
			call := d.step(script[i], int(script[i+1])%d.span)
			synctest.Wait()
			checkInvariants(t, i/opSize, d.q.Delaying())
			got := fmt.Sprint(d.q.Len(), below.Held(), agendaOf(d.q.Delaying()), d.pace.take())
			want := fmt.Sprint(d.model.queued(), len(d.model.held), fmt.Sprint(d.model.agenda()), d.model.pace.take())
			if got != want {
				t.Fatalf("step %d: %s: queued, held, waiting, asked: got %s, want %s", i/opSize, call, got, want)
			}
		}
	})
}

// A oneEntryDuel makes the same calls of a queue and of its model.
type oneEntryDuel struct {
	q       *workqueue.TypedRateLimiting[int]
	clock   *testingclock.FakeClock
	pace    *steppedPace
	model   oneEntry
	span    int
	wide    bool
	backoff time.Duration // what the limiter says next
	limited string        // how AddRateLimited waits: strict or not
}

func (d *oneEntryDuel) step(op byte, item int) string {
	delay := time.Duration(int(op>>4)-2) * time.Second
	switch op % 16 {
	case 0, 1:
		d.q.Add(item)
		d.model.bring("Add", item, 0, 0)
		return fmt.Sprint("Add ", item)
	case 2, 3:
		d.q.AddAfter(item, delay)
		d.model.bring("AddAfter", item, delay, 0)
		return fmt.Sprint("AddAfter ", item, delay)
	case 4:
		d.q.Reschedule(item, delay)
		d.model.bring("Reschedule", item, delay, 0)
		return fmt.Sprint("Reschedule ", item, delay)
	case 5:
		if d.pace != nil {
			delay = max(delay, time.Second)
		}
		most := time.Duration(item%3) * delay
		d.q.Debounce(item, delay, most)
		d.model.bring("Debounce", item, delay, most)
		return fmt.Sprint("Debounce ", item, delay, most)
	case 6, 7:
		got, ok := d.q.TryGet()
		want, wantOK := d.model.get()
		if got != want || ok != wantOK {
			panic(fmt.Sprintf("TryGet: got %d, %v, want %d, %v", got, ok, want, wantOK))
		}
		return fmt.Sprint("TryGet ", got)
	case 8, 9:
		d.q.Done(item)
		d.model.done(item)
		return fmt.Sprint("Done ", item)
	case 10:
		if d.wide {
			return d.addAllAfter(delay)
		}
		d.q.AddAll(item, item+1)
		d.model.bring("Add", item, 0, 0)
		d.model.bring("Add", item+1, 0, 0)
		return fmt.Sprint("AddAll ", item)
	}
	return d.stepRare(op, item)
}

// addAllAfter makes all items wait that may.
func (d *oneEntryDuel) addAllAfter(delay time.Duration) string {
	delay += 3 * time.Second
	for i := range d.span {
		d.q.AddWith(workqueue.AddOptions{After: delay}, i)
		d.model.bring("AddAfter", i, delay, 0)
	}
	return fmt.Sprint("AddWith for all ", delay)
}

// stepRare makes the other calls of a queue with limiters, and lets time pass.
func (d *oneEntryDuel) stepRare(op byte, item int) string {
	switch op % 16 {
	case 11, 12:
		d.q.AddRateLimited(item)
		d.model.bring(d.limited, item, d.backoff, 0)
		return fmt.Sprint("AddRateLimited ", item, d.backoff)
	case 13:
		if got, want := d.q.Remove(item), d.model.takeBack(item); got != want {
			panic(fmt.Sprintf("Remove %d: got %v, want %v", item, got, want))
		}
		return fmt.Sprint("Remove ", item)
	case 14:
		if op>>4 > 3 && !d.wide {
			break
		}
		match := func(i int) bool { return (i+item)%3 > 0 || d.wide && i%16 > 0 }
		want := 0
		for i := range d.span + 1 {
			if match(i) && d.model.takeBack(i) {
				want++
			}
		}
		if got := d.q.RemoveFunc(match); got != want {
			panic(fmt.Sprintf("RemoveFunc: got %d, want %d", got, want))
		}
		return "RemoveFunc"
	}
	d.clock.Step(time.Duration(item%16) * time.Second)
	d.model.naiveDelaying.step(time.Duration(item%16) * time.Second)
	return fmt.Sprint("Step ", item%16)
}

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
	"Debounce, at most":           {func(q *workqueue.TypedDelaying[string]) { q.Debounce("b", 5*time.Second, 5*time.Second) }, "b", 5 * time.Second},
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
		c.plan(arg+1, func(item int, d time.Duration) { c.q.Reschedule(item, d) })
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
func TestModelClockInReads(t *testing.T) { playRandom(t, 100, playClockInReads) }

func FuzzClockInReads(f *testing.F) { f.Fuzz(inParallel(playClockInReads)) }

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
