// Command drain leads by the leader election of client-go. At a SIGTERM it works its queue off and
// gives the lease back last. When it loses the lease, it ends at once:
//
//	go run ./leadership/drain
//	go run ./leadership/drain -lose
//
// lead and work are the parts to copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed16c08ea7/workqueue"
)

func main() {
	lose := flag.Bool("lose", false, "lose the lease while the queue has items")
	flag.Parse()
	sig, stop := signal.NotifyContext(logr.NewContext(context.Background(), logr.Discard()), os.Interrupt, syscall.SIGTERM)
	defer stop()

	lock := &lease{out: os.Stdout}
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "tables"})
	queue.AddAll("users", "orders", "bills")
	handle := func(_ context.Context, name string) error {
		switch {
		case *lose:
			lock.cut()
			time.Sleep(3 * electionTimes.RenewDeadline)
		case name == "users":
			fmt.Println("SIGTERM")
			stop() // As the signal would.
		}
		fmt.Println(name, "is done")
		return nil
	}

	config := electionTimes
	config.Lock = lock
	err := lead(sig, config, func(ctx context.Context) error { return work(ctx, queue, handle) }, func() {
		fmt.Println("the leadership is lost,", queue.Len(), "items are queued")
		os.Exit(1)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

// electionTimes are short, to see the end soon. 15, 10 and 2 s are usual.
var electionTimes = leaderelection.LeaderElectionConfig{
	LeaseDuration: 1500 * time.Millisecond,
	RenewDeadline: time.Second,
	RetryPeriod:   200 * time.Millisecond,
}

// lead takes part in an election until sig ends, and calls work once this process leads. The context of
// work ends with sig or with the leadership. lead gives the lease back when work has returned.
//
// lost is called when the leadership is lost, and has to end the process: work does not know why its
// context has ended, and would drain while another process leads. Workers begin further items until the
// process has ended, so lost has no time to flush anything. The elector tries to give a lost lease back before
// it calls lost. So a request for the lease needs a timeout, which is shorter than LeaseDuration without
// RenewDeadline and RetryPeriod: 2 s with the usual times.
func lead(sig context.Context, config leaderelection.LeaderElectionConfig, work func(context.Context) error, lost func()) (err error) {
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
		OnStartedLeading: func(lead context.Context) {
			if !decided.CompareAndSwap(false, true) {
				return
			}
			defer resign()
			run, end := context.WithCancel(lead)
			defer end()
			defer context.AfterFunc(sig, end)()
			err = work(run)
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

// work handles items until ctx ends, and then all that are left. Informers need a context that ends
// only when work has returned.
func work(ctx context.Context, queue *workqueue.TypedRateLimiting[string], handle func(context.Context, string) error) error {
	return workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{
		AtEnd: workqueue.EndDrain,
		Grace: 20 * time.Second, // A pod gets 30 s by default.
	})
}

// A lease is a lock in memory. In a cluster, take a [resourcelock.LeaseLock].
type lease struct {
	out io.Writer

	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord // guarded by mu
	isCut   bool                               // no request arrives; guarded by mu
	created func()                             // if not nil, called by the first Create
}

func (l *lease) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
}

// Get implements [resourcelock.Interface].
func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.isCut:
		return nil, nil, errors.New("no route to the lease")
	case l.record == nil:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, l.Describe())
	}
	record := *l.record
	return &record, fmt.Append(nil, record), nil
}

// Create implements [resourcelock.Interface].
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.created != nil {
		l.created()
	}
	return l.Update(ctx, record)
}

// Update implements [resourcelock.Interface].
func (l *lease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return errors.New("no route to the lease")
	}
	if record.HolderIdentity == "" {
		fmt.Fprintln(l.out, "the lease is given back")
	}
	l.record = &record
	return nil
}

// RecordEvent implements [resourcelock.Interface].
func (*lease) RecordEvent(string) {}

// Identity implements [resourcelock.Interface].
func (*lease) Identity() string { return "replica-1" }

// Describe implements [resourcelock.Interface].
func (*lease) Describe() string { return "the lease in memory" }
