package workqueue_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// This file plays random calls on a queue and on its specification, internal/spec, and compares all
// that both can tell after each call. model_delaying_test.go does the same with waits.

// An op is a byte for the call and a byte for the item.
const opSize = 2

// scripts returns how many random scripts a test plays. Under the race detector there are few: most
// scripts run on one goroutine, and each test also runs without the detector.
func scripts() int {
	switch {
	case raceEnabled:
		return 12
	case testing.Short():
		return 40
	}
	return 150
}

// inParallel plays the scripts of a corpus in parallel with other tests.
func inParallel(play func(t *testing.T, script []byte)) func(t *testing.T, script []byte) {
	return func(t *testing.T, script []byte) {
		t.Parallel()
		play(t, script)
	}
}

// playRandom plays random scripts of up to ops operations.
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

// A game makes the same calls of a queue and of the specification.
type game struct {
	t     *testing.T
	typed *workqueue.Typed[int] // the queue, or the queue below
	top   gameQueue
	spec  *spec.Queue[int]
	order *answers // nil for a queue without an Order, whose adds name no priorities
	timed bool     // the queue knows ages
	span  int      // of the items

	priority int // of the next add
	told     []spec.Ending[int]
	drains   []int // tickets
	drained  chan struct{}
	waits    []gameWait
}

// A gameQueue is the highest layer of a queue.
type gameQueue interface {
	workqueue.TypedInterface[int]
	Snapshot(limit int) workqueue.Snapshot[int]
	WaitIdle(ctx context.Context) error
	Barrier(ctx context.Context) error
	Drain(ctx context.Context) error
}

// A gameWait is a WaitIdle, a WaitEmpty, a Barrier or a Drain.
type gameWait struct {
	*waiter
	isOver  func() bool
	met     *bool       // isOver has been true between two calls
	isEnded func() bool // a ShutDown has ended the Drain; nil for the others
}

// want returns the end of the text that the state must have.
func (w gameWait) want() string {
	switch {
	case *w.met:
		return "<nil>"
	case w.isEnded != nil && w.isEnded():
		return workqueue.ErrShutDown.Error()
	}
	return "waits"
}

func newGame(t *testing.T, typed *workqueue.Typed[int], top gameQueue, rules spec.Rules[int], order *answers, span int) *game {
	if order != nil {
		rules.OldestEvery, rules.GroupsFirst, rules.Place = order.every, order.groupsFirst, order.place
	}
	return &game{t: t, typed: typed, top: top, spec: spec.New(rules), order: order, span: span, drained: make(chan struct{}, 1000)}
}

// answers are what the functions of an Order say. With changes, each add gets other answers.
type answers struct {
	every, groups                         int
	groupsFirst, weights, limits, changes bool
	draw                                  int // of the next add
}

func (a *answers) group(item int) int {
	if a.changes {
		item += a.draw
	}
	return item % a.groups
}

func (a *answers) weight(group int) int {
	switch {
	case !a.weights:
		return 1
	case a.changes:
		return 1 + (a.draw+group)%4
	}
	return 1 + group
}

func (a *answers) limit(group int) int {
	switch {
	case !a.limits:
		return 0
	case a.changes:
		return (a.draw/4+group)%5 - 1 // -1 holds the group back.
	}
	return group // the first group has none
}

func (a *answers) rank(item int) int {
	if a.changes {
		return (item+a.draw)%3 - 1
	}
	return 0
}

// place says for the specification what the functions say for the queue.
func (a *answers) place(item int, p spec.Place) spec.Place {
	if !p.Named {
		p.Priority = a.rank(item)
	}
	if a.groups > 1 {
		group := a.group(item)
		p.Group, p.Weight, p.Limit = strings.Repeat("g", group), a.weight(group), a.limit(group)
	}
	return p
}

