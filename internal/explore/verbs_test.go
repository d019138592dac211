//go:build explore

package explore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A verb is a call of a queue, and what the specification says of the call.
type verb struct {
	call func(r *trial, i int, item string) (result string)

	// begin is what a call does that goes on later, and returns a ticket; nil for other calls. middle
	// is a part in between, or nil. end is the rest of the call, or the whole call. It reports false
	// while the call blocks.
	begin  func(s *state, item string) (ticket int)
	middle func(s *state, item string, ticket int) int
	end    func(s *state, item string, ticket int) (result string, returns bool)

	parks bool // a goroutine that is blocked in the call is a parked worker
	early bool // the call can wake others before its first lock, or has no lock
}

// told makes a verb of a call that always returns.
func told(call func(r *trial, i int, item string) string, says func(s *state, item string) string) verb {
	return verb{call: call, end: func(s *state, item string, _ int) (string, bool) { return says(s, item), true }}
}

// quiet makes a verb of a call without a result.
func quiet(call func(r *trial, item string), does func(s *state, item string)) verb {
	return told(
		func(r *trial, _ int, item string) string { call(r, item); return "" },
		func(s *state, item string) string { does(s, item); return "" })
}

// delays makes a verb of a call with a delay. The call reads the clock before it takes the lock.
func delays(call func(r *trial, item string) (taken bool), does func(s *state, item string)) verb {
	return verb{
		call:  func(r *trial, _ int, item string) string { return fmt.Sprint(call(r, item)) },
		begin: (*state).readClock,
		end: func(s *state, item string, at int) (string, bool) {
			s.setBack(at, func() { does(s, item) })
			return fmt.Sprint(!s.Down), true
		},
	}
}

func (s *state) readClock(string) (at int) { return int(s.Now) }

// setBack makes a call with a time that was read before.
func (s *state) setBack(at int, call func()) {
	now := s.Now
	s.Now = time.Duration(at)
	call()
	s.Now = now
}

func early(v verb) verb { v.early = true; return v }

// A delayer is a queue with delays.
type delayer interface {
	Reschedule(item string, d time.Duration) bool
	Debounce(item string, quiet, maxWait time.Duration) bool
	WaitEmpty(ctx context.Context) error
	Wake(items ...string) int
	Find(item string) (workqueue.ItemInfo[string], bool)
}

