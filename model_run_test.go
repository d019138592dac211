package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file plays Run beside a model. A handler takes no time, so that an item comes when
// the queue says, whatever the workers do with the others: each has a history of its own,
// and the model is a loop over its calls.

// A runStep is one call of a handler: what it does to its item first, and what it returns.
type runStep struct {
	ops    []string // add, remove, forget
	leaves []leaf   // joined; none is nil
	ends   string   // returns, panics, exits
}

// A leaf is a part of an error. Those with a wait have one that no other leaf has, so
// that no two things happen at an instant.
type leaf struct {
	kind string
	wait time.Duration
}

func (l leaf) err(ctx context.Context) error {
	switch l.kind {
	case "err":
		return errFailed
	case "requeue":
		return workqueue.Requeue()
	case "requeue after":
		return workqueue.RequeueAfter(l.wait)
	case "retry after":
		return workqueue.RetryAfter(l.wait, errFailed)
	case "permanent":
		return workqueue.Permanent(errFailed)
	case "nothing":
		return joined{nil}
	}
	return ctx.Err()
}

func randomRunStep(rng *rand.Rand) (step runStep) {
	kinds := []string{"err", "err", "err", "requeue", "requeue after", "retry after", "permanent", "nothing", "ctx", "ctx", "ctx"}
	for range rng.IntN(3) {
		step.ops = append(step.ops, []string{"add", "add", "add", "remove", "forget"}[rng.IntN(5)])
	}
	for range []int{0, 1, 1, 1, 1, 2, 2, 3}[rng.IntN(8)] {
		l := leaf{kind: kinds[rng.IntN(len(kinds))]}
		if rng.IntN(4) > 0 {
			l.wait = time.Duration(1 + rng.Int64N(1e10))
		}
		step.leaves = append(step.leaves, l)
	}
	step.ends = []string{"returns", "returns", "returns", "returns", "panics", "exits"}[rng.IntN(6)]
	return step
}

func (s runStep) play(ctx context.Context, q *workqueue.TypedRateLimiting[int], item int) error {
	for _, op := range s.ops {
		switch op {
		case "add":
			q.Add(item)
		case "remove":
			q.Remove(item)
		case "forget":
			q.Forget(item)
		}
	}
	var errs []error
	for i, l := range s.leaves {
		err := l.err(ctx)
		if i == 1 && err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	switch s.ends {
	case "panics":
		panic(err)
	case "exits":
		return exits()
	}
	return err
}

// A runGame is a script for each item, and what the Run of it is like.
type runGame struct {
	kind     string // of the queue: ours, embedded, foreign
	options  workqueue.RunOptions[int]
	revives  bool   // OnGiveUp adds the item
	ends     string // what OnGiveUp and OnResult then do
	restarts []time.Duration
	scripts  [][]runStep
}

func randomRunGame(rng *rand.Rand) (g runGame) {
	g.kind = []string{"ours", "ours", "embedded", "foreign"}[rng.IntN(4)]
	g.options = workqueue.RunOptions[int]{
		Workers: 1 + rng.IntN(4), MaxAttempts: rng.IntN(5), KeepQueue: true, Logger: discard(),
		CancelOnReAdd: g.kind != "foreign" && rng.IntN(2) == 0, MaxCancels: rng.IntN(4),
		Timeout: time.Duration(rng.IntN(2)) * time.Hour, Grace: time.Duration(rng.IntN(2)) * time.Hour,
		ProfileLabels: rng.IntN(4) == 0,
	}
	g.revives = rng.IntN(2) == 0
	g.ends = []string{"returns", "panics", "exits"}[rng.IntN(3)]
	for range rng.IntN(4) {
		g.restarts = append(g.restarts, time.Duration(rng.Int64N(2e10)))
	}
	slices.Sort(g.restarts)
	for range 8 {
		var script []runStep
		for range rng.IntN(10) {
			step := randomRunStep(rng)
			script = append(script, slices.Repeat([]runStep{step}, 1+rng.IntN(5)*rng.IntN(2))...)
		}
		g.scripts = append(g.scripts, append(script, runStep{ends: "returns"}))
	}
	return g
}

// A modelItem is what there is to know of an item between two calls of its handler.
type modelItem struct {
	again    bool          // it is queued
	due      time.Duration // when it comes anyway; 0 is never
	attempts int           // failures in a row
	limited  int           // what the limiter counts
	cancels  int           // runs in a row that were cut short
}

// history is what the model makes of the script of an item.
func (g *runGame) history(script []runStep) (events []string) {
	m := modelItem{again: true}
	last := time.Duration(0)
	for now, step := time.Duration(0), 0; m.again || m.due > 0; step++ {
		if !m.again {
			now, m.due = m.due, 0
		}
		m.again = false
		restarted := slices.ContainsFunc(g.restarts, func(at time.Duration) bool { return last < at && at <= now })
		if last = now; restarted && g.kind == "foreign" { // The count is gone with the last Run.
			m.attempts = 0
		}
		r := g.outcome(&m, script[min(step, len(script)-1)], now)
		if r.Outcome == workqueue.OutcomeGivenUp && g.revives {
			m.again = true
		}
		events = append(events, eventOf(now, r))
	}
	return events
}

func eventOf(at time.Duration, r workqueue.Result) string {
	return fmt.Sprintf("%v: %v, %d failures, %v %v", at, r.Outcome, r.Failures, r.Again, r.After)
}

func (g *runGame) outcome(m *modelItem, step runStep, now time.Duration) workqueue.Result {
	watched := g.options.CancelOnReAdd && m.cancels < cmp.Or(g.options.MaxCancels, 3)
	cancelled := g.change(m, step.ops) && watched
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(step.leaves, func(l leaf) bool { return slices.Contains(kinds, l.kind) })
	}
	failed := step.ends != "returns" || has("err", "retry after", "nothing")
	switch {
	case step.ends == "returns" && cancelled && has("ctx"):
		m.cancels++
		m.again = true
		return workqueue.Result{Outcome: workqueue.OutcomeReAdded, Failures: m.attempts, Again: true}
	case step.ends == "returns" && has("permanent"):
		failures := m.attempts + 1
		*m = modelItem{again: m.again, due: m.due}
		return workqueue.Result{Outcome: workqueue.OutcomeGivenUp, Failures: failures}
	case !failed && !has("requeue", "requeue after"):
		*m = modelItem{again: m.again, due: m.due}
		return workqueue.Result{Outcome: workqueue.OutcomeSucceeded}
	}
	m.cancels = 0
	r := workqueue.Result{Outcome: workqueue.OutcomeRequeued, Again: true}
	var waits []time.Duration
	for _, l := range step.leaves {
		if step.ends == "returns" && strings.HasSuffix(l.kind, "after") {
			waits = append(waits, l.wait)
		}
	}
	switch {
	case failed:
		m.attempts++
		if r = (workqueue.Result{Outcome: workqueue.OutcomeFailed, Again: true}); m.attempts == g.options.MaxAttempts {
			failures := m.attempts
			*m = modelItem{again: m.again, due: m.due}
			return workqueue.Result{Outcome: workqueue.OutcomeGivenUp, Failures: failures}
		}
	case len(waits) > 0:
		m.attempts, m.limited = 0, 0
	}
	r.Failures = m.attempts
	g.plan(m, &r, waits, now)
	return r
}

