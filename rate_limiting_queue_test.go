package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A scripted limiter returns the next of its waits at each call, and notes its calls.
type scripted struct {
	waits []time.Duration
	calls []string
	hook  func()
}

func (s *scripted) When(item string) time.Duration {
	s.calls = append(s.calls, "when "+item)
	call(s.hook)
	wait := s.waits[0]
	s.waits = s.waits[1:]
	return wait
}

func (s *scripted) Forget(item string) { s.calls = append(s.calls, "forget "+item) }

func (s *scripted) NumRequeues(item string) int {
	s.calls = append(s.calls, "requeues "+item)
	return len(s.waits)
}

func TestAddRateLimited(t *testing.T) {
	for name, row := range map[string]struct {
		waits []time.Duration
		at    string // when the item must be there
	}{
		"after what the limiter says":  {[]time.Duration{5 * time.Second}, "5s"},
		"at once if it says nothing":   {[]time.Duration{0}, "0s"},
		"at once if it says less":      {[]time.Duration{-time.Hour}, "0s"},
		"at once if it says MinInt64":  {[]time.Duration{math.MinInt64}, "0s"},
		"after the least of its waits": {[]time.Duration{7 * time.Second, 3 * time.Second, 9 * time.Second}, "3s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &scripted{waits: row.waits}
				q := workqueue.NewTypedRateLimitingQueue(l)
				start := time.Now()
				for range len(row.waits) {
					q.AddRateLimited("a")
				}
				item, _ := q.Get()
				if at := time.Since(start).String(); item != "a" || at != row.at {
					t.Errorf("got %q after %s, want a after %s", item, at, row.at)
				}
				q.Done("a")
				q.ShutDown()
			})
		})
	}
}

func TestLimiterIsToldWhatTheCallerSays(t *testing.T) {
	l := &scripted{waits: []time.Duration{0, time.Hour}}
	q := workqueue.NewTypedRateLimitingQueue(l)
	q.AddRateLimited("a")
	q.AddRateLimited("b")
	q.Forget("a")
	q.Forget("a stranger")
	if got := q.NumRequeues("b"); got != 0 {
		t.Errorf("got %d requeues, want 0", got)
	}
	q.Add("c")
	q.AddAfter("d", time.Hour)
	item, _ := q.Get()
	q.Done(item)
	want := "when a, when b, forget a, forget a stranger, requeues b"
	if got := strings.Join(l.calls, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	q.ShutDown()
}

// The methods that only pass a call on, with a queue of each layer below.
func TestRateLimitingQueueIsADelayingQueue(t *testing.T) {
	newLimited := func() workqueue.TypedInterface[string] {
		return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Minute, 2),
			workqueue.TypedRateLimitingQueueConfig[string]{})
	}
	for name, steps := range map[string][]step{
		"add, get, done":  {{"add a", ""}, {"len", "1"}, {"get", "a"}, {"add a", ""}, {"done a", ""}, {"get", "a"}, {"done a", ""}, {"len", "0"}},
		"get waits":       {{"w: get", "blocks"}, {"add a", ""}, {"w: returns", "a"}},
		"delays":          {{"after 1s a", ""}, {"len", "0"}, {"sleep 1s", ""}, {"get", "a"}},
		"drain":           {{"add a", ""}, {"after 1h b", ""}, {"get", "a"}, {"shutting", "false"}, {"d: drain", "blocks"}, {"shutting", "true"}, {"done a", ""}, {"d: returns", ""}},
		"shutdown":        {{"add a", ""}, {"after 1h b", ""}, {"shutdown", ""}, {"get", "a"}, {"get", "shutdown "}, {"shutting", "true"}},
		"spurious Done":   {{"add a", ""}, {"done a", ""}, {"len", "1"}},
		"several drains":  {{"add a", ""}, {"get", "a"}, {"d1: drain", "blocks"}, {"d2: drain", "blocks"}, {"done a", ""}, {"d1: returns", ""}, {"d2: returns", ""}},
		"drain, shutdown": {{"add a", ""}, {"d: drain", "blocks"}, {"shutdown", ""}, {"d: returns", ""}},
	} {
		t.Run(name, func(t *testing.T) { timeline(t, newLimited, steps...) })
	}
}

// The options reach the layers below, and a given layer is used.
func TestOptionsOfARateLimitingQueue(t *testing.T) {
	synctest.Test(t, testOptionsOfARateLimitingQueue)
}