var verbs = map[string]verb{
	"Add": quiet(
		func(r *trial, item string) { r.q.Add(item) },
		func(s *state, item string) { s.Add(item, spec.Place{}) }),
	"AddAll": quiet(
		func(r *trial, items string) { r.q.AddAll(strings.Split(items, ",")...) },
		func(s *state, items string) {
			for _, item := range strings.Split(items, ",") {
				s.Add(item, spec.Place{})
			}
		}),
	"Done": quiet(
		func(r *trial, item string) { r.q.Done(item) },
		func(s *state, item string) { s.Done(item) }),
	"Len": told(
		func(r *trial, _ int, _ string) string { return fmt.Sprint(r.q.Len()) },
		func(s *state, _ string) string { return fmt.Sprint(s.Len()) }),
	"Down": early(told(
		func(r *trial, _ int, _ string) string { return fmt.Sprint(r.q.ShuttingDown()) },
		func(s *state, _ string) string { return fmt.Sprint(s.Down) })),
	"Remove": told(
		func(r *trial, _ int, item string) string { return fmt.Sprint(r.q.Remove(item)) },
		func(s *state, item string) string { return fmt.Sprint(s.Remove(item)) }),

	"Urgent": told(
		func(r *trial, _ int, item string) string {
			return fmt.Sprint(r.q.AddWith(workqueue.AddOptions{Priority: &urgent}, item) == 1)
		},
		func(s *state, item string) string {
			s.Add(item, spec.Place{Priority: urgent, Named: true})
			return fmt.Sprint(!s.Down)
		}),
	// RemoveFunc looks at the queue first, then at the items that wait, and at last at those that have
	// become due meanwhile. It may remove an item once more that was added meanwhile: the result tells.
	"RemoveFunc": {
		call: func(r *trial, _ int, item string) string {
			return fmt.Sprint(r.q.RemoveFunc(func(i string) bool { return i == item }))
		},
		begin: func(s *state, item string) (ticket int) {
			_, held := s.Held[item]
			return 100*len(s.moved) + s.removeIf(held || s.Pending(item), item)
		},
		middle: func(s *state, item string, ticket int) int {
			waits := slices.ContainsFunc(s.Waiting, func(w spec.Wait[string]) bool { return w.Value == item })
			return ticket + s.removeIf(waits, item)
		},
		end: func(s *state, item string, ticket int) (string, bool) {
			removed := ticket % 100
			due := slices.Contains(s.moved[ticket/100:], item)
			removed += s.removeIf(due || fmt.Sprint(removed) != s.result, item)
			return fmt.Sprint(removed), true
		},
	},

	// The context of Watch has ended, or not, when the goroutine goes on after another point.
	"Watch": {
		call: func(r *trial, _ int, item string) string {
			ctx, cancel := r.q.ReAddContext(context.Background(), item)
			defer cancel()
			r.e.Point()
			return errorOf(context.Cause(ctx))
		},
		begin: func(s *state, item string) int {
			before := len(s.Told)
			s.Watch(item)
			return before
		},
		end: func(s *state, item string, before int) (result string, _ bool) {
			for _, told := range s.Told[before:] {
				switch {
				case told.Item != item:
				case told.Removed:
					result = "removed"
				default:
					result = "re-added"
				}
			}
			return result, true
		},
	},

	// Run has one worker. Its handler fails with the first item, and succeeds with the others. The verbs
	// of the worker are Take, Fail and Done. A queue that is shut down at the call ends Run at once.
	"Run": {
		call: func(r *trial, _ int, _ string) string { return errorOf(r.run()) },
		begin: func(s *state, _ string) (late int) {
			if s.Down {
				late = 1
			}
			return late
		},
		end: func(s *state, _ string, late int) (string, bool) {
			if late == 0 && s.Ready() {
				return "an item that nobody handles", true
			}
			return "shutdown", s.Down
		},
		parks: true,
	},
	"Fail": {begin: (*state).readClock, end: func(s *state, item string, at int) (string, bool) {
		s.setBack(at, func() { s.Conclude(item, spec.Leaf{Kind: spec.Failure}) })
		return "", true
	}},

	"Get": {call: get(false), end: takes, parks: true},
	"Take": {call: func(r *trial, i int, _ string) string {
		item := get(false)(r, i, "")
		r.held[i] = strings.TrimPrefix(item, "shutdown")
		return item
	}, end: takes, parks: true},
	"GetContext": {
		call: get(true),
		begin: func(s *state, _ string) (late int) { // A context that ended before the call comes before an item.
			if s.cancelled {
				late = 1
			}
			return late
		},
		end: func(s *state, item string, late int) (string, bool) {
			if late == 1 {
				return "canceled", true
			}
			return takes(s, item, 0)
		},
		parks: true,
	},
	"TryGet": told(
		func(r *trial, _ int, _ string) string { item, _ := r.q.TryGet(); return item },
		func(s *state, _ string) string { i, _ := s.Get(); return i.Value }),
	"Cancel": early(quiet(
		func(r *trial, _ string) { r.cancel() },
		func(s *state, _ string) { s.cancelled = true })),

	"ShutDown": quiet(
		func(r *trial, _ string) { r.q.ShutDown() },
		func(s *state, _ string) { s.ShutDown() }),
	"Drain": {
		call:  func(r *trial, _ int, _ string) string { r.q.ShutDownWithDrain(); return "" },
		begin: func(s *state, _ string) int { return s.Drain() },
		end:   func(s *state, _ string, ticket int) (string, bool) { return "", s.Drained(ticket) },
	},
	"Idle": {
		call: func(r *trial, _ int, _ string) string { return errorOf(r.q.WaitIdle(r.life)) },
		end:  func(s *state, _ string, _ int) (string, bool) { return "", s.Idle() },
	},
	"Empty": {
		call: func(r *trial, _ int, _ string) string { return errorOf(r.q.(delayer).WaitEmpty(r.life)) },
		end:  func(s *state, _ string, _ int) (string, bool) { return "", s.Empty() },
	},
	"Barrier": {
		call:  func(r *trial, _ int, _ string) string { return errorOf(r.q.Barrier(r.life)) },
		begin: func(s *state, _ string) int { return s.Barrier() },
		end:   func(s *state, _ string, ticket int) (string, bool) { return "", s.Over(ticket) },
	},

	"AddAfter": delays(
		func(r *trial, item string) bool {
			return r.q.AddWith(workqueue.AddOptions{After: tick}, item) == 1
		},
		func(s *state, item string) { s.Later(spec.After, item, tick, 0, spec.Place{}) }),
	"Firm": delays(
		func(r *trial, item string) bool {
			return r.q.AddWith(workqueue.AddOptions{After: tick, Firm: true}, item) == 1
		},
		func(s *state, item string) { s.Later(spec.Firm, item, tick, 0, spec.Place{}) }),
	"Wake": told(
		func(r *trial, _ int, item string) string { return fmt.Sprint(r.q.(delayer).Wake(item) == 1) },
		func(s *state, item string) string { return fmt.Sprint(s.Wake(item)) }),
	"Find": told(
		func(r *trial, _ int, item string) string {
			info, ok := r.q.(delayer).Find(item)
			return fmt.Sprint(ok, info.State, !info.Due.IsZero(), info.Firm)
		},
		func(s *state, item string) string {
			h, held := s.Held[item]
			at := slices.IndexFunc(s.Waiting, func(w spec.Wait[string]) bool { return w.Value == item })
			state := workqueue.ItemState(0)
			switch {
			case h.Marked:
				state = workqueue.ItemInFlightAgain
			case held:
				state = workqueue.ItemInFlight
			case s.Pending(item):
				state = workqueue.ItemQueued
			case at >= 0:
				state = workqueue.ItemWaiting
			}
			return fmt.Sprint(state > 0, state, at >= 0, s.WaitsFirmly(item))
		}),
	"Reschedule": delays(
		func(r *trial, item string) bool { return r.q.(delayer).Reschedule(item, 2*tick) },
		func(s *state, item string) { s.Later(spec.Reschedule, item, 2*tick, 0, spec.Place{}) }),
	"Hurry": delays(
		func(r *trial, item string) bool { return r.q.(delayer).Reschedule(item, 0) },
		func(s *state, item string) { s.Later(spec.Reschedule, item, 0, 0, spec.Place{}) }),
	"Debounce": delays(
		func(r *trial, item string) bool { return r.q.(delayer).Debounce(item, tick, time.Minute) },
		func(s *state, item string) { s.Later(spec.Debounce, item, tick, time.Minute, spec.Place{}) }),
	"Step": early(quiet(
		func(r *trial, _ string) { r.clock.Step(tick) },
		func(s *state, _ string) { s.Advance(tick) })),
}

