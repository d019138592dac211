package main

import (
	"context"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection"
)

// lead takes part in an election until sig ends, and calls work once this process leads. ctx ends with sig or with
// the leadership, and leading with the leadership alone. lead gives the lease back when work has returned.
//
// lost is called when the leadership is lost, and has to end the process: a drain would go on while another
// process leads. Handlers at work go on until the process has ended, so lost has no time to flush anything. The elector tries to give a lost lease back before
// it calls lost. So a request for the lease needs a timeout, which is shorter than LeaseDuration without
// RenewDeadline and RetryPeriod: 2 s with the usual times.
func lead(sig context.Context, config leaderelection.LeaderElectionConfig, work func(ctx, leading context.Context) error, lost func()) (err error) {
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

	config.ReleaseOnCancel = true
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			if !decided.CompareAndSwap(false, true) {
				return
			}
			defer resign()
			run, end := context.WithCancel(leading)
			defer end()
			defer context.AfterFunc(sig, end)()
			err = work(run, leading)
		},
		OnStoppedLeading: func() {
			if election.Err() == nil { // Nobody has resigned.
				lost()
			}
		},
	}
	// The election ends only by resign, and so after work, or by lost.
	leaderelection.RunOrDie(election, config)
	return err
}
