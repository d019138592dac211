package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A woken worker whose clock blocks does not keep the other workers from the queued items.
func TestClockThatBlocksForAWokenWorker(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"line": nil, "storage": workqueue.DefaultQueue[string]()} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: clock, Queue: storage})
			var got atomic.Int64
			for range 3 {
				go func() {
					for _, shutdown := q.Get(); !shutdown; _, shutdown = q.Get() {
						got.Add(1)
					}
				}()
			}
			synctest.Wait()
			hold := make(chan struct{})
			var readings atomic.Int64
			clock.onRead = func() {
				if readings.Add(1) == 2 { // The first is that of Add.
					<-hold
				}
			}
			for n, item := range []string{"a", "b", "c"} {
				q.Add(item)
				synctest.Wait()
				if got.Load() != int64(n+1) {
					t.Errorf("%s: %d of %d items are handed out beside a clock that blocks", name, got.Load(), n+1)
				}
				checkInvariants(t, n, q)
			}
			close(hold)
			synctest.Wait()
			if n := q.Parked(); n != 3 || got.Load() != 3 {
				t.Errorf("%s: %d workers wait and have got %d items, want 3 and 3", name, n, got.Load())
			}
			checkQuiet(t, 3, q)
			q.ShutDown()
		})
	}
}

// Each Add wakes one of the parked workers. AddAll wakes one too, and each worker that was woken wakes
// the next while items are left.
func TestEachAddReleasesOneGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		q := workqueue.NewTyped[int]()
		var got atomic.Int64
		for range n {
			go func() {
				if _, shutdown := q.Get(); !shutdown {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range n / 2 {
			q.Add(i)
			synctest.Wait()
			if got.Load() != int64(i+1) {
				t.Fatalf("after Add %d: %d workers have returned, want %d", i, got.Load(), i+1)
			}
			checkInvariants(t, i, q)
		}
		rest := make([]int, n/2)
		for i := range rest {
			rest[i] = n + i
		}
		q.AddAll(rest...)
		synctest.Wait()
		if got.Load() != n || q.Parked() != 0 {
			t.Errorf("after AddAll: %d workers have returned and %d wait, want %d and 0", got.Load(), q.Parked(), n)
		}
		checkInvariants(t, n, q)
	})
}

func TestGetContextThatHasEnded(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if item, err := q.GetContext(ctx); item != "" || err != context.Canceled {
		t.Errorf("got %q, %v, want no item, %v", item, err, context.Canceled)
	}
	if q.Len() != 1 {
		t.Errorf("got %d items left, want 1", q.Len())
	}
}

// A stuck queue blocks in Add until it is released.
type stuck struct {
	bare
	hold chan struct{}
}

func (q stuck) Add(item string) {
	<-q.hold
	q.bare.Add(item)
}

// Each of these queues has a goroutine in foreign code that does not return, and an item that no
// worker finishes.
var blocked = map[string]func(hold chan struct{}) drainer{
	"a gauge": func(hold chan struct{}) drainer {
		return startBlocked(hold, "unfinished", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a gauge, two layers below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "longest", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a counter of what was due": func(hold chan struct{}) drainer {
		return startBlocked(hold, "adds", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"the queue below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "", func(workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				Queue: stuck{bare{workqueue.NewTyped[string]()}, hold},
			})
		})
	},
}

// startBlocked makes a queue whose metric of that name blocks, and waits until the goroutine of the
// queue has called the metric.
func startBlocked(hold chan struct{}, name string, open func(workqueue.MetricsProvider) drainer) drainer {
	r := &recorder{}
	q := open(r)
	if below, ok := q.(*workqueue.TypedDelaying[string]); ok && name == "" {
		go below.Add("a") // Blocks too, before it counts.
	} else {
		q.Add("a")
		q.Get()
	}
	r.setHook(func(event string) {
		if name != "" && strings.HasPrefix(event, name) {
			<-hold
		}
	})
	if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
		d.AddAfter("b", time.Second)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	return q
}

