package attack

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// reading is a StateProvider that keeps the last queue.
type reading struct {
	workqueue.NoMetrics
	source workqueue.QueueSource
}

func (r *reading) NewQueue(source workqueue.QueueSource) workqueue.QueueMetrics {
	r.source = source
	return workqueue.QueueMetrics{Buckets: []float64{1}}
}

// TestStats has more priorities and groups than there are parts. The parts of a queue, and of
// two queues together, add up to the whole, and no part is there twice.
func TestStats(t *testing.T) {
	play(t, 60, func(t *testing.T, rnd *rand.Rand) int {
		var sum workqueue.QueueStats
		for range 2 {
			stats := statsAtRandom(t, rnd)
			checkParts(t, stats)
			sum.Merge(stats)
			checkParts(t, sum)
		}
		return 2 * 400
	})
}

func statsAtRandom(t *testing.T, rnd *rand.Rand) workqueue.QueueStats {
	priorities, groups, mood := 1+rnd.IntN(60), 1+rnd.IntN(60), 0
	order := workqueue.Order[int]{
		Group:       func(item int) string { return fmt.Sprint((item + mood) % groups) },
		GroupsFirst: rnd.IntN(2) == 0, OldestEvery: rnd.IntN(3),
	}
	if rnd.IntN(2) == 0 {
		order.MaxInFlight = func(string) int { return rnd.IntN(3) }
	}
	p := new(reading)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: p, Order: order})
	defer q.ShutDown()
	for range 400 {
		item := rnd.IntN(120)
		switch rnd.IntN(8) {
		case 0, 1, 2, 3:
			q.AddWith(workqueue.AddOptions{Priority: new(rnd.IntN(priorities))}, item)
		case 4, 5:
			q.TryGet()
		case 6:
			q.Done(item)
		case 7:
			q.Remove(item)
			mood++
		}
	}
	stats, ok := p.source.Read()
	s := q.Snapshot(-1)
	depth := s.QueuedTotal
	for _, info := range s.InFlight {
		if info.State == workqueue.ItemInFlightAgain {
			depth++
		}
	}
	if !ok || stats.Depth != depth || stats.InFlight != s.InFlightTotal {
		t.Errorf("depth %d, in flight %d, but the queue has %v", stats.Depth, stats.InFlight, s)
	}
	return stats
}

func checkParts(t *testing.T, s workqueue.QueueStats) {
	t.Helper()
	checkSum(t, s, s.ByPriority)
	checkSum(t, s, s.ByGroup)
	for i, p := range s.ByGroup {
		if i > 0 && !p.Others && p.Depth > s.ByGroup[i-1].Depth {
			t.Errorf("group %d is deeper than the one before: %+v", i, s.ByGroup)
		}
	}
}

func checkSum[K comparable](t *testing.T, s workqueue.QueueStats, parts []workqueue.PartStats[K]) {
	t.Helper()
	depth, inFlight, others := 0, 0, 0
	seen := map[K]bool{}
	for i, p := range parts {
		depth += p.Depth
		inFlight += p.InFlight
		switch {
		case p.Others:
			others++
			if i != len(parts)-1 {
				t.Errorf("the part of the others is not the last: %+v", parts)
			}
		case seen[p.Key]:
			t.Errorf("%v is there twice: %+v", p.Key, parts)
		}
		seen[p.Key] = seen[p.Key] || !p.Others
		if p.OldestItem > s.OldestItem {
			t.Errorf("a part is older than the whole: %v, %+v", s.OldestItem, p)
		}
	}
	if depth != s.Depth || inFlight != s.InFlight || others > 1 || len(parts)-others > 25 {
		t.Errorf("the parts have %d and %d, of %d and %d: %+v", depth, inFlight, s.Depth, s.InFlight, parts)
	}
}
