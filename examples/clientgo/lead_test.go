package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed16c08ea7/workqueue"
)

// The usual times of an election. A bubble has no need of short ones.
func usualTimes(lock resourcelock.Interface) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// A journal is written by handlers and by the lease.
type journal struct {
	mu    sync.Mutex
	lines bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(j.lines.String(), "\n", ", "))
}

// A lease is a lock in memory.
type lease struct {
	out *journal

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

func (l *lease) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
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

// run leads with a queue of three items, of which "b" fails once. The drain takes longer than the
// lease lasts without a renewal.
func run(t *testing.T, sig context.Context, lock *lease) (j *journal, err error) {
	t.Helper()
	j = new(journal)
	lock.out = j
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.AddAll("a", "b", "c")
	handle := func(_ context.Context, name string) error {
		time.Sleep(5 * time.Second)
		if name == "b" && queue.NumRequeues(name) == 0 {
			return errors.New("conflict")
		}
		fmt.Fprintln(j, name)
		return nil
	}
	err = lead(logr.NewContext(sig, logr.Discard()), usualTimes(lock), func(ctx context.Context, t *term) error { return work(ctx, t, queue, 1, handle) },
		func() { t.Error("another process is about to lead") })
	return j, err
}

func TestSignal(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"while the first item is at work": time.Second,
		"when the queue is empty":         time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sig, stop := context.WithTimeout(t.Context(), after)
				defer stop()
				j, err := run(t, sig, new(lease))
				if got, want := j.String(), "a, c, b, the lease is given back,"; got != want || err != nil {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			})
		})
	}
}

// Without the line AtEnd, the lease is given back when the handlers at work have returned. Their contexts end with
// the signal or with Grace.
func TestSignalWithoutADrain(t *testing.T) {
	for want, grace := range map[string]time.Duration{
		"a is cut short, the lease is given back,": 0,
		"a, the lease is given back,":              20 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			j := new(journal)
			queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{})
			queue.AddAll("a", "b")
			handle := func(ctx context.Context, name string) error {
				select {
				case <-ctx.Done():
					fmt.Fprintln(j, name, "is cut short")
				case <-time.After(5 * time.Second):
					fmt.Fprintln(j, name)
				}
				return ctx.Err()
			}
			sig, stop := context.WithTimeout(logr.NewContext(t.Context(), logr.Discard()), time.Second)
			defer stop()
			err := lead(sig, usualTimes(&lease{out: j}), func(ctx context.Context, _ *term) error {
				return workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{Grace: grace})
			}, func() { t.Error("another process is about to lead") })
			if got := j.String(); got != want || err != nil {
				t.Errorf("with a Grace of %v: got %s, %v, want %s", grace, got, err, want)
			}
		})
	}
}

func TestSignalBeforeTheFirstTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &lease{record: &resourcelock.LeaderElectionRecord{HolderIdentity: "replica-2", LeaseDurationSeconds: 15}}
		sig, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		if j, err := run(t, sig, other); j.String() != "" || err != nil || time.Since(began) != time.Second {
			t.Errorf("got %s, %v, after %v", j, err, time.Since(began))
		}
	})
}