func testOptionsOfARateLimitingQueue(t *testing.T) {
	r := &recorder{}
	clock := testingclock.NewFakeClock(epoch)
	l := &scripted{waits: []time.Duration{time.Second, time.Second}}
	q := workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: r, Clock: clock,
	})
	q.AddRateLimited("a")
	synctest.Wait()
	clock.Step(time.Second)
	synctest.Wait() // The goroutine reports the add after it.
	item, _ := q.Get()
	clock.Step(2 * time.Second)
	q.Done(item)
	q.ShutDown()
	got := strings.Join(r.take(), " ")
	if want := "retries+1 adds+1 depth+1 depth-1 latency(0) "; !strings.HasPrefix(got, want) || !strings.Contains(got, " work(2)") {
		t.Errorf("got %q, want %q and work(2)", got, want)
	}

	below := workqueue.NewTypedDelayingQueue[string]()
	q = workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: r, DelayingQueue: below,
	})
	q.Add("a")
	if below.Len() != 1 {
		t.Errorf("%d items in the queue below, want 1", below.Len())
	}
	q.ShutDown()
	if !below.ShuttingDown() || len(r.take()) != 0 {
		t.Error("the queue below was not shut down, or has metrics that it was not given")
	}
}

// Without a limiter of its own, a queue has the limiter of most controllers: 100 items at once,
// and then 10 a second.
func TestNilLimiterIsThatOfMostControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[int]{})
		defer q.ShutDown()
		for i := range 102 {
			q.AddRateLimited(i)
		}
		q.AddRateLimited(0)
		s := q.Snapshot(200)
		for i, want := range map[int]time.Duration{0: 5, 99: 5, 100: 100, 101: 200} {
			at := slices.IndexFunc(s.Waiting, func(info workqueue.ItemInfo[int]) bool { return info.Item == i })
			if got := time.Until(s.Waiting[at].Due); got != want*time.Millisecond {
				t.Errorf("item %d waits %v, want %v", i, got, want*time.Millisecond)
			}
		}
		if n := q.NumRequeues(0); n != 2 {
			t.Errorf("%d failures, want 2", n)
		}
	})
}

// A field that has no effect beside a queue below panics with its name. Where client-go has the
// field, client-go's constructor takes the field all the same.
func TestFieldsWithoutEffectBesideAQueueBelow(t *testing.T) {
	type delayingConfig = workqueue.TypedDelayingQueueConfig[string]
	type config = workqueue.TypedRateLimitingQueueConfig[string]
	order, logger := workqueue.Order[string]{OldestEvery: 1}, logr.Discard()
	for field, set := range map[string]func(c *delayingConfig){
		"KeepTimes": func(c *delayingConfig) { c.KeepTimes = true },
		"Order":     func(c *delayingConfig) { c.Order = order },
	} {
		c := delayingConfig{Queue: workqueue.NewTyped[string]()}
		set(&c)
		wantPanic(t, "workqueue: "+field+" has no effect in a config with Queue", func() { workqueue.NewTypedDelaying(c) })
	}
	for field, row := range map[string]struct {
		set      func(c *config)
		clientGo bool
	}{
		"Logger":          {func(c *config) { c.Logger = &logger }, true},
		"MetricsProvider": {func(c *config) { c.MetricsProvider = workqueue.NoMetrics{} }, true},
		"Clock":           {func(c *config) { c.Clock = testingclock.NewFakeClock(epoch) }, true},
		"Queue":           {func(c *config) { c.Queue = workqueue.NewTyped[string]() }, false},
		"KeepTimes":       {func(c *config) { c.KeepTimes = true }, false},
		"OneEntry":        {func(c *config) { c.OneEntry = true }, false},
		"Order":           {func(c *config) { c.Order = order }, false},
	} {
		c := config{Name: "q", DelayingQueue: workqueue.NewTypedDelayingQueue[string]()}
		row.set(&c)
		want := "workqueue: " + field + " has no effect in a config with DelayingQueue"
		wantPanic(t, want, func() { workqueue.NewTypedRateLimiting(nil, c) })
		var panicked any
		if !row.clientGo {
			panicked = want
		}
		if got := goes(func() { workqueue.NewTypedRateLimitingQueueWithConfig(nil, c) }); got != panicked {
			t.Errorf("%s: client-go's constructor panics with %v, want %v", field, got, panicked)
		}
	}
}

// A foreign delaying queue gets no negative delays either.
type delays struct {
	workqueue.TypedDelayingInterface[string]
	got []time.Duration
}

func (d *delays) AddAfter(_ string, delay time.Duration) { d.got = append(d.got, delay) }

