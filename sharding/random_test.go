package sharding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestRandomFaults plays random lives of a set. Replicas join, leave, are cut off and see everything late,
// a third of the requests or of their answers are lost, and some answers come too late. Somebody deletes
// Leases, one or all, clears holders, and starts replicas with another number of slots. Then:
//
//   - no two replicas work on an item at a time;
//   - an event that no replica took is followed by a list of the owner;
//   - a replica with another number of slots is no member of the set, and if it has taken slots before it
//     saw the set, all end;
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
			stop := make(chan struct{})
			w.group.Go(func() { l.watch(stop) })
			for range 30 {
				l.step()
				time.Sleep(time.Duration(l.below(8000)) * time.Millisecond)
				l.restartIfRefused()
			}
			l.lossy.Store(false)
			time.Sleep(time.Minute)
			l.relabel()
			l.restartIfRefused()
			l.relabel()
			time.Sleep(2 * time.Minute)
			close(stop)
			w.alone()
			w.spread(l.pods...)
			l.endOthers()
			if mixed := w.audit.mixed; mixed > time.Minute {
				t.Errorf("replicas with different numbers of slots have worked on an item for %v", mixed)
			}
			calls += w.audit.count()
		})
	}
	t.Logf("%d lives with %d calls", lives, calls)
}

// other begins the names of replicas with another number of slots.
const other = "other-"

func isOther(name string) bool { return strings.HasPrefix(name, other) }

type life struct {
	*world
	pods   []*replica
	others []*replica  // with another number of slots
	lossy  atomic.Bool // requests fail

	mu     sync.Mutex
	random *rand.Rand
	seen   []*replica        // all pods so far
	drops  map[string]string // items whose last event nobody took, and who has owned the item since
}

func (l *life) below(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *life) step() {
	pod := l.pods[l.below(len(l.pods))]
	slot := pod.slotName(l.below(len(pod.slots)))
	switch l.below(16) {
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
		time.AfterFunc(time.Duration(l.below(40))*time.Second, pod.heal)
	case 3:
		l.ifThere(slot, l.remove)
	case 4:
		l.ifThere(leaseOf(pod), l.remove)
	case 5:
		l.removeAll()
		if len(l.pods) < 6 && l.below(2) == 0 {
			time.Sleep(10 * time.Millisecond) // The first list shows nothing.
			l.join()
		}
	case 6:
		l.ifThere(slot, l.clear)
	case 7:
		pod.delay(time.Duration(l.below(8000)) * time.Millisecond)
	case 8:
		if len(l.others) < 2 {
			l.others = append(l.others, l.start(fmt.Sprint(other, len(l.replicas)), 12))
		}
	case 9:
		pod.late.Store(true)
	case 11, 12:
		l.ifThere(leaseOf(pod), func(name string) { l.edit(name, l.spoil) })
	case 13:
		l.ifThere(slot, func(name string) {
			l.edit(name, func(lease *coordinationv1.Lease) {
				if l.below(2) == 0 {
					delete(lease.Labels, labelKind)
				} else {
					lease.Labels = nil
				}
			})
			if l.below(2) == 0 {
				time.Sleep(time.Duration(l.below(3000)) * time.Millisecond)
				l.ifThere(slot, l.remove)
			}
		})
	case 14:
		l.ifThere(slot, func(name string) {
			l.server.mu.Lock()
			defer l.server.mu.Unlock()
			c := l.leases[name].DeepCopy()
			if c.Name = "copy" + name[strings.LastIndexByte(name, '-'):]; l.leases[c.Name] == nil && c.Labels[labelSlots] == "8" {
				c.Spec.HolderIdentity = new("somebody")
				l.commitLocked("ADDED", c)
			}
		})
	case 15:
		l.ifThere(fmt.Sprint("copy-", l.below(8)), l.remove)
	}
}

func (l *life) spoil(lease *coordinationv1.Lease) {
	switch l.below(6) {
	case 0:
		lease.Spec.HolderIdentity = new("")
	case 1:
		lease.Spec.HolderIdentity = new("thief")
	case 2:
		lease.Labels = nil
	case 3:
		delete(lease.Labels, labelKind)
	case 4:
		lease.Spec.LeaseDurationSeconds = new(int32(3600))
	case 5:
		delete(lease.Labels, labelSlots)
	}
}

// relabel is what the log says of Leases without labels.
func (l *life) relabel() {
	for i := range 8 {
		l.ifThere(l.pods[0].slotName(i), func(name string) {
			l.edit(name, func(lease *coordinationv1.Lease) {
				if lease.Labels[labelKind] == "" {
					lease.Labels = l.pods[0].labels(kindSlot)
				}
			})
		})
	}
}