// The signal comes when the lease is taken and the term has not begun. Either end is right, but no item may
// be handled without the lease.
func TestSignalAtTheBeginOfTheTerm(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			sig, stop := context.WithCancel(t.Context())
			defer stop()
			j, err := run(t, sig, &lease{created: stop})
			if got := j.String(); got != "a, c, b, the lease is given back," && got != "the lease is given back," || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// The program ends when the lease is lost. With an orderly end it would report its pods.
func TestLoss(t *testing.T) {
	if os.Getenv("CLIENTGO_TEST_MAIN") != "" {
		os.Args = []string{"clientgo", "-lose"}
		main()
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLoss$")
	command.Env = append(os.Environ(), "CLIENTGO_TEST_MAIN=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if command.ProcessState.ExitCode() != 1 || len(out) > 0 || !strings.Contains(stderr.String(), errLost.Error()) {
		t.Errorf("got %v, printed %q and %q, want the loss and no report", err, out, &stderr)
	}
}

// A slowLease does not answer for two seconds when a request fails.
type slowLease struct{ *lease }

func (s slowLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := s.lease.Get(ctx)
	if err != nil {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
	}
	return record, raw, err
}

// A handler that goes on after a loss, in the work and in the drain, is told of before another process may lead. The
// lease is not given back: a lease that is free again had a second process begin beside such a handler.
func TestOverrunIsInTime(t *testing.T) {
	for name, signal := range map[string]time.Duration{"in the work": time.Hour, "in the drain": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sig, stop := context.WithTimeout(logr.NewContext(t.Context(), logr.Discard()), signal)
				defer stop()
				lock := &lease{out: new(journal)}
				const renewed = 28 * time.Second // A renewal takes place each two seconds.
				time.AfterFunc(renewed+time.Second, lock.cut)
				began, over := time.Now(), make(chan struct{})
				var overran time.Duration
				work := func(context.Context, *term) error {
					<-over // As a handler that ignores its context.
					return nil
				}
				err := lead(sig, usualTimes(slowLease{lock}), work, func() {
					overran = time.Since(began)
					close(over)
				})
				if overran < renewed+10*time.Second || overran >= renewed+15*time.Second || !errors.Is(err, errLost) {
					t.Errorf("overrun was called after %v, and lead returns %v", overran, err)
				}
				if lock.out.String() != "" {
					t.Error(lock.out)
				}
			})
		})
	}
}

// A replica loses the lease while a handler is at work, which obeys its context, and leads again. The handler was let
// alone for the Grace, until overrun ended the process. The next term has all keys.
func TestLeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &lease{out: new(journal)}
		sig, stop := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		defer stop()
		terms := 0
		err := leadAgain(sig, usualTimes(lock), func(ctx context.Context, term *term) error {
			terms++
			queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{})
			queue.AddAll("a", "b", "c")
			return work(ctx, term, queue, 1, func(ctx context.Context, name string) error {
				if terms == 1 && name == "a" {
					lock.cut()
					time.Sleep(5 * time.Second) // So that the loss comes before the Timeout of the next handler.
				}
				if terms == 1 && name == "b" {
					<-ctx.Done()
					lock.heal()
					fmt.Fprintln(lock.out, name, "is cut short")
					return ctx.Err()
				}
				if fmt.Fprintln(lock.out, terms, name); terms == 2 && name == "c" {
					stop()
				}
				return nil
			})
		}, func() { t.Error("another process is about to lead") })
		if got, want := lock.out.String(), "1 a, b is cut short, 2 a, 2 b, 2 c, the lease is given back,"; got != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
}

// An error of work in a term that is lost was neither returned nor logged, and the next term began.
func TestErrorOfATermThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &lease{out: new(journal)}
		broken := errors.New("no informer")
		ctx := logr.NewContext(t.Context(), logr.Discard())
		err := leadAgain(ctx, usualTimes(lock), func(ctx context.Context, _ *term) error {
			lock.cut()
			<-ctx.Done()
			lock.heal()
			return broken
		}, func() { t.Error("another process is about to lead") })
		if !errors.Is(err, broken) || !errors.Is(err, errLost) {
			t.Errorf("got %v, want both errors", err)
		}
	})
}

// What a loss has cut short counts as no failure, also if the error of the handler does not wrap that of its context.
func TestGuardAfterALoss(t *testing.T) {
	for want, err := range map[workqueue.Outcome]error{
		workqueue.OutcomeDeferred: errors.New("sync: context canceled"),
		workqueue.OutcomeGivenUp:  workqueue.Permanent(errors.New("no such label")),
	} {
		leading, lose := context.WithCancel(t.Context())
		own := always()
		own.leading = leading
		got := guard(own, func(ctx context.Context, _ string) error {
			lose()
			<-ctx.Done()
			return err
		})(t.Context(), "a")
		if v := workqueue.VerdictOf(got); v.Outcome != want || v.After != 0 {
			t.Errorf("%v becomes %v, want %v", err, v, want)
		}
		if got := guard(own, func(context.Context, string) error { t.Error("a handler begins"); return nil })(t.Context(), "a"); got == nil {
			t.Error("the item is done without a handler")
		}
	}
}

