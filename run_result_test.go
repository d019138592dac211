package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Nothing told what became of an item: here a log of it, in the order of the calls.
func TestRunOnResult(t *testing.T) {
	slow := func(f reply) reply { return func() error { time.Sleep(time.Second); return f() } }
	for name, tt := range map[string]struct {
		reply reply
		want  string // of queues that tell how long the limiter has an item wait
	}{
		"success":     {slow(succeeds), "succeeded <nil> 0 - 1s"},
		"failure":     {slow(fails), "failed failed 1 1s 1s"},
		"panic":       {slow(panics), "failed workqueue: panic: boom 1 1s 1s"},
		"exit":        {exits, "failed workqueue: handler called runtime.Goexit 1 1s 0s"},
		"requeue":     {requeues(5 * time.Second), "requeued workqueue: requeue after 5s 0 5s 0s"},
		"at once":     {requeues(0), "requeued workqueue: requeue after 0s 0 0s 0s"},
		"by limiter":  {workqueue.Requeue, "requeued workqueue: requeue 0 1s 0s"},
		"retry after": {func() error { return workqueue.RetryAfter(-1, errFailed) }, "failed failed 1 0s 0s"},
		"permanent":   {permanently, "given_up failed 1 - 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				calls := 0
				s.run(runOptions{OnResult: func(ctx context.Context, item string, r workqueue.Result) {
					if calls > 1 {
						return
					}
					info, _ := workqueue.ItemInfoFromContext[string](ctx)
					again := "-"
					if r.Again {
						again = fmt.Sprint(r.After)
					}
					s.note("%s %v %v %v %d %s %v", item, info.Item, r.Outcome, r.Err, r.Failures, again, r.Took)
					if n := s.fifo.Held(); n != 1 {
						t.Errorf("%d items are held in OnResult, want 1", n)
					}
				}}, func(context.Context, string) error {
					if calls++; calls > 1 {
						return nil
					}
					return tt.reply()
				})
				time.Sleep(20 * time.Second)
				s.stop()
				s.end()
				want := "a a " + tt.want
				if !s.isOurs() && (strings.Contains(want, " 1s 1s") || strings.Contains(want, " 1s 0s")) {
					want = strings.Replace(want, " 1s ", " -1ns ", 1)
				}
				if !strings.HasSuffix(s.events[1], ":"+want) {
					t.Errorf("got %q, want %s", s.events, want)
				}
			})
		})
	}
}

// OnResult is foreign code like OnGiveUp: what it panics or exits with does no harm.
func TestRunOnResultThatFails(t *testing.T) {
	for name, f := range map[string]reply{"panics": panics, "exits": exits} {
		onRunQueues(t, func(t *testing.T, s *show) {
			s.queue.Add("a")
			s.queue.Add("b")
			s.run(runOptions{OnResult: func(context.Context, string, workqueue.Result) { f() }}, replies(fails))
			time.Sleep(10 * time.Second)
			s.want("0:a 0:b 1:a")
			if got := strings.Count(s.log.String(), "OnResult panicked"); name == "panics" && got != 3 || name == "exits" && got != 0 {
				t.Errorf("%s: %d panics are logged", name, got)
			}
			s.stop()
			s.end()
		})
	}
}

// After the end, a failure is one that does not come again, and with Drain it does, or with
// KeepQueue for the next Run.
func TestRunOnResultAtTheEnd(t *testing.T) {
	for want, options := range map[string]runOptions{
		"[false -1ns]":         {},
		"[true 1s false -1ns]": {Drain: true, Grace: 3 * time.Second},
		"[true 1s]":            {KeepQueue: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue.Add("a")
			var again []any
			options.OnResult = func(_ context.Context, _ string, r workqueue.Result) { again = append(again, r.Again, r.After) }
			s.run(options, func(context.Context, string) error { time.Sleep(2 * time.Second); return errFailed })
			time.Sleep(time.Second)
			s.stop()
			<-s.ended
			if got := fmt.Sprint(again); got != want {
				t.Errorf("%+v: comes again: %s, want %s", options, got, want)
			}
			s.queue.ShutDown()
		})
	}
}

