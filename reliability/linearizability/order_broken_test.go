package linearizability

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/seed16c08ea7/workqueue"
)

// An adapter is an ordered queue that misbehaves each fourth time.
type adapter struct {
	ordered
	mu    sync.Mutex
	calls int // guarded by mu
}

func (a *adapter) goesWrong() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	return a.calls%4 == 3
}

// A deaf queue carries a Done out late: at the next Done.
type deaf struct {
	adapter
	late []int8
}

func (d *deaf) Done(item int8) {
	if d.goesWrong() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.late = append(d.late, item)
		return
	}
	d.ordered.Done(item)
	d.mu.Lock()
	late := d.late
	d.late = nil
	d.mu.Unlock()
	for _, item := range late {
		d.ordered.Done(item)
	}
}

// A skipping queue makes a group lose a turn: the next item goes behind the others.
type skipping struct{ adapter }

func (s *skipping) Get() (item int8, shutdown bool) {
	item, shutdown = s.ordered.Get()
	if !shutdown && s.goesWrong() {
		s.Add(item)
		s.Done(item)
		return s.ordered.Get()
	}
	return item, shutdown
}

// A mute queue drops the priority of an add.
type mute struct{ adapter }

func (m *mute) AddWith(options workqueue.AddOptions, items ...int8) int {
	if m.goesWrong() {
		options.Priority = nil
	}
	return m.ordered.AddWith(options, items...)
}

// A fickle queue moves a queued item to the end when the item is added again.
type fickle struct{ adapter }

func (f *fickle) Add(item int8) {
	if f.goesWrong() {
		f.Remove(item)
	}
	f.ordered.Add(item)
}

// A level queue raises nothing: a queued item keeps its priority.
type level struct{ adapter }

func (l *level) AddWith(options workqueue.AddOptions, items ...int8) int {
	for _, info := range l.Snapshot(maxItems).Queued {
		if info.Item == items[0] {
			return len(items)
		}
	}
	return l.ordered.AddWith(options, items...)
}

// The control of the check of the orders: a queue whose Order has another shape than the
// specification, or that misbehaves at times, has illegal histories.
func TestBrokenOrdersHaveIllegalHistories(t *testing.T) {
	weighted := shape{groups: 3, weights: true}
	limited := shape{groups: 3, weights: true, limits: true}
	everything := shape{every: 2, groups: 2, weights: true, limits: true, groupsFirst: true}
	as := func(k shape, change func(*shape)) func(shape) queue {
		change(&k)
		return func(shape) queue { return newOrdered(k) }
	}
	for name, test := range map[string]struct {
		shape shape
		open  func(shape) queue
	}{
		"the oldest comes too late":  {shape{every: 2}, as(shape{}, func(k *shape) { k.every = 3 })},
		"the oldest comes too early": {shape{every: 4}, as(shape{}, func(k *shape) { k.every = 3 })},
		"the oldest of a group comes too late": {
			everything, as(everything, func(k *shape) { k.every = 3 })},
		"the function is not asked":    {shape{asks: true}, as(shape{}, func(*shape) {})},
		"a priority is lost":           {shape{}, func(k shape) queue { return &mute{adapter{ordered: newOrdered(k)}} }},
		"an item is not raised":        {shape{}, func(k shape) queue { return &level{adapter{ordered: newOrdered(k)}} }},
		"a second add moves an item":   {shape{}, func(k shape) queue { return &fickle{adapter{ordered: newOrdered(k)}} }},
		"the groups are others":        {weighted, as(weighted, func(k *shape) { k.groups = 2 })},
		"the groups do not come first": {shape{groups: 2, groupsFirst: true}, as(shape{groups: 2}, func(*shape) {})},
		"the groups come first":        {shape{groups: 2}, as(shape{groups: 2}, func(k *shape) { k.groupsFirst = true })},
		"a group loses a turn":         {weighted, func(k shape) queue { return &skipping{adapter{ordered: newOrdered(k)}} }},
		"a weight is not heard":        {weighted, as(weighted, func(k *shape) { k.weights = false })},
		"a weight is not heard, groups first": {
			everything, as(everything, func(k *shape) { k.weights = false })},
		"a limit is not heard": {limited, as(limited, func(k *shape) { k.limits = false })},
		"a limit is not heard, groups first": {
			everything, as(everything, func(k *shape) { k.limits = false })},
		"a limit that nobody has set": {weighted, as(weighted, func(k *shape) { k.limits = true })},
		"a Done is heard late":        {limited, func(k shape) queue { return &deaf{adapter: adapter{ordered: newOrdered(k)}} }},
		"a Done is heard late, groups first": {
			everything, func(k shape) queue { return &deaf{adapter: adapter{ordered: newOrdered(k)}} }},
	} {
		t.Run(name, func(t *testing.T) {
			n, illegal := manyHistories(), 0
			for i := range n {
				l := randomLoad(rand.New(rand.NewPCG(3, uint64(i))), true)
				l.drains, l.waits = 0, 0 // A wait for a Done that a deaf queue keeps would last as long as record allows.
				ops, ended := record(test.open(test.shape), l)
				if !ended || !porcupine.CheckOperations(model(test.shape), ops) {
					illegal++
				}
				if illegal == enough {
					t.Logf("the fourth illegal history is number %d", i)
					return
				}
			}
			t.Errorf("%d of %d histories are illegal", illegal, n)
		})
	}
}