// A complete drain returns nil. It waits for the goroutine of the queue until the goroutine or the
// context of the drain ends.
func TestDrainThatIsCompleteBesideAGaugeThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := blocked["a gauge"](hold)
		q.Done("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := q.Drain(ctx); err != nil || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want nil after 1s", err, time.Since(start))
		}
		time.AfterFunc(time.Minute, func() { close(hold) })
		if err := q.Drain(t.Context()); err != nil || time.Since(start) != time.Minute+time.Second {
			t.Errorf("got %v after %v, want nil after 1m1s", err, time.Since(start))
		}
		q.ShutDown()
		q.ShutDownWithDrain()
	})
}

// A call stays awake for a lock that is held for some tens of nanoseconds. If the lock is held for
// long, the call sleeps, and leaves the processor to others.
func TestCallsSleepWhereTheQueueIsLockedForLong(t *testing.T) {
	fifo := workqueue.NewTyped[int]()
	ranked := newPrioritized(workqueue.Order[int]{})
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	totals := func() [3]int {
		f, r, d := fifo.Snapshot(0), ranked.Snapshot(0), delaying.Snapshot(0)
		return [3]int{f.QueuedTotal + r.QueuedTotal, f.InFlightTotal + r.InFlightTotal, d.WaitingTotal}
	}
	for _, c := range []struct {
		name, waits string
		hold        func() (release func())
		call        func()
		want        [3]int
	}{
		{"Add", "LockSoon", fifo.Hold, func() { fifo.Add(1) }, [3]int{1, 0, 0}},
		{"Get", "LockSoon", fifo.Hold, func() { fifo.Get() }, [3]int{0, 1, 0}},
		{"Done", "LockSoon", fifo.Hold, func() { fifo.Done(1) }, [3]int{0, 0, 0}},
		{"AddWith", "LockSoon", ranked.Hold, func() { addAt(ranked, 1, 1) }, [3]int{1, 0, 0}},
		{"GetInfo", "LockSoon", ranked.Hold, func() { ranked.GetInfo(context.Background()) }, [3]int{0, 1, 0}},
		{"AddAfter", "LockAwake", delaying.Hold, func() { delaying.AddAfter(1, time.Hour) }, [3]int{0, 1, 1}},
	} {
		release := c.hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		awaitSleeper(t, returned, c.waits)
		release()
		<-returned
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
	fifo.ShutDown()
	ranked.ShutDown()
	delaying.ShutDown()
}

// awaitSleeper waits until a goroutine sleeps for a lock within the function. The call that
// is to sleep must not return.
func awaitSleeper(t *testing.T, returned <-chan struct{}, function string) {
	t.Helper()
	sleeps := func(stack string) bool {
		return strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, function)
	}
	for !slices.ContainsFunc(stacks(), sleeps) {
		select {
		case <-returned:
			t.Fatalf("a call has not waited for the lock in %s", function)
		default:
			runtime.Gosched()
		}
	}
}

// A pacedQueue is any of the three queues with a Pace.
type pacedQueue interface {
	workQueue
	GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error)
	AddWith(options workqueue.AddOptions, items ...string) int
	Drain(ctx context.Context) error
	Stats() workqueue.QueueStats
}

func onPacedQueues(t *testing.T, limit rate.Limit, test func(t *testing.T, q pacedQueue, limiter *rate.Limiter)) {
	for name, open := range map[string]func(pace *rate.Limiter) pacedQueue{
		"FIFO": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: pace})
		},
		"delaying": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Pace: pace})
		},
		"rate limiting": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Pace: pace})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := rate.NewLimiter(limit, 1)
				q := open(limiter)
				defer q.ShutDown()
				test(t, q, limiter)
				checkInvariants(t, 0, q)
			})
		})
	}
}

// pacedHandOuts gets items on several workers until the queue has none, and returns each with the time
// of its hand-out.
func pacedHandOuts(q pacedQueue, workers int) (got []string) {
	start := time.Now()
	var mu sync.Mutex
	var over sync.WaitGroup
	for range workers {
		over.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				mu.Lock()
				got = append(got, fmt.Sprint(item, " ", time.Since(start)))
				mu.Unlock()
				q.Done(item)
			}
		})
	}
	over.Wait()
	return got
}

