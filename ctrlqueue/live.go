package ctrlqueue

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// live has the queues of the process that have not ended, by the names of their
// controllers, the youngest last: a program that makes its manager anew has two queues of
// one name for a moment. The pointers are weak, so that a queue which was dropped without a
// shutdown is garbage.
var live = struct {
	mu     sync.Mutex
	queues map[string][]*entry // guarded by mu
}{queues: make(map[string][]*entry)}

// An entry is a queue of any type of items.
type entry struct {
	get func() any // a *Queue[R], nil once the queue is garbage
}

// register makes the queue known by its name, until release is called or the queue is
// garbage. A queue without a name is not known.
func register[R comparable](q *Queue[R]) (release func()) {
	if q.name == "" {
		return func() {}
	}
	pointer := weak.Make(q)
	e := &entry{get: func() any {
		if q := pointer.Value(); q != nil {
			return q
		}
		return nil
	}}
	live.mu.Lock()
	defer live.mu.Unlock()
	live.queues[q.name] = append(live.queues[q.name], e)
	name := q.name
	runtime.AddCleanup(q, func(e *entry) { unregister(name, e) }, e)
	return func() { unregister(name, e) }
}

func unregister(name string, e *entry) {
	live.mu.Lock()
	defer live.mu.Unlock()
	left := slices.DeleteFunc(live.queues[name], func(other *entry) bool { return other == e })
	if len(left) == 0 {
		delete(live.queues, name)
		return
	}
	live.queues[name] = left
}

// Lookup returns the queue of the controller with that name, and false if there is
// none: its controller does not run, is on another queue, or has items of another
// type. Of several the youngest is returned.
func Lookup[R comparable](name string) (*Queue[R], bool) {
	live.mu.Lock()
	defer live.mu.Unlock()
	for _, e := range slices.Backward(live.queues[name]) {
		if q, ok := e.get().(*Queue[R]); ok {
			return q, true
		}
	}
	return nil, false
}

// Names returns the names of the controllers whose queues are of this package and have not ended, sorted.
// A queue that is being drained has not ended.
func Names() []string {
	live.mu.Lock()
	defer live.mu.Unlock()
	return slices.Sorted(maps.Keys(live.queues))
}
