package sharding

import (
	"context"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// A membership keeps the Lease by which other replicas know of this replica. No elector is needed:
// the name of the Lease has the UUID of the process.
type membership struct {
	shards *Shards
	lease  *coordinationv1.Lease // as the API server returned it last; nil before
}

// keep renews the Lease until ctx ends, and then deletes the Lease: the others take the slots as
// soon as the slots are released. last is the context of the deletion.
func (m *membership) keep(ctx, last context.Context) {
	s := m.shards
	ticker := time.NewTicker(s.options.RetryPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := m.renew(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "sharding: the membership was not renewed", "lease", m.name())
		}
		m.collect(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	bounded, cancel := context.WithTimeout(last, s.options.RenewDeadline/2)
	defer cancel()
	for pause := s.options.RetryPeriod / 16; !m.delete(bounded, m.name()); pause *= 2 {
		select {
		case <-time.After(pause):
		case <-bounded.Done():
			return
		}
	}
}

func (m *membership) name() string {
	return memberName(m.shards.options.Name, m.shards.id)
}

// memberName returns the name of the Lease of a holder.
func memberName(set, holder string) string {
	return set + "-" + kindMember + "-" + holder[strings.LastIndexByte(holder, '_')+1:]
}

// sign writes what a Lease of the membership says. Somebody may have edited it.
func (m *membership) sign(lease *coordinationv1.Lease) {
	s := m.shards
	if lease.Labels == nil {
		lease.Labels = make(map[string]string)
	}
	maps.Copy(lease.Labels, s.labels(kindMember))
	lease.Spec.HolderIdentity = &s.id
	lease.Spec.LeaseDurationSeconds = new(int32(s.options.LeaseDuration / time.Second))
	lease.Spec.RenewTime = new(metav1.NowMicro())
}

// renew writes the Lease once. If somebody else has changed or deleted the Lease, renew reads or
// makes the Lease anew.
func (m *membership) renew(ctx context.Context) error {
	s := m.shards
	leases := s.writes.Leases(s.options.Namespace)
	if m.lease != nil {
		lease := m.lease.DeepCopy()
		m.sign(lease)
		lease, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
		switch {
		case err == nil:
			m.lease = lease
			return nil
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			lease, err := leases.Get(ctx, m.name(), metav1.GetOptions{})
			if err == nil { // Beside an error, a client returns a Lease without a name.
				m.lease = lease
				m.sign(lease)
				if lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
					m.lease = lease
				}
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		default:
			return err
		}
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: m.name(), Labels: s.labels(kindMember)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &s.id,
			LeaseDurationSeconds: new(int32(s.options.LeaseDuration / time.Second)),
			AcquireTime:          new(metav1.NowMicro()),
			RenewTime:            new(metav1.NowMicro()),
		},
	}
	if owner := s.options.Owner; owner != nil {
		lease.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	lease, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // The answer of an earlier Create was lost.
		lease, err = leases.Get(ctx, m.name(), metav1.GetOptions{})
	}
	if err == nil {
		m.lease = lease
	}
	return err
}

// collect deletes the Leases of members that are gone. Otherwise each new replica would take the
// dead members for alive for a LeaseDuration. The first member in order collects for all. A
// member that was only out of reach makes its Lease anew.
func (m *membership) collect(ctx context.Context) {
	now := time.Now()
	if alive, _ := m.shards.view.alive(now); len(alive) == 0 || alive[0] != m.shards.id {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.shards.options.RetryPeriod/2) // The own Lease is to be renewed.
	defer cancel()
	for _, name := range m.shards.view.stale(now) {
		if ctx.Err() != nil {
			return
		}
		m.delete(ctx, name)
	}
}

func (m *membership) delete(ctx context.Context, name string) (done bool) {
	err := m.shards.writes.Leases(m.shards.options.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "sharding: the Lease of a member was not deleted", "lease", name)
		return false
	}
	return true
}
