package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
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
	priority   int // of the next Add
	taken      map[int]int
	priorities map[int]int // of what is held, or marked to be queued again

	tokens *float64 // of the pace; nil for none
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
	if m.taken == nil {
		m.taken = make(map[int]int)
	}
	m.taken[item] = priority
	m.line = without(m.line, item)
	return item
}

func (m *naive) ready() bool { return m.queued() > 0 && (m.order == nil || m.order.ready()) }

func (m *naive) get() (item int, ok bool) {
	if m.tokens != nil && m.ready() {
		if *m.tokens < 1 {
			return 0, false
		}
		*m.tokens--
	}
	for len(m.line) > 0 && (m.order == nil || m.order.ready()) {
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
	if m.order != nil {
		m.order.done(item)
	}
	if slices.Contains(m.again, item) {
		m.again = without(m.again, item)
		m.push(item, m.priorities[item])
	}
}

func (m *naive) remove(item int) bool {
	switch {
	case slices.Contains(m.again, item):
		m.again = without(m.again, item)
		m.note(item, m.taken[item])
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
func TestModelTyped(t *testing.T) { playRandom(t, 400, playTyped) }

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

// playRandom plays random scripts of so many operations at most.
func playRandom(t *testing.T, ops int, play func(t *testing.T, script []byte)) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		play(t, randomScript(rnd, ops))
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
		config.Queue = nil
		config.Order, m = orderOf(script[len(script)-1])
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
			if t.Failed() && m.order != nil {
				t.Logf("kind %d", script[len(script)-1])
			}
			if t.Failed() {
				break
			}
		}
		gauges.checkRest(t, q, m, clock)
		q.ShutDown()
	})
}

// TestModelPaced and FuzzPaced play random calls on a queue with a Pace, some of them of workers
// that wait in Get, and compare who has got what.
func TestModelPaced(t *testing.T) { playRandom(t, 200, playPaced) }

func FuzzPaced(f *testing.F) { f.Fuzz(inParallel(playPaced)) }

func playPaced(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	config := workqueue.TypedQueueConfig[int]{Clock: testingclock.NewFakeClock(epoch)}
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	m := &naive{stored: config.Queue != nil}
	if len(script)%2 == 0 {
		config.Queue = nil
		config.Order, m = orderOf(script[len(script)-1])
	}
	burst := 1 + int(script[0]>>1)%4
	span := 1 + int(script[0]>>3)
	config.Pace = rate.NewLimiter(8, burst) // A binary fraction of a second, so that both count the same.
	full := float64(burst)
	m.tokens = &full
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(config)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer q.ShutDown()
		w := &pacedWorkers{ctx: ctx, q: q, model: m}
		drains := &drains{queue: q}
		for i := 1; i+1 < len(script); i += opSize {
			op, item := script[i]%16, int(script[i+1])%span
			m.priority = int(script[i]>>4) - 6
			var call string
			switch {
			case op == 11:
				call = w.start()
			case op == 15:
				steps := 1 + item%5
				config.Clock.(*testingclock.FakeClock).Step(time.Duration(steps) * 125 * time.Millisecond)
				*m.tokens = min(*m.tokens+float64(steps), float64(burst))
				call = fmt.Sprint("Step ", steps)
			case m.stored && (op == 4 || op == 14 && item%4 == 3):
				// A removed item stays in the storage until a worker looks, and workers look at times
				// that this model does not know. TestModelTyped removes from storages.
				call = "nothing"
			case op == 14 && item%4 == 3:
				call = removeMost(q, m, item, span)
			default:
				call = stepTyped(q, m, drains, op, item)
			}
			synctest.Wait()
			w.compare(t, i/opSize, call)
			compareTyped(t, i/opSize, call, q, m, drains)
		}
		q.ShutDown()
		cancel()
		synctest.Wait()
	})
}

// pacedWorkers are workers that wait in Get. Each ends with its first item.
type pacedWorkers struct {
	ctx   context.Context
	q     *workqueue.Typed[int]
	model *naive

	waiting   int // in the model
	mu        sync.Mutex
	got, want []int
}

func (w *pacedWorkers) start() string {
	w.waiting++
	go func() {
		if item, err := w.q.GetContext(w.ctx); err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = append(w.got, item)
		}
	}()
	return "Get"
}

