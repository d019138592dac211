package sharding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRandomFaults plays random lives of a set: replicas join, leave and are cut off, a third of the
// requests or of their answers are lost, and somebody deletes Leases. No two replicas may work on an
// item at a time, and each slot has an owner in the end. The goroutines of a life do not ask for random
// numbers in a fixed order, so a seed does not play the same life twice.
func TestRandomFaults(t *testing.T) {
	for range 5 { // Changes of this package want -count=200.
		play(t, func(w *world) {
			l := &life{world: w, random: rand.New(rand.NewPCG(rand.Uint64(), 0))}
			l.lossy.Store(true)
			l.join()
			l.join()
			for range 30 {
				l.step()
				time.Sleep(time.Duration(l.below(8000)) * time.Millisecond)
			}
			l.lossy.Store(false)
			time.Sleep(2 * time.Minute)
			w.alone()
			w.spread(l.pods...)
		})
	}
}

type life struct {
	*world
	pods  []*replica
	lossy atomic.Bool // requests fail

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

func (l *life) below(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *life) step() {
	switch pod := l.pods[l.below(len(l.pods))]; l.below(6) {
	case 0:
		if len(l.pods) < 6 {
			l.join()
		}
	case 1:
		if len(l.pods) > 1 {
			l.pods[0].stop()
			l.pods = l.pods[1:]
		}
	case 2:
		pod.cut(l.below(2) == 0)
		time.Sleep(time.Duration(l.below(40)) * time.Second)
		pod.heal()
	case 3:
		l.delete(pod.slotName(l.below(len(pod.slots))))
	case 4:
		l.delete((&membership{shards: pod.Shards}).name())
	}
}

func (l *life) join() {
	pod := l.make(fmt.Sprint("pod-", len(l.replicas)), func(_ *Options, c *client) {
		lose := func(context.Context, string, string) error {
			if l.lossy.Load() && l.below(10) < 3 {
				return errRefused
			}
			return nil
		}
		c.before, c.after = lose, lose
	})
	pod.labour(time.Duration(l.below(2000)) * time.Millisecond)
	pod.run()
	l.pods = append(l.pods, pod)
}

// delete deletes a Lease that has a holder.
func (l *life) delete(name string) {
	if l.holder(name) != "" {
		l.remove(name)
	}
}