func TestPaceOfHandOuts(t *testing.T) {
	onPacedQueues(t, 10, func(t *testing.T, q pacedQueue, _ *rate.Limiter) {
		for _, item := range []string{"a", "b", "c", "d"} {
			q.Add(item)
		}
		q.Add("c")
		if _, ok := q.TryGet(); !ok { // The burst.
			t.Error("TryGet finds no token")
		}
		if item, ok := q.TryGet(); ok {
			t.Errorf("TryGet gets %s without a token", item)
		}
		q.Done("a")
		time.AfterFunc(150*time.Millisecond, func() {
			q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "urgent") // Before c, which waits for a token.
			q.Remove("d")
			q.ShutDown() // A drain is paced too.
		})
		want := "[b 100ms urgent 200ms c 300ms]"
		if got := fmt.Sprint(pacedHandOuts(q, 3)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A pause is a limit of 0. A new limit holds within 100 ms, and the queue says how long it has
// kept items back.
func TestPaceThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &reader{}
		limiter := rate.NewLimiter(rate.Every(time.Hour), 1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Pace: limiter})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		q.Add("c")
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		time.Sleep(time.Second + time.Millisecond)
		limiter.SetLimit(rate.Inf)
		start := time.Now()
		if err := <-w.ended; err != nil || time.Since(start) > 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s, _ := p.reads[0](); s.Paced != 1100*time.Millisecond {
			t.Errorf("kept back for %v", s.Paced)
		}
		limiter.SetLimit(0)
		limiter.SetBurst(0)
		w = startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		time.Sleep(time.Second)
		w.want(t, "a pause", "waits")
		if s, _ := p.reads[0](); s.Paced != 2100*time.Millisecond {
			t.Errorf("kept back for %v", s.Paced)
		}
		q.Remove("c")
		time.Sleep(time.Hour)
		if s, _ := p.reads[0](); s.Paced > 2200*time.Millisecond {
			t.Errorf("kept back for %v, and there was no item for an hour", s.Paced)
		}
	})
}

// After a TryGet without a token no worker waits for one, so the queue counts 100 ms, and not the hour
// until the next call.
func TestPaceCountsALookOfTryGetForAMoment(t *testing.T) {
	onPacedQueues(t, 1, func(t *testing.T, q pacedQueue, _ *rate.Limiter) {
		q.Add("a")
		q.TryGet()
		q.Add("b")
		if _, ok := q.TryGet(); ok {
			t.Error("TryGet gets an item without a token")
		}
		time.Sleep(time.Hour)
		if paced := q.Stats().Paced; paced != 100*time.Millisecond {
			t.Errorf("kept back for %v", paced)
		}
	})
}

// A limiter whose burst or limit is not positive has no next token to sleep for.
func TestPaceWithoutTokensLooksNowAndThen(t *testing.T) {
	for _, limiter := range []*rate.Limiter{rate.NewLimiter(1e6, 0), rate.NewLimiter(-1, 1)} {
		synctest.Test(t, func(t *testing.T) {
			limiter.AllowN(time.Now(), 1)
			c := &countedClock{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Clock: c})
			defer q.ShutDown()
			q.Add("a")
			w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
			time.Sleep(time.Millisecond)
			w.want(t, "no tokens", "waits")
			if n := c.readings.Load(); n > 10 {
				t.Errorf("a limit of %v with a burst of %d costs %d readings of the clock in a millisecond", limiter.Limit(), limiter.Burst(), n)
			}
			q.Remove("a")
		})
	}
}

// The worker that waits for the next token gives up. Nobody waits for its timer any more.
func TestPaceLeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testingclock.NewFakeClock(epoch)
		limiter := rate.NewLimiter(20, 1)
		limiter.AllowN(epoch, 1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Clock: c})
		defer q.ShutDown()
		q.Add("a")
		w := startWait(func(ctx context.Context) error { _, err := q.GetContext(ctx); return err })
		w.want(t, "without a token", "waits")
		before := c.HasWaiters()
		w.cancel()
		w.want(t, "given up", "context canceled")
		if !before || c.HasWaiters() {
			t.Errorf("a timer is armed: %v before, and %v after", before, c.HasWaiters())
		}
	})
}

