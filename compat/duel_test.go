package compat_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
)

// queue is the widest interface that both packages have.
type queue = clientgo.TypedRateLimitingInterface[string]

// side is one of the two queues of a duel, with the facts that the queue does not tell.
type side struct {
	queue
	limiter *limiterProbe
	meter   *meter
	drained atomic.Bool
}

// duel applies one sequence of operations to both sides and compares whatever a
// caller could observe. It keeps no model of a queue: each side is the other's.
// What it does keep is the little needed to tell a known difference, numbered as
// in the package's list of differences, from an unknown one:
//
//	D1  their drain may return early, ours must not: see compareDrain
//	D2  Done of an item nobody holds goes to ours only: see done
//	D3  one drain per duel, since their second may never return: see drain
//	D4  their loop outlives a drain, so every duel ends with ShutDown: see end
//	D5  their AddAfter takes effect later, so every operation settles: see play
//	D6  lateness under a flood cannot show where every operation settles
//	D7  items due at one instant leave theirs in any order: see get
//	D8  a base delay which is no power of two keeps clear of it: see newLimiters
type duel struct {
	theirs, ours *side
	advance      func(time.Duration)

	held map[string]bool

	// down, draining and forced say which of ShutDown, ShutDownWithDrain and
	// ShutDown again have been called; late that the first two came in this order.
	down, draining, forced, late bool

	// now counts from the start, calls the delays that came to count. due has the
	// items which wait; tied the pairs which came due together, by the order of
	// their AddAfter, until one of the two is handed out.
	now   time.Duration
	calls int
	due   map[string]deadline
	tied  map[pair]bool
}

type (
	deadline struct {
		at   time.Duration
		call int
	}
	pair struct{ first, second string }
)

// play runs ops until the first difference, and returns it.
func (d *duel) play(ops []op) error {
	d.held = make(map[string]bool)
	d.due, d.tied = make(map[string]deadline), make(map[pair]bool)
	defer d.end()
	if want, got := d.theirs.meter.names(), d.ours.meter.names(); len(got) > 0 && !slices.Equal(want, got) {
		return fmt.Errorf("metrics made: want %q, got %q", want, got)
	}
	for i, o := range ops {
		if err := d.step(o); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, o, err)
		}
	}
	if err := d.workOff(); err != nil {
		return fmt.Errorf("working off what is left: %w", err)
	}
	return nil
}

// step returns when everything is at rest. D5: AddAfter of client-go hands over to a goroutine, so
// an earlier comparison would be a race. Wait is exact, and needs no duration.
func (d *duel) step(o op) error {
	if err := d.apply(o); err != nil {
		return err
	}
	synctest.Wait()
	return d.compare()
}

func (d *duel) apply(o op) error {
	switch o.verb {
	case '+':
		d.both(func(s *side) { s.Add(o.item) })
	case '>':
		d.both(func(s *side) { s.AddAfter(o.item, o.d) })
		d.wait(o.item, o.d)
	case '^':
		return d.addRateLimited(o.item)
	case '-':
		d.both(func(s *side) { s.Forget(o.item) })
	case 'g':
		return d.get()
	case 'd':
		d.done(o.item)
	case 't':
		d.advance(o.d)
		d.deliver(o.d)
	case '!':
		d.both(func(s *side) { s.ShutDown() })
		d.down, d.forced = true, d.draining
		clear(d.due)
	case '~':
		d.drain()
	}
	return nil
}

func (d *duel) both(call func(*side)) {
	call(d.theirs)
	call(d.ours)
}

func (d *duel) addRateLimited(item string) error {
	d.both(func(s *side) { s.AddRateLimited(item) })
	if want, got := d.theirs.limiter.last, d.ours.limiter.last; want != got {
		return fmt.Errorf("want a delay of %v, got %v", want, got)
	}
	d.wait(item, d.theirs.limiter.last)
	return nil
}

// get takes one item from each side. D7: items that came due together leave our queue in the order
// of their AddAfter, and client-go's in any order. So once the two differ, get goes on until both
// have handed out the same set.
func (d *duel) get() error {
	apart := make(map[string]*side)
	for first := true; first || len(apart) > 0; first = false {
		if d.theirs.Len() == 0 && !d.theirs.ShuttingDown() {
			if !first {
				return fmt.Errorf("not handed out by both: %v", slices.Sorted(maps.Keys(apart)))
			}
			return nil
		}
		want, wantDown := d.theirs.Get()
		got, gotDown := d.ours.Get()
		if wantDown != gotDown {
			return fmt.Errorf("want %q, %t, got %q, %t", want, wantDown, got, gotDown)
		}
		if wantDown {
			return nil
		}
		d.took(d.theirs, want, apart)
		for item, ahead := range apart {
			if item != got && ahead == d.theirs && !d.tied[pair{got, item}] {
				return fmt.Errorf("want %q, got %q", item, got)
			}
		}
		d.took(d.ours, got, apart)
	}
	return nil
}

