package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// TestModelDelaying and FuzzDelaying play a queue with waits above a queue of each order.
func TestModelDelaying(t *testing.T) { playRandom(t, 300, playDelaying) }

func FuzzDelaying(f *testing.F) { f.Fuzz(inParallel(playDelaying)) }

// A delayingGame is a game with waits.
type delayingGame struct {
	*game
	delaying *workqueue.TypedDelaying[int]
	clock    *testingclock.FakeClock
}

func playDelaying(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	span := 1 + int(script[0])
	synctest.Test(t, func(t *testing.T) {
		var config workqueue.TypedQueueConfig[int]
		var order *answers
		if len(script)%2 == 0 { // There is a byte to choose an order.
			config.Order, order = orderOf(script[len(script)-1])
		}
		clock := testingclock.NewFakeClock(epoch)
		below := workqueue.NewTypedWithConfig(config)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock, Queue: below})
		g := delayingGame{newGame(t, below, q, spec.Rules[int]{}, order, span), q, clock}
		defer g.end()
		for i := 1; i+1 < len(script); i += opSize {
			op, arg := script[i], script[i+1]
			g.next(int((op^arg)>>5)-2, op, arg)
			var call string
			switch item := int(arg) % span; op % 8 {
			case 0: // Delays of up to 23 s, in few different lengths.
				call = g.addAfter(item, time.Duration(int(op>>3)-8)*time.Second, order != nil && arg%4 > 0)
			case 2:
				call = g.stepWait(op>>3, item)
			case 1, 5:
				call = g.stepClock(op>>2, arg)
			default:
				call = g.stepTyped(op>>1%15, item)
			}
			if g.spec.Down && len(g.drained) == len(g.drains) && !slices.ContainsFunc(g.waits, isDrain) {
				q.ShutDown() // The call was one of the queue below.
			}
			checkInvariants(t, i/opSize, q)
			g.compare(i/opSize, call)
		}
		q.ShutDown()
		checkInvariants(t, len(script), q)
	})
}

func isDrain(w gameWait) bool { return w.isEnded != nil && w.want() == "waits" }

func (g *delayingGame) addAfter(item int, delay time.Duration, named bool) string {
	if named {
		g.delaying.AddWith(workqueue.AddOptions{After: delay, Priority: prio(g.priority)}, item)
		g.spec.Later(spec.After, item, delay, 0, g.named())
		return fmt.Sprint("AddWith ", g.priority, item, delay)
	}
	g.delaying.AddAfter(item, delay)
	g.spec.Later(spec.After, item, delay, 0, spec.Place{})
	return fmt.Sprint("AddAfter ", item, delay)
}

// addFirmly begins a firm wait, or ends one if the delay is not positive.
func (g *delayingGame) addFirmly(item int, delay time.Duration, named bool) string {
	options, place := workqueue.AddOptions{After: delay, Firm: true}, spec.Place{}
	if named {
		options.Priority, place = prio(g.priority), g.named()
	}
	g.delaying.AddWith(options, item)
	g.spec.Later(spec.Firm, item, delay, 0, place)
	return fmt.Sprint("AddWith Firm ", item, delay, place)
}

// wake makes a Wake, or a WakeFunc of some items.
func (g *delayingGame) wake(item int, some bool) string {
	down := g.spec.Down
	got, want := 0, 0
	wake := func(i int) {
		if g.spec.Wake(i) {
			want++
		}
	}
	if some {
		// Items that wake at an instant come in any order: so only one may wait.
		match := func(i int) bool { return i%5 == item%5 }
		waiting := slices.DeleteFunc(slices.Clone(g.spec.Waiting), func(w spec.Wait[int]) bool { return !match(w.Value) })
		if len(waiting) > 1 {
			return "nothing"
		}
		got = g.delaying.WakeFunc(match)
		for i := range g.span + 1 {
			if match(i) {
				wake(i)
			}
		}
	} else {
		got = g.delaying.Wake(item)
		wake(item)
	}
	if down { // As for Remove.
		return "Wake"
	}
	return same(fmt.Sprint("Wake ", item, some), fmt.Sprint(got), fmt.Sprint(want))
}

// find compares what Find says of an item with the other lists.
func (g *delayingGame) find(item int) string {
	if g.spec.Down {
		return "nothing"
	}
	got, ok := g.delaying.Find(item)
	want := workqueue.ItemInfo[int]{}
	s := g.delaying.Snapshot(math.MaxInt)
	for _, info := range slices.Concat(s.Queued, s.InFlight) {
		if info.Item == item {
			info.Position = 0
			want = info
		}
	}
	for _, info := range s.Waiting {
		switch {
		case info.Item != item:
		case want.State == 0:
			info.Position = 0
			want = info
		default:
			want.Due, want.Firm, want.Why = info.Due, info.Firm, info.Why
		}
	}
	return same(fmt.Sprint("Find ", item), fmt.Sprintf("%v %+v", ok, got), fmt.Sprintf("%v %+v", want.State > 0, want))
}