// A Pace with a burst of 0 kept a queue for ever, and nobody was told.
func TestPaceWithoutABurstSaysThatTheQueueIsPaused(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	defer slog.SetDefault(was)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	lines := func() int { return strings.Count(log.String(), "The queue is paused") }
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(10, 0)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Name: "jobs"})
		defer q.ShutDown()
		q.Add("a")
		got := ""
		go func() { got, _ = q.Get() }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines() != 1 || !strings.Contains(log.String(), "queue=jobs") || !q.Stats().Paused || got != "" {
			t.Errorf("paused: %v, the log has %q, and a worker has got %q", q.Stats().Paused, log.String(), got)
		}
		limiter.SetBurst(1)
		time.Sleep(time.Second)
		synctest.Wait()
		if pace := q.Stats().Pace; pace != (workqueue.PaceStats{Limit: 10, Burst: 1, Limiter: limiter}) {
			t.Errorf("with a burst: got %+v", pace)
		}
		if got != "a" || q.Stats().Paused {
			t.Errorf("with a burst: paused %v, and the worker has got %q", q.Stats().Paused, got)
		}
		limiter.SetBurst(0)
		q.Add("b")
		go q.Get()
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines() != 2 {
			t.Errorf("a second pause: the log has %q", log.String())
		}
		limiter.SetLimit(rate.Inf)
		if q.Stats().Paused {
			t.Error("a limiter without a limit pauses the queue")
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
	if q := workqueue.NewTyped[string](); q.Stats().Paused {
		t.Error("a queue without a Pace is paused")
	}
}

// With a limit of 0, the tokens that are left are handed out. Then the queue is paused.
func TestPaceWithALimitOf0IsAPauseOnceNoTokenIsLeft(t *testing.T) {
	limiter := rate.NewLimiter(10, 2)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
	defer q.ShutDown()
	q.AddAll("a", "b", "c")
	limiter.SetLimit(0)
	for _, want := range []string{"a", "b", ""} {
		paused := q.Stats().Paused
		if got, _ := q.TryGet(); got != want || paused != (want == "") {
			t.Errorf("got %q, want %q; paused before: %v", got, want, paused)
		}
	}
	limiter.SetLimit(10)
	if q.Stats().Paused {
		t.Error("a queue with a limit is paused")
	}
}

// When the clock was set back by an hour, the next token is more than an hour away. A new limit holds
// within 100 ms all the same.
func TestPaceAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHookedClock()
		limiter := rate.NewLimiter(1, 1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Clock: c})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		q.TryGet()
		c.SetTime(c.Now().Add(-time.Hour))
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		limiter.SetLimit(rate.Inf)
		c.Step(100 * time.Millisecond)
		w.want(t, "a new limit", "<nil>")
	})
}

// A countedClock counts how often it is read.
type countedClock struct {
	clock.RealClock
	readings atomic.Int64
}

func (c *countedClock) Since(t time.Time) time.Duration {
	c.readings.Add(1)
	return c.RealClock.Since(t)
}

// Two queues of different types share a limiter.
func TestPaceOfTwoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(100, 1)
		a := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
		b := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Pace: limiter})
		var ofA, ofB atomic.Int64
		var over sync.WaitGroup
		for range 4 {
			over.Go(func() {
				for item, shutdown := a.Get(); !shutdown; item, shutdown = a.Get() {
					ofA.Add(1)
					a.Add(item)
					a.Done(item)
				}
			})
			over.Go(func() {
				for item, shutdown := b.Get(); !shutdown; item, shutdown = b.Get() {
					ofB.Add(1)
					b.Add(item)
					b.Done(item)
				}
			})
		}
		for i := range 8 {
			a.Add(fmt.Sprint(i))
			b.Add(i)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := ofA.Load() + ofB.Load(); n < 5999 || n > 6001 {
			t.Errorf("%d and %d hand-outs in a minute, want 6001 together", ofA.Load(), ofB.Load())
		}
		if min(ofA.Load(), ofB.Load()) == 0 {
			t.Errorf("%d and %d hand-outs", ofA.Load(), ofB.Load())
		}
		limiter.SetLimit(rate.Inf)
		a.ShutDown()
		b.ShutDown()
		over.Wait()
	})
}

