package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func TestLifeOfAnItem(t *testing.T) {
	for name, steps := range map[string][]step{
		"handed out in the order added": {
			{"add b", ""}, {"add a", ""}, {"add c", ""}, {"len", "3"},
			{"get", "b"}, {"get", "a"}, {"get", "c"}, {"len", "0"},
		},
		"added twice, handed out once": {
			{"add a", ""}, {"add b", ""}, {"add a", ""}, {"len", "2"},
			{"get", "a"}, {"get", "b"}, {"try", "nothing "},
		},
		"added while processed, handed out again after Done": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"add a", ""}, {"len", "0"}, {"try", "nothing "},
			{"done a", ""}, {"len", "1"}, {"get", "a"}, {"done a", ""}, {"len", "0"}, {"try", "nothing "},
		},
		"added while processed, queued behind the others": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"add b", ""}, {"done a", ""},
			{"get", "b"}, {"get", "a"},
		},
		"added after Done, handed out again": {
			{"add a", ""}, {"get", "a"}, {"done a", ""}, {"add a", ""}, {"get", "a"},
		},
		"AddAll of nothing": {
			{"addall", ""}, {"len", "0"}, {"w: get", "blocks"}, {"addall", ""}, {"w: returns", "blocks"},
		},
		"AddAll keeps the order and drops duplicates": {
			{"add c", ""}, {"addall b a b c a d", ""}, {"len", "4"},
			{"get", "c"}, {"get", "b"}, {"get", "a"}, {"get", "d"}, {"try", "nothing "},
		},
		"AddAll marks what is processed": {
			{"add a", ""}, {"get", "a"}, {"addall a b", ""}, {"len", "1"}, {"get", "b"}, {"done a", ""}, {"get", "a"},
		},
		"TryGet never waits": {
			{"try", "nothing "}, {"add a", ""}, {"try", "a"}, {"try", "nothing "}, {"shutdown", ""}, {"try", "nothing "},
		},
		"TryGet takes what a shutdown has left": {
			{"add a", ""}, {"shutdown", ""}, {"try", "a"}, {"try", "nothing "},
		},
		"items in flight are dropped in any order": {
			{"addall a b c d", ""}, {"get", "a"}, {"get", "b"}, {"get", "c"}, {"add b", ""}, {"add c", ""},
			{"done a", ""}, {"done c", ""}, {"done b", ""}, {"get", "d"}, {"get", "c"}, {"get", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

func TestZeroValueIsAQueue(t *testing.T) {
	timeline(t, func() workqueue.TypedInterface[string] { return new(workqueue.Typed[string]) },
		step{"len", "0"}, step{"done a", ""}, step{"w: get", "blocks"}, step{"add a", ""},
		step{"w: returns", "a"}, step{"add a", ""}, step{"drainer: drain", "blocks"}, step{"done a", ""},
		step{"get", "a"}, step{"done a", ""}, step{"drainer: returns", ""}, step{"shutting", "true"})
}

func TestGetWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"one worker is woken by each Add": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"add a", ""}, {"add b", ""}, {"len", "0"}, {"add c", ""},
		},
		"a duplicate wakes nobody": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
		},
		"Done of a re-added item wakes, although who calls it never gets": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
			{"done a", ""}, {"w: returns", "a"},
		},
		"AddAll wakes as many as it has items for": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"addall a b c d", ""}, {"len", "1"}, {"get", "d"},
		},
		"a worker that was woken waits again": {
			{"w: get", "blocks"}, {"add a", ""}, {"w: returns", "a"}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"}, {"done b", ""}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"},
		},
		"a shutdown wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: getcontext", "blocks"}, {"shutdown", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
			{"w3: returns", "workqueue: queue is shut down "},
		},
		"a drain wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"drain", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

// Which of the parked workers an Add wakes is not promised, so the table above
// cannot tell that it was one.
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
		// The other half is released by one critical section: each worker on
		// its way wakes the next.
		rest := make([]int, n/2)
		for i := range rest {
			rest[i] = n + i
		}
		q.AddAll(rest...)
		synctest.Wait()
		if got.Load() != n || q.Waiting() != 0 {
			t.Errorf("after AddAll: %d workers have returned and %d wait, want %d and 0", got.Load(), q.Waiting(), n)
		}
		checkInvariants(t, n, q)
	})
}