// Workers drain the queue after a loss, and no handler begins.
func TestNoHandlerBeginsAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
		for n := range 1000 {
			queue.Add(n)
		}
		lock := &lease{out: new(journal)}
		time.AfterFunc(30*time.Second, lock.cut)
		var ends, last atomic.Int64
		_ = lead(logr.NewContext(t.Context(), logr.Discard()), usualTimes(lock), func(ctx context.Context, term *term) error {
			context.AfterFunc(ctx, func() { ends.Store(time.Now().UnixNano()) })
			return work(ctx, term, queue, 1, func(context.Context, int) error {
				last.Store(time.Now().UnixNano())
				time.Sleep(100 * time.Millisecond)
				return nil
			})
		}, func() { t.Error("handlers go on") })
		if ends.Load() == 0 || last.Load() == 0 || last.Load() > ends.Load() {
			t.Errorf("the last handler has begun %v after the loss", time.Duration(last.Load()-ends.Load()))
		}
	})
}

// After a pause nobody has taken the lease, and its renewal takes ten minutes. The keys come again then. They were given
// up, while the process went on to lead.
func TestNoKeyIsGivenUpAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
		for n := range 60 {
			queue.Add(n)
		}
		lock := &timedLock{}
		time.AfterFunc(10*time.Minute, func() { lock.until.Store(time.Now().Add(time.Hour).UnixNano()) })
		ctx, stop := context.WithTimeout(logr.NewContext(t.Context(), logr.Discard()), time.Hour)
		defer stop()
		done := 0
		err := work(ctx, &term{ctx, lock}, queue, 1, func(context.Context, int) error { done++; return nil })
		if err != nil || done != 60 {
			t.Errorf("%d of 60 keys were handled, %v", done, err)
		}
	})
}

// The process was stopped for longer than LeaseDuration, and its elector does not know. A stopped process began 3,680
// keys after another one had taken the lease.
func TestLeaseIsNotOursAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &timedLock{Interface: &lease{out: new(journal)}, duration: 15 * time.Second}
		if lock.isOurs() {
			t.Error("the lease is ours before the election")
		}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "replica-1"}
		for _, write := range []func(context.Context, resourcelock.LeaderElectionRecord) error{lock.Create, lock.Update} {
			if err := write(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			time.Sleep(14 * time.Second)
			before := lock.isOurs()
			time.Sleep(time.Second)
			if !before || lock.isOurs() {
				t.Errorf("the lease is ours: %v after 14 s, and %v after 15 s", before, lock.isOurs())
			}
		}
	})
}

// While the lease is given back, and afterwards, it is not ours. When renewals have failed, the elector gives the lease
// back before it ends the context: 39 handlers began beside the new leader. It is given back only after a resignation.
func TestLeaseIsNotOursDuringARelease(t *testing.T) {
	resigned, resign := context.WithCancel(t.Context())
	defer resign()
	lock := &timedLock{Interface: &lease{out: new(journal)}, duration: time.Hour, resigned: resigned}
	held := resourcelock.LeaderElectionRecord{HolderIdentity: "replica-1"}
	if err := lock.Create(t.Context(), held); err != nil || !lock.isOurs() {
		t.Fatalf("ours: %v, %v", lock.isOurs(), err)
	}
	asked := &askingLease{Interface: lock.Interface, ours: lock.isOurs}
	lock.Interface = asked
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil || asked.updates > 0 || !lock.isOurs() {
		t.Errorf("before a resignation: %d updates, ours: %v, %v", asked.updates, lock.isOurs(), err)
	}
	resign()
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || asked.updates != 1 || asked.was || lock.isOurs() {
		t.Errorf("%d updates, ours during the release: %v, afterwards: %v, %v", asked.updates, asked.was, lock.isOurs(), err)
	}
}

// An askingLease asks during an update whether the lease is ours.
type askingLease struct {
	resourcelock.Interface
	ours    func() bool
	was     bool
	updates int
}

func (l *askingLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.was = l.ours()
	l.updates++
	return l.Interface.Update(ctx, record)
}
