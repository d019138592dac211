//go:build explore

package explore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/explore"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A program is what each goroutine calls: a verb, and mostly an item. The verb Work is a Get and the Done
// of its item.
type program [][]string

// A kind is a queue with certain options, and the specification of it.
type kind struct {
	rules spec.Rules[string]
	make  func(clock *testingclock.FakeClock) queue
}

// A queue is what programs call.
type queue interface {
	Add(item string)
	AddAll(items ...string) (taken int)
	AddWith(options workqueue.AddOptions, items ...string) (taken int)
	Get() (item string, shutdown bool)
	GetContext(ctx context.Context) (string, error)
	TryGet() (item string, ok bool)
	Done(item string)
	Len() int
	Remove(item string) bool
	RemoveFunc(del func(item string) bool) (removed int)
	ReAddContext(ctx context.Context, item string) (context.Context, context.CancelFunc)
	WaitIdle(ctx context.Context) error
	Barrier(ctx context.Context) error
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
	Snapshot(limit int) workqueue.Snapshot[string]
}

// tick is how far the verb Step moves the clock, and how long AddAfter waits.
const tick = time.Second

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A trial is a schedule of a program in play.
type trial struct {
	e     *explore.Explorer
	kind  *kind
	clock *testingclock.FakeClock
	q     queue

	ctx, life    context.Context // ctx is that of GetContext; life ends with the schedule
	cancel, over context.CancelFunc

	held    []string  // by each goroutine: what Take has got
	handled int       // items that the handler of Run has had
	since   int       // the step in which the handler has ended
	events  [][]event // of each goroutine, and of the worker of Run
	open    []*event  // the call that each goroutine is in; nil for none
}

// An event is a call of a program, or a part of a call, with its result. It has happened after the
// step from, and not after the step to.
type event struct {
	verb, item string
	part       part
	thread     int
	result     string
	from, to   int
}

// A part is that of a call. A call that took one step is whole.
type part string

const (
	whole  part = ""
	begins part = " begins"
	goesOn part = " goes on"
	ends   part = " ends"
)

func (v event) String() string {
	s := strings.TrimSpace(v.verb+" "+v.item) + string(v.part)
	if v.result != "" {
		s += " = " + v.result
	}
	return s
}

const never = 1 << 30

// play plays all schedules of a program, and returns what is wrong with the first bad one.
func play(t *testing.T, e *explore.Explorer, k *kind, p program) (problem string) {
	synctest.Test(t, func(t *testing.T) {
		var r *trial
		e.Each(func() { r = begin(e, k, p) }, func() bool {
			problem = r.judge()
			if problem != "" {
				// A fault can keep goroutines blocked, and the bubble panics then.
				t.Errorf("%q, schedule %d: %s", p, e.Schedules, problem)
			}
			r.end()
			return problem == ""
		})
	})
	return problem
}

func begin(e *explore.Explorer, k *kind, p program) *trial {
	clock := testingclock.NewFakeClock(epoch)
	r := &trial{
		e: e, kind: k, clock: clock, q: k.make(clock),
		held: make([]string, len(p)), events: make([][]event, len(p)+1), open: make([]*event, len(p)),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.life, r.over = context.WithCancel(context.Background())
	for i, calls := range p {
		e.Go(func() {
			for _, c := range calls {
				verb, item, _ := strings.Cut(c, " ")
				r.call(i, verb, item)
			}
		})
	}
	return r
}

// end releases the goroutines that are blocked in a call. With a Pace, each needs a token.
func (r *trial) end() {
	r.cancel()
	r.over()
	r.q.ShutDown()
	synctest.Wait()
	for range 2 * int(r.kind.rules.Burst*float64(len(r.open))) {
		r.clock.Step(tick)
		synctest.Wait()
	}
}

// call makes a call, and notes the event.
func (r *trial) call(i int, verb, item string) {
	if verb == "Work" || verb == "Watched" {
		r.call(i, "Take", "")
		if r.held[i] != "" {
			if verb == "Watched" {
				r.call(i, "Watch", r.held[i])
			}
			r.call(i, "Done", r.held[i])
		}
		return
	}
	r.e.Begin(i, !verbs[verb].early)
	v := &event{verb: verb, item: item, thread: i, from: r.e.Now(), to: never}
	before := len(r.events[i])
	if verbs[verb].begin != nil {
		v.part = begins
		r.events[i] = append(r.events[i], *v)
		v.part = ends
	}
	if verbs[verb].middle != nil {
		v.part = goesOn
		r.events[i] = append(r.events[i], *v)
		v.part = ends
	}
	r.open[i] = v
	v.result = verbs[verb].call(r, i, item)
	v.to = r.e.Now()
	r.open[i] = nil
	if v.from == v.to {
		r.events[i] = r.events[i][:before]
		v.part = whole
	}
	for j := range r.events[i][before:] {
		r.events[i][before+j].to = v.to
	}
	r.events[i] = append(r.events[i], *v)
}

// run is the verb Run.
func (r *trial) run() error {
	q := r.q.(workqueue.TypedRateLimitingInterface[string])
	silent := logr.Discard()
	return workqueue.Run(r.life, q, r.handle, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep, Logger: &silent})
}

// handle is the handler of Run. It notes the events of the worker: what follows the handler has happened
// when the handler gets the next item.
func (r *trial) handle(_ context.Context, item string) error {
	worker := len(r.events) - 1
	now := r.e.Now()
	note := func(v event) {
		v.thread, v.from = worker, r.since
		r.events[worker] = append(r.events[worker], v)
	}
	for i := range r.events[worker] {
		v := &r.events[worker][i]
		v.to = min(v.to, now)
	}
	note(event{verb: "Take", result: item, to: now})
	r.since = now
	r.handled++
	if r.handled > 1 {
		note(event{verb: "Done", item: item, to: never})
		return nil
	}
	note(event{verb: "Fail", item: item, part: begins, to: never})
	note(event{verb: "Fail", item: item, part: ends, to: never})
	note(event{verb: "Done", item: item, to: never})
	return errors.New("the first item fails")
}

// judge reports what is wrong with a schedule that has ended.
func (r *trial) judge() string {
	var open []event
	parked := 0
	for _, v := range r.open {
		if v != nil {
			open = append(open, *v)
			if verbs[v.verb].parks {
				parked++
			}
		}
	}
	if r.e.Locked() {
		return fmt.Sprintf("a lock is held for ever beside %v", open)
	}
	if n := parkedOf(r.q); n != parked {
		return fmt.Sprintf("the queue counts %d parked workers, and %d are blocked", n, parked)
	}
	all := slices.Concat(r.events...)
	left := r.q.Snapshot(-1)
	if s := newState(r.kind.rules); !s.explains(all, open, &left) {
		slices.SortStableFunc(all, func(a, b event) int { return a.from - b.from })
		return fmt.Sprintf("the specification does not allow %v, then blocked %v, then left %v", all, open, brief(&left))
	}
	return ""
}

// parkedOf returns how many workers the Typed of a queue counts as parked.
func parkedOf(q queue) int {
	v := reflect.ValueOf(q).Elem()
	for v.FieldByName("parked") == (reflect.Value{}) {
		v = v.FieldByName("queue").Elem().Elem()
	}
	return int(v.FieldByName("parked").Int())
}

func brief(s *workqueue.Snapshot[string]) string {
	var b strings.Builder
	for _, list := range [][]workqueue.ItemInfo[string]{s.Queued, s.InFlight, s.Waiting} {
		for _, i := range list {
			fmt.Fprintf(&b, "%s %v, ", i.Item, i.State)
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}