// A retry that a shutdown drops does not come again, after no time.
func TestRunOnResultAfterAShutDown(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{OnResult: func(_ context.Context, _ string, r workqueue.Result) { s.note("%v %v", r.Again, r.After) }},
			func(context.Context, string) error { s.queue.ShutDown(); return errFailed })
		s.end()
		s.want("0:a 0:false -1ns 0:end")
		s.stop()
	})
}

// A limiter that says no time at all, or less, has the item come again at once.
func TestRunOnResultOfALimiterWithoutAWait(t *testing.T) {
	for _, wait := range []time.Duration{0, -time.Second} {
		q := workqueue.NewTypedRateLimiting(constant(wait), workqueue.TypedRateLimitingQueueConfig[string]{})
		q.Add("a")
		workqueue.Run(t.Context(), q, func(context.Context, string) error { return errFailed }, runOptions{
			MaxAttempts: 2, Logger: discard(),
			OnGiveUp: func(context.Context, string, error) { q.ShutDown() },
			OnResult: func(_ context.Context, _ string, r workqueue.Result) {
				if want := (workqueue.Result{Outcome: workqueue.OutcomeGivenUp, Failures: 2}); r.Failures == 2 && (r.Outcome != want.Outcome || r.Again) {
					t.Errorf("got %+v in the end", r)
				}
				if r.Failures == 1 && (r.After != 0 || !r.Again) || r.Failures < 1 || r.Failures > 2 {
					t.Errorf("wait %v: got %+v", wait, r)
				}
			},
		})
	}
}

func TestOutcomes(t *testing.T) {
	var names []string
	for _, outcome := range workqueue.Outcomes() {
		names = append(names, outcome.String())
	}
	if got, want := strings.Join(names, " "), "succeeded failed requeued given_up readded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := workqueue.Outcome(5).String(); got != "Outcome(5)" {
		t.Errorf("got %s", got)
	}
}

// The results and the waits that the limiter says were in no metric.
func TestSeriesOfResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newExposed(workqueue.PrometheusOptions{})
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](2*time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		if got := scrape(t, r); slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(row, "results_total") }) {
			t.Errorf("a queue that no Run has used has the series %q", got)
		}
		options := runOptions{KeepQueue: true, CancelOnReAdd: true, Logger: discard()}
		once := func(items string, f func(ctx context.Context, item string) error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for item := range strings.FieldsSeq(items) {
				q.Add(item)
			}
			if err := workqueue.Run(ctx, q, f, options); err != nil {
				t.Error(err)
			}
		}
		once("a b c", func(context.Context, string) error { return nil })
		once("f", func(context.Context, string) error { return workqueue.RequeueAfter(time.Hour) })
		once("g h", func(context.Context, string) error { return permanently() })
		calls := 0
		once("i", func(ctx context.Context, item string) error {
			if calls++; calls == 1 {
				q.Add(item)
				<-ctx.Done()
			}
			return ctx.Err()
		})
		once("d e", func(context.Context, string) error { return errFailed })
		got := scrape(t, r)
		for _, want := range []string{
			`results_total{name="q",result="succeeded"} 4`,
			`results_total{name="q",result="failed"} 2`,
			`results_total{name="q",result="requeued"} 1`,
			`results_total{name="q",result="given_up"} 2`,
			`results_total{name="q",result="readded"} 1`,
			`rate_limit_delay_seconds{name="q"} 2 observations of 4 s`,
		} {
			if !slices.Contains(got, want) {
				t.Errorf("got %q without %s", got, want)
			}
		}
		q.ShutDown()
		if got := scrape(t, r); slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(row, "results_total") }) {
			t.Errorf("after the shutdown, there are the series %q", got)
		}
	})
}

