// Command webhookbyhand is ../webhook on client-go's queue, for comparison. Everything
// that Run and the Prometheus provider do in ../webhook is written by hand here. The
// tests of ../webhook run on both programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue/examples/internal/webhook"
)

func main() { webhook.Main("webhookbyhand", newProgram) }

const (
	workers     = 8
	timeout     = 5 * time.Second
	maxAttempts = 10
	grace       = 20 * time.Second
)

func newProgram(outbox *webhook.Outbox, registry *prometheus.Registry) webhook.Program {
	p := &program{
		outbox: outbox,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "webhooks", MetricsProvider: newMetrics(registry)}),
		attempts: make(map[string]int),
	}
	return webhook.Program{Add: p.queue.Add, Run: p.run}
}

type program struct {
	outbox *webhook.Outbox
	queue  workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// attempts counts the failures of each event. NumRequeues is not enough, because
	// AddAfter for a Retry-After does not count there. An event with an entry waits for
	// its retry or is at its next attempt, so run drains until attempts is empty.
	attempts map[string]int
}

// run delivers until ctx ends, and then finishes the queued events and the planned
// retries. The queue stays open meanwhile: a shutdown would drop the planned retries.
func (p *program) run(ctx context.Context) error {
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for p.processNext(work) {
			}
		})
	}
	<-ctx.Done()
	timer := time.AfterFunc(grace, func() {
		abandon()
		p.queue.ShutDown() // Ends the wait of ShutDownWithDrain.
	})
	defer timer.Stop()
	for work.Err() == nil && (p.queue.Len() > 0 || p.retries() > 0) {
		time.Sleep(5 * time.Millisecond)
	}
	p.queue.ShutDownWithDrain()
	p.queue.ShutDown() // Otherwise a goroutine of the queue stays for 10 seconds.
	running.Wait()
	if n := len(p.outbox.Left()); n > 0 {
		slog.Warn("not all is delivered", "left", n)
	}
	return nil
}

func (p *program) retries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.attempts)
}

// processNext delivers an event. It reports false when the queue is shut down and empty.
func (p *program) processNext(ctx context.Context) bool {
	id, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	defer p.queue.Done(id)
	if ctx.Err() != nil {
		return true
	}
	err := p.deliver(ctx, id)
	if err == nil {
		p.forget(id)
		return true
	}
	attempts := p.count(id)
	status, ok := errors.AsType[*webhook.StatusError](err)
	switch {
	case ok && status.Permanent() || attempts >= maxAttempts:
		slog.Error("given up", "event", id, "err", err)
		p.outbox.Remove(id)
		p.forget(id)
		return true
	case ok && status.RetryAfter > 0:
		p.queue.AddAfter(id, status.RetryAfter)
	default:
		p.queue.AddRateLimited(id)
	}
	slog.Info("delivery failed, it will be retried", "event", id, "failures", attempts, "err", err)
	return true
}

// deliver makes an attempt. A panic becomes an error, because a panic in a worker would
// end the whole program.
func (p *program) deliver(ctx context.Context, id string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.outbox.Deliver(ctx, id)
}

func (p *program) count(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[id]++
	return p.attempts[id]
}

func (p *program) forget(id string) {
	p.queue.Forget(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.attempts, id)
}
