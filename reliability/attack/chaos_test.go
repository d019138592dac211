package attack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// An account of an item: each Add has a version, and who holds the item works off
// the version that it reads.
type account struct {
	added, worked atomic.Int64
	holders       atomic.Int32
}

// A brawl is a queue with all that happens to it.
type brawl struct {
	t        *testing.T
	queue    *workqueue.TypedRateLimiting[int]
	accounts []account
	handed   atomic.Int64
	calls    atomic.Int64
}

// touchy metrics panic now and then, from any goroutine.
type touchy struct{ failing }

type touchyLatency struct{ silent }

func (touchyLatency) Observe(float64) {
	if rand.IntN(50) == 0 {
		panic("latency")
	}
}

func (*touchy) NewLatencyMetric(string) workqueue.HistogramMetric { return touchyLatency{} }

func TestChaos(t *testing.T) {
	before := runtime.NumGoroutine()
	play(t, 12, func(t *testing.T, rnd *rand.Rand) int {
		b := newBrawl(t, rnd)
		return b.fight(rnd)
	})
	for wait := time.Millisecond; runtime.NumGoroutine() > before && wait < time.Minute; wait *= 2 {
		time.Sleep(wait)
	}
	if n := runtime.NumGoroutine(); n > before {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines are left\n%s", n-before, stacks[:runtime.Stack(stacks, true)])
	}
}

func newBrawl(t *testing.T, rnd *rand.Rand) *brawl {
	b := &brawl{t: t, accounts: make([]account, 1+rnd.IntN(300))}
	config := workqueue.TypedQueueConfig[int]{}
	if rnd.IntN(2) == 0 {
		config.Name, config.MetricsProvider = "brawl", &touchy{}
	}
	if rnd.IntN(3) == 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, time.Millisecond),
		workqueue.NewTypedKeyBucketRateLimiter[int](1e6, 10))
	b.queue = workqueue.NewTypedRateLimiting[int](limiter, workqueue.TypedRateLimitingQueueConfig[int]{
		DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Queue:    workqueue.NewTypedWithConfig(config),
			OneEntry: rnd.IntN(2) == 0,
		}),
	})
	return b
}

// caught calls f, of which a metric may panic.
func caught(f func()) {
	defer func() { recover() }()
	f()
}

func (b *brawl) fight(rnd *rand.Rand) int {
	var producers, workers sync.WaitGroup
	for n := range 4 + rnd.IntN(4) {
		s := rnd.Uint64()
		workers.Go(func() { b.work(rand.New(rand.NewPCG(s, uint64(n)))) })
	}
	for n := range 4 {
		s := rnd.Uint64()
		producers.Go(func() { b.produce(rand.New(rand.NewPCG(s, uint64(n)))) })
	}
	call(b.t, "producing", producers.Wait)
	for i := range b.accounts { // What a Remove took back is added for good.
		b.add(i, func() { b.queue.Add(i) })
	}
	b.drain(rnd.IntN(3) + 1)
	call(b.t, "the workers", workers.Wait)
	for i := range b.accounts {
		if a := &b.accounts[i]; a.worked.Load() != a.added.Load() {
			b.t.Errorf("%d was added %d times, of which %d were seen", i, a.added.Load(), a.worked.Load())
		}
	}
	if s := b.queue.Snapshot(math.MaxInt); s.QueuedTotal+s.InFlightTotal+s.WaitingTotal > 0 {
		b.t.Errorf("in the end: %v", s)
	}
	return int(b.calls.Load())
}

// drain drains the queue from several layers at once.
func (b *brawl) drain(n int) {
	var drains sync.WaitGroup
	for range n {
		drains.Go(b.queue.ShutDownWithDrain)
		drains.Go(func() {
			if err := b.queue.Drain(context.Background()); err != nil {
				b.t.Errorf("Drain: %v", err)
			}
		})
	}
	call(b.t, "the drain", drains.Wait)
}

func (b *brawl) add(i int, add func()) {
	b.accounts[i].added.Add(1)
	caught(add)
}

func (b *brawl) produce(rnd *rand.Rand) {
	for range 1500 {
		b.calls.Add(1)
		i := rnd.IntN(len(b.accounts))
		d := time.Duration(rnd.IntN(100)) * time.Microsecond
		switch rnd.IntN(12) {
		case 0, 1, 2:
			b.add(i, func() { b.queue.Add(i) })
		case 3:
			b.add(i, func() { b.queue.AddAfter(i, d) })
		case 4:
			b.add(i, func() { b.queue.AddRateLimited(i) })
		case 5:
			b.add(i, func() { b.queue.Debounce(i, d, 2*d) })
		case 6:
			b.add(i, func() { b.queue.Reschedule(i, d) })
		case 7:
			b.queue.Remove(i)
		case 8:
			b.queue.Forget(i)
		case 9:
			s := b.queue.Snapshot([]int{0, 1, 10, math.MaxInt}[rnd.IntN(4)])
			if len(s.InFlight) > s.InFlightTotal || len(s.Queued) > s.QueuedTotal {
				b.t.Errorf("a Snapshot with less than it shows: %v", s)
			}
		case 10:
			b.queue.Len()
		case 11:
			j := rnd.IntN(len(b.accounts))
			b.accounts[i].added.Add(1)
			b.add(j, func() { b.queue.AddAll(i, j, i) })
		}
	}
}

