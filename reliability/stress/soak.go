package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A sample is what was measured at the end of an interval, with the queue at rest.
type sample struct {
	heap       uint64 // bytes in use after a garbage collection
	goroutines int
}

// soak plays a round that lasts, and prints a sample of each interval. The first quarter of the
// intervals is the warm-up.
func soak(o *options, w io.Writer, intervals int) *tally {
	t := newTally()
	before := runtime.NumGoroutine()
	r := newRound(o, t, rand.New(rand.NewPCG(0, o.seed)))
	all, ok := r.lasting(w, intervals)
	if !ok {
		return t // The round hangs.
	}
	checkGoroutines(o, t, before, r.recipe.text)
	if err := growth(all); err != nil {
		t.violation(memory, "%v", err)
	}
	return t
}

// chooseAll chooses all features that go together, and no traps: a lasting round looks for what
// grows.
func (r *recipe) chooseAll() {
	*r = recipe{
		layer: 2, limiter: limiter{typedLimiter: r.limiter.typedLimiter}, prioritizes: true, series: prometheus.NewRegistry(), text: "all features",
		pace:     rate.NewLimiter(1e6, 1000),
		itemPace: workqueue.Rate{Limit: 1000, Burst: 3},
		order: workqueue.Order[int]{
			OldestEvery: 10,
			Group:       func(item int) string { return groupNames[item%tenants] },
			MaxInFlight: func(group string) int { return 2 * len(group) },
		},
	}
	r.metrics = workqueue.NewPrometheusProvider(r.series, workqueue.PrometheusOptions{})
}

// lasting is a burst that comes to rest again and again, beside a Run. It reports false if the
// queue does not come to rest.
func (r *round) lasting(w io.Writer, intervals int) (all []sample, ok bool) {
	r.queue.ShutDown()
	r.recipe.chooseAll()
	r.most = items + r.visitors
	r.open(r.recipe)
	q := r.queue.(*workqueue.TypedRateLimiting[int])
	cancel := r.startRun(q, workqueue.RunOptions[int]{Workers: 8, Grace: r.patience, CancelOnReAdd: 3})
	defer cancel()
	r.start()
	fmt.Fprintf(w, "%8s %10s %10s %10s\n", "after", "heap", "goroutines", "gets")
	for began := time.Now(); len(all) < intervals; {
		r.visit(q, len(all))
		time.Sleep(r.duration / time.Duration(intervals))
		r.adding.Store(false)
		if !r.settle() {
			return all, false
		}
		all = append(all, atRest())
		last := all[len(all)-1]
		fmt.Fprintf(w, "%8s %7d KB %10d %10d\n", time.Since(began).Round(time.Second), last.heap>>10, last.goroutines, r.gets())
		r.adding.Store(true)
		for range r.goroutines / 2 { // The workers go on, and all others have ended.
			r.startOne(false)
		}
	}
	r.adding.Store(false)
	ok = r.settle()
	r.closing.Store(true)
	cancel()
	r.end()
	return all, ok
}

// visit adds items that nobody has seen before, and takes some of them back.
func (r *round) visit(q *workqueue.TypedRateLimiting[int], interval int) {
	first := items + interval*r.visitors
	for from := first; from < first+r.visitors; from += 1000 {
		all := make([]int, 1000)
		for i := range all {
			all[i] = from + i
		}
		q.AddAll(all...)
	}
	q.RemoveFunc(func(item int) bool { return item >= items && item%7 == 0 })
}

func (r *round) gets() (n int64) {
	for _, a := range r.each() {
		n += a.gets.Load()
	}
	return n
}

// atRest returns the memory in use and the number of goroutines. Goroutines that have been told to
// end need a moment, and finalizers and cleanups run after a collection.
func atRest() sample {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	runtime.ReadMemStats(&m)
	return sample{m.HeapAlloc, runtime.NumGoroutine()}
}

// slack is by how much the memory at rest may differ: what the runtime, the limiters and the
// buffers of the scrapes keep depends on what came last.
const slack = 256 << 10

// growth returns an error if memory or goroutines grow. The second quarter of the samples is
// compared with the last: the first quarter is the warm-up. Medians, because a collection may come
// early or late.
func growth(all []sample) error {
	quarter := len(all) / 4
	if quarter == 0 {
		return fmt.Errorf("%d samples are too few to tell", len(all))
	}
	early, late := all[quarter:2*quarter], all[len(all)-quarter:]
	heap := func(s sample) uint64 { return s.heap }
	goroutines := func(s sample) uint64 { return uint64(s.goroutines) }
	var memory, running error
	if from, to := median(early, heap), median(late, heap); to > from+from/20+slack {
		memory = fmt.Errorf("the memory has grown from %d to %d bytes", from, to)
	}
	if from, to := median(early, goroutines), median(late, goroutines); to > from {
		running = fmt.Errorf("the goroutines have grown from %d to %d", from, to)
	}
	return errors.Join(memory, running)
}

func median(all []sample, of func(sample) uint64) uint64 {
	var values []uint64
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
