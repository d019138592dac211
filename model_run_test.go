package workqueue_test

import (
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

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// This file plays Run beside a model. A handler takes no time, so an item comes when
// the queue says, whatever the workers do with other items. Each item has a history of its own,
// and the model is a loop over the calls of the item.

// A runOp is a call of the queue by a handler, for its own item.
type runOp struct {
	name  string
	after time.Duration // for some ops
}

var runOps = []string{"add", "add", "add", "remove", "remove func", "forget", "wake", "firm", "firm now", "firm limited", "limited", "after", "reschedule", "debounce"}

// A runStep is a call of a handler: first the calls for its item, and then the result.
type runStep struct {
	ops    []runOp
	leaves []leaf // joined; none is nil
	ends   string // returns, panics, exits
}

// A leaf is a part of an error. No two leaves have the same wait, so no two things happen at an instant.
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
	case "defer for":
		return workqueue.DeferFor(l.wait)
	case "permanent":
		return workqueue.Permanent(errFailed)
	case "nothing":
		return joined{nil}
	}
	return ctx.Err()
}

func randomRunStep(rng *rand.Rand, runOps []string) (step runStep) {
	kinds := []string{"err", "err", "err", "requeue", "requeue after", "retry after", "defer for", "defer for", "permanent", "nothing", "ctx", "ctx", "ctx"}
	for range rng.IntN(3) {
		step.ops = append(step.ops, runOp{runOps[rng.IntN(len(runOps))], time.Duration(1 + rng.Int64N(1e10))})
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

func (s runStep) play(ctx context.Context, end func(), q *workqueue.TypedRateLimiting[int], item int) error {
	for _, op := range s.ops {
		switch op.name {
		case "end":
			end()
		case "firm":
			q.AddWith(workqueue.AddOptions{Firm: true, After: op.after}, item)
		case "firm now":
			q.AddWith(workqueue.AddOptions{Firm: true}, item)
		case "firm limited":
			q.AddWith(workqueue.AddOptions{Firm: true, RateLimited: true}, item)
		case "limited":
			q.AddRateLimited(item)
		case "after":
			q.AddAfter(item, op.after)
		case "reschedule":
			q.Reschedule(item, op.after)
		case "debounce":
			q.Debounce(item, op.after, 2*op.after)
		case "add":
			q.Add(item)
		case "remove":
			q.Remove(item)
		case "remove func":
			q.RemoveFunc(func(i int) bool { return i == item })
		case "forget":
			q.Forget(item)
		case "wake":
			q.Wake(item)
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

// A runGame is a script for each item, with the options of the Run.
type runGame struct {
	kind     string // of the queue: ours, embedding
	rules    spec.Rules[int]
	options  workqueue.RunOptions[int]
	stops    bool   // handlers end the Run, whose one worker holds no other item
	revives  bool   // OnGiveUp adds the item
	ends     string // how OnGiveUp and OnResult end
	restarts []time.Duration
	scripts  [][]runStep
}

func randomRunGame(rng *rand.Rand) (g runGame) {
	g.kind = []string{"ours", "embedding"}[rng.IntN(2)]
	g.rules = spec.Rules[int]{OneEntry: rng.IntN(2) == 0, StrictBackoff: rng.IntN(3) == 0, ItemPace: time.Duration(rng.IntN(3)/2) * 3 * time.Second}
	g.options = workqueue.RunOptions[int]{
		Workers: 1 + rng.IntN(4), MaxAttempts: rng.IntN(5), AtEnd: workqueue.EndKeep, Logger: discard(),
		CancelOnReAdd: rng.IntN(5),
		Timeout:       time.Duration(rng.IntN(2)) * time.Hour, Grace: time.Duration(rng.IntN(2)) * time.Hour,
	}
	ops := runOps
	if g.stops = rng.IntN(2) == 0; g.stops {
		g.options.Workers = 1
		ops = append(slices.Clone(ops), "end", "end", "end")
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
			step := randomRunStep(rng, ops)
			script = append(script, slices.Repeat([]runStep{step}, 1+rng.IntN(5)*rng.IntN(2))...)
		}
		g.scripts = append(g.scripts, append(script, runStep{ends: "returns"}))
	}
	return g
}

// history plays the script of an item on the specification, and returns its events.
func (g *runGame) history(script []runStep) (events []string) {
	r := spec.NewRun(spec.New(g.rules), func(_, failures int) time.Duration { return time.Second << (failures - 1) })
	r.MaxAttempts = g.options.MaxAttempts
	r.CancelOnReAdd = g.options.CancelOnReAdd
	r.Add(0, spec.Place{})
	for step := 0; !r.Empty(); step++ {
		if !r.Ready() {
			r.Step(r.Waiting[0].Due - r.Now)
		}
		r.Get()
		result := script[min(step, len(script)-1)].conclude(r, g.options.Grace > 0)
		r.Restart()
		events = append(events, eventOf(r.Now, result.Outcome, result.Failures, result.Early, result.Again, result.After))
		if result.Outcome == "given_up" && g.revives {
			r.Add(0, spec.Place{})
		}
		r.Done(0)
	}
	return events
}

func eventOf(at time.Duration, outcome string, failures int, early, again bool, after time.Duration) string {
	return fmt.Sprintf("%v: %v, %d failures, early %v, %v %v", at, outcome, failures, early, again, after)
}

var leafKinds = map[string]spec.Kind{
	"err": spec.Failure, "nothing": spec.Failure, "requeue": spec.Requeue, "requeue after": spec.RequeueAfter,
	"retry after": spec.RetryAfter, "defer for": spec.DeferFor, "permanent": spec.Permanent, "ctx": spec.Cancelled,
}

// conclude plays the step on the specification. With a Grace the context of a handler outlasts the Run.
func (s runStep) conclude(r *spec.Run[int], grace bool) spec.Result {
	for _, op := range s.ops {
		switch op.name {
		case "end":
			r.End(grace)
		case "firm":
			r.Later(spec.Firm, 0, op.after, 0, spec.Place{})
		case "firm now":
			r.Later(spec.Firm, 0, 0, 0, spec.Place{})
		case "firm limited":
			r.Limited[0]++
			r.Later(spec.FirmRetry, 0, r.When(0, r.Limited[0]), 0, spec.Place{})
		case "limited":
			r.AddRateLimited(0, spec.Place{})
		case "after":
			r.Later(spec.After, 0, op.after, 0, spec.Place{})
		case "reschedule":
			r.Later(spec.Reschedule, 0, op.after, 0, spec.Place{})
		case "debounce":
			r.Later(spec.Debounce, 0, op.after, 2*op.after, spec.Place{})
		case "add":
			r.Add(0, spec.Place{})
		case "remove", "remove func":
			r.Remove(0)
		case "forget":
			r.Forget(0)
		case "wake":
			r.Wake(0)
		}
	}
	if s.ends != "returns" {
		return r.Conclude(0, spec.Leaf{Kind: spec.Failure})
	}
	var leaves []spec.Leaf
	for _, l := range s.leaves {
		if l.kind != "ctx" || r.HasEnded(0) { // Otherwise the context has no error.
			leaves = append(leaves, spec.Leaf{Kind: leafKinds[l.kind], Wait: l.wait})
		}
	}
	return r.Conclude(0, leaves...)
}

// TestModelRun compares all results and their times with the model.
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
	config := workqueue.TypedRateLimitingQueueConfig[int]{OneEntry: g.rules.OneEntry, StrictBackoff: g.rules.StrictBackoff}
	if g.rules.ItemPace > 0 {
		config.ItemPace = workqueue.Rate{Limit: rate.Every(g.rules.ItemPace)}
	}
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Second, 1e5*time.Hour), config)
	queue := map[string]workqueue.TypedRateLimitingInterface[int]{
		"ours": q, "embedding": &embedding[int]{TypedRateLimiting: q},
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
	options.OnResult = func(_ context.Context, item int, r workqueue.HandlerResult) {
		mu.Lock()
		events[item] = append(events[item], eventOf(time.Since(start), r.Outcome.String(), r.Failures, r.Early, r.Again, r.After))
		mu.Unlock()
		goOn()
	}
	options.OnStop = func(_ context.Context, left workqueue.Snapshot[int]) {
		if !g.stops && left.QueuedTotal+left.InFlightTotal+left.FailedTotal > 0 {
			t.Errorf("left: %v", left)
		}
	}
	for item := range g.scripts {
		q.Add(item)
	}
	for _, end := range append(slices.Clone(g.restarts), 2e6*time.Hour) {
		for stopped := true; stopped; {
			stopped = false
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(end))
			if err := workqueue.Run(ctx, queue, func(ctx context.Context, item int) error {
				mu.Lock()
				step := min(calls[item], len(g.scripts[item])-1)
				calls[item]++
				mu.Unlock()
				return g.scripts[item][step].play(ctx, func() { stopped = true; cancel() }, q, item)
			}, options); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if !g.stops {
			options.Workers = 1 + options.Workers%4
		}
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

// A runsGame is several Runs with different ends on one queue. No two things happen at an
// instant: all times are random.
type runsGame struct {
	embeds  bool // the Runs get a type that embeds the queue
	runs    []sharingRun
	items   []sharedItem
	ordered bool          // the queue has lanes
	down    time.Duration // when somebody else shuts the queue down; 0 is never
}

// A sharingRun is a Run of the game. The fields below ends are the outcome.
type sharingRun struct {
	options workqueue.RunOptions[int]
	ends    time.Duration // when its context does

	wasShut bool // the queue was shut down before ctx ended
	over    time.Duration
	told    workqueue.Snapshot[int]
	err     error
}

// A sharedItem fails or is put off some times, and succeeds then.
type sharedItem struct {
	takes   time.Duration
	listens bool // the handler returns when its context ends
	replies []reply
	added   time.Duration // when somebody else adds the item again; 0 is never
	removed time.Duration // when somebody else removes the item; 0 is never

	calls, atWork int
	found         int // how often the item was handled to the end, given up or named
}

func randomRunsGame(rng *rand.Rand) (g runsGame) {
	within := func(d time.Duration) time.Duration { return 1 + time.Duration(rng.Int64N(int64(d))) }
	for range 2 + rng.IntN(2) {
		options := workqueue.RunOptions[int]{
			Workers: 1 + rng.IntN(3), AtEnd: workqueue.End(rng.IntN(3)), Logger: discard(), CancelOnReAdd: rng.IntN(4), MaxAttempts: rng.IntN(4),
		}
		if rng.IntN(3) == 0 {
			options.Timeout = within(3 * time.Second)
		}
		if options.AtEnd == workqueue.EndDrain || rng.IntN(2) == 0 {
			options.Grace = within([]time.Duration{time.Second, 10 * time.Second, time.Hour}[rng.IntN(3)])
		}
		g.runs = append(g.runs, sharingRun{options: options, ends: within(20 * time.Second)})
	}
	for range 1 + rng.IntN(30) {
		item := sharedItem{takes: within(3 * time.Second), listens: rng.IntN(2) == 0}
		late := within(5 * time.Second)
		retries := func() error { return workqueue.RetryAfter(late, errFailed) }
		for range rng.IntN(3) {
			item.replies = append(item.replies, []reply{fails, retries, requeues(late), panics, exits, permanently}[rng.IntN(6)])
		}
		if rng.IntN(4) == 0 {
			item.added = within(20 * time.Second)
		}
		if rng.IntN(4) == 0 {
			item.removed = within(20 * time.Second)
		}
		g.items = append(g.items, item)
	}
	g.embeds, g.ordered = rng.IntN(2) == 0, rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		g.down = within(20 * time.Second)
	}
	return g
}

// TestModelRunsWithDifferentEnds checks three rules. Each item is handled to the end, given up, named by a
// single Run, or still in the queue. No two workers have an item at a time, and no worker has an item after the
// end. A drain ends early only if nothing is left.
func TestModelRunsWithDifferentEnds(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for range scripts() {
		g := randomRunsGame(rng)
		synctest.Test(t, g.play)
		if t.Failed() {
			t.Fatalf("%+v", g)
		}
	}
}

func (g *runsGame) play(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Second, time.Hour), workqueue.TypedRateLimitingQueueConfig[int]{})
	fifo := q.Delaying().FIFO()
	var queue workqueue.TypedRateLimitingInterface[int] = q
	if g.embeds {
		queue = &embedding[int]{TypedRateLimiting: q}
	}
	start := time.Now()
	var mu sync.Mutex // of the items
	find := func(item int) {
		mu.Lock()
		defer mu.Unlock()
		g.items[item].found++
	}
	handle := func(ctx context.Context, item int) error {
		it := &g.items[item]
		mu.Lock()
		call := it.calls
		it.calls++
		it.atWork++
		if err := context.Cause(ctx); err != nil && err != workqueue.ErrReAdded || it.atWork > 1 {
			t.Errorf("item %d is handled in spite of %v by %d workers", item, err, it.atWork)
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			it.atWork--
		}()
		var ended <-chan struct{}
		if it.listens {
			ended = ctx.Done()
		}
		select {
		case <-time.After(it.takes):
		case <-ended:
			return ctx.Err()
		}
		if call < len(it.replies) {
			return it.replies[call]()
		}
		find(item)
		return nil
	}
	for item, it := range g.items {
		var options workqueue.AddOptions
		if g.ordered {
			options.Priority = prio(item % 3)
		}
		q.AddWith(options, item)
		if it.added > 0 {
			time.AfterFunc(it.added, func() { q.Add(item) })
		}
		if it.removed > 0 {
			time.AfterFunc(it.removed, func() { q.Remove(item) })
		}
	}
	if g.down > 0 {
		time.AfterFunc(g.down, q.ShutDown)
	}
	var running sync.WaitGroup
	for n := range g.runs {
		r := &g.runs[n]
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(r.ends, func() {
			mu.Lock()
			r.wasShut = fifo.ShuttingDown()
			mu.Unlock()
			stop()
		})
		options := r.options
		options.OnGiveUp = func(_ context.Context, item int, _ error) { find(item) }
		options.OnStop = func(_ context.Context, left workqueue.Snapshot[int]) {
			if options.AtEnd == workqueue.EndKeep && !q.ShuttingDown() {
				return // All items are still in the queue.
			}
			r.told = left
			for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed) {
				find(info.Item)
			}
		}
		running.Go(func() {
			r.err = workqueue.Run(ctx, queue, handle, options)
			r.over = time.Since(start)
		})
	}
	running.Wait()
	mu.Lock() // The contexts of some end after the shutdown.
	runs := slices.Clone(g.runs)
	mu.Unlock()
	for _, r := range runs {
		r.judge(t, start, g.down > 0)
	}
	left := q.Snapshot(len(g.items))
	for _, info := range slices.Concat(left.Queued, left.Waiting) {
		find(info.Item)
	}
	for item, it := range g.items {
		if once := it.added == 0; it.found != 1 && it.removed == 0 && (once || it.found == 0) {
			t.Errorf("item %d was handled to the end, given up, named or kept %d times", item, it.found)
		}
	}
	q.ShutDown()
	time.Sleep(time.Hour) // Until all contexts have ended.
}