// orderOf chooses an order.
func orderOf(kind byte) (o workqueue.Order[int], a *answers) {
	a = &answers{
		every: []int{0, 1, 2, 7}[kind%4], groups: 1 + int(kind/4%4),
		groupsFirst: kind&16 != 0, weights: kind&32 != 0, limits: kind&64 != 0, changes: kind&128 != 0,
	}
	o.OldestEvery = a.every
	if a.changes {
		o.Priority = a.rank
	}
	if a.groups == 1 {
		a.groupsFirst = false
		return o, a
	}
	o.Group = func(item int) string { return strings.Repeat("g", a.group(item)) }
	o.GroupsFirst = a.groupsFirst
	o.Weight = func(group string) int { return a.weight(len(group)) }
	o.MaxInFlight = func(group string) int { return a.limit(len(group)) }
	return o, a
}

// next prepares a game for the next operation.
func (g *game) next(priority int, op, arg byte) {
	if g.priority = priority; g.order != nil {
		g.order.draw = int(op^arg) & 31
	}
}

// named is what an add says that names the priority.
func (g *game) named() spec.Place { return spec.Place{Priority: g.priority, Named: true} }

// TestModelTyped and FuzzTyped play a queue of each make.
func TestModelTyped(t *testing.T) { playRandom(t, 400, playTyped) }

func FuzzTyped(f *testing.F) { f.Fuzz(inParallel(playTyped)) }

func playTyped(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	var order *answers
	if len(script)%2 == 0 { // There is a byte to choose an order.
		config.Queue = nil
		config.Order, order = orderOf(script[len(script)-1])
	}
	gauges, clock := &gauges{}, testingclock.NewFakeClock(epoch)
	if script[0]&2 != 0 {
		config.Name, config.MetricsProvider, config.Clock = "q", gauges, clock
	}
	span := 1 + int(script[0]>>2)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(config)
		g := newGame(t, q, q, spec.Rules[int]{Stored: config.Queue != nil}, order, span)
		defer g.end()
		g.timed = config.Clock != nil
		for i := 1; i+1 < len(script); i += opSize {
			op, item := script[i]%16, int(script[i+1])%span
			g.next(int(script[i]>>4)-6, script[i], script[i+1])
			clock.Step(time.Nanosecond) // Each add has a time of its own.
			g.spec.Advance(time.Nanosecond)
			call := g.stepTyped(op, item)
			switch {
			case call == "":
				call = g.stepBulk(item)
			case op == 14 && item%16 == 2:
				call = gauges.tick(g, clock, item > 32)
			case op == 14 && item%4 == 3:
				call = g.removeMost(item)
			}
			g.compare(i/opSize, call)
		}
		gauges.checkRest(g, clock)
	})
}

// TestModelPaced and FuzzPaced play a queue with workers that wait: with a Pace, or without one.
func TestModelPaced(t *testing.T) { playRandom(t, 200, playPaced) }

func FuzzPaced(f *testing.F) { f.Fuzz(inParallel(playPaced)) }

func playPaced(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	clock := testingclock.NewFakeClock(epoch)
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	var order *answers
	if len(script)%2 == 0 {
		config.Queue = nil
		config.Order, order = orderOf(script[len(script)-1])
	}
	rules := spec.Rules[int]{Stored: config.Queue != nil}
	switch burst := int(script[0]>>1) % 4; {
	case burst > 0:
		// The limit is a binary fraction of a second, so that both count the same.
		config.Clock, config.Pace = clock, rate.NewLimiter(8, burst)
		rules.Rate, rules.Burst = 8, float64(burst)
	case script[0]&64 != 0:
		config.Name, config.MetricsProvider, config.Clock = "q", workqueue.NoMetrics{}, clock
	}
	span := 1 + int(script[0]>>3)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(config)
		g := newGame(t, q, q, rules, order, span)
		g.timed = config.Clock != nil
		w := &waitingWorkers{game: g}
		defer w.end()
		for i := 1; i+1 < len(script); i += opSize {
			op, item := script[i]%16, int(script[i+1])%span
			g.next(int(script[i]>>4)-6, script[i], script[i+1])
			var call string
			switch {
			case op == 11:
				call = w.start(item)
			case op == 15 && item%2 == 0:
				by := time.Duration(1+item%5) * 125 * time.Millisecond
				clock.Step(by)
				g.spec.Advance(by)
				call = fmt.Sprint("Step ", by)
			case op == 15:
				call = w.cancel(item)
			case g.spec.Stored && (op == 4 || op == 14 && item%4 == 3):
				// A removed item stays in the storage until a worker looks, and the specification does not
				// know when workers look. TestModelTyped removes from storages.
				call = "nothing"
			case op == 14 && item%4 == 3:
				call = g.removeMost(item)
			case op == 14 && item%4 == 2:
				call = g.addAll(item, item%5)
			default:
				call = g.stepTyped(op, item)
			}
			synctest.Wait()
			w.compare(i/opSize, call)
			g.compare(i/opSize, call)
		}
	})
}

