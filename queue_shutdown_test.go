package workqueue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func TestShutDown(t *testing.T) {
	for name, steps := range map[string][]step{
		"what is queued is handed out": {
			{"addall a b c d e", ""}, {"shutting", "false"}, {"shutdown", ""}, {"shutting", "true"}, {"len", "5"},
			{"get", "a"}, {"get", "b"}, {"get", "c"}, {"get", "d"}, {"get", "e"}, {"get", "shutdown "}, {"get", "shutdown "},
		},
		"nothing is accepted any more": {
			{"shutdown", ""}, {"add a", ""}, {"addall b c", ""}, {"len", "0"}, {"get", "shutdown "},
		},
		"an Add of what is processed is not accepted either": {
			{"add a", ""}, {"get", "a"}, {"shutdown", ""}, {"add a", ""}, {"done a", ""}, {"len", "0"}, {"get", "shutdown "},
		},
		"what was added again before is queued by its Done": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"shutdown", ""}, {"get", "shutdown "},
			{"done a", ""}, {"len", "1"}, {"get", "a"}, {"done a", ""}, {"get", "shutdown "},
		},
		"twice": {
			{"add a", ""}, {"shutdown", ""}, {"shutdown", ""}, {"get", "a"}, {"get", "shutdown "},
		},
		"after a drain": {
			{"drain", ""}, {"shutdown", ""}, {"drain", ""}, {"get", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, noExtras(steps)...) })
	}
}

// noExtras replaces AddAll, which only a Typed has.
func noExtras(steps []step) (plain []step) {
	for _, s := range steps {
		var first, second, third, fourth, fifth string
		switch n, _ := fmt.Sscanf(s.do, "addall %s %s %s %s %s", &first, &second, &third, &fourth, &fifth); n {
		case 0:
			plain = append(plain, s)
		default:
			for _, item := range []string{first, second, third, fourth, fifth}[:n] {
				plain = append(plain, step{"add " + item, ""})
			}
		}
	}
	return plain
}

func TestDrainWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"for nothing": {
			{"drain", ""}, {"shutting", "true"}, {"add a", ""}, {"len", "0"},
		},
		"for what is queued, none in flight": {
			{"add a", ""}, {"add b", ""}, {"d: drain", "blocks"}, {"get", "a"}, {"d: returns", "blocks"},
			{"done a", ""}, {"d: returns", "blocks"}, {"get", "b"}, {"d: returns", "blocks"}, {"done b", ""}, {"d: returns", ""},
		},
		"for what is in flight": {
			{"add a", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
		"for the queued behind one in flight": {
			{"add a", ""}, {"add b", ""}, {"add c", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", "blocks"},
			{"get", "b"}, {"get", "c"}, {"done c", ""}, {"d: returns", "blocks"}, {"done b", ""}, {"d: returns", ""},
		},
		"for what was added again in flight": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", "blocks"},
			{"get", "a"}, {"d: returns", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
		"not for what is added after it": {
			{"add a", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"add a", ""}, {"add b", ""}, {"done a", ""}, {"d: returns", ""}, {"len", "0"},
		},
		"not for a Done of what nobody holds": {
			{"add a", ""}, {"add b", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done b", ""}, {"done c", ""}, {"d: returns", "blocks"},
			{"get", "b"}, {"done b", ""}, {"done b", ""}, {"d: returns", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}

func TestDrainsBesideOthers(t *testing.T) {
	for name, steps := range map[string][]step{
		"several of them, all return": {
			{"add a", ""}, {"d1: drain", "blocks"}, {"d2: drain", "blocks"}, {"get", "a"}, {"d3: drain", "blocks"},
			{"done a", ""}, {"d1: returns", ""}, {"d2: returns", ""}, {"d3: returns", ""}, {"drain", ""},
		},
		"until a ShutDown": {
			{"add a", ""}, {"get", "a"}, {"d1: drain", "blocks"}, {"d2: drain", "blocks"}, {"shutdown", ""},
			{"d1: returns", ""}, {"d2: returns", ""}, {"done a", ""}, {"get", "shutdown "},
		},
		"after a ShutDown too": {
			{"add a", ""}, {"shutdown", ""}, {"d: drain", "blocks"}, {"get", "a"}, {"done a", ""}, {"d: returns", ""},
		},
		"beside workers, who get the rest and learn of the end": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"add a", ""}, {"w1: returns", "a"}, {"d: drain", "blocks"},
			{"w2: returns", "shutdown "}, {"done a", ""}, {"d: returns", ""},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}

// Drains under load, many of them since each tries one interleaving: when one
// returns, everything that was accepted has been handed out and is done.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	runs := 10_000
	if testing.Short() || raceEnabled {
		runs = 3_000
	}
	for run := range runs {
		drainUnderLoad(t, run)
		if t.Failed() {
			return
		}
	}
}

func drainUnderLoad(t *testing.T, run int) {
	q := workqueue.NewTyped[int]()
	var producing, working, draining sync.WaitGroup
	var inHand atomic.Int64
	for p := range 2 {
		producing.Go(func() {
			for i := range 20 {
				q.Add((p*7 + i) % 9)
			}
		})
		working.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				inHand.Add(1)
				if item%3 == 0 {
					q.Add(item + 1)
				}
				inHand.Add(-1)
				q.Done(item)
			}
		})
	}
	for range 1 + run%3 {
		draining.Go(func() {
			q.ShutDownWithDrain()
			if left, held := q.Len(), inHand.Load(); left+int(held) != 0 {
				t.Errorf("run %d: drain returned with %d items queued and %d in hand", run, left, held)
			}
		})
	}
	draining.Wait()
	working.Wait()
	producing.Wait()
	checkInvariants(t, run, q)
}

func TestDrainWithManyWorkersIsComplete(t *testing.T) {
	q := workqueue.NewTyped[int]()
	const items = 1000
	for i := range items {
		q.Add(i)
	}
	var working sync.WaitGroup
	var done atomic.Int64
	for range 4 {
		working.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				done.Add(1)
				q.Done(item)
			}
		})
	}
	q.ShutDownWithDrain()
	if n := done.Load(); n != items {
		t.Errorf("drain returned after %d of %d items", n, items)
	}
	working.Wait()
}

func TestShutDownFromEverywhere(t *testing.T) {
	for _, open := range []func() workqueue.TypedInterface[string]{newTyped, newDelaying} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
				d.AddAfter("late", time.Hour)
			}
			for i := range 32 {
				go func() {
					if i%2 == 0 {
						q.ShutDown()
					} else {
						q.ShutDownWithDrain()
					}
				}()
				go q.Get()
			}
			synctest.Wait() // The bubble reports goroutines that are left.
		})
	}
}

// A Get never returns an item and shutdown == true, and between them the
// workers get all that was accepted.
func TestGetAtTheInstantOfTheShutDown(t *testing.T) {
	for run := range 2000 {
		q := workqueue.NewTyped[int]()
		var running sync.WaitGroup
		var got atomic.Int64
		for range 3 {
			running.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						if item != 0 {
							t.Errorf("run %d: got item %d at the shutdown", run, item)
						}
						return
					}
					got.Add(1)
				}
			})
		}
		running.Go(q.ShutDown)
		for i := 1; i <= 5; i++ {
			q.Add(i)
		}
		running.Wait()
		if n := q.Held(); int64(n) != got.Load() || q.Len() != 0 {
			t.Fatalf("run %d: %d items were handed out, %d returned, %d are left", run, n, got.Load(), q.Len())
		}
	}
}
