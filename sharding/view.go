package sharding

import (
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
	"k8s.io/apimachinery/pkg/labels"
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
	absent bool // no such Lease; record is the last one before a deletion
}

// unknownHolder is the holder of a slot whose Lease is missing while other slots have Leases:
// somebody may have deleted the Lease a moment ago, while its holder works.
const unknownHolder = "?"

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
	synced chan struct{} // closed with the first list

	mu      sync.Mutex
	slots   []sighting
	members map[string]*sighting // by the names of the Leases
	foreign error                // a Lease has another number of slots
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
func (v *view) Replace(list []any, _ string) error {
	present := make(map[string]bool, len(list))
	v.mu.Lock()
	for _, obj := range list {
		present[obj.(*coordinationv1.Lease).Name] = true
		v.checkSlotsLocked(obj.(*coordinationv1.Lease)) // Before a plan can see our own Lease.
	}
	v.mu.Unlock()
	for _, obj := range list {
		v.see(obj.(*coordinationv1.Lease))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now, isFirst := time.Now(), true
	select {
	case <-v.synced:
		isFirst = false
	default:
	}
	for i := range v.slots {
		if g := &v.slots[i]; !present[v.shards.slotName(i)] && !isFirst {
			// The list does not show who has held the slot since the last record or deletion.
			g.absent, g.since, g.record.HolderIdentity = true, now, unknownHolder
		}
	}
	maps.DeleteFunc(v.members, func(name string, _ *sighting) bool { return !present[name] })
	if isFirst {
		v.beginLocked(now)
		close(v.synced)
	}
	v.shards.replan()
	return nil
}

// beginLocked decides the meaning of Leases that are missing from the first list.
func (v *view) beginLocked(now time.Time) {
	if !slices.ContainsFunc(v.slots, func(g sighting) bool { return !g.absent }) {
		return // A new set: all slots are free.
	}
	for i := range v.slots {
		if g := &v.slots[i]; g.absent {
			g.since, g.record.HolderIdentity = now, unknownHolder
		}
	}
}

// Add implements [cache.ReflectorStore].
func (v *view) Add(obj any) error { return v.Update(obj) }

// Update implements [cache.ReflectorStore].
func (v *view) Update(obj any) error {
	v.see(obj.(*coordinationv1.Lease))
	return nil
}

// Delete implements [cache.ReflectorStore].
func (v *view) Delete(obj any) error {
	lease := obj.(*coordinationv1.Lease)
	v.mu.Lock()
	defer v.mu.Unlock()
	if i, ok := v.slotOf(lease); ok {
		g := &v.slots[i]
		g.absent, g.since = true, time.Now()
	} else {
		delete(v.members, lease.Name)
	}
	v.shards.replan()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (v *view) Resync() error { return nil }

// slotOf returns the slot of a Lease, or false for a member.
func (v *view) slotOf(lease *coordinationv1.Lease) (int, bool) {
	if lease.Labels[labelKind] != kindSlot {
		return 0, false
	}
	i, err := strconv.Atoi(lease.Name[strings.LastIndexByte(lease.Name, '-')+1:])
	return i, err == nil && i >= 0 && i < len(v.slots)
}

// see notes a record. Renewals change no plan and wake nobody: a set of 1,024 slots has 200 of
// them a second.
func (v *view) see(lease *coordinationv1.Lease) {
	now := time.Now()
	r := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	i, isSlot := v.slotOf(lease)
	v.mu.Lock()
	v.checkSlotsLocked(lease)
	g := v.members[lease.Name]
	switch {
	case isSlot:
		g = &v.slots[i]
	case g == nil:
		g = &sighting{absent: true}
		v.members[lease.Name] = g
	}
	news := g.absent || g.record.HolderIdentity != r.HolderIdentity || !now.Before(g.expiry(v.shards.options.LeaseDuration))
	if g.absent || !same(&g.record, r) {
		g.record, g.since, g.absent = *r, now, false
	}
	v.mu.Unlock()
	if isSlot {
		v.shards.slots[i].sawHolder(r.HolderIdentity, int64(r.LeaderTransitions))
	}
	if news {
		v.shards.replan()
	}
}

// checkSlotsLocked notes a Lease that says another number of slots. Keys would map to different
// slots in different replicas, and two of them would work on a key.
func (v *view) checkSlotsLocked(lease *coordinationv1.Lease) {
	if got, want := lease.Labels[labelSlots], strconv.Itoa(len(v.slots)); got != want && v.foreign == nil {
		v.foreign = fmt.Errorf("sharding: the set %q has %s slots, says Lease %s, and Options.Slots is %s: use another Name, or stop all replicas and delete the Leases",
			v.shards.options.Name, got, klog.KObj(lease), want)
	}
}

// sync waits for the first list, or for the end of ctx.
func (v *view) sync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-v.synced:
	}
	return v.otherSlots()
}

// otherSlots returns an error if a Lease of the set has another number of slots.
func (v *view) otherSlots() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.foreign
}

// reflector returns the reflector of the Leases of the set. Its pauses after errors are at most a
// RetryPeriod and a half, where the default is 30 s: a replica that is back from a cut is a member
// again with its first renewal, and slots wait until the replica sees them.
func (v *view) reflector() *cache.Reflector {
	o := &v.shards.options
	leases := v.shards.reads.Leases(o.Namespace)
	selector := labels.Set{labelSet: o.Name}.String()
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
// free for a process. A watch that shows no renewals of our own membership is silent, and may have
// missed a Lease.
func (v *view) mayCreate(slot int, id string) bool {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	free, _ := v.freeFromLocked(slot, id)
	own := v.members[(&membership{shards: v.shards}).name()]
	isSilent := own == nil || now.Sub(own.since) > 2*v.shards.options.RetryPeriod
	return v.slots[slot].absent && !now.Before(free) && !isSilent
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
	if h := g.record.HolderIdentity; h == "" || h == id {
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

// alive returns the sorted members whose Leases have not expired, and when the next one does.
func (v *view) alive(now time.Time) (members []string, next time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range v.members {
		if end := g.expiry(v.shards.options.LeaseDuration); now.Before(end) {
			members = append(members, g.record.HolderIdentity)
			next = earliest(next, end)
		}
	}
	slices.Sort(members)
	return members, next
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