// stepWait makes a call for an item that waits or may do so.
func (g *delayingGame) stepWait(kind byte, item int) string {
	delay := time.Duration(int(kind>>3)-1) * 3 * time.Second
	switch kind % 8 {
	case 0:
		return g.reschedule(item, delay)
	case 1, 2:
		return g.debounce(item, delay, delay*time.Duration((int(kind%4)+item)%4-1))
	case 3:
		return g.find(item)
	case 4, 5:
		return g.addFirmly(item, delay, g.order != nil && item%2 == 0)
	case 6:
		return g.wake(item, kind>>3 == 0)
	}
	down := g.spec.Down
	got, want := g.delaying.Remove(item), g.spec.Remove(item)
	if down { // A shutdown from below drops what waits when it is noticed.
		return "Remove"
	}
	return same(fmt.Sprint("Remove ", item), fmt.Sprint(got), fmt.Sprint(want))
}

func (g *delayingGame) reschedule(item int, delay time.Duration) string {
	g.delaying.Reschedule(item, delay)
	g.spec.Later(spec.Reschedule, item, delay, 0, spec.Place{})
	return fmt.Sprint("Reschedule ", item, delay)
}

func (g *delayingGame) debounce(item int, quiet, maxWait time.Duration) string {
	g.delaying.Debounce(item, quiet, maxWait)
	g.spec.Later(spec.Debounce, item, quiet, maxWait, spec.Place{})
	return fmt.Sprint("Debounce ", item, quiet, maxWait)
}

// stepClock moves the clock, sometimes backwards.
func (g *delayingGame) stepClock(kind, arg byte) string {
	by := time.Duration(arg) * 250 * time.Millisecond
	switch {
	case kind%8 == 0:
		by = -by
	case kind == 63:
		by = 24 * time.Hour
	}
	g.clock.SetTime(g.clock.Now().Add(by))
	g.spec.Step(by)
	return fmt.Sprint("Step ", by)
}

// TestModelOneEntry and FuzzOneEntry play a queue with OneEntry: with a line, a storage and an order,
// with and without ItemPace and StrictBackoff, and with workers that wait.
func TestModelOneEntry(t *testing.T) { playRandom(t, 300, playOneEntry) }

func FuzzOneEntry(f *testing.F) { f.Fuzz(inParallel(playOneEntry)) }

func playOneEntry(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	span := 1 + int(script[0]>>1)%16
	wide := span == 16
	if wide {
		span = 256 // So that tables grow, and shrink again.
	}
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	var order *answers
	if len(script)%2 == 0 {
		config.Queue = nil
		config.Order, order = orderOf(script[len(script)-1])
	}
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		above := workqueue.TypedRateLimitingQueueConfig[int]{Clock: clock, OneEntry: true}
		rules := spec.Rules[int]{Stored: config.Queue != nil, OneEntry: true}
		d := &oneEntryGame{wide: wide}
		if script[0]&32 != 0 && config.Queue == nil {
			burst := int(script[0]>>1) % 4
			above.ItemPace, above.OneEntry, above.Order = workqueue.Rate{Limit: rate.Every(3 * time.Second), Burst: burst}, false, config.Order
			rules.ItemPace, rules.ItemBurst = 3*time.Second, burst
		} else {
			above.Queue = workqueue.NewTypedWithConfig(config)
		}
		if script[0]&64 != 0 {
			above.StrictBackoff, above.OneEntry, rules.StrictBackoff = true, false, true
		}
		d.q = workqueue.NewTypedRateLimiting(limiterOf(func(int) time.Duration { return d.backoff }), above)
		d.delayingGame = delayingGame{newGame(t, d.q.Delaying().FIFO(), d.q, rules, order, span), d.q.Delaying(), clock}
		d.timed = rules.ItemPace > 0 // A pace implies KeepTimes.
		d.workers = &waitingWorkers{game: d.game}
		defer d.workers.end()
		for i := 1; i+1 < len(script); i += opSize {
			// No other wait ends at such a time.
			d.backoff = time.Duration(script[i]>>5)*time.Second + time.Duration(i)
			d.next(int(script[i+1]>>5)-3, script[i], script[i+1])
			call := d.step(script[i], int(script[i+1])%span)
			synctest.Wait()
			checkInvariants(t, i/opSize, d.q.Delaying())
			d.workers.compare(i/opSize, call)
			d.compare(i/opSize, call)
		}
	})
}