var urgent = 1

func (s *state) removeIf(found bool, item string) (removed int) {
	if found && s.Remove(item) {
		return 1
	}
	return 0
}

func get(withContext bool) func(r *trial, i int, _ string) string {
	return func(r *trial, _ int, _ string) string {
		if !withContext {
			item, shutdown := r.q.Get()
			if shutdown {
				return "shutdown"
			}
			return item
		}
		item, err := r.q.GetContext(r.ctx)
		if err != nil {
			return errorOf(err)
		}
		return item
	}
}

// takes is each Get for the specification.
func takes(s *state, _ string, _ int) (result string, returns bool) {
	if i, ok := s.Get(); ok {
		return i.Value, true
	}
	return "shutdown", s.Down && !s.Ready()
}

func errorOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, workqueue.ErrShutDown):
		return "shutdown"
	case errors.Is(err, workqueue.ErrReAdded):
		return "re-added"
	case errors.Is(err, workqueue.ErrRemoved):
		return "removed"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return err.Error()
}

// A state is that of the specification, after some events.
type state struct {
	*spec.Run[string]
	tickets   map[int]int // of the goroutines in the second half of a call
	moved     []string    // items that have become due
	result    string      // of the call in question
	cancelled bool        // the context of GetContext
	grouped   bool
}