func TestDelaysThatReachTheLayerBelow(t *testing.T) {
	below := &delays{}
	l := &scripted{waits: []time.Duration{-1, 0, 1, math.MinInt64, math.MaxInt64}}
	q := workqueue.NewTypedRateLimiting(l, workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: below})
	for range 5 {
		q.AddRateLimited("a")
	}
	q.AddAfter("a", -7)
	if got, want := fmt.Sprint(below.got), fmt.Sprint([]time.Duration{0, 0, 1, 0, math.MaxInt64, -7}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A limiter that panics does so before anything else happens.
func TestLimiterThatFails(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("limiter") }, "Goexit": runtime.Goexit} {
		l := &scripted{waits: []time.Duration{time.Hour}, hook: fail}
		q := workqueue.NewTypedRateLimiting(l, workqueue.TypedRateLimitingQueueConfig[string]{})
		q.Add("b")
		if got, want := goes(func() { q.AddRateLimited("a") }), map[string]any{"panic": "limiter"}[kind]; got != want {
			t.Errorf("%s: the caller got the panic %v, want %v", kind, got, want)
		}
		if got := fmt.Sprint(takeAllOf[string](q)); got != "[b]" {
			t.Errorf("%s: got %s, want [b]", kind, got)
		}
		q.ShutDownWithDrain()
	}
}

// A limiter may call the queue: no lock is held.
func TestLimiterThatCallsBack(t *testing.T) {
	var q *workqueue.TypedRateLimiting[string]
	l := &scripted{waits: []time.Duration{0}, hook: func() {
		q.Add("b")
		q.AddAfter("c", time.Hour)
		q.Forget("a")
		q.Len()
	}}
	q = workqueue.NewTypedRateLimiting(l, workqueue.TypedRateLimitingQueueConfig[string]{})
	q.AddRateLimited("a")
	if got := fmt.Sprint(takeAllOf[string](q)); got != "[b a]" {
		t.Errorf("got %s, want [b a]", got)
	}
	q.ShutDown()
}

// The limiter and After both have the shortest times: none, and a nanosecond.
func TestAddWithOfTheShortestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, wait := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Hour: 1} {
			q := workqueue.NewTypedRateLimiting(constant(limit), workqueue.TypedRateLimitingQueueConfig[string]{})
			q.AddWith(workqueue.AddOptions{RateLimited: true, After: wait}, "a")
			if n := q.Len(); (n == 1) != (wait == 0) {
				t.Errorf("the limiter says %v: %d items are queued at once", limit, n)
			}
			time.Sleep(wait)
			synctest.Wait()
			if n := q.Len(); n != 1 {
				t.Errorf("the limiter says %v: %d items are queued after %v", limit, n, wait)
			}
			q.ShutDown()
		}
	})
}

// foreignDelaying has the methods of a delaying queue, and counts some of them.
type foreignDelaying struct {
	workqueue.TypedDelayingInterface[string]
	adds, afters int
}

func (q *foreignDelaying) Add(item string) { q.adds++; q.TypedDelayingInterface.Add(item) }
func (q *foreignDelaying) AddAfter(item string, d time.Duration) {
	q.afters++
	q.TypedDelayingInterface.AddAfter(item, d)
}

// capableDelaying has AddWith too.
type capableDelaying struct {
	*workqueue.TypedDelaying[string]
	calls []workqueue.AddOptions
}

func (q *capableDelaying) AddWith(options workqueue.AddOptions, items ...string) int {
	q.calls = append(q.calls, options)
	return q.TypedDelaying.AddWith(options, items...)
}

