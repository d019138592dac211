package attack

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Deep groups end and begin again while a reader goes through many groups. A provider that makes
// a series of each part would fail with two parts of one name.
func TestNoGroupHasTwoParts(t *testing.T) {
	const deep, each, flat = 20, 20, 20_000
	names := make([]string, deep*each+2*flat)
	for item := range names {
		names[item] = fmt.Sprint("flat", item)
		if item < deep*each {
			names[item] = fmt.Sprint("deep", item/each)
		}
	}
	p := new(reading)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: p, Order: workqueue.Order[int]{
		Group: func(item int) string { return names[item] },
	}})
	defer q.ShutDown()
	for item := range deep*each + flat {
		q.Add(item)
	}
	var over atomic.Bool
	var working sync.WaitGroup
	working.Go(func() {
		for turn := 0; !over.Load(); turn++ {
			group, other := turn%deep*each, deep*each+flat+turn%flat
			for item := group; item < group+each; item++ {
				q.Remove(item)
			}
			q.Add(other) // Takes the place of the group among the lanes.
			for item := group; item < group+each; item++ {
				q.Add(item)
			}
			if turn > 100 {
				q.Remove(deep*each + flat + (turn-100)%flat)
			}
		}
	})
	twice, reads := 0, 0
	for start := time.Now(); time.Since(start) < time.Second; reads++ {
		stats, _ := p.source.Read()
		seen := map[string]bool{}
		for _, part := range stats.ByGroup {
			if !part.Others && seen[part.Key] {
				twice++
			}
			seen[part.Key] = true
		}
	}
	over.Store(true)
	working.Wait()
	if twice > 0 {
		t.Errorf("in %d readings a group had two parts %d times", reads, twice)
	}
}
