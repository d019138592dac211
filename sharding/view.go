package sharding

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Labels of the Leases of a set. The kind has its own label, so that a set can be listed with
// one selector.
const (
	labelSet   = "workqueue.sharding/set"
	labelKind  = "workqueue.sharding/kind"
	labelSlots = "workqueue.sharding/slots"

	kindSlot   = "slot"
	kindMember = "member"
)

// A sighting is a record of a Lease, and since when this process has seen the record unchanged.
type sighting struct {
	record resourcelock.LeaderElectionRecord
	since  time.Time
	absent bool  // no such Lease; record is the last one before a deletion
	other  error // the Lease says another number of slots

	// alone is when nobody else can be at work any more, if the record names this process.
	alone time.Time
}

// unknownHolder is the holder of a slot whose Lease a list does not show: somebody may have deleted the
// Lease a moment ago, while its holder works.
const unknownHolder = "?"

// isRelease reports whether a record was written by a holder that let go, as this package and client-go
// do. A record whose holder was cleared by hand keeps the LeaseDuration of the holder.
func isRelease(r *resourcelock.LeaderElectionRecord) bool {
	return r.HolderIdentity == "" && r.LeaseDurationSeconds == releasedSeconds
}

// releasedSeconds is the LeaseDurationSeconds of a release. A 0 is invalid.
const releasedSeconds = 1

// same reports whether two records are of the same renewal. A write of somebody else, to a label
// for example, changes neither the holder nor the time.
func same(a, b *resourcelock.LeaderElectionRecord) bool {
	return a.HolderIdentity == b.HolderIdentity && a.LeaderTransitions == b.LeaderTransitions && a.RenewTime.Equal(&b.RenewTime)
}

// expiry returns when others may adopt the Lease.
func (g *sighting) expiry(atLeast time.Duration) time.Time {
	return g.since.Add(max(atLeast, time.Duration(g.record.LeaseDurationSeconds)*time.Second))
}

// A view keeps the records that the watch of the Leases has shown. The reflector writes to the
// view as to a store, from one goroutine.
type view struct {
	shards *Shards
	first  sync.Once
	synced chan struct{} // closed with the first list

	mu      sync.Mutex
	slots   []sighting
	members map[string]*sighting // by the names of the Leases
	taken   error                // the Lease of a slot says another number of slots
}

func (v *view) init(s *Shards) {
	v.shards, v.synced = s, make(chan struct{})
	v.slots = make([]sighting, s.options.Slots)
	v.members = make(map[string]*sighting)
	for i := range v.slots {
		v.slots[i].absent = true
	}
}

// Replace implements [cache.ReflectorStore]. The reflector lists at first, and after a watch that broke.
// No list shows who has held a slot without a Lease: not the first, and not a later one since the last
// record or deletion.
func (v *view) Replace(list []any, _ string) error {
	now, present := time.Now(), make(map[string]bool, len(list))
	v.mu.Lock()
	for _, obj := range list { // At once: a plan that sees our own Lease sees all others.
		lease := obj.(*coordinationv1.Lease)
		present[lease.Name] = true
		v.noteLocked(lease, now, true)
	}
	for i := range v.slots {
		if g := &v.slots[i]; !present[v.shards.slotName(i)] {
			g.absent, g.since, g.record.HolderIdentity = true, now, unknownHolder
		}
	}
	maps.DeleteFunc(v.members, func(name string, _ *sighting) bool { return !present[name] })
	v.mu.Unlock()
	for _, obj := range list {
		v.tell(obj.(*coordinationv1.Lease), false)
	}
	v.first.Do(func() { close(v.synced) })
	v.shards.replan()
	return nil
}

// Add implements [cache.ReflectorStore].
func (v *view) Add(obj any) error { return v.Update(obj) }

// Update implements [cache.ReflectorStore]. Renewals change no plan and wake nobody: a set of 1,024
// slots has 200 of them a second.
func (v *view) Update(obj any) error {
	lease := obj.(*coordinationv1.Lease)
	v.mu.Lock()
	news := v.noteLocked(lease, time.Now(), false)
	v.mu.Unlock()
	v.tell(lease, false)
	if news {
		v.shards.replan()
	}
	return nil
}

