package sharding

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// A run is the goroutine of a slot, as the plan sees the goroutine. Guarded by Shards.mu.
type run struct {
	leave   context.CancelFunc // asks the goroutine to end; nil while there is none
	leaving bool               // leave was called
	left    time.Time          // when it was called
	began   time.Time          // of the goroutine, or of the last one
	failed  time.Time          // the last try has ended here without the slot; zero if it had the slot
}

// A plan decides which slots are tried for and which are handed over. One goroutine uses it.
type plan struct {
	shards    *Shards
	takesFrom time.Time // nothing is taken before: others may be about to appear
	members   []string
	changed   time.Time // the last change of members
	owners    []string  // the assignment to members
	warned    bool      // of a replica with another number of slots
}

// plan makes plans until ctx ends, and then has all slots leave. base is the context of the
// slots, and ends later. The error says that the set has another number of slots: then all ownerships
// have ended.
func (s *Shards) plan(ctx, base context.Context) error {
	now := time.Now()
	p := plan{shards: s, takesFrom: now.Add(s.options.Settle)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.leaveAll()
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		now := time.Now()
		next, err := p.pass(base, now)
		if err != nil {
			s.leaveAll()
			for i := range s.slots {
				s.slots[i].lose(math.MaxInt64)
			}
			return refuse(base, err)
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// replan has a plan made soon.
func (s *Shards) replan() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leaveAll hands over all slots.
func (s *Shards) leaveAll() {
	close(s.ending)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		s.runs[i].end()
	}
}

// end asks the goroutine of a slot to end.
func (r *run) end() {
	if r.leave != nil && !r.leaving {
		r.leaving, r.left = true, time.Now()
		r.leave()
	}
}

// pass starts and ends the goroutines of slots as the assignment says, and returns when time
// alone changes the plan.
func (p *plan) pass(base context.Context, now time.Time) (next time.Time, err error) {
	s := p.shards
	next, ok := p.assign(now)
	// If ok, the watch has shown the Lease of this member. Of two members that both saw an empty set at
	// first, the one whose Lease is younger has seen the other's Lease by now.
	isTaken, err := s.view.otherNumbers()
	switch {
	case err != nil && (isTaken || !s.holdsAny()):
		return next, err
	case err != nil && !p.warned:
		klog.FromContext(base).Error(err, "sharding: a replica with another number of slots is ignored")
	}
	p.warned = err != nil
	switch {
	case !ok:
		return next, nil
	case now.Before(p.takesFrom):
		return earliest(next, p.takesFrom), nil
	}
	return p.follow(base, now, next), nil
}

// refuse logs why Run ends, as the last handlers may take a while.
func refuse(ctx context.Context, err error) error {
	klog.FromContext(ctx).Error(err, "sharding: the replica ends")
	return err
}

// holdsAny reports whether a slot was gained and is not away since.
func (s *Shards) holdsAny() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		if s.runs[i].leave != nil && s.slots[i].isHeld() {
			return true
		}
	}
	return false
}

// follow starts and ends the goroutines of slots. next is when the next member is gone.
func (p *plan) follow(base context.Context, now, next time.Time) time.Time {
	s := p.shards
	s.mu.Lock()
	defer s.mu.Unlock()
	moving, next := s.movingLocked(now, next)
	settled := p.changed.Add(s.options.Settle)
	for i := range s.runs {
		r, mine := &s.runs[i], p.owners[i] == s.id
		switch {
		case r.leave == nil && mine:
			if from := s.tryFrom(i); now.Before(from) {
				next = earliest(next, from)
			} else {
				s.startLocked(base, i)
			}
		case r.leave == nil || mine || r.leaving:
		case !s.slots[i].isHeld():
			r.end()
		case now.Before(settled):
			next = earliest(next, settled)
		case !s.view.hasRenewedSince(p.owners[i], p.changed):
			// The Lease of a replica that was killed lives on for a while. The slot stays with us until the
			// new owner shows a sign of life, or is gone.
			next = earliest(next, now.Add(s.options.RetryPeriod/4))
		case moving < s.options.MaxMoving:
			moving++
			r.end()
		}
	}
	return next
}

// movingLocked returns how many slots move, and when time alone changes the number. A slot whose handlers ignore
// their contexts counts for a while only, as it must not keep the others from moving. The caller holds s.mu.
func (s *Shards) movingLocked(now, next time.Time) (moving int, _ time.Time) {
	for i := range s.runs {
		r := &s.runs[i]
		until := r.left.Add(s.options.DrainTimeout + s.options.CancelBound)
		if r.leaving && now.Before(until) {
			moving++
			next = earliest(next, until)
		}
	}
	return moving, next
}

// assign brings the assignment up to date, and returns when the next member is gone. It reports
// false while this replica is not among the members that it sees: the replica has just begun,
// or the watch shows nothing any more while renewals go on. Then everything stays as it is.
func (p *plan) assign(now time.Time) (next time.Time, ok bool) {
	s := p.shards
	members, next := s.view.alive(now)
	if !slices.Contains(members, s.id) {
		return next, false
	}
	if p.owners == nil || !slices.Equal(members, p.members) {
		p.members, p.changed = members, now
		p.owners = assign(members, len(s.slots))
	}
	return next, true
}

// tryFrom returns when to try for a slot: when its Lease is free, and if nothing has been seen
// of the Lease since a try that failed, a RetryPeriod after that try.
func (s *Shards) tryFrom(i int) time.Time {
	free, since := s.view.freeFrom(i, s.id)
	if failed := s.runs[i].failed; !failed.IsZero() && !since.After(failed) {
		if again := failed.Add(s.options.RetryPeriod); again.After(free) {
			return again
		}
	}
	// Somebody may end each ownership at once, by a deletion of the Lease. The requests have their bound then too.
	if again := s.runs[i].began.Add(s.options.RetryPeriod); again.After(free) {
		return again
	}
	return free
}

// startLocked starts the goroutine of a slot. The caller holds s.mu.
func (s *Shards) startLocked(base context.Context, i int) {
	leaving, leave := context.WithCancel(base)
	began := time.Now()
	s.runs[i] = run{leave: leave, began: began}
	s.running.Go(func() {
		defer leave()
		held := s.slots[i].run(base, leaving)
		s.mu.Lock()
		if s.runs[i] = (run{began: began}); !held {
			s.runs[i] = run{failed: time.Now()}
		}
		s.mu.Unlock()
		s.replan()
	})
}

// abandon notes handlers that have outlived the end of Run.
func (s *Shards) abandon(slot int, items []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = append(s.abandoned, fmt.Errorf("sharding: handlers of slot %d go on after the end of Run: %v", slot, items))
}
