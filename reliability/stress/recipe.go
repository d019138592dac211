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

// A recipe is the configuration of the queue of a round.
type recipe struct {
	layer    int // 0 is the FIFO, 1 can delay, 2 can limit
	limiter  limiter
	storage  workqueue.Queue[int]      // or nil
	order    workqueue.Order[int]      // only if there is no storage
	apart    bool                      // a delaying queue gets its order from a configured queue below
	metrics  workqueue.MetricsProvider // or nil
	series   *prometheus.Registry      // of the Prometheus provider, or nil
	clock    clock.WithTicker          // or nil
	oneEntry bool
	times    bool           // KeepTimes
	pace     *rate.Limiter  // or nil
	itemPace workqueue.Rate // or the zero Rate; with StrictBackoff
	traps    bool           // foreign code fails now and then
	// prioritizes is whether adds name priorities.
	prioritizes bool
	text        string
}

// A trap springs in 1 of 200 calls, and panics in 1 of 800. Most rounds then have
// faults, and the queues still do other work.
const odds = 200

// newRecipe chooses a recipe at random. The traps call the queue with back.
func newRecipe(rnd *rand.Rand, layer int, traps bool, back func()) *recipe {
	r := &recipe{layer: layer, oneEntry: rnd.IntN(4) == 0, times: rnd.IntN(4) == 0, traps: traps}
	r.text = fmt.Sprintf("layer %d, oneEntry %v, times %v", r.layer, r.oneEntry, r.times)
	// A panic on the goroutine of a delaying queue ends the program, as documented.
	// So the storage and the metrics panic only in a queue without such a goroutine.
	fifo := r.layer == 0
	r.chooseLimiter(rnd, back)
	if traps && rnd.IntN(3) == 0 {
		r.storage = &stack{trap: &trap{name: "storage", odds: odds, dies: fifo, exits: true}}
		r.text += ", storage"
	}
	switch {
	case r.storage != nil:
	case rnd.IntN(2) == 0:
		r.chooseOrder(rnd, back)
	case rnd.IntN(3) == 0:
		r.prioritizes = true
		r.text += ", priorities"
	}
	r.chooseMetrics(rnd, &trap{name: "metric", odds: odds, dies: fifo, exits: true, calls: back})
	r.chooseClock(rnd)
	// A clock that leaps or stands still does the same to the tokens.
	if r.clock == nil && rnd.IntN(4) == 0 {
		r.pace = rate.NewLimiter(rate.Limit(int(20_000)<<rnd.IntN(5)), 1+rnd.IntN(20))
		r.text += ", paced"
	}
	return r
}

func (r *recipe) chooseLimiter(rnd *rand.Rand, back func()) {
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
	if r.traps {
		r.limiter.trap = &trap{name: "limiter", odds: odds, dies: true, exits: true, calls: back}
	}
}

func (r *recipe) chooseMetrics(rnd *rand.Rand, t *trap) {
	switch rnd.IntN(4) {
	case 0:
		if !r.traps {
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