// A fake clock is stepped at any moment, also while the timer is armed, and nobody steps it again.
func TestPaceOfAClockThatIsStepped(t *testing.T) {
	for _, hook := range []string{"onArm", "onArmed", ""} {
		synctest.Test(t, func(t *testing.T) {
			c := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: c, Pace: rate.NewLimiter(20, 1)})
			defer q.ShutDown()
			q.Add("a")
			q.TryGet()
			q.Add("b")
			step := sync.OnceFunc(func() { c.Step(50 * time.Millisecond) })
			switch hook {
			case "onArm":
				c.onArm = step
			case "onArmed":
				c.onArmed = step
			}
			w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
			if hook == "" {
				w.want(t, "armed", "waits")
				step()
			}
			w.want(t, "stepped "+hook, "<nil>")
		})
	}
}

// A clock that panics for the keeper ends its Get, and another worker keeps the pace.
func TestPaceOfAClockThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHookedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: c, Pace: rate.NewLimiter(20, 1)})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		c.onArm = func() { c.onArm = nil; panic("arm") }
		wantPanic(t, "arm", func() { q.Get() })
		checkInvariants(t, 0, q)
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		c.Step(50 * time.Millisecond)
		w.want(t, "stepped", "<nil>")
	})
}

// The end of a Run takes out what is queued, and needs no tokens for that.
func TestRunEndsWithoutThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(1, 1)
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Pace: limiter})
		ctx, stop := context.WithCancel(t.Context())
		for i := range 100 {
			q.Add(fmt.Sprint(i))
		}
		time.AfterFunc(5500*time.Millisecond, stop)
		handled := 0
		start := time.Now()
		err := workqueue.Run(ctx, q, func(context.Context, string) error { handled++; return nil }, workqueue.RunOptions[string]{
			OnStop: func(_ context.Context, s workqueue.Snapshot[string]) {
				if s.QueuedTotal+handled != 100 || handled != 6 {
					t.Errorf("%d are handled and %d left", handled, s.QueuedTotal)
				}
			},
		})
		if err != nil || time.Since(start) != 5500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The end of a Run also takes out items that no Remove can name, without tokens.
func TestRunEndsWithoutThePaceOfItemsThatDifferFromThemselves(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), workqueue.TypedRateLimitingQueueConfig[float64]{
		Pace: rate.NewLimiter(rate.Every(time.Hour), 0)})
	q.AddAll(math.NaN(), math.NaN())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	left := 0
	err := workqueue.Run(ctx, q, func(context.Context, float64) error { return nil }, workqueue.RunOptions[float64]{
		OnStop: func(_ context.Context, s workqueue.Snapshot[float64]) { left = s.QueuedTotal }})
	if err != nil || left != 2 || q.Len() != 0 {
		t.Errorf("got %v, %d items in the list, %d in the queue", err, left, q.Len())
	}
}

// Workers that come and go, adds and changes of the limit, in real time.
func TestPaceUnderLoad(t *testing.T) {
	limiter := rate.NewLimiter(50_000, 10)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Pace: limiter})
	var over sync.WaitGroup
	var got atomic.Int64
	for w := range 8 {
		over.Go(func() {
			for i := 0; ; i++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+w*i%7)*100*time.Microsecond)
				item, err := q.GetContext(ctx)
				cancel()
				switch {
				case errors.Is(err, workqueue.ErrShutDown):
					return
				case err == nil:
					got.Add(1)
					q.Done(item)
				}
			}
		})
	}
	const n = 5000
	for i := range n {
		q.Add(i)
		switch {
		case i%500 == 0:
			limiter.SetLimit(rate.Limit(10_000 + i*20))
		case i%50 == 0:
			checkInvariants(t, i, q)
		}
	}
	limiter.SetLimit(rate.Inf)
	if err := q.Drain(context.Background()); err != nil || got.Load() != n {
		t.Errorf("%v, %d of %d", err, got.Load(), n)
	}
	over.Wait()
	checkInvariants(t, n, q)
}