// judge checks the result of a Run. With down, somebody else may have shut the queue down.
//
// A drain ends early if all retries left come too late.
func (r *sharingRun) judge(t *testing.T, start time.Time, down bool) {
	waits := func(info workqueue.ItemInfo[int]) bool { return info.Failures > 0 }
	end := start.Add(r.ends + r.options.Grace)
	inTime := func(info workqueue.ItemInfo[int]) bool { return !info.Due.After(end) }
	late := r.told.QueuedTotal+r.told.InFlightTotal+r.told.FailedTotal == 0 && !slices.ContainsFunc(r.told.Waiting, inTime)
	left := r.told.QueuedTotal+r.told.InFlightTotal+r.told.FailedTotal > 0 || slices.ContainsFunc(r.told.Waiting, waits)
	switch drains := r.options.AtEnd == workqueue.EndDrain; {
	case (r.err == nil || errors.Is(r.err, context.Canceled)) != (r.over >= r.ends):
		t.Errorf("got %v after %v from a Run whose context ends after %v", r.err, r.over, r.ends)
	case errors.Is(r.err, workqueue.ErrNotDrained) != (drains && left):
		t.Errorf("got %v, left %v", r.err, r.told)
	case drains && !down && !r.wasShut && left && !late && r.over >= r.ends && r.over < r.ends+r.options.Grace:
		t.Errorf("a drain that began after %v with %v has ended after %v, left %v", r.ends, r.options.Grace, r.over, r.told)
	}
}
