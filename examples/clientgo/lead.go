package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed16c08ea7/workqueue"
)

// errLost ends a term whose lease was not renewed in time.
var errLost = errors.New("the leadership is lost")

// leadAgain leads for one term after the other, until sig ends or work returns an error. work makes its queue and
// informers anew in each term. A pause that is longer than the lease ends the process all the same, by overrun, if
// handlers are at work.
func leadAgain(sig context.Context, config leaderelection.LeaderElectionConfig, work func(ctx context.Context, t *term) error, overrun func()) error {
	for {
		err := lead(sig, config, work, overrun)
		if err != errLost || sig.Err() != nil { // errLost beside an error of work is another error.
			return err
		}
	}
}

// lead takes part in an election until sig ends, and calls work once this process leads. The context of work ends
// with sig or with the leadership. After sig, lead gives the lease back when work has returned. After a loss the lease
// is left to expire, and lead returns errLost when work has returned.
//
// overrun is called when another process is about to take the lease, and work has not returned. It has to end the
// process, with no time to flush anything: its handlers are at work. From a loss on they have LeaseDuration without
// RenewDeadline to obey the context of guard, with the usual times 5 s. The elector asks for the lease once more before
// it tells of a loss. So a request for the lease needs a timeout, which is shorter than LeaseDuration without
// RenewDeadline and RetryPeriod: 2 s with the usual times.
func lead(sig context.Context, config leaderelection.LeaderElectionConfig, work func(ctx context.Context, t *term) error, overrun func()) error {
	// sig must not end the election, which has to renew the lease during the drain.
	election, resign := context.WithCancel(context.WithoutCancel(sig))
	defer resign()
	var state atomic.Int32 // Either the term begins, or the election ends before.
	const begun, none = 1, 2
	defer context.AfterFunc(sig, func() {
		if state.CompareAndSwap(0, none) {
			resign()
		}
	})()

	worked := make(chan error, 1)
	lock := &timedLock{Interface: config.Lock, duration: config.LeaseDuration, resigned: election}
	config.Lock = lock
	config.ReleaseOnCancel = true
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			if !state.CompareAndSwap(0, begun) {
				return
			}
			run, end := context.WithCancel(leading)
			defer end()
			defer context.AfterFunc(sig, end)()
			err := work(run, &term{leading, lock})
			if leading.Err() == nil { // A resignation would hide a loss.
				resign()
			}
			worked <- err
		},
		OnStoppedLeading: func() {}, // RunOrDie returns then.
	}
	leaderelection.RunOrDie(election, config)
	switch {
	case state.CompareAndSwap(0, none):
		return errLost
	case state.Load() == none: // sig came before the first term.
		return nil
	case election.Err() != nil:
		return <-worked
	}
	margin := (config.LeaseDuration - config.RenewDeadline) / 5
	late := time.AfterFunc(time.Until(lock.end())-margin, overrun)
	defer late.Stop()
	if err := <-worked; err != nil {
		return errors.Join(errLost, err)
	}
	return errLost
}

// A term is the time for which this process leads.
type term struct {
	leading context.Context // ends with the leadership
	lock    *timedLock
}

// leads reports whether the lease is still ours, also after a pause of the process. Ask it before each write.
func (t *term) leads() bool { return t.leading.Err() == nil && t.lock.isOurs() }

// guard returns a handler for Run that begins nothing without the lease. Its context ends with the leadership: that of
// Run goes on for the Grace. So a drain after a loss does nothing, and what the loss has cut short has not failed.
func guard[T comparable](t *term, handle func(ctx context.Context, item T) error) func(ctx context.Context, item T) error {
	return func(ctx context.Context, item T) error {
		if !t.leads() {
			// The term is about to end, or the elector will renew the lease, as after a pause in which nobody has taken
			// it. An error would be a failure, and MaxAttempts would give the item up.
			return workqueue.DeferFor(time.Second)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.leading, cancel)()
		err := handle(ctx, item)
		if t.leading.Err() != nil && workqueue.VerdictOf(err).Outcome == workqueue.OutcomeFailed {
			return workqueue.DeferFor(0)
		}
		return err
	}
}

// A timedLock knows until when the lease is ours. A process that was stopped for longer than LeaseDuration goes on as
// the leader in the eyes of its elector, for RenewDeadline: the elector measures from its next attempt.
type timedLock struct {
	resourcelock.Interface
	duration time.Duration
	resigned context.Context // ends when no handler is at work and the lease can be given back
	until    atomic.Int64    // in nanoseconds since 1970
}

// isOurs reports whether no other process can have taken the lease yet. The others wait for the duration from
// the time at which they have seen our last write, which is after its begin.
func (l *timedLock) isOurs() bool { return time.Now().Before(l.end()) }

func (l *timedLock) end() time.Time { return time.Unix(0, l.until.Load()) }

func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(func() error { return l.Interface.Create(ctx, record) })
}

func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" { // The elector gives the lease back, after a loss too.
		if l.resigned.Err() == nil {
			return errors.New("handlers may be at work, so the lease is left to expire")
		}
		l.until.Store(0)
		return l.Interface.Update(ctx, record)
	}
	return l.renew(func() error { return l.Interface.Update(ctx, record) })
}

func (l *timedLock) renew(write func() error) error {
	began := time.Now()
	err := write()
	if err == nil {
		l.until.Store(began.Add(l.duration).UnixNano())
	}
	return err
}