// took has the items that only one side has handed out, by side.
func (d *duel) took(s *side, item string, apart map[string]*side) {
	d.held[item] = true
	if apart[item] == nil {
		apart[item] = s
		return
	}
	delete(apart, item)
	maps.DeleteFunc(d.tied, func(p pair, _ bool) bool { return p.first == item || p.second == item })
}

// done gives a Done without a Get to our queue alone. D2: client-go's queue would queue the item
// once more, and hand it to two workers. Ours must show no change.
func (d *duel) done(item string) {
	if d.held[item] {
		d.theirs.Done(item)
	}
	d.ours.Done(item)
	delete(d.held, item)
}

func (d *duel) drain() {
	if d.draining {
		return
	}
	d.draining, d.late = true, d.down
	clear(d.due)
	d.both(func(s *side) {
		go func() {
			s.ShutDownWithDrain()
			s.drained.Store(true)
		}()
	})
}

// wait notes the promise of AddAfter: of several delays of an item the earliest counts, and a zero
// or negative delay is no delay.
func (d *duel) wait(item string, delay time.Duration) {
	if delay <= 0 || d.theirs.ShuttingDown() {
		return
	}
	at := d.now + delay
	if at < d.now {
		at = math.MaxInt64
	}
	if present, ok := d.due[item]; !ok || at < present.at {
		d.calls++
		d.due[item] = deadline{at: at, call: d.calls}
	}
}

// deliver notes the ties among the items that the step has brought. An item that was queued already
// keeps its place, and is noted all the same: so few wrong orders are excused, and the duel needs
// no model of the queue.
func (d *duel) deliver(step time.Duration) {
	d.now += step
	arrived := maps.Clone(d.due)
	maps.DeleteFunc(arrived, func(_ string, due deadline) bool { return due.at > d.now })
	for item, due := range arrived {
		delete(d.due, item)
		for other, later := range arrived {
			if due.at == later.at && due.call < later.call {
				d.tied[pair{item, other}] = true
			}
		}
	}
}

func (d *duel) compare() error {
	if want, got := d.theirs.Len(), d.ours.Len(); want != got {
		return fmt.Errorf("Len: want %d, got %d", want, got)
	}
	if want, got := d.theirs.ShuttingDown(), d.ours.ShuttingDown(); want != got {
		return fmt.Errorf("ShuttingDown: want %t, got %t", want, got)
	}
	if want, got := d.theirs.meter.flush(), d.ours.meter.flush(); want != got && len(d.ours.meter.made) > 0 {
		return fmt.Errorf("metrics: want %q, got %q", want, got)
	}
	for _, item := range items {
		if want, got := d.theirs.NumRequeues(item), d.ours.NumRequeues(item); want != got {
			return fmt.Errorf("NumRequeues(%s): want %d, got %d", item, want, got)
		}
	}
	return d.compareDrain()
}

// compareDrain compares our drain with the documentation: a drain ends when nothing is queued or in
// flight, or when ShutDown forces the end. Client-go's drain gives a bound only: a drain that has
// ended here must have ended there. D1: client-go's drain ends with items still queued. It also
// cannot be forced if a ShutDown came before the drain: the delaying layer passes on the first
// ShutDown only.
func (d *duel) compareDrain() error {
	complete := d.draining && d.ours.Len()+len(d.held) == 0
	if want, got := complete || d.forced, d.ours.drained.Load(); want != got {
		return fmt.Errorf("ShutDownWithDrain returned: want %t, got %t (queued %d, held %d, forced %t)",
			want, got, d.ours.Len(), len(d.held), d.forced)
	}
	if (complete || d.forced && !d.late) && !d.theirs.drained.Load() {
		return fmt.Errorf("ShutDownWithDrain returned: want false, got true")
	}
	return nil
}

// workOff empties both queues, because a difference in the rest, or in its order, is a difference
// too.
func (d *duel) workOff() error {
	for _, step := range steps {
		if err := d.step(op{verb: 't', d: step}); err != nil {
			return err
		}
	}
	for d.theirs.Len()+len(d.held) > 0 {
		for range max(1, d.theirs.Len()) {
			if err := d.step(op{verb: 'g'}); err != nil {
				return err
			}
		}
		for _, item := range items {
			if err := d.step(op{verb: 'd', item: item}); err != nil {
				return err
			}
		}
	}
	return nil
}

// end leaves no goroutine behind, which the bubble would report. D4: client-go's loop only stops
// for ShutDown. Its drain may only return for Done, see compareDrain.
func (d *duel) end() {
	for item := range d.held {
		d.both(func(s *side) { s.Done(item) })
	}
	d.both(func(s *side) { s.ShutDown() })
}
