package sharding

import (
	"context"
	"errors"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// A term is one try for a slot, and the ownership if the try succeeds. A term stands between
// client-go's elector and the lock on the Lease, and closes four gaps of the elector:
//
//   - The elector counts the validity from the answer of a renewal. A term counts from the
//     request, as others may see the renewal before the answer arrives.
//   - The elector goes on until its RenewDeadline when the record names another. A term ends.
//   - The elector releases the record before anybody has told the handlers, and also a record
//     that names another by now. A term releases after the last handler.
//   - A fresh elector waits for a whole LeaseDuration. A term shows an expired record as a
//     free one, and the resourceVersion decides who gets the Lease.
type term struct {
	resourcelock.Interface // the lock on the Lease; an elector uses one goroutine at a time

	slot  *slot
	ctx   context.Context    // ends with the term
	stop  context.CancelFunc // ends ctx and the elector
	began chan struct{}      // closed by the first write that succeeds
	over  chan struct{}      // closed by end
	alone chan struct{}      // closed when nobody else can be at work, as the watch has shown

	// Guarded by slot.mu.
	isHeld bool
	isOver bool
	until  time.Time // end of the validity
	timer  *time.Timer
	epoch  int64

	guard   *time.Timer   // ends the CancelBound; nil before the end of the ownership
	bound   chan struct{} // closed after the CancelBound, and OnOverrun
	isShown bool          // the watch has shown a record of the term
}

// errOver is what the elector gets when the term is over. The context of the elector ends at
// the same time.
var errOver = errors.New("sharding: the ownership is over")

// newTerm returns a term for a slot. ctx ends when all requests shall end.
func (sl *slot) newTerm(ctx context.Context) *term {
	s := sl.shards
	t := &term{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.options.Namespace, Name: s.slotName(sl.index)},
			Client:     s.writes,
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.id},
			Labels:     s.labels(kindSlot),
		},
		slot:  sl,
		began: make(chan struct{}),
		over:  make(chan struct{}),
		alone: make(chan struct{}),
		bound: make(chan struct{}),
	}
	t.ctx, t.stop = context.WithCancel(ctx)
	sl.sawEpoch(s.view.epoch(sl.index))
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.term = t
	return t
}

// isStray reports whether the slot has a Lease without the labels of the set, which the watch does not
// show. The Lease may be another program's, so it is not taken. One line in the log says what to do.
func (t *term) isStray() (bool, error) {
	sl, s := t.slot, t.slot.shards
	if !s.view.isAbsent(sl.index) {
		return false, nil
	}
	lease, err := s.writes.Leases(s.options.Namespace).Get(t.ctx, s.slotName(sl.index), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	want := s.labels(kindSlot)
	if lease.Labels[labelSet] == want[labelSet] && lease.Labels[labelKind] == want[labelKind] {
		return false, nil
	}
	sl.stray.Do(func() {
		klog.FromContext(t.ctx).Error(nil, "sharding: a slot has no owner, as its Lease lacks the labels of the set: label the Lease if it is of the set, or else delete it or use another Name",
			"slot", sl.index, "lease", klog.KObj(lease), "labels", labels.FormatLabels(want))
	})
	return true, nil
}

// elect runs client-go's elector until the term ends.
func (t *term) elect() error {
	if isStray, err := t.isStray(); isStray || err != nil {
		return err
	}
	o := &t.slot.shards.options
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          t,
		LeaseDuration: o.LeaseDuration,
		RenewDeadline: o.RenewDeadline,
		RetryPeriod:   o.RetryPeriod,
		Name:          t.Describe(),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, // began tells earlier.
			OnStoppedLeading: t.end,
		},
	})
	if err != nil {
		return err
	}
	// The elector logs each try as Info, which are many lines for many slots.
	elector.Run(klog.NewContext(t.ctx, klog.FromContext(t.ctx).V(2)))
	return nil
}

// Get implements [resourcelock.Interface]. While the term tries, a record that may be taken is
// shown without its holder, and another record ends the term: there are no standby electors.
// Once the slot is held, a record that does not name us ends the term.
func (t *term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := t.Interface.Get(ctx)
	held := t.held()
	switch {
	case err != nil:
		return r, raw, err // After a NotFound, the elector calls Create.
	case held:
		if r.HolderIdentity != t.Identity() {
			t.end()
			return nil, nil, errOver
		}
	case isRelease(r) || r.HolderIdentity == t.Identity() || t.slot.shards.view.expired(t.slot.index, r):
		// An earlier term may have made the Lease. A release, or an expired Lease, says that nobody is at work.
		t.setMade(r.HolderIdentity == t.Identity())
		t.slot.sawEpoch(int64(r.LeaderTransitions))
		r.HolderIdentity = ""
	default:
		t.end()
		return nil, nil, errOver
	}
	return r, raw, nil
}