// ifThere calls f for a Lease, if there is one.
func (l *life) ifThere(name string, f func(name string)) {
	l.server.mu.Lock()
	is := l.leases[name] != nil
	l.server.mu.Unlock()
	if is {
		f(name)
	}
}

func (l *life) join() { l.pods = append(l.pods, l.start(fmt.Sprint("pod-", len(l.replicas)), 8)) }

// start starts a replica with handlers that go on after their contexts for up to 2 s.
func (l *life) start(name string, slots int) (r *replica) {
	sent, last := make(map[string]time.Time), make(map[string]time.Time) // when writes were sent, and the last with an answer
	var mu sync.Mutex
	lose := func() error {
		if l.lossy.Load() && l.below(10) < 3 {
			return errRefused
		}
		return nil
	}
	r = l.make(name, func(o *Options, c *client) {
		o.Slots = slots
		if isOther(name) {
			c.hides = hide("8") // For a while, which may be longer than a LeaseDuration.
			time.AfterFunc(time.Duration(l.below(20))*time.Second, c.heal)
		}
		c.before = func(_ context.Context, verb, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if sent[name] = time.Now(); verb == "update" && r.late.Load() && time.Since(last[name]) < 7*time.Second {
				return errRefused // A renewal shortly before the end of the validity.
			}
			return lose()
		}
		c.after = func(_ context.Context, verb, name string) error {
			if err := lose(); err != nil || verb != "update" {
				return err
			}
			mu.Lock()
			left := time.Until(last[name].Add(o.RenewDeadline))
			last[name] = sent[name]
			mu.Unlock()
			if left > c.rtt && !strings.Contains(name, kindMember) && r.late.CompareAndSwap(true, false) {
				time.Sleep(left - c.rtt/2)
				time.AfterFunc(c.rtt/2, func() { l.event(l.keys...) }) // When the answer arrives.
			}
			return nil
		}
	})
	r.listed = l.list
	if slots == 8 {
		l.mu.Lock()
		l.seen = append(l.seen, r)
		l.mu.Unlock()
	}
	r.work(time.Duration(l.below(2000)) * time.Millisecond)
	return r
}

// event tells all replicas of a change of items.
func (l *life) event(items ...string) {
	for _, item := range items {
		if l.owner(item) == "" {
			l.mu.Lock()
			l.drops[item] = ""
			l.mu.Unlock()
		}
	}
}

// owner returns the replica that would begin to work on an item.
func (l *life) owner(item string) string {
	for _, r := range l.all() {
		if r.Owns(item) {
			return r.id
		}
	}
	return ""
}

func (l *life) all() []*replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// list notes that the owner of items has listed them.
func (l *life) list(items []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range items {
		delete(l.drops, item)
	}
}

// watch fails if an item has an owner for a second, and its last event was taken by nobody.
func (l *life) watch(stop <-chan struct{}) {
	for !isClosed(stop) {
		time.Sleep(time.Second)
		for _, r := range l.all() {
			if members, _ := r.view.alive(time.Now()); slices.ContainsFunc(members, isOther) {
				l.Errorf("the members are %v for %s, want those with the same number of slots", members, r.id)
			}
		}
		for _, item := range l.keys {
			owner := l.owner(item)
			l.mu.Lock()
			if last, ok := l.drops[item]; ok && owner != "" {
				if last == owner {
					l.Errorf("%s owns %s, has dropped an event, and has not listed the item since", owner, item)
				}
				l.drops[item] = owner
			}
			l.mu.Unlock()
		}
	}
}

// restartIfRefused does what the error of Run says, if a replica of the set has ended: all replicas are
// stopped, all Leases deleted, and new replicas started.
func (l *life) restartIfRefused() {
	if !slices.ContainsFunc(l.pods, func(r *replica) bool { return len(r.err) > 0 }) {
		return
	}
	for _, r := range l.pods {
		r.stop()
	}
	for _, r := range l.pods {
		if err := <-r.err; err != nil {
			l.saysNumber(r, err)
		}
	}
	l.pods = nil
	l.endOthers()
	l.removeAll()
	time.Sleep(10 * time.Millisecond) // The first lists show nothing.
	l.join()
	l.join()
}

// endOthers ends the replicas with another number of slots.
func (l *life) endOthers() {
	for _, r := range l.others {
		r.stop()
	}
	for _, r := range l.others {
		if err := <-r.err; err != nil {
			l.saysNumber(r, err)
		}
	}
	l.others = nil
}