// A worker on its way to the last item meets the shutdown that came after it
// was woken: it must pass the news on to those that still wait.
func TestShutDownBehindAWokenWorkerReleasesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: &recorder{}, Clock: clock,
		})
		results := make(chan string, 3)
		for range 3 {
			go func() {
				item, _ := q.Get()
				results <- item
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
		q.Add("a")
		synctest.Wait()
		q.ShutDown()
		close(hold)
		synctest.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d workers wait in a queue that is shut down and empty", n)
		}
		if err := q.CheckInvariants(); err != nil {
			t.Error(err)
		}
		q.Add("b") // Ignored.
		for range q.Waiting() {
			q.Get() // Releases the next, lest the bubble hangs.
		}
	})
}

func TestGetContext(t *testing.T) {
	for name, steps := range map[string][]step{
		"an item": {
			{"add a", ""}, {"getcontext", "a"}, {"w: getcontext", "blocks"}, {"add b", ""}, {"w: returns", "b"},
		},
		"canceled while it waits": {
			{"w: getcontext", "blocks"}, {"w: cancel", "context canceled "},
			{"add a", ""}, {"len", "1"}, {"get", "a"},
		},
		"one of two canceled, the other gets the item": {
			{"w1: getcontext", "blocks"}, {"w2: get", "blocks"}, {"w1: cancel", "context canceled "},
			{"add a", ""}, {"w2: returns", "a"},
		},
		"canceled after it has returned": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"w: cancel", "a"}, {"done a", ""}, {"drain", ""},
		},
		"shut down": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"add b", ""}, {"shutdown", ""}, {"w: returns", "a"},
			{"getcontext", "b"}, {"getcontext", "workqueue: queue is shut down "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
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

func TestGetContextWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if item, err := q.GetContext(ctx); item != "" || err != context.DeadlineExceeded {
			t.Errorf("got %q, %v, want no item, %v", item, err, context.DeadlineExceeded)
		}
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("returned after %v, want 1h", waited)
		}
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d workers wait", n)
		}
	})
}

// An Add and a cancellation at the same instant, in whatever order the
// scheduler picks: the item reaches the worker, or the one that waits beside
// it, or stays. And a worker that comes later is woken as if nothing had been.
func TestGetContextCanceledAtTheInstantOfAnAdd(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for round := range 2000 {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTyped[string]()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got atomic.Int64
			get := func(ctx context.Context) {
				if _, err := q.GetContext(ctx); err == nil {
					got.Add(1)
				}
			}
			go get(ctx)
			patient := round%2 == 0
			if patient {
				go get(t.Context())
			}
			synctest.Wait()
			addAndCancel(round, func() { q.AddAll("a", "a") }, cancel)
			checkInvariants(t, round, q)
			checkQuiet(t, round, q)
			left := q.Len()
			if int(got.Load())+left != 1 || patient && left != 0 {
				t.Fatalf("round %d: %d workers got the item and %d are left", round, got.Load(), left)
			}
			outcomes[fmt.Sprint("left ", left)]++
			takeAll(q)
			go get(t.Context())
			synctest.Wait()
			q.Add("b")
			synctest.Wait()
			if q.Len() != 0 {
				t.Fatalf("round %d: the next worker was not woken", round)
			}
			q.ShutDown()
		})
	}
	if len(outcomes) != 2 {
		t.Errorf("only one of two outcomes came up: %v", outcomes)
	}
}

// addAndCancel does both at once, in one of the orders that there are.
func addAndCancel(round int, add, cancel func()) {
	switch round / 2 % 4 {
	case 0: // What is started last tends to run first.
		go cancel()
		go add()
	case 1:
		go add()
		go cancel()
	case 2: // Both have happened before the worker runs, unless on another CPU.
		cancel()
		add()
	default:
		add()
		cancel()
	}
	synctest.Wait()
}

// Every version of an item that was announced before an Add must be seen by a
// worker after it, and no two workers may hold an item at once.
func TestConcurrentAccounting(t *testing.T) {
	for name, config := range map[string]workqueue.TypedQueueConfig[int]{
		"plain":   {},
		"metrics": {Name: "q", MetricsProvider: &recorder{discard: true}},
		"storage": {Queue: &shelf[int]{}},
	} {
		t.Run(name, func(t *testing.T) { account(t, workqueue.NewTypedWithConfig(config)) })
	}
}

