package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naive queue is the model of a Typed: slices that are searched.
type naive struct {
	line, held, again []int
	down, draining    bool

	watched, reported []int
	// Where a storage has the line, an item that was removed stays in it until
	// its turn comes.
	stored  bool
	removed []int

	// Where an order decides, line has what it has, and says nothing of it.
	order      *naiveOrder
	priority   int         // of the next Add
	priorities map[int]int // of what is held, or marked to be queued again
}

func (m *naive) add(item int) { m.addAt(item, 0) }

func (m *naive) addAt(item, priority int) {
	switch {
	case m.down:
	case slices.Contains(m.line, item):
		m.removed = without(m.removed, item)
		if m.order != nil {
			m.order.touch(item, priority)
		}
	case !slices.Contains(m.held, item):
		m.push(item, priority)
	case slices.Contains(m.again, item):
		m.note(item, max(priority, m.priorities[item]))
	default:
		m.note(item, priority)
		m.again = append(m.again, item)
		for slices.Contains(m.watched, item) {
			at := slices.Index(m.watched, item)
			m.watched = slices.Delete(m.watched, at, at+1)
			m.reported = append(m.reported, item)
		}
	}
}

func (m *naive) push(item, priority int) {
	m.line = append(m.line, item)
	if m.order != nil {
		m.order.push(item, priority)
	}
}

func (m *naive) note(item, priority int) {
	if m.order != nil {
		m.priorities[item] = priority
	}
}

func (m *naive) pop() (item int) {
	if m.order == nil {
		item, m.line = m.line[0], m.line[1:]
		return item
	}
	item, priority := m.order.pop()
	m.note(item, priority)
	m.line = without(m.line, item)
	return item
}

func (m *naive) get() (item int, ok bool) {
	for len(m.line) > 0 {
		item = m.pop()
		if !slices.Contains(m.removed, item) {
			m.held = append(m.held, item)
			return item, true
		}
		m.removed = without(m.removed, item)
	}
	return 0, false
}

func (m *naive) done(item int) {
	if !slices.Contains(m.held, item) {
		return
	}
	m.held, m.watched = without(m.held, item), without(m.watched, item)
	if slices.Contains(m.again, item) {
		m.again = without(m.again, item)
		m.push(item, m.priorities[item])
	}
}

func (m *naive) remove(item int) bool {
	switch {
	case slices.Contains(m.again, item):
		m.again = without(m.again, item)
		m.note(item, 0)
	case !slices.Contains(m.line, item) || slices.Contains(m.removed, item):
		return false
	case m.stored:
		m.removed = append(m.removed, item)
	default:
		m.line = without(m.line, item)
		if m.order != nil {
			m.order.remove(item)
		}
	}
	return true
}

func (m *naive) watch(item int) {
	switch {
	case slices.Contains(m.again, item):
		m.reported = append(m.reported, item)
	case slices.Contains(m.held, item):
		m.watched = append(m.watched, item)
	}
}

func (m *naive) queued() int { return len(m.line) - len(m.removed) }
func (m *naive) busy() bool  { return m.queued()+len(m.held) > 0 }

// without returns the items except one.
func without(items []int, item int) []int {
	return slices.DeleteFunc(slices.Clone(items), func(i int) bool { return i == item })
}

const promised = -1 // the latest time of an item that is not to be put off

// An op is a byte that says what and one that says with which item.
const opSize = 2

// TestModelTyped and FuzzTyped play random calls on a queue of each make and
// on the model, and compare everything there is to see after each.
func TestModelTyped(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playTyped(t, randomScript(rnd, 400))
	}
}

func FuzzTyped(f *testing.F) { f.Fuzz(inParallel(playTyped)) }

// scripts is how many random scripts a run of the tests plays. Under the race detector
// they are few: most play on one goroutine, and all tests run without it too.
func scripts() int {
	switch {
	case raceEnabled:
		return 12
	case testing.Short():
		return 40
	}
	return 400
}