// Results of queues of one name are added up, and stay as long as one of them.
func TestSeriesOfResultsOfOneName(t *testing.T) {
	captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
	open := func() *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
	}
	handleOne := func(q *workqueue.TypedRateLimiting[string]) {
		ctx, cancel := context.WithCancel(t.Context())
		q.Add("a")
		if err := workqueue.Run(ctx, q, func(context.Context, string) error { cancel(); return nil }, runOptions{KeepQueue: true}); err != nil {
			t.Error(err)
		}
	}
	first, second := open(), open()
	handleOne(first)
	for n := range 3 {
		want := fmt.Sprintf(`results_total{name="q",result="succeeded"} %d`, n+1)
		if got := scrape(t, r); !slices.Contains(got, want) {
			t.Errorf("got %q without %s", got, want)
		}
		handleOne(second)
		first.ShutDown()
	}
	second.ShutDown()
}

// A provider that is told of changes is told of results, if it wants to.
func TestResultsProvider(t *testing.T) {
	p := &resultsTold{counts: map[string]int{}}
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
	q.Add("a")
	calls := 0
	workqueue.Run(t.Context(), q, func(context.Context, string) error {
		if calls++; calls == 1 {
			return errFailed
		}
		q.ShutDown()
		return permanently()
	}, runOptions{Logger: discard()})
	if got, want := fmt.Sprint(p.counts), "map[q failed:1 q given_up:1 q waits:1ms:1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A provider that reads queues finds the results there. It is not told of them a second
// time, also where it reads no delaying queue that they could be found with.
func TestProviderThatReadsIsNotToldOfResults(t *testing.T) {
	t.Parallel()
	for name, delaying := range map[string]workqueue.TypedDelayingInterface[string]{
		"own":            nil,
		"without a name": workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{}),
	} {
		p := &readAndTold{}
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: p, DelayingQueue: delaying,
		})
		q.AddRateLimited("a")
		q.ShutDown()
		if p.asked > 0 {
			t.Errorf("%s: asked for %d metrics of results, want none", name, p.asked)
		}
	}
}

type readAndTold struct {
	reader
	asked int
}

func (p *readAndTold) NewResultsMetric(string, workqueue.Outcome) workqueue.CounterMetric {
	p.asked++
	return toldResult{}
}

func (p *readAndTold) NewRateLimitDelayMetric(string) workqueue.HistogramMetric {
	p.asked++
	return toldResult{p: &resultsTold{}}
}

// resultsTold counts what it is told of results.
type resultsTold struct {
	workqueue.MetricsProvider
	mu     sync.Mutex
	counts map[string]int
}

type toldResult struct {
	p    *resultsTold
	name string
}

func (m toldResult) Inc()              { m.add(m.name) }
func (m toldResult) Dec()              {}
func (m toldResult) Set(float64)       {}
func (m toldResult) Observe(s float64) { m.add(fmt.Sprint(m.name, ":", time.Duration(s*1e9))) }

func (m toldResult) add(name string) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if m.name != "" {
		m.p.counts[name]++
	}
}

func (p *resultsTold) NewDepthMetric(string) workqueue.GaugeMetric       { return toldResult{p, ""} }
func (p *resultsTold) NewAddsMetric(string) workqueue.CounterMetric      { return toldResult{p, ""} }
func (p *resultsTold) NewLatencyMetric(string) workqueue.HistogramMetric { return toldResult{p, ""} }
func (p *resultsTold) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return toldResult{p, ""}
}
func (p *resultsTold) NewRetriesMetric(string) workqueue.CounterMetric { return toldResult{p, ""} }
func (p *resultsTold) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return toldResult{p, ""}
}
func (p *resultsTold) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return toldResult{p, ""}
}
func (p *resultsTold) NewResultsMetric(name string, outcome workqueue.Outcome) workqueue.CounterMetric {
	return toldResult{p, name + " " + outcome.String()}
}
func (p *resultsTold) NewRateLimitDelayMetric(name string) workqueue.HistogramMetric {
	return toldResult{p, name + " waits"}
}