// compare lets the workers of the model get what there is. The order in which workers run that
// were woken at one moment means nothing.
func (w *pacedWorkers) compare(t *testing.T, step int, call string) {
	t.Helper()
	for w.waiting > 0 && w.model.ready() {
		item, ok := w.model.get()
		if !ok {
			break
		}
		w.want = append(w.want, item)
		w.waiting--
	}
	if w.model.down && !w.model.ready() { // Items of full groups do not keep a worker.
		w.waiting = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.got)
	slices.Sort(w.want)
	if !slices.Equal(w.got, w.want) {
		t.Fatalf("step %d: %s: the workers have got %v, want %v", step, call, w.got, w.want)
	}
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
			q.AddWith(workqueue.AddOptions{Priority: prio(m.priority)}, item)
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
	got := fmt.Sprint(q.Len(), q.Held(), q.ShuttingDown(), drains.pending() > 0, drains.reported)
	want := fmt.Sprint(m.queued(), len(m.held), m.down, m.draining, m.reported)
	if m.order != nil && (got != want || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch) {
		o := m.order
		t.Logf("every %d groups %d first %v weights %v limits %v", o.every, o.groups, o.groupsFirst, o.weights, o.limits)
	}
	if got != want || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch {
		t.Fatalf("step %d: %s: queued, held, down, draining, reported: got %s, want %s", step, call, got, want)
	}
	comparePriorities(t, step, call, q, m)
}

// A naiveOrder is the model of Order: a list that is searched, and rings of groups.
type naiveOrder struct {
	items       []rankedInt
	every       int
	since       map[int]int // by group if groupsFirst, else of 0
	groups      int
	groupsFirst bool
	weights     bool
	limits      bool
	clock       int
	rings       map[int][]int  // by band
	credit      map[[2]int]int // by band and group
	flying      map[int]int
}

type rankedInt struct {
	item, priority int
	ranked         int // when it was added, or raised
}

func (m *naiveOrder) group(item int) int { return item % m.groups }
func (m *naiveOrder) weight(g int) int {
	if m.weights {
		return 1 + g
	}
	return 1
}
func (m *naiveOrder) limit(g int) int {
	if m.limits {
		return g // the first group has none
	}
	return 0
}
func (m *naiveOrder) full(g int) bool { return m.limit(g) > 0 && m.flying[g] >= m.limit(g) }
func (m *naiveOrder) band(p int) int {
	if m.groupsFirst {
		return 0
	}
	return p
}

func (m *naiveOrder) find(item int) int {
	return slices.IndexFunc(m.items, func(r rankedInt) bool { return r.item == item })
}

func (m *naiveOrder) push(item, priority int) {
	m.clock++
	m.items = append(m.items, rankedInt{item, priority, m.clock})
	m.arrange()
}

func (m *naiveOrder) touch(item, priority int) {
	m.clock++
	if r := &m.items[m.find(item)]; r.priority < priority {
		r.priority, r.ranked = priority, m.clock
	}
	m.arrange()
}

func (m *naiveOrder) remove(item int) {
	m.items = slices.Delete(m.items, m.find(item), m.find(item)+1)
	m.arrange()
}

func (m *naiveOrder) done(item int) {
	m.flying[m.group(item)]--
	m.arrange()
}

// arrange follows each change.
func (m *naiveOrder) arrange() {
	has := map[[2]int]bool{}
	bands := map[int]bool{}
	for _, r := range m.items {
		has[[2]int{m.band(r.priority), m.group(r.item)}] = true
		bands[m.band(r.priority)] = true
	}
	for b := range m.rings {
		bands[b] = true
	}
	for k := range m.credit { // A turn ends with the last item, also of a group that is full.
		bands[k[0]] = true
	}
	for b := range bands {
		for g := range m.groups {
			k := [2]int{b, g}
			may := has[k] && !m.full(g)
			switch in := slices.Contains(m.rings[b], g); {
			case in && !may:
				m.rings[b] = without(m.rings[b], g)
			case may && !in && m.credit[k] > 0:
				m.rings[b] = slices.Insert(m.rings[b], 0, g)
			case may && !in:
				m.rings[b] = append(m.rings[b], g)
			}
			if !has[k] {
				m.credit[k] = 0
				if m.groupsFirst {
					m.since[g] = 0
				}
			}
		}
		if len(m.rings[b]) == 0 {
			delete(m.rings, b)
		}
	}
}

func (m *naiveOrder) ready() bool { return len(m.rings) > 0 }