// inParallel plays the scripts of a corpus beside each other and the other tests.
func inParallel(play func(t *testing.T, script []byte)) func(t *testing.T, script []byte) {
	return func(t *testing.T, script []byte) {
		t.Parallel()
		play(t, script)
	}
}

func randomScript(rnd *rand.Rand, ops int) []byte {
	script := make([]byte, 1+opSize*rnd.IntN(ops)+rnd.IntN(2))
	for i := range script {
		script[i] = byte(rnd.Uint32())
	}
	return script
}

func playTyped(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	m := &naive{stored: config.Queue != nil}
	if len(script)%2 == 0 { // There is a byte to choose an order.
		config.Queue, m = orderOf(script[len(script)-1])
	}
	gauges, clock := &gauges{}, testingclock.NewFakeClock(epoch)
	if script[0]&2 != 0 {
		config.Name, config.MetricsProvider, config.Clock = "q", gauges, clock
	}
	span := 1 + int(script[0]>>2)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(config)
		drains := &drains{queue: q}
		for i := 1; i+1 < len(script); i += opSize {
			op, item := script[i]%16, int(script[i+1])%span
			m.priority = int(script[i]>>4) - 6
			clock.Step(time.Nanosecond) // Each add has a time of its own.
			call := stepTyped(q, m, drains, op, item)
			switch {
			case call == "":
				call = stepBulk(q, m, op, item, span)
			case op == 14 && item%16 == 2:
				call = gauges.tick(q, m, clock, item > 32)
			case op == 14 && item%4 == 3:
				call = removeMost(q, m, item, span)
			}
			compareTyped(t, i/opSize, call, q, m, drains)
			if t.Failed() {
				break
			}
		}
		gauges.checkRest(t, q, m, clock)
		q.ShutDown()
	})
}

// removeMost leaves one of a few items, so that the line has many holes.
func removeMost(q *workqueue.Typed[int], m *naive, item, span int) string {
	for i := range span {
		if i%(2+item%3) > 0 {
			if got, want := q.Remove(i), m.remove(i); got != want {
				return same(fmt.Sprint("Remove ", i), fmt.Sprint(got), fmt.Sprint(want))
			}
		}
	}
	return "Remove most"
}

// gauges are a provider that knows what the gauges of work in flight have been
// set to, and calls a hook when they are.
type gauges struct {
	silent
	set   map[string]float64
	onSet func()
}

func (g *gauges) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return gauge{g, "unfinished"}
}
func (g *gauges) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return gauge{g, "longest"}
}

type gauge struct {
	gauges *gauges
	name   string
}

func (g gauge) Set(v float64) {
	if g.gauges.set == nil {
		g.gauges.set = make(map[string]float64)
	}
	g.gauges.set[g.name] = v
	call(g.gauges.onSet)
}

// tick makes the time come when the gauges are set. With finish an item is
// finished meanwhile.
func (g *gauges) tick(q *workqueue.Typed[int], m *naive, clock *testingclock.FakeClock, finish bool) string {
	if finish && len(m.held) > 0 {
		item := m.held[0]
		g.onSet = func() {
			g.onSet = nil
			q.Done(item)
			m.done(item)
		}
	}
	clock.Step(500 * time.Millisecond)
	synctest.Wait()
	g.onSet = nil
	return fmt.Sprint("tick, finish ", finish)
}

// checkRest finishes what is held, the last of it while the gauges are set, and
// looks at what they say an hour later.
func (g *gauges) checkRest(t *testing.T, q *workqueue.Typed[int], m *naive, clock *testingclock.FakeClock) {
	t.Helper()
	for len(m.held) > 1 {
		item := m.held[0]
		q.Done(item)
		m.done(item)
	}
	g.tick(q, m, clock, true)
	clock.Step(time.Hour)
	synctest.Wait()
	for name, v := range g.set {
		if v != 0 && !m.down {
			t.Errorf("at rest: %s is %v", name, v)
		}
	}
	if n := clock.Waiters(); n > 0 {
		t.Errorf("at rest: %d timers run", n)
	}
}