func account(t *testing.T, q *workqueue.Typed[int]) {
	const items, producers, workers, adds = 40, 4, 4, 3000
	var version, seen, holders [items]atomic.Int64
	var producing, working sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			for i := range adds {
				item := (i*(p+1) + p) % items
				version[item].Add(1)
				if i%5 == 0 {
					q.AddAll(item, item)
				} else {
					q.Add(item)
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			for {
				item, err := take(t, q, w)
				if err != nil {
					return
				}
				if n := holders[item].Add(1); n != 1 {
					t.Errorf("%d workers hold %d", n, item)
				}
				seen[item].Store(version[item].Load())
				holders[item].Add(-1)
				q.Done(item)
			}
		})
	}
	producing.Wait()
	q.ShutDownWithDrain()
	working.Wait()
	for i := range items {
		if got, want := seen[i].Load(), version[i].Load(); got != want {
			t.Errorf("item %d: version %d was handed out last, want %d", i, got, want)
		}
	}
	checkInvariants(t, 0, q)
}

// take is Get, or every other worker's GetContext.
func take(t *testing.T, q *workqueue.Typed[int], worker int) (int, error) {
	if worker%2 == 0 {
		return q.GetContext(t.Context())
	}
	item, shutdown := q.Get()
	if shutdown {
		return item, workqueue.ErrShutDown
	}
	return item, nil
}

// Calls that find the lock taken, and do not get it soon, wait for it.
func TestCallsWaitForTheLock(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.Typed[string]){
		"Add":  func(q *workqueue.Typed[string]) { q.Add("b") },
		"Get":  func(q *workqueue.Typed[string]) { q.Get() },
		"Done": func(q *workqueue.Typed[string]) { q.Done("b") },
	} {
		q := workqueue.NewTyped[string]()
		q.AddAll("a", "b", "c")
		q.Get()
		returned := make(chan struct{})
		q.Watch("a", func() { // The Add that calls it has the lock.
			called := make(chan struct{})
			go func() {
				defer close(returned)
				close(called)
				call(q)
			}()
			<-called
			for range 1000 {
				runtime.Gosched()
			}
			select {
			case <-returned:
				t.Errorf("%s has not waited", name)
			default:
			}
		})
		q.Add("a")
		<-returned
		checkInvariants(t, 0, q)
	}
}

// Workers hold some of a burst while the rest of it is done and its memory given
// back: what is held is still known.
func TestHeldItemsThroughCompaction(t *testing.T) {
	q := workqueue.NewTyped[int]()
	const n = 4000
	for i := range n {
		q.Add(i)
		q.Get()
	}
	for i := range n {
		if i%500 != 0 {
			q.Done(i)
		}
		if i%1000 == 0 || i > n-5 {
			checkInvariants(t, i, q)
		}
	}
	for i := 0; i < n; i += 500 {
		q.Add(i)
		q.Done(i)
		if item, ok := q.TryGet(); item != i || !ok {
			t.Errorf("got %d, %v, want %d, which was added again", item, ok, i)
		}
		q.Done(i)
	}
	checkInvariants(t, n, q)
	if q.Held() != 0 || q.Len() != 0 {
		t.Errorf("%d items are held and %d queued, want none", q.Held(), q.Len())
	}
}

// Through growth, wrapping and shrinking of all that holds items.
func TestOrderThroughBursts(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	next, want := 0, 0
	for round, burst := range []int{3, 9000, 1, 20, 5000, 0, 700} {
		for range burst {
			q.Add(next)
			next++
		}
		for range burst - burst/3 {
			got, _ := q.Get()
			if got != want {
				t.Fatalf("round %d: got %d, want %d", round, got, want)
			}
			q.Done(got)
			want++
		}
		checkInvariants(t, round, q)
	}
	if rest := takeAll(q); !slices.IsSorted(rest) || len(rest) != next-want || rest[0] != want {
		t.Errorf("got the %d last items from %d on out of order", next-want, want)
	}
	checkInvariants(t, next, q)
}
