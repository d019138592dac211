package main

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead takes part in an election until sig ends, and calls work once this process leads. The context of work ends
// with sig or with the leadership. lead gives the lease back when work has returned.
//
// leads reports whether the lease is still ours, also after a pause of the process. Ask it before each item.
//
// lost is called when the leadership is lost, and has to end the process: a drain would go on while another
// process leads. Handlers at work go on until the process has ended, so lost has no time to flush anything. The
// elector tries to give a lost lease back before it calls lost. So a request for the lease needs a timeout, which is
// shorter than LeaseDuration without RenewDeadline and RetryPeriod: 2 s with the usual times.
func lead(sig context.Context, config leaderelection.LeaderElectionConfig, work func(ctx context.Context, leads func() bool) error, lost func()) error {
	// sig must not end the election, which has to renew the lease during the drain.
	election, resign := context.WithCancel(context.WithoutCancel(sig))
	defer resign()
	// Either the term begins, or sig ends the election before.
	var decided atomic.Bool
	defer context.AfterFunc(sig, func() {
		if decided.CompareAndSwap(false, true) {
			resign()
		}
	})()

	worked := make(chan error, 1)
	lock := &timedLock{Interface: config.Lock, duration: config.LeaseDuration}
	config.Lock = lock
	config.ReleaseOnCancel = true
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			if !decided.CompareAndSwap(false, true) {
				return
			}
			run, end := context.WithCancel(leading)
			defer end()
			defer context.AfterFunc(sig, end)()
			worked <- work(run, func() bool { return leading.Err() == nil && lock.isOurs() })
			if leading.Err() == nil { // After a loss OnStoppedLeading follows, and a resignation would hide it.
				resign()
			}
		},
		OnStoppedLeading: func() {
			if election.Err() == nil { // Nobody has resigned.
				lost()
			}
		},
	}
	// The election ends only by resign, and so after work, or by lost.
	leaderelection.RunOrDie(election, config)
	select {
	case err := <-worked:
		return err
	default: // sig came before the first term.
		return nil
	}
}

// A timedLock knows until when the lease is ours. A process that was stopped for longer than LeaseDuration goes on as
// the leader in the eyes of its elector, for RenewDeadline: the elector measures from its next attempt.
type timedLock struct {
	resourcelock.Interface
	duration time.Duration
	until    atomic.Int64 // in nanoseconds since 1970
}

// isOurs reports whether no other process can have taken the lease yet. The others wait for the duration from
// the time at which they have seen our last write, which is after its begin.
func (l *timedLock) isOurs() bool { return time.Now().UnixNano() < l.until.Load() }

func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(func() error { return l.Interface.Create(ctx, record) })
}

func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" { // The lease is given back. After a loss the elector says so only afterwards.
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
