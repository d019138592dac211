package reliability

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	cg "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// A queue has the methods of every rate limiting queue.
type queue interface {
	Add(item int)
	AddRateLimited(item int)
	AddAfter(item int, d time.Duration)
	Forget(item int)
	Get() (item int, shutdown bool)
	Done(item int)
	Len() int
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

func newQueue() queue {
	return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, time.Millisecond),
		workqueue.TypedRateLimitingQueueConfig[int]{})
}

// patience is longer than any call takes that is not stuck: a busy machine may stop this process
// for seconds.
const patience = 3 * time.Minute

// eventually reports whether a condition becomes true.
func eventually(is func() bool) bool {
	for from := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(from) > patience {
			return false
		}
	}
	return true
}

// A drainRun is one queue under load that is drained.
type drainRun struct {
	queue queue
	early atomic.Int32 // drains that returned with items queued or in hand
	late  atomic.Int32 // hand-outs after a drain had returned
	over  atomic.Bool
	hand  atomic.Int32
}

// play has two producers, two workers that fail now and then, and drainers. It reports whether all
// have returned.
func (r *drainRun) play(drainers int) bool {
	var all sync.WaitGroup
	for p := range 2 {
		all.Go(func() {
			for i := range 30 {
				r.queue.Add((p*7 + i) % 11)
			}
		})
		all.Go(r.work)
	}
	for i := range drainers {
		all.Go(func() { r.drain(i) })
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		all.Wait()
	}()
	select {
	case <-returned:
		return true
	case <-time.After(patience):
		return false
	}
}

func (r *drainRun) work() {
	for item, shutdown := r.queue.Get(); !shutdown; item, shutdown = r.queue.Get() {
		r.hand.Add(1)
		if r.over.Load() {
			r.late.Add(1)
		}
		switch item % 4 {
		case 0:
			r.queue.AddRateLimited(item)
		case 1:
			r.queue.Add(item + 1)
			r.queue.Forget(item)
		case 2:
			r.queue.AddAfter(item, time.Microsecond)
		}
		r.hand.Add(-1)
		r.queue.Done(item)
	}
}

func (r *drainRun) drain(number int) {
	if q, ok := r.queue.(interface{ Drain(context.Context) error }); ok && number%2 == 1 {
		if err := q.Drain(context.Background()); err != nil {
			r.early.Add(1)
		}
	} else {
		r.queue.ShutDownWithDrain()
	}
	if r.queue.Len() > 0 || r.hand.Load() > 0 {
		r.early.Add(1)
	}
	r.over.Store(true)
}

// With 1, 2 and 3 drainers at once, and with retries under way.
func TestDrainUnderLoadIsNeverEarly(t *testing.T) {
	runs := 10_000
	if raceEnabled {
		runs = 2000
	}
	for run := range runs {
		r := &drainRun{queue: newQueue()}
		if !r.play(1 + run%3) {
			t.Fatalf("run %d hangs", run)
		}
		if early, late := r.early.Load(), r.late.Load(); early+late > 0 {
			t.Fatalf("run %d: %d drains were early, %d items were handed out after one", run, early, late)
		}
	}
}

// The same on client-go's queue, with one drainer, finds its early drains; more drainers hang.
func TestDrainUnderLoadIsEarlyInClientGo(t *testing.T) {
	early := 0
	const runs = 500
	for range runs {
		q := cg.NewTypedRateLimitingQueue(cg.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, time.Millisecond))
		r := &drainRun{queue: q}
		if !r.play(1) {
			t.Fatal("it hangs")
		}
		if r.early.Load()+r.late.Load() > 0 {
			early++
		}
	}
	t.Logf("%d of %d drains are early", early, runs)
	if early == 0 {
		t.Error("no drain is early: client-go now does as documented, or this test does not look")
	}
}