func (m *naiveOrder) pop() (item, priority int) {
	first := true
	band := 0
	for b := range m.rings {
		if first || b > band {
			band, first = b, false
		}
	}
	g := m.rings[band][0]
	var next, oldest *rankedInt
	for i := range m.items {
		r := &m.items[i]
		own := m.group(r.item) == g && m.band(r.priority) == band
		if own && (next == nil || r.priority > next.priority || r.priority == next.priority && r.ranked < next.ranked) {
			next = r
		}
		if (own || !m.groupsFirst && !m.full(m.group(r.item))) && (oldest == nil || r.ranked < oldest.ranked) {
			oldest = r
		}
	}
	if m.every > 0 {
		of := 0
		if m.groupsFirst {
			of = g
		}
		if m.since[of]++; m.since[of] >= m.every {
			next = oldest
		}
		if next == oldest {
			m.since[of] = 0
		}
	}
	item, priority = next.item, next.priority
	if k := [2]int{band, g}; m.group(item) == g && m.band(priority) == band {
		if m.credit[k] == 0 {
			m.credit[k] = m.weight(g)
		}
		if m.credit[k]--; m.credit[k] == 0 {
			m.rings[band] = append(m.rings[band][1:], g)
		}
	}
	m.flying[m.group(item)]++
	m.remove(item)
	return item, priority
}

// orderOf chooses an order and a model.
func orderOf(kind byte) (o workqueue.Order[int], m *naive) {
	order := &naiveOrder{
		every: []int{0, 1, 2, 7}[kind%4], groups: 1 + int(kind/4%4),
		groupsFirst: kind&16 != 0, weights: kind&32 != 0, limits: kind&64 != 0,
		since: map[int]int{}, rings: map[int][]int{}, credit: map[[2]int]int{}, flying: map[int]int{},
	}
	o.OldestEvery = order.every
	if order.groups > 1 {
		o.Group = func(item int) string { return strings.Repeat("g", order.group(item)) }
		o.GroupsFirst = order.groupsFirst
		o.Weight = func(group string) int { return order.weight(len(group)) }
		o.MaxInFlight = func(group string) int { return order.limit(len(group)) }
	} else {
		order.weights, order.limits, order.groupsFirst = false, false, false
	}
	return o, &naive{order: order, priorities: make(map[int]int)}
}

// comparePriorities compares the priorities of what is queued, and of what is held, and
// where there are neither groups nor turns of the oldest, the order.
func comparePriorities(t *testing.T, step int, call string, q *workqueue.Typed[int], m *naive) {
	t.Helper()
	if m.order == nil {
		return
	}
	var got, want []string
	s := q.Snapshot(1000)
	inOrder := m.order.groups == 1 && m.order.every == 0
	for _, info := range s.Queued {
		at := info.Position
		if !inOrder {
			at = 0
		}
		got = append(got, fmt.Sprint(info.Item, "@", info.Priority, " at ", at))
	}
	items := slices.Clone(m.order.items)
	slices.SortFunc(items, func(a, b rankedInt) int {
		if a.priority != b.priority {
			return b.priority - a.priority
		}
		return a.ranked - b.ranked
	})
	for place, r := range items {
		if !inOrder {
			place = -1
		}
		want = append(want, fmt.Sprint(r.item, "@", r.priority, " at ", place+1))
	}
	if !inOrder {
		slices.Sort(got)
		slices.Sort(want)
	}
	var held, wantHeld []string
	for _, info := range s.InFlight {
		held = append(held, fmt.Sprint(info.Item, "@", info.Priority))
	}
	for _, item := range m.held {
		wantHeld = append(wantHeld, fmt.Sprint(item, "@", m.priorities[item]))
	}
	slices.Sort(held)
	slices.Sort(wantHeld)
	if got, want := fmt.Sprint(got, held), fmt.Sprint(want, wantHeld); got != want {
		t.Fatalf("step %d: %s: queued and held:\ngot  %s\nwant %s", step, call, got, want)
	}
}

// A naiveStored is the model of a Typed with a shelf that fails now and then:
// what that failed to take is in line, ahead of it. Items are compared by their
// names, as one of them differs from itself.
type naiveStored struct {
	line, shelf []string
}