// drains counts the calls of ShutDownWithDrain that have not returned.
type drains struct {
	queue    interface{ ShutDownWithDrain() }
	started  int
	returned chan struct{}
	reported []int // the watched items that were added again
}

func (d *drains) start() {
	if d.returned == nil {
		d.returned = make(chan struct{}, 1000)
	}
	d.started++
	go func() {
		d.queue.ShutDownWithDrain()
		d.returned <- struct{}{}
	}()
	synctest.Wait()
}

func (d *drains) pending() int {
	if d.started > 0 {
		synctest.Wait()
	}
	return d.started - len(d.returned)
}

// stepTyped makes one call of both and returns a line on it, "" for an op that
// is not its.
func stepTyped(q *workqueue.Typed[int], m *naive, drains *drains, op byte, item int) string {
	switch op {
	case 0, 1, 2, 3:
		if m.order != nil && op > 0 {
			q.AddWith(workqueue.AddOptions{Priority: m.priority}, item)
			m.addAt(item, m.priority)
			return fmt.Sprint("AddWith ", m.priority, item)
		}
		q.Add(item)
		m.add(item)
		return fmt.Sprint("Add ", item)
	case 4:
		return same(fmt.Sprint("Remove ", item), fmt.Sprint(q.Remove(item)), fmt.Sprint(m.remove(item)))
	case 5, 6, 7, 8:
		got, ok := q.TryGet()
		want, wantOK := m.get()
		return same("TryGet", fmt.Sprint(got, ok), fmt.Sprint(want, wantOK))
	case 9, 10:
		q.Done(item)
		m.done(item)
		return fmt.Sprint("Done ", item)
	case 11:
		q.Watch(item, func() { drains.reported = append(drains.reported, item) })
		m.watch(item)
		return fmt.Sprint("watch ", item)
	case 12:
		if len(m.held) > 0 {
			item = m.held[item%len(m.held)]
			q.Done(item)
			m.done(item)
		}
		return fmt.Sprint("Done of held ", item)
	case 13:
		if item%16 == 0 && drains.started < 1000 {
			m.down, m.draining = true, true
			drains.start()
			return "ShutDownWithDrain"
		}
		return "nothing"
	case 14:
		if item%16 == 1 {
			q.ShutDown()
			m.down, m.draining = true, false
			return "ShutDown"
		}
		return "nothing"
	}
	return ""
}

// same marks a call whose results differ.
func same(call, got, want string) string {
	if got != want {
		return fmt.Sprintf("%s %s, want %s", mismatch+call, got, want)
	}
	return call + " " + got
}

const mismatch = "wrong: "

// stepBulk adds all items, or takes and finishes all that are queued, so that
// the tables grow and shrink.
func stepBulk(q *workqueue.Typed[int], m *naive, op byte, item, span int) string {
	if item%2 == 0 {
		items := make([]int, 2*span)
		for i := range items {
			items[i] = (i*7 + item) % span
			m.add(items[i])
		}
		q.AddAll(items...)
		return "AddAll"
	}
	got := takeAll(q)
	for i := range got {
		if want, ok := m.get(); !ok || want != got[i] {
			return same("take all", fmt.Sprint(got), fmt.Sprint(want, " at ", i))
		}
		m.done(got[i])
	}
	if want, ok := m.get(); ok { // It drops what was removed, as the last attempt has.
		return same("take all", fmt.Sprint(got), fmt.Sprint(want, " at the end"))
	}
	return "take all"
}

func compareTyped(t *testing.T, step int, call string, q *workqueue.Typed[int], m *naive, drains *drains) {
	t.Helper()
	checkInvariants(t, step, q)
	if !m.busy() {
		m.draining = false
	}
	checkQuiet(t, step, q)
	comparePriorities(t, step, call, q, m)
	got := fmt.Sprint(q.Len(), q.Held(), q.ShuttingDown(), drains.pending() > 0, drains.reported)
	want := fmt.Sprint(m.queued(), len(m.held), m.down, m.draining, m.reported)
	if got != want || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch {
		t.Fatalf("step %d: %s: queued, held, down, draining, reported: got %s, want %s", step, call, got, want)
	}
}