func newState(rules spec.Rules[string]) *state {
	// The limiter has each item wait for a tick.
	when := func(string, int) time.Duration { return tick }
	return &state{Run: spec.NewRun(spec.New(rules), when), tickets: map[int]int{}, grouped: rules.Place != nil}
}

// clone begins the counts of failures anew: one hand-out of a program fails, and nothing counts after it.
func (s *state) clone() *state {
	return &state{Run: spec.NewRun(s.Queue.Clone(), s.When), tickets: maps.Clone(s.tickets), moved: slices.Clone(s.moved), cancelled: s.cancelled, grouped: s.grouped}
}

// explains reports whether there is an order of the events that the specification allows, after which
// each open call may block and the queue holds what is left. Items that are due can move at any time, and
// have moved at the end.
func (s *state) explains(events, open []event, left *workqueue.Snapshot[string]) bool {
	if len(s.Waiting) > 0 && s.Waiting[0].Due <= s.Now {
		next := s.clone()
		next.moved = append(next.moved, s.Waiting[0].Value)
		next.MoveDue()
		if next.explains(events, open, left) {
			return true
		}
		if len(events) == 0 {
			return false
		}
	}
	if len(events) == 0 {
		return !slices.ContainsFunc(open, func(v event) bool { return !s.mayBlock(v) }) && s.matches(left)
	}
	first := never
	for _, v := range events {
		first = min(first, v.to)
	}
	for i, v := range events {
		if v.from > first || slices.ContainsFunc(events[:i], func(o event) bool { return o.thread == v.thread }) {
			continue
		}
		next := s.clone()
		if next.allows(v) && next.explains(slices.Delete(slices.Clone(events), i, i+1), open, left) {
			return true
		}
	}
	return false
}

// allows makes a call of the specification, and reports whether the result is the same.
func (s *state) allows(v event) bool {
	b := verbs[v.verb]
	if b.begin != nil && (v.part == whole || v.part == begins) {
		s.tickets[v.thread] = b.begin(s, v.item)
	}
	if b.middle != nil && (v.part == whole || v.part == goesOn) {
		s.tickets[v.thread] = b.middle(s, v.item, s.tickets[v.thread])
	}
	if v.part == begins || v.part == goesOn {
		return true
	}
	if v.result == "canceled" {
		return s.cancelled
	}
	s.result = v.result
	result, returns := b.end(s, v.item, s.tickets[v.thread])
	return returns && result == v.result
}

func (s *state) mayBlock(v event) bool {
	if v.verb == "GetContext" && s.cancelled {
		return false
	}
	_, returns := verbs[v.verb].end(s.clone(), v.item, s.tickets[v.thread])
	return !returns
}

// matches compares what is left in the queue. The order of groups is not looked at.
func (s *state) matches(left *workqueue.Snapshot[string]) bool {
	line := s.Line()
	if s.grouped {
		slices.SortFunc(line, func(a, b spec.Item[string]) int { return cmp.Compare(a.Value, b.Value) })
		slices.SortFunc(left.Queued, func(a, b workqueue.ItemInfo[string]) int { return cmp.Compare(a.Item, b.Item) })
	}
	if len(line) != len(left.Queued) || len(s.Held) != len(left.InFlight) || len(s.Waiting) != len(left.Waiting) {
		return false
	}
	for i, item := range line {
		if left.Queued[i].Item != item.Value {
			return false
		}
	}
	for _, info := range left.InFlight {
		h, held := s.Held[info.Item]
		if !held || h.Marked != (info.State == workqueue.ItemInFlightAgain) {
			return false
		}
	}
	for _, info := range left.Waiting {
		due := info.Due.Sub(epoch)
		if !slices.ContainsFunc(s.Waiting, func(w spec.Wait[string]) bool { return w.Value == info.Item && w.Due == due }) {
			return false
		}
	}
	return true
}