// work gets items in all ways, until the queue is shut down.
func (b *brawl) work(rnd *rand.Rand) {
	for {
		item, ok, over := b.get(rnd)
		if over {
			return
		}
		if !ok {
			continue
		}
		a := &b.accounts[item]
		if n := a.holders.Add(1); n != 1 {
			b.t.Errorf("%d is held by %d workers", item, n)
		}
		version := a.added.Load()
		if rnd.IntN(8) == 0 {
			runtime.Gosched()
		}
		a.worked.Store(version)
		a.holders.Add(-1)
		b.handed.Add(1)
		caught(func() { b.queue.Done(item) })
	}
}

func (b *brawl) get(rnd *rand.Rand) (item int, ok, over bool) {
	caught(func() {
		switch rnd.IntN(3) {
		case 0:
			item, over = b.queue.Get()
			ok = !over
		case 1:
			item, ok = b.queue.TryGet()
			if !ok {
				runtime.Gosched()
			}
		case 2:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(200))*time.Microsecond)
			defer cancel()
			var err error
			item, err = b.queue.GetContext(ctx)
			ok, over = err == nil, errors.Is(err, workqueue.ErrShutDown)
		}
	})
	return item, ok, over
}

// TestRun has handlers come to anything, with one Run or two on a queue, until the
// context of the first ends or somebody shuts the queue down.
func TestRun(t *testing.T) {
	play(t, 40, func(t *testing.T, rnd *rand.Rand) int {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, 100*time.Microsecond)
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[int]{})
		succeeded := make([]atomic.Bool, 200)
		handle := func(ctx context.Context, item int) error {
			switch rand.IntN(8) {
			case 0:
				return fmt.Errorf("failed")
			case 1:
				panic("handler")
			case 2:
				runtime.Goexit()
			case 3:
				return workqueue.RequeueAfter(time.Duration(rand.IntN(100)) * time.Microsecond)
			case 4:
				q.Add(item) // Overtakes this handler.
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			succeeded[item].Store(true)
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		options := workqueue.RunOptions[int]{
			Workers: 1 + rnd.IntN(4), CancelOnReAdd: rnd.IntN(2) == 0, Logger: &quiet,
		}
		if rnd.IntN(2) == 0 {
			options.Grace, options.AtEnd = time.Second, workqueue.End(rnd.IntN(2)) // EndStop or EndDrain
		}
		runs := 1 + rnd.IntN(2)
		left := make([]workqueue.Snapshot[int], runs)
		var begun atomic.Int64 // calls of Run that did not find the queue shut down already
		var running sync.WaitGroup
		for n := range runs {
			options := options
			options.OnStop = func(s workqueue.Snapshot[int]) {
				left[n] = s
				begun.Add(1)
			}
			running.Go(func() {
				err := workqueue.Run(ctx, q, handle, options)
				if err != nil && err != workqueue.ErrShutDown && !(options.AtEnd == workqueue.EndDrain && errors.Is(err, workqueue.ErrNotDrained)) {
					t.Errorf("got %v from Run", err)
				}
			})
		}
		for i := range succeeded {
			q.Add(i)
			if rnd.IntN(16) == 0 {
				q.Remove(i)
				q.Add(i)
			}
		}
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
		byHand := rnd.IntN(3) == 0
		if byHand {
			q.ShutDown()
		} else {
			cancel()
		}
		call(t, "Run", running.Wait)
		cancel()
		if begun.Load() == 0 { // Then Run has left all in the queue, and a drain would wait for it.
			if !byHand || q.Len() != len(succeeded) {
				t.Errorf("%d of %d are queued, but Run has found the queue shut down", q.Len(), len(succeeded))
			}
			return len(succeeded)
		}
		call(t, "a drain after Run", q.ShutDownWithDrain)
		named := make(map[int]bool)
		for _, s := range left {
			for _, info := range slices.Concat(s.Queued, s.InFlight, s.Waiting, s.Failed) {
				named[info.Item] = true
			}
		}
		for i := range succeeded {
			// A RequeueAfter that waits when somebody else shuts the queue down is
			// lost without a name, and one of two calls of Run drops what waits.
			if !succeeded[i].Load() && !named[i] && runs == 1 && !byHand {
				t.Errorf("%d was lost: %v", i, left)
			}
		}
		return len(succeeded)
	})
}

var quiet = logr.Discard()
