package attack

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A faulty storage is a FIFO that fails once when it is told to.
type faulty struct {
	items []any
	fail  string // the method that fails next
	keeps bool   // a Push that fails has stored the item
	exits bool   // by runtime.Goexit
	fired bool
}

func (s *faulty) at(method string) {
	if s.fail != method {
		return
	}
	s.fail, s.fired = "", true
	if s.exits {
		runtime.Goexit()
	}
	panic(method)
}

func (s *faulty) Touch(any) { s.at("Touch") }

func (s *faulty) Push(item any) {
	if s.fail == "Push" && s.keeps {
		s.items = append(s.items, item)
	}
	s.at("Push")
	s.items = append(s.items, item)
}

func (s *faulty) Len() int {
	s.at("Len")
	return len(s.items)
}

func (s *faulty) Pop() any {
	s.at("Pop")
	item := s.items[0]
	s.items = s.items[1:]
	return item
}

// What an item is to the model; one of which it knows nothing is none of these.
const (
	lined   = "lined"   // queued, ahead of the storage
	shelved = "shelved" // queued, in the storage
	ghost   = "ghost"   // in the storage, but removed
	held    = "held"
	again   = "held, again"
)

// A model is what the documentation says of a Typed with a storage. All NaNs go by
// one name, and the states do not know it.
type model struct {
	line, shelf []string
	states      map[string]string
	nans        int // of those shelved, how many the queue counts
	closed      bool
}

func name(item any) string { return fmt.Sprint(item) }

var nan = name(math.NaN())

// queue puts an item in the storage, or in line if that fails.
func (m *model) queue(item string, fails, keeps bool) {
	if !fails || keeps {
		m.shelf = append(m.shelf, item)
	}
	to := shelved
	if fails {
		m.line, to = append(m.line, item), lined
	}
	if item != nan {
		m.states[item] = to
	} else if !fails {
		m.nans++
	}
}

func (m *model) add(item string, s *faulty) {
	switch {
	case m.closed:
	case m.states[item] == held:
		m.states[item] = again
	case m.states[item] == ghost:
		m.states[item] = shelved
	case m.states[item] == "":
		m.queue(item, s.fired, s.keeps)
	}
}

func (m *model) done(item string, s *faulty) {
	switch m.states[item] {
	case held:
		delete(m.states, item)
	case again:
		m.queue(item, s.fired, s.keeps)
	}
}

func (m *model) remove(item string) bool {
	switch m.states[item] {
	case lined:
		delete(m.states, item)
		m.line = slices.DeleteFunc(m.line, func(other string) bool { return other == item })
	case shelved:
		m.states[item] = ghost
	case again:
		m.states[item] = held
	default:
		return false
	}
	return true
}

// take returns "" for nothing.
func (m *model) take() (item string) {
	if len(m.line) > 0 {
		item, m.line = m.line[0], m.line[1:]
		return m.hold(item)
	}
	for len(m.shelf) > 0 {
		item, m.shelf = m.shelf[0], m.shelf[1:]
		switch m.states[item] {
		case shelved:
			return m.hold(item)
		case ghost:
			delete(m.states, item)
		case "": // A NaN, or what a Push that has failed has kept.
			if item == nan {
				m.nans = max(0, m.nans-1)
			}
			return m.hold(item)
		}
	}
	return ""
}

func (m *model) hold(item string) string {
	if item != nan {
		m.states[item] = held
	}
	return item
}

// putBack undoes a take.
func (m *model) putBack(item string) {
	m.line = slices.Insert(m.line, 0, item)
	if item != nan {
		m.states[item] = lined
	}
}

func (m *model) count(states ...string) (n int) {
	for _, s := range m.states {
		if slices.Contains(states, s) {
			n++
		}
	}
	return n
}

func (m *model) queued() int { return len(m.line) + m.count(shelved) + m.nans }

// An attacked queue, its model and what is to fail.
type attacked struct {
	t       *testing.T
	rnd     *rand.Rand
	queue   *workqueue.Typed[any]
	storage *faulty // never called if the queue has none
	model   *model
	metrics *failing
	own     bool // the queue has the storage
	many    int  // how many items there are
}

func TestStorage(t *testing.T) {
	play(t, 200, func(t *testing.T, rnd *rand.Rand) int {
		a := &attacked{t: t, rnd: rnd, storage: &faulty{}, metrics: &failing{}, own: rnd.IntN(4) > 0}
		a.many = []int{10, 300}[rnd.IntN(2)]
		a.model = &model{states: make(map[string]string)}
		config := workqueue.TypedQueueConfig[any]{}
		if a.own {
			config.Queue = a.storage
		}
		if rnd.IntN(2) == 0 {
			config.Name, config.MetricsProvider = "attacked", a.metrics
		}
		a.queue = workqueue.NewTypedWithConfig(config)
		calls := 50 + rnd.IntN(400)
		for n := 0; n < calls && !t.Failed(); n++ {
			a.step()
		}
		a.finish()
		return calls
	})
}

func (a *attacked) item() any {
	if a.rnd.IntN(8) == 0 {
		return math.NaN()
	}
	return a.rnd.IntN(a.many)
}