// Create implements [resourcelock.Interface]. A Lease that is gone may have been another's in the
// meantime: since the slot is held, or since a try began whose requests have failed for a while.
func (t *term) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if t.held() || !t.slot.shards.view.mayCreate(t.slot.index, t.Identity()) {
		t.end()
		return errOver
	}
	t.setMade(true)
	return t.write(ctx, r, t.Interface.Create)
}

func (t *term) setMade(isMade bool) {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	t.slot.made = isMade
}

// isUnverified reports whether the Lease was made and another may be at work on the slot.
func (t *term) isUnverified() bool {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	return t.slot.made
}

// verify waits until nobody else can be at work on a slot whose Lease this process has made. Another may
// have made a Lease that was then deleted, and a late watch has shown neither. Our Lease keeps others away
// until the watch has shown all that was before. verify reports false if the slot is lost or shall leave:
// then the Lease is not released, as a release says that nobody is at work.
func (t *term) verify(leave context.Context) bool {
	if !t.isUnverified() {
		return true
	}
	select {
	case <-t.alone:
		t.setMade(false)
		return true
	case <-t.over:
	case <-leave.Done():
	}
	return false
}

// Update implements [resourcelock.Interface].
func (t *term) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.write(ctx, r, t.Interface.Update)
}

func (t *term) write(ctx context.Context, r resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := time.Now()
	epoch, ok := t.mayWrite(sent)
	if !ok {
		t.end()
		return errOver
	}
	r.LeaderTransitions = int(epoch)
	if err := do(ctx, r); err != nil {
		return err
	}
	if !t.renewed(sent) {
		t.end()
		return errOver
	}
	return nil
}

// mayWrite reports whether a write may be sent now, and the epoch to write.
func (t *term) mayWrite(now time.Time) (epoch int64, ok bool) {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	if !t.isHeld {
		t.epoch = min(t.slot.epoch+1, math.MaxInt32) // A Lease has no more.
	}
	return t.epoch, !t.isOver && (!t.isHeld || now.Before(t.until))
}

// renewed notes a write that was sent at a time and has succeeded. It reports false if the
// answer came too late: after the end of the validity, items may have been dropped.
func (t *term) renewed(sent time.Time) bool {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	now, until := time.Now(), sent.Add(t.slot.shards.options.RenewDeadline)
	t.slot.epoch = max(t.slot.epoch, t.epoch)
	if t.isOver || !now.Before(until) || t.isHeld && !now.Before(t.until) {
		return false
	}
	left := until.Sub(now)
	t.until = until
	if t.isHeld {
		t.timer.Reset(left)
		return true
	}
	t.isHeld = true
	t.timer = time.AfterFunc(left, t.expire)
	close(t.began)
	return true
}

// expire ends the term unless a renewal came in between.
func (t *term) expire() {
	t.slot.mu.Lock()
	late := !time.Now().Before(t.until)
	t.slot.mu.Unlock()
	if late {
		t.end()
	}
}

func (t *term) held() bool {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	return t.isHeld
}

// end ends the term: no handler begins any more, and the contexts of those at work end. Further
// calls do nothing.
func (t *term) end() {
	sl := t.slot
	sl.mu.Lock()
	if t.isOver {
		sl.mu.Unlock()
		return
	}
	t.isOver = true
	if t.isHeld {
		now := time.Now()
		if now.Before(t.until) {
			t.until = now // The CancelBound counts from here.
		}
		t.guard = time.AfterFunc(t.until.Add(sl.shards.options.CancelBound).Sub(now), t.overrun)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	sl.open = false
	calls := sl.callsLocked()
	close(t.over)
	sl.mu.Unlock()
	t.stop()
	cancelAll(calls)
}

// overrun tells OnOverrun of handlers that go on. Its timer depends on no list and no callback.
func (t *term) overrun() {
	defer close(t.bound)
	if items := t.slot.items(); len(items) > 0 {
		t.slot.shards.options.OnOverrun(t.slot.index, items)
	}
}

// settle ends the guard of a term without handlers.
func (t *term) settle() {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	if t.guard != nil {
		t.guard.Stop()
	}
}

// release writes a record without a holder, if the record names this process. The caller has
// seen the end of all handlers and of the elector. A request of the elector that is still on
// its way loses: the resourceVersion is another after the release. A hand-over tries again after an error.
func (t *term) release(ctx context.Context, again bool) {
	if t.isUnverified() {
		return
	}
	for pause := t.slot.shards.options.RetryPeriod / 16; ; pause *= 2 {
		r, _, err := t.Interface.Get(ctx)
		if apierrors.IsNotFound(err) || err == nil && r.HolderIdentity != t.Identity() {
			return
		}
		if err == nil {
			r.HolderIdentity = ""
			r.LeaseDurationSeconds = releasedSeconds
			r.RenewTime = metav1.Now()
			if err = t.Interface.Update(ctx, *r); err == nil {
				return
			}
		}
		if !again && !apierrors.IsConflict(err) {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			klog.FromContext(ctx).Error(err, "sharding: a slot was not released, and has no owner for a LeaseDuration", "lock", t.Describe())
			return
		}
	}
}
