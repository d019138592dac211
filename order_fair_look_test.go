package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

func queuedOf(q *workqueue.Typed[string], limit int) (items []string) {
	for place, info := range q.Snapshot(limit).Queued {
		if info.Position != place+1 {
			items = append(items, fmt.Sprint("at ", info.Position))
		}
		items = append(items, info.Item)
	}
	return items
}

// A Snapshot shows a fair queue in the order in which its items would be handed out,
// each done at once.
func TestSnapshotOfAFairQueue(t *testing.T) {
	rnd := newRand(t)
	for range scripts() {
		weights := map[string]int{"a": 1 + rnd.IntN(3), "b": 1 + rnd.IntN(3)}
		options := workqueue.FairOptions[string, string]{
			Group:  byTenant,
			Weight: func(tenant string) int { return max(1, weights[tenant]) },
		}
		switch rnd.IntN(3) {
		case 0:
			options.Within = func() workqueue.Queue[string] {
				return workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{Of: func(item string) int { return len(item) }})
			}
		case 1:
			options.Within = func() workqueue.Queue[string] {
				return workqueue.NewFairQueue(workqueue.FairOptions[string, string]{Group: func(item string) string { return item[len(item)-1:] }})
			}
		}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.NewFairQueue(options)})
		for range 60 {
			item := fmt.Sprintf("%c/%d", 'a'+rnd.IntN(4), rnd.IntN(30))
			switch rnd.IntN(8) {
			case 0:
				q.Remove(item)
			case 1, 2:
				if item, ok := q.TryGet(); ok {
					q.Done(item)
				}
			default:
				q.Add(item)
			}
		}
		some, all := queuedOf(q, 5), queuedOf(q, 1000)
		want := takeAll(q)
		if !slices.Equal(all, want) || !slices.Equal(some, want[:min(5, len(want))]) {
			t.Fatalf("weights %v: got %s\n%s, want\n%s", weights, some, all, want)
		}
		q.ShutDown()
	}
}

// Groups at their limits come last, and what a queue within does not tell has no place.
func TestSnapshotOfWhatAFairQueueHoldsBack(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: newFair(nil, map[string]int{"a": 1})})
	q.AddAll("a/1", "a/2", "b/1", "b/2")
	q.Get()
	if got := strings.Join(queuedOf(q, 10), " "); got != "b/1 b/2 a/2" {
		t.Errorf("got %s, want b/1 b/2 a/2", got)
	}
	for name, within := range map[string]func() workqueue.Queue[float64]{
		"foreign": func() workqueue.Queue[float64] { return &shelf[float64]{} },
		"OldestEvery": func() workqueue.Queue[float64] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{OldestEvery: 2})
		},
		"OldestEvery=1": func() workqueue.Queue[float64] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{OldestEvery: 1})
		},
		"FIFO": nil,
	} {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Order: workqueue.NewFairQueue(workqueue.FairOptions[float64, bool]{
			Group: func(item float64) bool { return item > 1 }, Within: within,
		})})
		q.AddAll(1, 2, math.NaN())
		s := q.Snapshot(10)
		if len(s.Queued) != 2 || s.QueuedTotal != 3 || (s.Queued[0].Position == 0) != (within != nil) {
			t.Errorf("%s: got %v of %d", name, s.Queued, s.QueuedTotal)
		}
	}
}

// BenchmarkSnapshotOfAFairQueue says what a Snapshot of the first items costs others.
func BenchmarkSnapshotOfAFairQueue(b *testing.B) {
	for _, limit := range []int{100, 100_000} {
		b.Run(fmt.Sprint("limit=", limit), func(b *testing.B) {
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
				Group: func(item int) int { return item % 1000 },
			})})
			for range 100_000 {
				q.Add(rand.IntN(1 << 30))
			}
			for b.Loop() {
				q.Snapshot(limit)
			}
		})
	}
}

// A Snapshot runs while everybody waits for the lock, so it must not make a goroutine for
// each group: the runtime keeps some 450 bytes of each for ever.
func TestSnapshotOfAFairQueueMakesNoGoroutines(t *testing.T) {
	made := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	if metrics.Read(made); made[0].Value.Kind() != metrics.KindUint64 {
		t.Skip("this Go does not count goroutines")
	}
	const groups, each = 1000, 5
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group:  func(item int) int { return item % groups },
		Within: func() workqueue.Queue[int] { return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}) },
	})})
	defer q.ShutDown()
	for item := range groups * each {
		q.Add(item)
	}
	metrics.Read(made)
	before := made[0].Value.Uint64()
	s := q.Snapshot(groups * each)
	metrics.Read(made)
	if n := made[0].Value.Uint64() - before; n > groups/2 {
		t.Errorf("it made %d goroutines", n)
	}
	for i, info := range s.Queued {
		if info.Item != i { // Each group in turn.
			t.Fatalf("place %d has %d, want %d", i, info.Item, i)
		}
	}
}
