package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// The faults that a run may inject. They are separate so that a queue that
// cannot cope with one can be tried with the others.
type faults struct {
	Spurious bool // Done of what is not held
	Drain    bool // rounds that end with a drain
	Twice    bool // more than one shutdown
	Workers  bool // workers that panic, or end their goroutine, with a deferred Done
	Limiter  bool // a limiter that panics, blocks, or calls the queue
	Storage  bool // a Queue that panics or blocks, or a function of an order
	Metrics  bool // metrics that panic, block, or call the queue
	Clock    bool // clocks that are set forwards and back
}

// A recipe is what the queue of a round is made of.
type recipe struct {
	layer    int // 0 is the FIFO, 1 can delay, 2 can limit
	limiter  limiter
	storage  workqueue.Queue[int]      // or nil
	order    workqueue.Order[int]      // only if there is no storage
	apart    bool                      // the order is that of a queue that is configured, where there are layers above
	metrics  workqueue.MetricsProvider // or nil
	series   *prometheus.Registry      // of metrics, if they are those that ship
	clock    clock.WithTicker          // or nil
	oneEntry bool
	times    bool // KeepTimes
	// prioritizes is whether adds name priorities.
	prioritizes bool
	text        string
}

// The odds are chosen so that faults are in most rounds, and rare enough that
// the rounds are about something else. More than one of a thousand and the
// queues are busy with nothing else.
const odds = 200

// newRecipe chooses at random. back makes a call of the queue.
func newRecipe(rnd *rand.Rand, impl implementation, f faults, back func()) *recipe {
	r := &recipe{layer: rnd.IntN(3), oneEntry: rnd.IntN(4) == 0, times: rnd.IntN(4) == 0}
	if impl.limits {
		r.layer = 2
	}
	r.text = fmt.Sprintf("layer %d, oneEntry %v, times %v", r.layer, r.oneEntry, r.times)
	// On the goroutine of a delaying queue a panic ends the program, as is
	// documented; so there are none where it may be called from there.
	fifo := r.layer == 0
	r.chooseLimiter(rnd, f, back)
	if f.Storage && rnd.IntN(3) == 0 {
		r.storage = &stack{trap: &trap{name: "storage", odds: odds, dies: fifo, exits: true}}
		r.text += ", storage"
	}
	switch {
	case r.storage != nil:
	case rnd.IntN(2) == 0:
		r.chooseOrder(rnd, f, back)
	case rnd.IntN(3) == 0:
		r.prioritizes = true
		r.text += ", priorities"
	}
	r.chooseMetrics(rnd, f, &trap{name: "metric", odds: odds, dies: fifo, exits: true, calls: back})
	if f.Clock {
		r.chooseClock(rnd)
	}
	return r
}

func (r *recipe) chooseLimiter(rnd *rand.Rand, f faults, back func()) {
	const most = 3 * time.Millisecond
	limiters := []typedLimiter{
		workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, most),
		workqueue.NewTypedItemFastSlowRateLimiter[int](time.Microsecond, most, 3),
		workqueue.NewTypedWithMaxWaitRateLimiter(
			&workqueue.TypedBucketRateLimiter[int]{Limiter: rate.NewLimiter(1e5, 100)}, most),
		workqueue.NewTypedWithMaxWaitRateLimiter(
			workqueue.NewTypedMaxOfRateLimiter(workqueue.DefaultTypedControllerRateLimiter[int]()), most),
	}
	r.limiter = limiter{typedLimiter: limiters[rnd.IntN(len(limiters))], trap: &trap{name: "limiter"}}
	if f.Limiter {
		r.limiter.trap = &trap{name: "limiter", odds: odds, dies: true, exits: true, calls: back}
	}
}

func (r *recipe) chooseMetrics(rnd *rand.Rand, f faults, t *trap) {
	switch rnd.IntN(4) {
	case 0:
		if !f.Metrics {
			t = nil
		}
		r.metrics = provider{t}
		r.text += ", metrics"
	case 1:
		r.series = prometheus.NewRegistry()
		r.metrics = workqueue.NewPrometheusProvider(r.series, workqueue.PrometheusOptions{})
		r.text += ", Prometheus"
	}
}

func (r *recipe) chooseClock(rnd *rand.Rand) {
	switch rnd.IntN(4) {
	case 0:
		r.clock = &leaper{}
		r.text += ", leaping clock"
	case 1:
		r.clock = testingclock.NewFakeClock(time.Now())
		r.text += ", stepped clock"
	}
}