// waitingWorkers are workers that wait for an item in Get, GetContext or GetInfo. Each ends with its
// first item.
type waitingWorkers struct {
	*game
	waiting   []*worker
	got, want []int
}

// A worker waits for one item.
type worker struct {
	cancel context.CancelFunc // nil for a worker in Get
	ended  chan error
	item   int
}

func (w *waitingWorkers) start(kind int) string {
	ctx, cancel := context.WithCancel(w.t.Context())
	one := &worker{cancel: cancel, ended: make(chan error, 1)}
	get := func() (err error) { one.item, err = w.typed.GetContext(ctx); return err }
	switch kind % 3 {
	case 1:
		one.cancel = nil
		get = func() error {
			item, shutdown := w.typed.Get()
			if one.item = item; shutdown {
				return workqueue.ErrShutDown
			}
			return nil
		}
	case 2:
		get = func() error {
			info, err := w.typed.GetInfo(ctx)
			one.item = info.Item
			return err
		}
	}
	w.waiting = append(w.waiting, one)
	go func() {
		defer cancel()
		one.ended <- get()
	}()
	return "a worker waits"
}

// cancel ends the wait of a worker, if there is one in GetContext or GetInfo. With an add at the same
// instant, the worker may get an item instead.
func (w *waitingWorkers) cancel(n int) string {
	at := slices.IndexFunc(w.waiting, func(one *worker) bool { return one.cancel != nil })
	if at < 0 {
		return "nothing"
	}
	one := w.waiting[at]
	one.cancel()
	call := "a worker is canceled"
	if n%3 > 0 {
		call += ", " + w.addAll(n, n%3)
	}
	synctest.Wait()
	err := <-one.ended
	if err == nil {
		one.ended <- nil // For compare.
		return call + " too late"
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	return same(call, fmt.Sprint(err), context.Canceled.Error())
}

// end ends all workers: without an item, no worker waits for a token.
func (w *waitingWorkers) end() {
	w.typed.RemoveFunc(func(int) bool { return true })
	w.game.end()
}

// compare lets the waiting workers of the specification get items. Workers that were woken at one
// moment run in any order.
func (w *waitingWorkers) compare(step int, call string) {
	w.t.Helper()
	had := len(w.waiting)
	ends := 0
	w.waiting = slices.DeleteFunc(w.waiting, func(one *worker) bool {
		select {
		case err := <-one.ended:
			if err == nil {
				w.got = append(w.got, one.item)
			} else if ends++; err != workqueue.ErrShutDown || one.item != 0 {
				w.t.Fatalf("step %d: %s: a worker has got %d, %v", step, call, one.item, err)
			}
			return true
		default:
			return false
		}
	})
	for had > 0 && w.spec.Ready() {
		item, ok := w.spec.Get()
		if !ok {
			break
		}
		w.want = append(w.want, item.Value)
		had--
	}
	wantEnds := 0
	if w.spec.Down && !w.spec.Ready() { // Items of full groups do not keep a worker.
		wantEnds = had
	}
	slices.Sort(w.got)
	slices.Sort(w.want)
	if !slices.Equal(w.got, w.want) || ends != wantEnds {
		w.t.Fatalf("step %d: %s: the workers have got %v and %d the end, want %v and %d", step, call, w.got, ends, w.want, wantEnds)
	}
}

// removeMost leaves one of a few items, so that the line has many holes.
func (g *game) removeMost(item int) string {
	most := func(i int) bool { return i%(2+item%3) > 0 }
	if item%8 == 7 {
		want := 0
		for i := range g.span {
			if most(i) && g.spec.RemoveBelow(i) {
				want++
			}
		}
		g.look()
		return same("RemoveFunc", fmt.Sprint(g.typed.RemoveFunc(most)), fmt.Sprint(want))
	}
	for i := range g.span {
		if most(i) {
			if got, want := g.typed.Remove(i), g.spec.RemoveBelow(i); got != want {
				return same(fmt.Sprint("Remove ", i), fmt.Sprint(got), fmt.Sprint(want))
			}
		}
	}
	return "Remove most"
}

// gauges is a provider that notes the values of the gauges of work in flight, and calls a hook when one
// is set.
type gauges struct {
	workqueue.NoMetrics
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

// tick lets the time come at which the gauges are set. With finish, an item is done at that moment.
func (g *gauges) tick(play *game, clock *testingclock.FakeClock, finish bool) string {
	if held := play.held(); finish && len(held) > 0 {
		g.onSet = func() {
			g.onSet = nil
			play.done(held[0])
		}
	}
	play.spec.Advance(500 * time.Millisecond)
	clock.Step(500 * time.Millisecond)
	synctest.Wait()
	g.onSet = nil
	return fmt.Sprint("tick, finish ", finish)
}

// checkRest calls Done for all held items, for the last one while the gauges are set, and checks the
// gauges an hour later.
func (g *gauges) checkRest(play *game, clock *testingclock.FakeClock) {
	play.t.Helper()
	for len(play.spec.Held) > 1 {
		play.done(play.held()[0])
	}
	g.tick(play, clock, true)
	clock.Step(time.Hour)
	synctest.Wait()
	for name, v := range g.set {
		if v != 0 && !play.spec.Down {
			play.t.Errorf("at rest: %s is %v", name, v)
		}
	}
	if n := clock.Waiters(); n > 0 {
		play.t.Errorf("at rest: %d timers run", n)
	}
}

// held returns the held items in order.
func (g *game) held() []int { return slices.Sorted(maps.Keys(g.spec.Held)) }

func (g *game) done(item int) {
	g.typed.Done(item)
	g.spec.Done(item)
}

// look notes the waits that are over at this moment. A wait for an idle queue is over even if the
// queue is idle only between two calls.
func (g *game) look() {
	for _, w := range g.waits {
		*w.met = *w.met || w.isOver()
	}
}

// stepTyped makes a call of the queue below and returns a line about it, or "" for an op that is not
// its own.
func (g *game) stepTyped(op byte, item int) string {
	switch op {
	case 0, 1, 2, 3:
		if g.order != nil && op > 0 {
			g.typed.AddWith(workqueue.AddOptions{Priority: prio(g.priority)}, item)
			g.spec.Add(item, g.named())
			return fmt.Sprint("AddWith ", g.priority, item)
		}
		g.typed.Add(item)
		g.spec.Add(item, spec.Place{})
		return fmt.Sprint("Add ", item)
	case 4:
		return same(fmt.Sprint("Remove ", item), fmt.Sprint(g.typed.Remove(item)), fmt.Sprint(g.spec.RemoveBelow(item)))
	case 5, 6, 7, 8:
		return g.get(op == 8)
	case 9, 10:
		g.done(item)
		return fmt.Sprint("Done ", item)
	case 11:
		g.typed.Watch(item, func(cause error) {
			g.told = append(g.told, spec.Ending[int]{Item: item, Removed: cause == workqueue.ErrRemoved})
		})
		g.spec.Watch(item)
		return fmt.Sprint("watch ", item)
	case 12:
		if held := g.held(); len(held) > 0 {
			item = held[item%len(held)]
			g.done(item)
		}
		return fmt.Sprint("Done of held ", item)
	case 13:
		return g.wait(item % 16)
	case 14:
		switch {
		case item%16 == 1:
			g.typed.ShutDown()
			g.spec.ShutDown()
			return "ShutDown"
		case item%16 > 3:
			return g.limitsChanged()
		}
		return "nothing"
	}
	return ""
}

// limitsChanged has the queue ask for the limits again. Each call has another answer if the answers
// change.
func (g *game) limitsChanged() string {
	if g.order == nil {
		return "nothing"
	}
	g.top.(interface{ LimitsChanged() }).LimitsChanged()
	if g.order.groups > 1 {
		g.spec.LimitsChanged(func(group string) int { return g.order.limit(len(group)) })
	}
	return "LimitsChanged"
}

// get makes a TryGet, or a GetInfo that does not have to wait.
func (g *game) get(info bool) string {
	if !info || g.spec.Burst > 0 || !g.spec.Ready() {
		got, ok := g.typed.TryGet()
		want, wantOK := g.spec.Get()
		return same("TryGet", fmt.Sprint(got, ok), fmt.Sprint(want.Value, wantOK))
	}
	got, err := g.typed.GetInfo(g.t.Context())
	i, _ := g.spec.Get()
	want := g.infoOf(i.Value, workqueue.ItemInFlight, i.Place, i.Since)
	return same("GetInfo", fmt.Sprint(got, err), fmt.Sprint(want, nil))
}

// wait begins a call that waits, or ends one.
func (g *game) wait(kind int) string {
	begin := func(wait func(context.Context) error, isOver func() bool) {
		met := isOver()
		g.waits = append(g.waits, gameWait{waiter: startWait(wait), isOver: isOver, met: &met})
	}
	switch {
	case kind == 0 && len(g.drains) < cap(g.drained):
		g.drains = append(g.drains, g.spec.Drain())
		go func() {
			g.top.ShutDownWithDrain()
			g.drained <- struct{}{}
		}()
		synctest.Wait()
		return "ShutDownWithDrain"
	case kind < 3 && len(g.waits) < 8:
		ticket := g.spec.Barrier()
		begin(g.top.Barrier, func() bool { return g.spec.Over(ticket) })
		return "Barrier"
	case kind == 3 && len(g.waits) < 8:
		begin(g.top.WaitIdle, g.spec.Idle)
		return "WaitIdle"
	case kind == 4 && len(g.waits) < 8:
		if q, ok := g.top.(interface{ WaitEmpty(context.Context) error }); ok {
			begin(q.WaitEmpty, g.spec.Empty)
		}
		return "WaitEmpty"
	case kind == 5 && len(g.waits) > 0:
		w := g.waits[0]
		g.waits = g.waits[1:]
		w.cancel()
		return same("cancel", w.state()[max(0, len(w.state())-len(context.Canceled.Error())):], context.Canceled.Error())
	case kind == 6 && len(g.waits) < 8:
		ticket := g.spec.Drain()
		begin(g.top.Drain, g.spec.Idle)
		g.waits[len(g.waits)-1].isEnded = func() bool { return g.spec.Drained(ticket) }
		return "Drain"
	}
	return "nothing"
}

// end shuts the queue down, and ends all calls that wait.
func (g *game) end() {
	g.top.ShutDown()
	for _, w := range g.waits {
		w.cancel()
	}
	synctest.Wait()
}

// same marks a call whose results differ.
func same(call, got, want string) string {
	if got != want {
		return fmt.Sprintf("%s %s, want %s", mismatch+call, got, want)
	}
	return call + " " + got
}

const mismatch = "wrong: "

// addAll adds n items in one call. Some are the same.
func (g *game) addAll(from, n int) string {
	items := make([]int, n)
	for i := range items {
		items[i] = (i*7 + from) % g.span
		g.spec.Add(items[i], spec.Place{})
	}
	g.typed.AddAll(items...)
	return fmt.Sprint("AddAll ", items)
}

// stepBulk adds all items, or takes and finishes all that are queued, so that
// the tables grow and shrink.
func (g *game) stepBulk(item int) string {
	if item%2 == 0 {
		return g.addAll(item, 2*g.span)
	}
	got := takeAll(g.typed)
	for i := range got {
		if want, ok := g.spec.Get(); !ok || want.Value != got[i] {
			return same("take all", fmt.Sprint(got), fmt.Sprint(want.Value, " at ", i))
		}
		g.spec.Done(got[i])
		g.look()
	}
	if want, ok := g.spec.Get(); ok { // It drops what was removed, as the last attempt has.
		return same("take all", fmt.Sprint(got), fmt.Sprint(want.Value, " at the end"))
	}
	return "take all"
}

// compare compares all that the queue and the specification tell.
func (g *game) compare(step int, call string) {
	g.t.Helper()
	synctest.Wait()
	checkInvariants(g.t, step, g.typed)
	checkQuiet(g.t, step, g.typed)
	g.look()
	pending := slices.ContainsFunc(g.drains, func(ticket int) bool { return !g.spec.Drained(ticket) })
	slices.SortFunc(g.told, endings) // A RemoveFunc has no order.
	slices.SortFunc(g.spec.Told, endings)
	got := fmt.Sprint(g.typed.Len(), g.typed.Held(), g.typed.ShuttingDown(), len(g.drained) < len(g.drains), g.told)
	want := fmt.Sprint(g.spec.Len(), len(g.spec.Held), g.spec.Down, pending, g.spec.Told)
	if got != want || strings.HasPrefix(call, mismatch) {
		g.t.Fatalf("step %d: %s: queued, held, down, draining, told: got %s, want %s, of %+v", step, call, got, want, g.order)
	}
	g.waits = slices.DeleteFunc(g.waits, func(w gameWait) bool {
		state, want := w.state(), w.want()
		if !strings.HasSuffix(state, want) {
			g.t.Fatalf("step %d: %s: a wait: got %s, want %s", step, call, state, want)
		}
		return want != "waits"
	})
	g.compareSnapshot(step, call)
}

func endings(a, b spec.Ending[int]) int {
	if a.Item == b.Item && a.Removed != b.Removed {
		if a.Removed {
			return 1
		}
		return -1
	}
	return a.Item - b.Item
}

func (g *game) infoOf(item int, state workqueue.ItemState, p spec.Place, since time.Duration) workqueue.ItemInfo[int] {
	info := workqueue.ItemInfo[int]{Item: item, State: state, Priority: p.Priority}.WithNamed(p.Named)
	if g.timed {
		info.Age = g.spec.Now - since
	}
	return info
}

// compareSnapshot compares the lists of items: with their order, unless groups, ages or a storage
// decide the order.
func (g *game) compareSnapshot(step int, call string) {
	g.t.Helper()
	inOrder := !g.spec.Stored && (g.order == nil || g.order.groups == 1 && g.order.every == 0)
	got := g.top.Snapshot(math.MaxInt)
	var want workqueue.Snapshot[int]
	for at, i := range g.spec.Line() {
		info := g.infoOf(i.Value, workqueue.ItemQueued, i.Place, i.Since)
		if inOrder {
			info.Position = at + 1
		}
		info.Why = workqueue.Why(g.spec.WhyQueued(i))
		want.Queued = append(want.Queued, info)
	}
	for item, h := range g.spec.Held {
		info := g.infoOf(item, workqueue.ItemInFlight, h.Place, h.Since)
		if h.Marked {
			info = g.infoOf(item, workqueue.ItemInFlightAgain, h.Next, h.Since)
		}
		want.InFlight = append(want.InFlight, info)
	}
	for at, w := range g.spec.Waiting {
		want.Waiting = append(want.Waiting, workqueue.ItemInfo[int]{
			Item: w.Value, State: workqueue.ItemWaiting, Due: epoch.Add(w.Due), Position: at + 1,
			Priority: w.Place.Priority, Firm: w.Firm, Why: workqueue.Why(w.Why),
		}.WithNamed(w.Place.Named))
	}
	for i := range got.Waiting { // The specification does not know when a wait began.
		got.Waiting[i].Age = 0
	}
	byItem := func(a, b workqueue.ItemInfo[int]) int { return a.Item - b.Item }
	for _, list := range [][]workqueue.ItemInfo[int]{got.InFlight, want.InFlight, got.Queued, want.Queued} {
		if !inOrder || len(list) > 0 && list[0].State != workqueue.ItemQueued {
			slices.SortFunc(list, byItem)
		}
	}
	all, wantAll := slices.Concat(got.InFlight, got.Queued, got.Waiting), slices.Concat(want.InFlight, want.Queued, want.Waiting)
	if !slices.Equal(all, wantAll) {
		g.t.Fatalf("step %d: %s: got\n%+v\nwant\n%+v", step, call, all, wantAll)
	}
}

// A naiveStored is the model of a Typed whose Queue, a shelf, fails now and then. Items that the shelf
// has failed to take are in the line, and come first. The model has names of items, as one item is NaN.
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

// A NaN that a storage fails to take is not lost.
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

// A waiting worker gets a NaN that a storage has failed to take.
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
