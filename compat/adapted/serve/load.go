package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// This file runs a queue under Run, with items for every outcome. A load counts the results
// that OnResult receives. The integration tests compare the counts with the series of the
// registry.

// A load is a call of Run and the counts of its results. All items settle within a second.
type load struct {
	queue *workqueue.TypedRateLimiting[string]
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has returned

	mu sync.Mutex
	// The fields below are guarded by mu.
	counted counted
	calls   map[string]int // of the handler, by item
}

// counted is the answer to GET /counted.
type counted struct {
	Results map[string]int // calls of OnResult, by outcome
	Delays  []float64      // of retries, in seconds
	Limited int            // delays that the limiter has chosen
	Left    int            // items not settled yet
}

// A step handles a single call of the handler.
type step func(ctx context.Context, l *load, item string) error

var (
	errFailed = errors.New("failed")
	errTimed  = errors.New("failed, and says when to retry")
	errLater  = workqueue.RequeueAfter(20 * time.Millisecond)
	errFirm   = workqueue.DeferFor(20 * time.Millisecond)
)

func succeeds(context.Context, *load, string) error  { return nil }
func fails(context.Context, *load, string) error     { return errFailed }
func panics(context.Context, *load, string) error    { panic(errFailed) }
func requeues(context.Context, *load, string) error  { return workqueue.Requeue() }
func postpones(context.Context, *load, string) error { return errLater }
func defers(context.Context, *load, string) error    { return errFirm }
func givesUp(context.Context, *load, string) error   { return workqueue.Permanent(errFailed) }
func retries(context.Context, *load, string) error {
	return workqueue.RetryAfter(12*time.Millisecond, errTimed)
}

// overtaken adds its own item. The Add cancels the context of the step.
func overtaken(ctx context.Context, l *load, item string) error {
	l.queue.Add(item)
	<-ctx.Done()
	return ctx.Err()
}

// scripts are lists of steps. The handler takes the next step of the list in each call for
// an item, and repeats the last step.
var scripts = [][]step{
	{succeeds},
	{fails, fails, succeeds},
	{fails}, // Until maxAttempts.
	{givesUp},
	{panics, fails, givesUp},
	{requeues, requeues, fails, requeues, succeeds},
	{retries, fails, retries, succeeds},
	{postpones, postpones, succeeds},
	{defers, fails, defers, succeeds},
	{overtaken, fails, overtaken, succeeds},
}

const (
	rounds      = 25 // of all scripts
	maxAttempts = 11
	shortest    = 300 * time.Microsecond // The delays double, and none is on the bound of a bucket.
)

// startLoad starts Run on a queue with metrics of the provider.
func startLoad(provider workqueue.MetricsProvider) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{
		queue: workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](shortest, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "run", MetricsProvider: provider}),
		stop:    stop,
		ended:   make(chan struct{}),
		counted: counted{Results: make(map[string]int), Left: rounds * len(scripts)},
		calls:   make(map[string]int),
	}
	for round := range rounds {
		for script := range scripts {
			l.queue.Add(fmt.Sprint(script, " ", round))
		}
	}
	quiet := logr.Discard() // Each failure is logged otherwise.
	go func() {
		defer close(l.ended)
		if err := workqueue.Run(ctx, l.queue, l.handle, workqueue.RunOptions[string]{
			Workers: 4, MaxAttempts: maxAttempts, CancelOnReAdd: 3, OnResult: l.count, Logger: &quiet,
		}); err != nil {
			panic(err)
		}
	}()
	return l
}

func (l *load) handle(ctx context.Context, item string) error {
	var script int
	if _, err := fmt.Sscan(item, &script); err != nil {
		panic(err)
	}
	l.mu.Lock()
	call := min(l.calls[item], len(scripts[script])-1)
	l.calls[item]++
	l.mu.Unlock()
	return scripts[script][call](ctx, l, item)
}

// count is OnResult. Run asks the limiter for a delay after each failure and each Requeue
// without a time of its own. A failure with a time is a retry too.
func (l *load) count(_ context.Context, _ string, result workqueue.HandlerResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted.Results[result.Outcome.String()]++
	if !result.Again {
		l.counted.Left--
	}
	planned := errors.Is(result.Err, errLater) || errors.Is(result.Err, errFirm)
	if !result.Again || planned || result.Outcome == workqueue.OutcomeReAdded {
		return
	}
	l.counted.Delays = append(l.counted.Delays, result.After.Seconds())
	if !errors.Is(result.Err, errTimed) {
		l.counted.Limited++
	}
}

// ServeHTTP writes the counts as JSON.
func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	json.NewEncoder(w).Encode(l.counted)
}

// end stops Run, which shuts the queue down.
func (l *load) end() {
	l.stop()
	<-l.ended
}