// The error of a Drain and the later hand-outs add up: workers still get the named items, and no
// others.
func TestDrainErrorAddsUpUnderLoad(t *testing.T) {
	for run := range 2000 {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
		const items = 40
		var working sync.WaitGroup
		var taken atomic.Int32
		work := func(n int) {
			for range n {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				taken.Add(1)
				q.Done(item)
			}
		}
		for i := range items {
			q.Add(i)
		}
		for i := range run % 5 {
			q.AddAfter(i, time.Hour)
		}
		working.Go(func() { work(run % items) })
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(run%7)*time.Microsecond)
		err := q.Drain(ctx)
		cancel()
		working.Wait()
		var left *workqueue.DrainError[int]
		if !errors.As(err, &left) {
			t.Fatalf("run %d: Drain returned %v", run, err)
		}
		// Items that were handed out between the look of Drain and this line are in its numbers as
		// queued or in flight; no item may be in neither.
		named := map[int]bool{}
		for _, info := range append(left.Left.Queued, left.Left.InFlight...) {
			named[info.Item] = true
		}
		before := taken.Load()
		for range q.Len() {
			item, _ := q.Get()
			if !named[item] {
				t.Fatalf("run %d: item %d is queued, and %v does not name it", run, item, err)
			}
			q.Done(item)
			taken.Add(1)
		}
		if got := taken.Load(); got != items || left.Left.WaitingTotal != run%5 {
			t.Fatalf("run %d: %d of %d items were handed out, %d after %v", run, got, items, got-before, err)
		}
		if err := q.Drain(context.Background()); err != nil {
			t.Fatalf("run %d: in the end, Drain returned %v", run, err)
		}
	}
}

// A Run that ends at any time while another Run works: each item is either handled to the end by
// one of them or named to OnStop, and never both. Waiting items are named too, and a later drain
// has nothing to wait for.
func TestRunEndAddsUpUnderLoad(t *testing.T) {
	for run := range 2000 {
		e := &runEnd{queue: workqueue.NewTypedRateLimiting(
			workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Hour, time.Hour), workqueue.TypedRateLimitingQueueConfig[int]{})}
		for i := range e.handled {
			e.queue.Add(i)
		}
		for i := range run % 5 {
			e.queue.AddAfter(waiting+i, time.Hour)
		}
		if problem := e.play(run); problem != "" {
			t.Fatalf("run %d: %s", run, problem)
		}
	}
}

const waiting = 1000 // and more are the items that wait

type runEnd struct {
	queue   *workqueue.TypedRateLimiting[int]
	handled [40]atomic.Int32
}

func (e *runEnd) play(run int) (problem string) {
	ctx, cancel := context.WithCancel(context.Background())
	logger := logr.Discard()
	var left workqueue.Snapshot[int]
	options := workqueue.RunOptions[int]{Workers: 1 + run%3, Logger: &logger}
	var runs sync.WaitGroup
	var one, other error
	first := options
	first.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) { left = s }
	runs.Go(func() { one = workqueue.Run(ctx, e.queue, e.handle(ctx, run%2 == 0), first) })
	if run%3 > 0 {
		runs.Go(func() { other = workqueue.Run(context.Background(), e.queue, e.handle(ctx, false), options) })
	}
	for range run % 50 {
		runtime.Gosched()
	}
	cancel()
	runs.Wait()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.queue.ShutDownWithDrain()
	}()
	select {
	case <-drained:
	case <-time.After(patience):
		return fmt.Sprintf("a drain after Run hangs, which has returned %v", one)
	}
	if one != nil || other != nil && other != workqueue.ErrShutDown {
		return fmt.Sprintf("the calls of Run returned %v and %v", one, other)
	}
	return e.judge(left, run%5)
}

// handle returns a handler whose calls fail in part if they come late.
func (e *runEnd) handle(ctx context.Context, fails bool) func(context.Context, int) error {
	return func(_ context.Context, item int) error {
		runtime.Gosched()
		if fails && item%4 == 0 && ctx.Err() != nil {
			return errors.New("failed")
		}
		if item < waiting {
			e.handled[item].Add(1)
		}
		return nil
	}
}

func (e *runEnd) judge(left workqueue.Snapshot[int], waits int) (problem string) {
	named := map[int]int32{}
	for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed) {
		named[info.Item]++
	}
	for i := range waits {
		if named[waiting+i] != 1 {
			return fmt.Sprintf("item %d waited, and %v names it %d times", waiting+i, left, named[waiting+i])
		}
	}
	for i := range e.handled {
		if times := e.handled[i].Load(); times+named[i] != 1 {
			return fmt.Sprintf("item %d was handled %d times, and %v names it %d times", i, times, left, named[i])
		}
	}
	return ""
}
