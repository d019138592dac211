package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// This file has what holds jobs back: a pause of an operator, a Retry-After of the receiver, and the probes after it.

// A hold keeps all jobs back, which stay queued. It is in the database, and holds through a restart.
type hold struct {
	PausedAt  time.Time `json:",omitzero"` // by an operator
	NotBefore time.Time `json:",omitzero"` // that the receiver has named by a Retry-After
	Probing   int       // how many jobs a second are handed out after that time; 0 is no limit, see heard
}

// rest returns for how long a job is kept back at least. A pause has no end: the queues keep the job afterwards.
func (h hold) rest() time.Duration {
	if h.paused() {
		return max(time.Second, time.Until(h.NotBefore))
	}
	return time.Until(h.NotBefore)
}

func (h hold) paused() bool { return !h.PausedAt.IsZero() }

func (h hold) String() string {
	var why []string
	if h.paused() {
		why = append(why, fmt.Sprintf("All jobs are paused since %s.", h.PausedAt.Format("2 Jan 15:04:05 MST")))
	}
	if rest := time.Until(h.NotBefore); rest > 0 {
		why = append(why, fmt.Sprintf("The receiver wants no job before %s, for %v.", h.NotBefore.Format("2 Jan 15:04:05 MST"), rest.Round(time.Second)))
	} else if h.Probing > 0 {
		why = append(why, fmt.Sprintf("After a rest or a kill: %d a second, until the receiver takes or refuses one.", h.Probing))
	}
	return cmp.Or(strings.Join(why, " "), "No job is held back.")
}

func (s *service) held() hold {
	s.holding.Lock()
	defer s.holding.Unlock()
	return s.hold
}

// notBefore holds all jobs back until a time, or with holdTenant those of the tenant.
func (s *service) notBefore(tenant string, until time.Time) {
	if s.holdTenant {
		s.restTenant(tenant, until)
		return
	}
	err := s.changeHold(func(h *hold) {
		if until.After(h.NotBefore) { // Of two answers the later time counts.
			h.NotBefore, h.Probing = until, 1
		}
	})
	if err != nil {
		slog.Error("a restart would not know the time of the receiver", "err", err)
	}
}

// restTenant holds the jobs of a tenant back until a time. Of two times the later counts.
func (s *service) restTenant(tenant string, until time.Time) {
	if s.rests(tenant).After(until) {
		return
	}
	s.resting.Store(tenant, until)
	q := s.queueOf(job{Tenant: tenant})
	q.LimitsChanged()
	time.AfterFunc(time.Until(until), func() {
		s.resting.CompareAndDelete(tenant, until)
		q.LimitsChanged()
	})
}

// pauseEnds is the end of a pause that an operator has not ended. The timer to it never fires.
var pauseEnds = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

const pausedTenant = "paused " // comes before the tenant in a key of settings

// pauseTenant holds the jobs of a tenant back, through a restart, or lets them go, also before a time of the receiver.
func (s *service) pauseTenant(tenant string, on bool) error {
	key := []byte(pausedTenant + tenant)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		if on {
			return tx.Bucket(settings).Put(key, nil)
		}
		return tx.Bucket(settings).Delete(key)
	})
	switch {
	case err != nil:
	case on:
		s.restTenant(tenant, pauseEnds)
	default:
		s.resting.Delete(tenant)
		s.queueOf(job{Tenant: tenant}).LimitsChanged()
	}
	return err
}

// heldTenants returns the tenants whose jobs are kept back, by an operator or by their receiver.
func (s *service) heldTenants(byOperator bool) (names []string) {
	for tenant, until := range s.resting.Range {
		if until.(time.Time).Equal(pauseEnds) == byOperator {
			names = append(names, tenant.(string))
		}
	}
	slices.Sort(names)
	return names
}

// limitOf returns how many jobs of a tenant may be at work. The queues ask at each add of a job, and after LimitsChanged.
func (s *service) limitOf(tenant string) int {
	if s.rests(tenant).IsZero() {
		return s.tenantWorkers
	}
	return workqueue.HoldBack
}

// rests returns until when a tenant rests, or the zero time.
func (s *service) rests(tenant string) time.Time {
	if until, ok := s.resting.Load(tenant); ok && time.Now().Before(until.(time.Time)) {
		return until.(time.Time)
	}
	return time.Time{}
}

// probe begins with one job a second, see heard. With holdTenant each tenant asks for itself.
func (s *service) probe() {
	if s.holdTenant {
		return
	}
	err := s.changeHold(func(h *hold) { h.Probing = max(1, h.Probing) })
	if err != nil {
		slog.Error("a restart would not probe the receiver", "err", err)
	}
}

// heard ends the probes after the receiver took or refused a job. Any other answer doubles the probes, up to 64 a second:
// jobs that always get a 500 would keep all others waiting. Without an answer, as after a timeout, nothing changes.
func (s *service) heard(since hold, end error) {
	failed := workqueue.VerdictOf(end).Outcome == workqueue.OutcomeFailed
	err := s.changeHold(func(h *hold) {
		switch {
		case !h.NotBefore.Equal(since.NotBefore): // A try that has begun meanwhile has heard another time.
		case !failed:
			h.Probing = 0
		case h.Probing == since.Probing && !errors.As(end, new(*url.Error)):
			h.Probing = 2 * h.Probing % 128
		}
	})
	if err != nil {
		slog.Error("a restart would probe the receiver once more", "err", err)
	}
}

// changeHold changes who holds the jobs back, in memory and in the database.
func (s *service) changeHold(change func(h *hold)) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	change(&s.hold)
	s.paceLocked()
	return s.db.Update(func(tx *bbolt.Tx) error {
		text, err := json.Marshal(s.hold)
		return errors.Join(err, tx.Bucket(settings).Put([]byte("hold"), text))
	})
}

// resumeHold goes on with the hold of the last run.
func (s *service) resumeHold(text []byte) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if err := json.Unmarshal(text, &s.hold); err != nil && text != nil {
		slog.Error("the hold of the last run is forgotten", "err", err)
	}
	if longest := time.Now().Add(s.longestHold); s.hold.NotBefore.After(longest) { // The clock was set back.
		s.hold.NotBefore = longest
	}
	s.paceLocked()
}

// paceLocked has the queues hand out nothing while there is a hold.
func (s *service) paceLocked() {
	rest := time.Until(s.hold.NotBefore)
	if rest > 0 {
		time.AfterFunc(rest, func() {
			s.holding.Lock()
			defer s.holding.Unlock()
			s.paceLocked()
		})
	}
	paying, others, burst := limit(s.payingRate), limit(s.otherRate), 1
	switch {
	case s.hold.paused() || rest > 0:
		paying, others, burst = 0, 0, 0 // With a burst there would be a token.
	case s.hold.Probing > 0:
		probes := rate.Limit(s.hold.Probing)
		paying = min(paying, probes)
		if len(s.payers) > 0 && s.paying.Len() > 0 { // Asked anew at the end of each probe.
			probes /= 4
		}
		others = min(others, probes)
	}
	s.payingPace.SetBurst(burst)
	s.payingPace.SetLimit(paying)
	s.pace.SetBurst(burst)
	s.pace.SetLimit(others)
}

// limit is a rate of the policy for a Pace.
func limit(jobsInASecond float64) rate.Limit {
	if jobsInASecond == 0 {
		return rate.Inf
	}
	return rate.Limit(jobsInASecond)
}
