package sharding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestRandomFaults plays random lives of a set. Replicas join, leave, are cut off and see everything late, and
// a third of the requests or of their answers are lost. Somebody deletes Leases, one or all, edits and copies
// them. Then:
//
//   - no two replicas work on an item at a time;
//   - an event that no replica took is followed by a list of the owner;
//   - in the end, each slot has one owner.
//
// The goroutines of a life do not ask for random numbers in a fixed order, so a seed does not play the
// same life twice.
func TestRandomFaults(t *testing.T) {
	calls := 0
	const lives = 5 // Changes of this package want -count=200.
	for range lives {
		play(t, func(w *world) {
			l := &life{world: w, random: rand.New(rand.NewPCG(rand.Uint64(), 0)), drops: make(map[string]string)}
			w.isNew = l.below(2) == 0
			for i := range 24 {
				w.keys = append(w.keys, fmt.Sprint("ns/", i))
			}
			l.lossy.Store(true)
			l.join()
			l.join()
			for range 30 {
				l.step()
				l.sleep(time.Duration(l.below(8000)) * time.Millisecond)
			}
			l.lossy.Store(false)
			l.sleep(time.Minute)
			l.relabel()
			l.sleep(2 * time.Minute)
			w.alone()
			w.spread(l.pods...)
			calls += w.audit.count()
		})
	}
	t.Logf("%d lives with %d calls", lives, calls)
}

type life struct {
	*world
	pods  []*replica
	lossy atomic.Bool // requests fail

	mu     sync.Mutex
	random *rand.Rand
	drops  map[string]string // items whose last event nobody took, and who has owned the item since
}

func (l *life) below(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

// step has something happen to a replica or to a Lease.
func (l *life) step() {
	if pod := l.pods[l.below(len(l.pods))]; l.below(13) < 4 {
		l.disturb(pod)
	} else {
		l.touch(pod)
	}
}

func (l *life) disturb(pod *replica) {
	switch l.below(4) {
	case 0:
		l.join()
	case 1:
		if len(l.pods) > 1 {
			l.pods[0].stop()
			l.pods = l.pods[1:]
		}
	case 2:
		pod.cut(l.below(2) == 0)
		time.AfterFunc(time.Duration(l.below(40))*time.Second, pod.heal)
	case 3:
		pod.delay(time.Duration(l.below(8000)) * time.Millisecond)
	}
}

// touch does something by hand to a Lease of a slot or of a member, or to all Leases.
func (l *life) touch(pod *replica) {
	slot := pod.slotName(l.below(len(pod.slots)))
	switch l.below(8) {
	case 0:
		l.delete(slot)
	case 1:
		l.delete(leaseOf(pod))
	case 2:
		l.remove()
		if l.below(2) == 0 {
			time.Sleep(10 * time.Millisecond) // The first list shows nothing.
			l.join()
		}
	case 3:
		l.change(slot, cleared)
	case 4, 5:
		l.change(leaseOf(pod), cleared, stolen, unlabelled, withoutKind, aYear)
	case 6:
		l.change(slot, unlabelled, withoutKind)
		if l.below(2) == 0 {
			time.Sleep(time.Duration(l.below(3000)) * time.Millisecond)
			l.delete(slot)
		}
	case 7:
		name := fmt.Sprint("copy-", l.below(8))
		if c := l.lease(slot); c != nil && l.lease(name) == nil {
			c.Name, c.Spec.HolderIdentity = name, new("somebody")
			l.add(c)
		} else {
			l.delete(name)
		}
	}
}

// change makes one of the edits, if the Lease is there.
func (l *life) change(name string, edits ...func(*coordinationv1.Lease)) {
	if l.lease(name) != nil {
		l.edit(name, edits[l.below(len(edits))])
	}
}

// delete deletes a Lease, if the Lease is there.
func (l *life) delete(name string) {
	if l.lease(name) != nil {
		l.remove(name)
	}
}

// relabel does to Leases without labels what the log says.
func (l *life) relabel() {
	for i := range 8 {
		l.change(l.pods[0].slotName(i), func(lease *coordinationv1.Lease) { lease.Labels = l.pods[0].labels(kindSlot) })
	}
}

// join starts a replica, unless there are six, with handlers that go on after their contexts for up to 2 s.
func (l *life) join() {
	if len(l.pods) == 6 {
		return
	}
	lose := func(context.Context, string, string) error {
		if l.lossy.Load() && l.below(10) < 3 {
			return errRefused
		}
		return nil
	}
	r := l.make(fmt.Sprint("pod-", len(l.replicas)), func(_ *Options, c *client) { c.before, c.after = lose, lose })
	r.listed = l.list
	l.pods = append(l.pods, r)
	r.work(time.Duration(l.below(2000)) * time.Millisecond)
}

// sleep passes time. Each second an event of all items comes, and no replica takes those of items without an owner.
// sleep fails if an item has had one owner for a second, and was not listed since the last event was dropped.
func (l *life) sleep(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		for _, item := range l.keys {
			owner := l.owner(item)
			l.mu.Lock()
			last, isDropped := l.drops[item]
			if owner == "" || isDropped {
				l.drops[item] = owner
			}
			l.mu.Unlock()
			if isDropped && owner != "" && owner == last {
				l.Errorf("%s owns %s, has dropped an event, and has not listed the item since", owner, item)
			}
		}
	}
}

// owner returns the replica that would begin to work on an item.
func (l *life) owner(item string) string {
	for _, r := range l.replicas {
		if r.Owns(item) {
			return r.id
		}
	}
	return ""
}

// list notes that the owner of items has listed them.
func (l *life) list(items []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range items {
		delete(l.drops, item)
	}
}