// Delete implements [cache.ReflectorStore].
func (v *view) Delete(obj any) error {
	lease := obj.(*coordinationv1.Lease)
	v.mu.Lock()
	if i, ok := v.slotOf(lease); ok {
		g := &v.slots[i]
		g.absent, g.since = true, time.Now()
	}
	delete(v.members, lease.Name)
	v.mu.Unlock()
	v.tell(lease, true)
	v.shards.replan()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (v *view) Resync() error { return nil }

// slotOf returns the slot of a Lease, or false for any other Lease.
func (v *view) slotOf(lease *coordinationv1.Lease) (int, bool) {
	i, err := strconv.Atoi(lease.Name[strings.LastIndexByte(lease.Name, '-')+1:])
	return i, lease.Labels[labelKind] == kindSlot && err == nil && i >= 0 && i < len(v.slots) && lease.Name == v.shards.slotName(i)
}

// noteLocked notes a record, and reports whether the plan may change. The records before one of a list
// were not seen.
func (v *view) noteLocked(lease *coordinationv1.Lease, now time.Time, isListed bool) (news bool) {
	var g *sighting
	i, isSlot := v.slotOf(lease)
	other := v.otherNumber(lease)
	switch kind := lease.Labels[labelKind]; {
	case kind == kindSlot && other != nil:
		v.taken = other
		return true
	case isSlot:
		g = &v.slots[i]
	case kind == kindMember:
		if g = v.members[lease.Name]; g == nil {
			g = &sighting{absent: true}
			v.members[lease.Name] = g
		}
		g.other = other
	default:
		return false
	}
	r := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	news = g.absent || g.record.HolderIdentity != r.HolderIdentity || !now.Before(g.expiry(v.shards.options.LeaseDuration))
	if isSlot && r.HolderIdentity == v.shards.id && (g.absent || g.record.HolderIdentity != v.shards.id) {
		g.alone = v.aloneFromLocked(i, now, isListed)
	}
	if g.absent || !same(&g.record, r) {
		g.record, g.since, g.absent = *r, now, false
	}
	return news
}

// aloneFromLocked returns from when nobody else is at work on a slot, of a record that names this process. If our
// Lease was deleted and made once more, the holder before the first may still be at work.
func (v *view) aloneFromLocked(slot int, now time.Time, isListed bool) time.Time {
	alone, _ := v.freeFromLocked(slot, v.shards.id)
	if isListed {
		alone = now.Add(v.shards.options.LeaseDuration)
	}
	if g := &v.slots[slot]; g.record.HolderIdentity == v.shards.id && g.alone.After(alone) {
		return g.alone
	}
	return alone
}

// tell tells a slot what the watch has shown. The ownership ends if the Lease is gone, or does not name
// this process. The Lease of an earlier epoch comes with the lag of the watch, and says nothing.
func (v *view) tell(lease *coordinationv1.Lease, isGone bool) {
	i, ok := v.slotOf(lease)
	if !ok {
		return
	}
	sl, r := &v.shards.slots[i], resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if isGone || r.HolderIdentity != v.shards.id {
		sl.lose(int64(r.LeaderTransitions))
		return
	}
	v.mu.Lock()
	alone := v.slots[i].alone
	v.mu.Unlock()
	sl.saw(int64(r.LeaderTransitions), alone)
}

// otherNumber returns an error if a Lease says another number of slots. Keys would map to different
// slots in different replicas, and two of them would work on a key.
func (v *view) otherNumber(lease *coordinationv1.Lease) error {
	got, want := lease.Labels[labelSlots], strconv.Itoa(len(v.slots))
	if got == want {
		return nil
	}
	return fmt.Errorf("sharding: the set %q has %q slots, says Lease %s, and Options.Slots is %q: use another Name, or stop all replicas and delete the Leases",
		v.shards.options.Name, got, klog.KObj(lease), want)
}

// otherNumbers returns an error if a Lease of the set says another number of slots, and whether it is the
// Lease of a slot.
func (v *view) otherNumbers() (isTaken bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range v.members {
		err = cmp.Or(err, g.other)
	}
	return v.taken != nil, cmp.Or(v.taken, err)
}

// sync waits for the first list, or for the end of ctx.
func (v *view) sync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-v.synced:
	}
	if _, err := v.otherNumbers(); err != nil {
		return refuse(ctx, err)
	}
	return nil
}

