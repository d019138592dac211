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

// This file is a queue under Run, whose items come to every outcome there is. It counts
// what OnResult is told, to be compared with the series of the registry.

// A load is one call of Run and what it has come to. It comes to rest within a second.
type load struct {
	queue *workqueue.TypedRateLimiting[string]
	stop  context.CancelFunc
	ended chan struct{} // is closed when Run has returned

	mu sync.Mutex
	// The fields below are guarded by mu.
	counted counted
	calls   map[string]int // of the handler, by item
}

// counted is what a load says of itself.
type counted struct {
	Results map[string]int // what OnResult was told, by outcome
	Delays  []float64      // what the limiter has said, in seconds
	Left    int            // items that are not settled yet
}

// A step is what the handler does in one call.
type step func(ctx context.Context, l *load, item string) error

var (
	errFailed = errors.New("failed")
	errTimed  = errors.New("failed, and says when to retry")
	errLater  = workqueue.RequeueAfter(20 * time.Millisecond)
)

func succeeds(context.Context, *load, string) error  { return nil }
func fails(context.Context, *load, string) error     { return errFailed }
func panics(context.Context, *load, string) error    { panic(errFailed) }
func requeues(context.Context, *load, string) error  { return workqueue.Requeue() }
func postpones(context.Context, *load, string) error { return errLater }
func givesUp(context.Context, *load, string) error   { return workqueue.Permanent(errFailed) }
func retries(context.Context, *load, string) error {
	return workqueue.RetryAfter(10*time.Millisecond, errTimed)
}

// overtaken adds its own item, and is cut short by that.
func overtaken(ctx context.Context, l *load, item string) error {
	l.queue.Add(item)
	<-ctx.Done()
	return ctx.Err()
}

// scripts are what the handler does with the items, one call after the other, and the
// last step again and again.
var scripts = [][]step{
	{succeeds},
	{fails, fails, succeeds},
	{fails}, // Until that is too much.
	{givesUp},
	{panics, fails, givesUp},
	{requeues, requeues, fails, requeues, succeeds},
	{retries, fails, retries, succeeds},
	{postpones, postpones, succeeds},
	{overtaken, fails, overtaken, succeeds},
}

const (
	rounds      = 25 // of all scripts
	maxAttempts = 11
	shortest    = 300 * time.Microsecond // The delays double, and none is on the bound of a bucket.
)

// startLoad starts Run on a queue of the provider.
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
			Workers: 4, MaxAttempts: maxAttempts, CancelOnReAdd: true, OnResult: l.count, Logger: &quiet,
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

// count is OnResult. The limiter was asked for each failure and each Requeue that did
// not say a time of its own.
func (l *load) count(_ context.Context, _ string, result workqueue.HandlerResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted.Results[result.Outcome.String()]++
	if !result.Again {
		l.counted.Left--
	}
	timed := errors.Is(result.Err, errTimed) || errors.Is(result.Err, errLater)
	if result.Again && !timed && result.Outcome != workqueue.OutcomeReAdded {
		l.counted.Delays = append(l.counted.Delays, result.After.Seconds())
	}
}

// ServeHTTP tells what was counted.
func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	json.NewEncoder(w).Encode(l.counted)
}

// end ends Run, and with it the queue.
func (l *load) end() {
	l.stop()
	<-l.ended
}