// change does what the handler does to its item, and reports whether it was added.
func (g *runGame) change(m *modelItem, ops []string) (added bool) {
	for _, op := range ops {
		switch op {
		case "add":
			m.again, added = true, true
			continue
		case "remove":
			m.again, m.due = false, 0
		case "forget":
			m.limited = 0
		}
		if g.kind != "foreign" {
			m.attempts = 0
		}
	}
	return added
}

// plan has the item come again after the shortest of the waits, or else when the limiter
// says, which tells it of a queue of ours alone.
func (g *runGame) plan(m *modelItem, r *workqueue.Result, waits []time.Duration, now time.Duration) {
	if len(waits) > 0 {
		r.After = slices.Min(waits)
	} else {
		r.After = time.Second << m.limited
		m.limited++
	}
	switch at := now + r.After; {
	case r.After == 0:
		m.again = true
	case m.due == 0 || at < m.due:
		m.due = at
	}
	if len(waits) == 0 && g.kind != "ours" {
		r.After = -1
	}
}

// TestModelRun compares all results with those of the model, and the times at which they come.
func TestModelRun(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for range scripts() {
		g := randomRunGame(rng)
		synctest.Test(t, g.play)
		if t.Failed() {
			t.Fatalf("%+v", g)
		}
	}
}

func (g *runGame) play(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Second, 1e5*time.Hour), workqueue.TypedRateLimitingQueueConfig[int]{})
	queue := map[string]workqueue.TypedRateLimitingInterface[int]{
		"ours": q, "embedded": struct {
			*workqueue.TypedRateLimiting[int]
		}{q}, "foreign": onlyGet{q, q},
	}[g.kind]
	start := time.Now()
	var mu sync.Mutex
	events, calls := make([][]string, len(g.scripts)), make([]int, len(g.scripts))
	options := g.options
	goOn := map[string]reply{"returns": succeeds, "panics": panics, "exits": exits}[g.ends]
	options.OnGiveUp = func(_ context.Context, item int, _ error) {
		if g.revives {
			q.Add(item)
		}
		goOn()
	}
	options.OnResult = func(_ context.Context, item int, r workqueue.Result) {
		mu.Lock()
		events[item] = append(events[item], eventOf(time.Since(start), r))
		mu.Unlock()
		goOn()
	}
	options.OnStop = func(left workqueue.Snapshot[int]) {
		if left.QueuedTotal+left.InFlightTotal+left.FailedTotal > 0 {
			t.Errorf("left: %v", left)
		}
	}
	for item := range g.scripts {
		q.Add(item)
	}
	for _, end := range append(slices.Clone(g.restarts), 1e4*time.Hour) {
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(end))
		if err := workqueue.Run(ctx, queue, func(ctx context.Context, item int) error {
			mu.Lock()
			step := min(calls[item], len(g.scripts[item])-1)
			calls[item]++
			mu.Unlock()
			return g.scripts[item][step].play(ctx, q, item)
		}, options); err != nil {
			t.Error(err)
		}
		cancel()
		options.Workers = 1 + options.Workers%4
	}
	for item, script := range g.scripts {
		if got, want := strings.Join(events[item], "\n"), strings.Join(g.history(script), "\n"); got != want {
			t.Errorf("item %d: got\n%s\nwant\n%s\nof %+v", item, got, want, script)
		}
	}
	if n := q.Attempts(); n != 0 || q.Snapshot(0).WaitingTotal != 0 {
		t.Errorf("%d attempts are kept, and the queue has %v", n, q.Snapshot(0))
	}
	q.ShutDown()
}

// onlyGet is a queue that has GetContext, so that it can be kept, and is not ours.
type onlyGet struct {
	workqueue.TypedRateLimitingInterface[int]
	queue *workqueue.TypedRateLimiting[int]
}

func (q onlyGet) GetContext(ctx context.Context) (int, error) { return q.queue.GetContext(ctx) }