// The calls of a delaying queue of another make depend on the options: Add and AddAfter without a
// priority, and AddWith with a priority, which the queue may lack.
func TestAddWithOnAForeignDelayingQueue(t *testing.T) {
	open := func(delaying workqueue.TypedDelayingInterface[string]) *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	}
	bare := &foreignDelaying{TypedDelayingInterface: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})}
	q := open(bare)
	for i, row := range []struct {
		options      workqueue.AddOptions
		adds, afters int
	}{
		{workqueue.AddOptions{}, 2, 0},
		{workqueue.AddOptions{After: -1}, 4, 0},
		{workqueue.AddOptions{After: 1}, 4, 2},
		{workqueue.AddOptions{RateLimited: true}, 4, 4},
	} {
		q.AddWith(row.options, "a", "b")
		if bare.adds != row.adds || bare.afters != row.afters {
			t.Errorf("step %d: %d calls of Add and %d of AddAfter, want %d and %d", i, bare.adds, bare.afters, row.adds, row.afters)
		}
	}
	for _, options := range []workqueue.AddOptions{{Priority: prio(1)}, {Priority: prio(1), RateLimited: true}} {
		const want = "workqueue: AddWith needs all methods of a queue of this package below, and *workqueue_test.foreignDelaying lacks some"
		if got := goes(func() { q.AddWith(options, "c") }); got != want {
			t.Errorf("%+v: got the panic %v, want %s", options, got, want)
		}
	}
	q.ShutDown()

	capable := &capableDelaying{TypedDelaying: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Order: workqueue.Order[string]{},
	})}
	q = open(capable)
	for _, options := range []workqueue.AddOptions{{Priority: prio(1)}, {Priority: prio(1), After: time.Hour}, {Priority: prio(1), RateLimited: true}} {
		capable.calls = nil
		q.AddWith(options, "a")
		want := options
		if options.RateLimited {
			want = workqueue.AddOptions{Priority: prio(1), After: time.Second}
		}
		if len(capable.calls) != 1 || capable.calls[0].After != want.After || capable.calls[0].RateLimited || *capable.calls[0].Priority != 1 {
			t.Errorf("%+v: got the calls %+v, want one with %+v", options, capable.calls, want)
		}
	}
	if item, priority := getRanked(q); item != "a" || priority != 1 {
		t.Errorf("got %s with the priority %d, want a with 1", item, priority)
	}
	q.ShutDown()

	// Our queue inside another of our queues is asked whether it knows priorities.
	within := open(workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Queue: stored()}))
	defer within.ShutDown()
	if got := goes(func() { within.AddWith(workqueue.AddOptions{Priority: prio(1), After: time.Hour}, "a") }); got == nil {
		t.Error("no panic for a priority that the queue at the bottom does not know")
	}
}

// Our queue inside another of our queues says whether it knows priorities before the limiter is
// asked: the limiter would count a failure of an item that is not added.
func TestAddWithThatPanicsCountsNoFailure(t *testing.T) {
	open := func(delaying workqueue.TypedDelayingInterface[string]) *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](1, 2, 3),
			workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	}
	below := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: stored()})
	q := open(open(below))
	defer q.ShutDown()
	if got := goes(func() { q.AddWith(workqueue.AddOptions{Priority: prio(1), RateLimited: true}, "a") }); got == nil {
		t.Error("no panic for a priority that the queue at the bottom does not know")
	}
	if n := q.NumRequeues("a"); n != 0 {
		t.Errorf("%d failures were counted", n)
	}
}

// Without StrictBackoff, a failure does not put off an item that waits for an earlier time.
func TestAddWithRateLimitedPutsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
		defer q.ShutDown()
		start := time.Now()
		q.AddAfter("a", time.Second)
		q.AddWith(workqueue.AddOptions{RateLimited: true}, "a")
		q.Get()
		if came := time.Since(start); came != time.Second {
			t.Errorf("the item came after %v, want 1s", came)
		}
	})
}

// stored returns a queue that knows no priorities.
func stored() *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
}

// A handler that says when to come again does not ask the limiter. The page said that nothing had failed, beside
// items that had failed for hours.
func TestFailuresOfWhatFailsWithATimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{})
		defer q.ShutDown()
		q.Add("a")
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer stop()
		err := workqueue.Run(ctx, q, func(context.Context, string) error {
			return workqueue.RetryAfter(time.Second, errFailed)
		}, runOptions{AtEnd: workqueue.EndKeep, Logger: discard()})
		info, _ := q.Find("a")
		s := q.Snapshot(1)
		for i := range q.Items() {
			s.Waiting = append(s.Waiting, i)
		}
		if err != nil || info.Failures != 3 || len(s.Waiting) != 2 || s.Waiting[0].Failures != 3 || s.Waiting[1].Failures != 3 {
			t.Errorf("got %v, Find has %d failures, and Snapshot and Items have %+v, want 3 failures", err, info.Failures, s.Waiting)
		}
		for range 5 {
			q.AddRateLimited("a") // As a loop by hand does, which Run knows nothing of.
		}
		if info, _ := q.Find("a"); info.Failures != 5 {
			t.Errorf("got %d failures, want the 5 that the limiter says", info.Failures)
		}
		q.Forget("a")
		if info, _ := q.Find("a"); info.Failures != 0 {
			t.Errorf("got %d failures after Forget", info.Failures)
		}
	})
}