// reflector returns the reflector of the Leases of the set. Its pauses after errors are at most a
// RetryPeriod and a half, where the default is 30 s: a replica that is back from a cut is a member
// again with its first renewal, and slots wait until the replica sees them.
func (v *view) reflector() *cache.Reflector {
	o := &v.shards.options
	leases := v.shards.reads.Leases(o.Namespace)
	// With the kinds: a Lease that loses its kind is deleted for the watch.
	selector := labelSet + "=" + o.Name + "," + labelKind + " in (" + kindSlot + "," + kindMember + ")"
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return leases.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return leases.Watch(ctx, o)
		},
	}
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, leases), &coordinationv1.Lease{}, v, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: o.RetryPeriod / 8, Cap: o.RetryPeriod, Factor: 2, Jitter: 0.5, Steps: 4},
	})
}

// expired reports whether the watch has shown exactly the given record, unchanged for a
// LeaseDuration.
func (v *view) expired(slot int, r *resourcelock.LeaderElectionRecord) bool {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	g := &v.slots[slot]
	return !g.absent && same(&g.record, r) && !now.Before(g.expiry(v.shards.options.LeaseDuration))
}

// mayCreate reports whether the watch has shown that the slot has no Lease, and whether the slot is
// free for a process. The watch may be late: see [term.verify].
func (v *view) mayCreate(slot int, id string) bool {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	free, _ := v.freeFromLocked(slot, id)
	return v.slots[slot].absent && !now.Before(free)
}

// isAbsent reports whether the watch shows no Lease of the slot.
func (v *view) isAbsent(slot int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.slots[slot].absent
}

// freeFrom returns when the slot is free for a process if nothing else is seen, and when the last
// news of the slot was seen.
func (v *view) freeFrom(slot int, id string) (free, since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.freeFromLocked(slot, id)
}

func (v *view) freeFromLocked(slot int, id string) (free, since time.Time) {
	g := &v.slots[slot]
	if g.record.HolderIdentity == id || isRelease(&g.record) {
		return g.since, g.since
	}
	return g.expiry(v.shards.options.LeaseDuration), g.since
}

// epoch returns the epoch in the last record of the slot, also of one that was deleted.
func (v *view) epoch(slot int) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return int64(v.slots[slot].record.LeaderTransitions)
}

// alive returns the sorted members whose Leases have not expired, and when the next one does. Members with
// another number of slots do not count.
func (v *view) alive(now time.Time) (members []string, next time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, g := range v.members {
		if end := g.expiry(v.shards.options.LeaseDuration); g.other == nil && now.Before(end) && name == memberName(v.shards.options.Name, g.record.HolderIdentity) {
			members = append(members, g.record.HolderIdentity)
			next = earliest(next, end)
		}
	}
	slices.Sort(members)
	return members, next
}

// hasRenewedSince reports whether the watch has shown a renewal of a member since a time.
func (v *view) hasRenewedSince(id string, at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.members[memberName(v.shards.options.Name, id)]
	return g != nil && g.since.After(at)
}

// stale returns the names of the Leases of members that are gone for a LeaseDuration.
func (v *view) stale(now time.Time) (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, g := range v.members {
		if !now.Before(g.expiry(v.shards.options.LeaseDuration).Add(v.shards.options.LeaseDuration)) {
			names = append(names, name)
		}
	}
	return names
}

// earliest returns the earlier of two times. The zero time stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
