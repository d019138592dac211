package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// TestLiveness has workers that park while groups are full, or nothing is queued. Limits rise
// and fall, items are removed, and workers give up their wait. Each item comes without a
// shutdown, a drain or a further call: no wake-up is lost.
func TestLiveness(t *testing.T) {
	play(t, 60, func(t *testing.T, rnd *rand.Rand) int {
		var limit atomic.Int64
		limit.Store(1)
		const groups = 4
		config := workqueue.TypedDelayingQueueConfig[int]{OneEntry: rnd.IntN(2) == 0, Order: workqueue.Order[int]{
			Group:       func(item int) string { return fmt.Sprint(item % groups) },
			MaxInFlight: func(string) int { return int(limit.Load()) },
			GroupsFirst: rnd.IntN(2) == 0,
			OldestEvery: rnd.IntN(3),
		}}
		q := workqueue.NewTypedDelaying(config)
		const producers, each, workers = 3, 100, 6
		var owed atomic.Int64
		pending := make([]atomic.Bool, producers*each)
		settle := func(item int) {
			if pending[item].Swap(false) {
				owed.Add(-1)
			}
		}
		var working, producing sync.WaitGroup
		for w := range workers {
			working.Go(func() {
				for {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if w < 2 { // These do not wait for long.
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(300))*time.Microsecond)
					}
					item, err := q.GetContext(ctx)
					cancel()
					switch err {
					case nil:
						settle(item)
						if rand.IntN(3) == 0 {
							time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
						}
						q.Done(item)
					case workqueue.ErrShutDown:
						return
					}
				}
			})
		}
		for p := range producers {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			producing.Go(func() {
				for n := range each {
					item := p*each + n
					owed.Add(1)
					pending[item].Store(true)
					options := workqueue.AddOptions{Priority: new(own.IntN(3))}
					if own.IntN(3) == 0 {
						options.After = time.Duration(own.IntN(200)) * time.Microsecond
					}
					q.AddWith(options, item)
					switch own.IntN(12) {
					case 0:
						if q.Remove(item) {
							settle(item)
						}
					case 1, 2:
						limit.Store(int64(own.IntN(4)))
					case 3:
						time.Sleep(time.Duration(own.IntN(200)) * time.Microsecond)
					}
				}
			})
		}
		call(t, "the producers", producing.Wait)
		for start := time.Now(); owed.Load() > 0; time.Sleep(50 * time.Microsecond) {
			if time.Since(start) > 10*time.Second {
				t.Errorf("%d items do not come: %v", owed.Load(), q.Snapshot(20))
				break
			}
		}
		q.ShutDown()
		call(t, "the workers", working.Wait)
		return producers * each
	})
}