// arm decides what fails in the next call.
func (a *attacked) arm() {
	*a.storage = faulty{items: a.storage.items, keeps: a.rnd.IntN(2) == 0, exits: a.rnd.IntN(2) == 0}
	a.metrics.fail, a.metrics.exits = false, a.rnd.IntN(2) == 0
	switch a.rnd.IntN(4) {
	case 0:
		a.storage.fail = []string{"Push", "Pop", "Touch", "Len"}[a.rnd.IntN(4)]
	case 1:
		a.metrics.fail = true
	}
}

func (a *attacked) step() {
	a.arm()
	item := a.item()
	what := ""
	switch a.rnd.IntN(14) {
	case 0, 1, 2, 3:
		what = "Add " + name(item)
		call(a.t, what, func() { a.queue.Add(item) })
		a.model.add(name(item), a.modelled())
	case 4, 5, 6:
		what = "TryGet"
		a.get()
	case 7, 8:
		what = "Done " + name(item)
		call(a.t, what, func() { a.queue.Done(item) })
		a.model.done(name(item), a.modelled())
	case 9, 12, 13:
		what = "Remove " + name(item)
		var got bool
		call(a.t, what, func() { got = a.queue.Remove(item) })
		if want := a.model.remove(name(item)); got != want {
			a.t.Errorf("%s: got %v, want %v", what, got, want)
		}
	case 10:
		what = "Len"
		var got int
		e := call(a.t, what, func() { got = a.queue.Len() })
		if want := len(a.model.line) + len(a.model.shelf) - a.model.count(ghost); e.returned && a.own && got != want {
			a.t.Errorf("Len: got %d, want %d", got, want)
		}
	case 11:
		what = a.addAll()
	}
	a.check(what)
}

// modelled is the storage as the model has to know it: to have none is to have one
// that fails to take anything.
func (a *attacked) modelled() *faulty {
	if a.own {
		return a.storage
	}
	return &faulty{fired: true}
}

func (a *attacked) addAll() string {
	a.storage.fail = ""
	items := make([]any, a.rnd.IntN(100))
	for i := range items {
		items[i] = a.item()
	}
	call(a.t, "AddAll", func() { a.queue.AddAll(items...) })
	for _, item := range items {
		a.model.add(name(item), a.modelled())
	}
	return fmt.Sprintf("AddAll of %d", len(items))
}

func (a *attacked) get() {
	var item any
	var ok bool
	e := call(a.t, "TryGet", func() { item, ok = a.queue.TryGet() })
	if a.storage.fired {
		// Len and Pop fail before anything has happened, apart from ghosts that were
		// dropped before: none, as the first call fails.
		return
	}
	want := a.model.take()
	if !e.returned {
		a.model.putBack(want)
		return
	}
	if got := name(item); ok != (want != "") || ok && got != want {
		a.t.Errorf("TryGet: got %s, %v; want %q", got, ok, want)
	}
}

// check compares what can be seen.
func (a *attacked) check(what string) {
	a.storage.fail, a.metrics.fail = "", false
	limit := []int{-1, 0, 1, 3, math.MaxInt}[a.rnd.IntN(5)]
	var s workqueue.Snapshot[any]
	call(a.t, "Snapshot", func() { s = a.queue.Snapshot(limit) })
	if got, want := s.QueuedTotal, a.model.queued(); got != want {
		a.t.Errorf("after %s: %d are queued, want %d", what, got, want)
	}
	if got, want := s.InFlightTotal, a.model.count(held, again); got != want {
		a.t.Errorf("after %s: %d are in flight, want %d", what, got, want)
	}
	if limit >= 0 && max(len(s.Queued), len(s.InFlight)) > limit || limit < 0 && len(s.InFlight) != s.InFlightTotal {
		a.t.Errorf("a Snapshot of %d has %d and %d", limit, len(s.Queued), len(s.InFlight))
	}
	for i, info := range s.Queued {
		if i < len(a.model.line) && (name(info.Item) != a.model.line[i] || info.Position != 1+i) {
			a.t.Errorf("after %s: %v is at %d, want %s", what, info, i, a.model.line[i])
		}
	}
	for _, info := range s.InFlight {
		want := workqueue.ItemInFlight
		if a.model.states[name(info.Item)] == again {
			want = workqueue.ItemInFlightAgain
		}
		if info.State != want {
			a.t.Errorf("after %s: %v, want %v", what, info, want)
		}
	}
}

// finish ends the queue while nothing fails: all of it comes out, and a drain
// ends.
func (a *attacked) finish() {
	*a.storage = faulty{items: a.storage.items}
	a.metrics.fail = false
	if a.t.Failed() {
		return
	}
	ended, cancel := context.WithCancel(a.t.Context())
	cancel()
	call(a.t, "Drain", func() { a.queue.Drain(ended) })
	a.model.closed = true
	call(a.t, "Add", func() { a.queue.Add("late") })
	for item := range a.many {
		a.queue.Done(item)
		a.model.done(name(item), a.modelled())
	}
	for !a.t.Failed() {
		var item any
		var shutdown bool
		call(a.t, "Get", func() { item, shutdown = a.queue.Get() })
		want := a.model.take()
		if shutdown != (want == "") || !shutdown && name(item) != want {
			a.t.Errorf("in the end: got %v, %v; want %q", item, shutdown, want)
		}
		if shutdown {
			break
		}
		a.queue.Done(item)
		a.model.done(name(item), a.modelled())
	}
	call(a.t, "ShutDownWithDrain", a.queue.ShutDownWithDrain)
	call(a.t, "ShutDown", a.queue.ShutDown)
}
