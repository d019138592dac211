package workqueue_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

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

// Every version of an item that was announced before an Add must be seen by a
// worker after it, and no two workers may hold an item at once.
func TestConcurrentAccounting(t *testing.T) {
	t.Parallel()
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

func TestDoneOfWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	thousand := []step{{"add a", ""}}
	for range 1000 {
		thousand = append(thousand, step{"done a", ""})
	}
	for name, steps := range map[string][]step{
		"queued, never handed out": {
			{"add a", ""}, {"done a", ""}, {"len", "1"}, {"get", "a"}, {"try", "nothing "},
		},
		"done twice after being added again": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"done a", ""}, {"done a", ""}, {"len", "1"}, {"get", "a"}, {"try", "nothing "},
		},
		"done twice": {
			{"add a", ""}, {"get", "a"}, {"done a", ""}, {"done a", ""}, {"len", "0"}, {"try", "nothing "}, {"add a", ""}, {"len", "1"},
		},
		"a stranger": {
			{"done a", ""}, {"add b", ""}, {"done a", ""}, {"len", "1"}, {"get", "b"}, {"done a", ""}, {"done b", ""}, {"drain", ""},
		},
		"a thousand times": append(thousand, step{"len", "1"}, step{"get", "a"}, step{"try", "nothing "}),
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}