func (m *naiveStored) add(item float64, fails bool) {
	name := fmt.Sprint(item)
	at := slices.Index(m.shelf, name)
	switch duplicate := !math.IsNaN(item); {
	case duplicate && slices.Contains(m.line, name):
	case duplicate && at >= 0:
		if !fails { // It is touched.
			m.shelf = append(slices.Delete(m.shelf, at, at+1), name)
		}
	case fails:
		m.line = append(m.line, name)
	default:
		m.shelf = append(m.shelf, name)
	}
}

// get returns "" for nothing.
func (m *naiveStored) get(fails bool) (name string) {
	switch last := len(m.shelf) - 1; {
	case len(m.line) > 0:
		name, m.line = m.line[0], m.line[1:]
	case len(m.shelf) > 0 && !fails:
		name, m.shelf = m.shelf[last], m.shelf[:last]
	}
	return name
}

// TestModelStorage and FuzzStorage play random calls on a queue whose storage
// fails in some of them, and on the model.
func TestModelStorage(t *testing.T) { playRandom(t, 200, playStorage) }

func FuzzStorage(f *testing.F) { f.Fuzz(inParallel(playStorage)) }

func playStorage(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	s := &shelf[float64]{}
	config := workqueue.TypedQueueConfig[float64]{Queue: s}
	if script[0]&1 != 0 {
		config.KeepTimes, config.Clock = true, testingclock.NewFakeClock(epoch)
	}
	q, m := workqueue.NewTypedWithConfig(config), &naiveStored{}
	for i, op := range script[1:] {
		item := float64(op >> 5)
		if item == 0 {
			item = math.NaN()
		}
		call, got, want := stepStorage(q, s, m, op, item)
		got, want = fmt.Sprint(got, q.Len()), fmt.Sprint(want, len(m.line)+len(m.shelf))
		if got != want {
			t.Fatalf("step %d: %s: handed out, queued: got %s, want %s", i, call, got, want)
		}
		checkInvariants(t, i, q)
	}
	for len(m.line)+len(m.shelf) > 0 {
		if _, got, want := stepStorage(q, s, m, 4, 0); got != want {
			t.Fatalf("in the end: got %q, want %q", got, want)
		}
	}
	q.ShutDownWithDrain()
}

// stepStorage makes one call of both; one in four fails in the storage.
func stepStorage(q *workqueue.Typed[float64], s *shelf[float64], m *naiveStored, op byte, item float64) (call, got, want string) {
	fails := op&3 == 3
	if s.hook = nil; fails {
		s.hook = func(call string) {
			switch {
			case call == "len":
			case op&8 != 0:
				runtime.Goexit()
			default:
				panic(call)
			}
		}
	}
	if op&4 == 0 {
		goes(func() { q.Add(item) })
		m.add(item, fails)
		call = fmt.Sprint("Add ", item)
	} else {
		goes(func() {
			if item, ok := q.TryGet(); ok {
				got = fmt.Sprint(item)
				q.Done(item)
			}
		})
		want = m.get(fails)
		call = "TryGet"
	}
	s.hook = nil
	return fmt.Sprint(call, ", fails ", fails), got, want
}

// An item that differs from itself is as safe as any other in a storage that
// fails to take it.
func TestStorageThatFailsToTakeWhatDiffersFromItself(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("storage") }, "Goexit": runtime.Goexit} {
		for _, keeps := range []bool{false, true} {
			s := &shelf[float64]{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: s})
			q.AddAll(1, math.NaN())
			s.hook = func(string) {
				if s.hook = nil; keeps {
					s.items = append(s.items, math.NaN())
				}
				fail()
			}
			panicked := goes(func() { q.Add(math.NaN()) })
			checkInvariants(t, 0, q)
			want := "[NaN NaN 1]"
			if keeps { // Nobody can tell that it is the same one.
				want = "[NaN NaN NaN 1]"
			}
			if got := fmt.Sprint(takeAll(q)); got != want || panicked != map[string]any{"panic": "storage"}[kind] {
				t.Errorf("%s, keeps %v: handed out %s after the panic %v, want %s", kind, keeps, got, panicked, want)
			}
			checkInvariants(t, 1, q)
			q.ShutDownWithDrain()
		}
	}
}

// A worker that waits gets it too.
func TestWorkerIsWokenForWhatAStorageHasFailedToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[float64]{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: s})
		defer q.ShutDown()
		go q.Get()
		synctest.Wait()
		s.hook = func(string) { panic("storage") }
		goes(func() { q.Add(math.NaN()) })
		s.hook = nil
		synctest.Wait()
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers and %d items wait for each other", n, q.Len())
		}
	})
}