// A oneEntryGame is a game with OneEntry.
type oneEntryGame struct {
	delayingGame
	q       *workqueue.TypedRateLimiting[int]
	workers *waitingWorkers
	wide    bool
	backoff time.Duration // what the limiter says next
}

func (d *oneEntryGame) step(op byte, item int) string {
	delay := time.Duration(int(op>>4)-2) * time.Second
	named := d.order != nil && op&32 != 0
	switch op % 16 {
	case 0, 1:
		if named {
			d.q.AddWith(workqueue.AddOptions{Priority: prio(d.priority)}, item)
			d.spec.Add(item, d.named())
			return fmt.Sprint("AddWith ", d.priority, item)
		}
		d.q.Add(item)
		d.spec.Add(item, spec.Place{})
		return fmt.Sprint("Add ", item)
	case 2, 3:
		return d.addAfter(item, delay, named)
	case 4:
		return d.reschedule(item, delay)
	case 5:
		return d.debounce(item, delay, time.Duration(item%3)*delay)
	case 6, 7:
		// The specification does not know when workers look at a removed item of a storage, or come
		// between two batches of due items.
		if op&32 != 0 && !d.spec.Stored && !d.wide {
			return d.workers.start(item)
		}
		return d.get(op&16 != 0)
	case 8, 9:
		d.done(item)
		return fmt.Sprint("Done ", item)
	case 10:
		if d.wide {
			return d.addAllAfter(delay + 3*time.Second)
		}
		d.q.AddAll(item, item+1)
		d.spec.Add(item, spec.Place{})
		d.spec.Add(item+1, spec.Place{})
		return fmt.Sprint("AddAll ", item)
	}
	return d.stepRare(op, item)
}

// addAllAfter makes all items wait that may.
func (d *oneEntryGame) addAllAfter(delay time.Duration) string {
	for i := range d.span {
		d.addAfter(i, delay, false)
	}
	return fmt.Sprint("AddAfter for all ", delay)
}

// stepRare makes the other calls of a queue with limiters, and lets time pass.
func (d *oneEntryGame) stepRare(op byte, item int) string {
	switch op % 16 {
	case 11, 12:
		d.q.AddRateLimited(item)
		d.spec.Later(spec.Backoff, item, d.backoff, 0, spec.Place{})
		return fmt.Sprint("AddRateLimited ", item, d.backoff)
	case 13:
		switch op >> 5 {
		case 0:
			return d.wake(item, op&16 != 0 && !d.wide)
		case 1:
			return d.find(item)
		case 2, 3:
			return d.addFirmly(item, time.Duration(int(op>>4)%8)*time.Second, d.order != nil && op&16 != 0)
		case 4:
			d.q.AddWith(workqueue.AddOptions{RateLimited: true, Firm: true}, item)
			d.spec.Later(spec.FirmRetry, item, d.backoff, 0, spec.Place{})
			return fmt.Sprint("AddWith RateLimited Firm ", item, d.backoff)
		}
		return same(fmt.Sprint("Remove ", item), fmt.Sprint(d.q.Remove(item)), fmt.Sprint(d.spec.Remove(item)))
	case 14:
		if op>>4 == 15 && !d.wide {
			return d.wait(1 + item%5)
		}
		if op>>4 == 14 && !d.wide {
			return d.limitsChanged()
		}
		if op>>4 > 3 && !d.wide {
			break
		}
		match := func(i int) bool { return (i+item)%3 > 0 || d.wide && i%16 > 0 }
		want := 0
		for i := range d.span + 1 {
			if match(i) && d.spec.Remove(i) {
				want++
			}
		}
		return same("RemoveFunc", fmt.Sprint(d.q.RemoveFunc(match)), fmt.Sprint(want))
	}
	by := time.Duration(item%16) * time.Second
	d.clock.Step(by)
	d.spec.Step(by)
	return fmt.Sprint("Step ", by)
}

// A reader reads the clock, 10 s, and then waits for the lock. Before the reader has the lock, the clock
// is set back and a call delays an item. The reading is later than the due time of that item, and must
// not add the item.
//
// Each row is a call in between. The item a waits until 10 s.
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

// A tampering is a clock with a script of steps, which set the clock or delay items. The clock also plays
// steps within a reading, after the time that the reading returns was taken. It notes when each item may
// come: once the clock has shown the due time.
type tampering struct {
	*testingclock.FakeClock
	q *workqueue.TypedDelaying[int]

	mu     sync.Mutex
	script []byte
	inside bool // within a reading; those in it play no steps
	items  []delayed
	wrong  []string
}

// A delayed item is ripe when the clock has shown its due time.
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
