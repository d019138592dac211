package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A drain lasts until its Grace is over, and ends with it: nothing begins any more, and the contexts end.
//
// The contexts of running reconciles ended before the hand-outs did: their workers took the queued items one after the
// other, and each began with a live context. The log then said that nothing was left. While a manager ends,
// controller-runtime only logs that the leadership is lost: without a Lock the drain went on beside another leader. When
// Start returned after GracefulShutdownTimeout, reconciles with live contexts went on until the Grace was over. The
// manager gives its lock up then: the log said that the leadership is over.
func TestEndOfTheGrace(t *testing.T) {
	const (
		workers, items = 8, 2000
		takes          = 730 * time.Millisecond // No reconcile ends by itself at the end of the Grace.
		grace          = 20 * time.Second
		longer         = 30 * time.Second // as a GracefulShutdownTimeout
		graceOver      = "Grace is over"
		tooLong        = "The Grace is longer than the manager has waited: set a longer GracefulShutdownTimeout"
		lost           = "the leadership is over"
	)
	renewalsFail := func(l *lock) { l.stolen.Store(true) }
	names := func(holder string) func(l *lock) {
		return func(l *lock) { l.stolen.Store(true); l.name(holder) }
	}
	for name, row := range map[string]struct {
		graceful time.Duration // GracefulShutdownTimeout
		locked   bool
		lose     func(*lock)   // the leadership, after five seconds of the drain
		lasts    time.Duration // at most, since the end of the manager or the last renewal
		early    time.Duration // how much earlier the end may come
		log      string
	}{
		"Grace":                              {graceful: longer, lasts: grace, log: graceOver},
		"Grace, with a Lock":                 {graceful: longer, locked: true, lasts: grace, log: graceOver},
		"GracefulShutdownTimeout":            {graceful: 5 * time.Second, lasts: 5 * time.Second, log: tooLong},
		"GracefulShutdownTimeout and a Lock": {graceful: 5 * time.Second, locked: true, lasts: 5 * time.Second, log: tooLong},
		"renewals fail":                      {graceful: longer, locked: true, lose: renewalsFail, lasts: 10 * time.Second, log: lost},
		"the record names another":           {graceful: longer, locked: true, lose: names("another"), lasts: 3 * time.Second, early: 3 * time.Second, log: lost},
		"the record is gone":                 {graceful: longer, locked: true, lose: names(""), lasts: 3 * time.Second, early: 3 * time.Second, log: lost},
	} {
		bubble(t, name, func(t *testing.T) {
			var mu sync.Mutex            // guards began and ended
			var began, ended []time.Time // with live contexts
			logger, logged := newLog()
			l := new(lock)
			var elected resourcelock.Interface = l
			o := draining(grace)
			o.Logger = &logger
			if row.locked {
				o.Lock = ctrlqueue.NewLock(l)
				elected = o.Lock
			}
			mgr := ctrlqueue.WrapManager(newElected(t, elected, row.graceful), o)
			note := func(ctx context.Context, times *[]time.Time) {
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() == nil {
					*times = append(*times, time.Now())
				}
			}
			do := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				note(ctx, &began)
				err := works(ctx, takes)
				note(ctx, &ended)
				return reconcile.Result{}, err
			})
			addController(t, mgr, "ends", controller.Options{Reconciler: do, MaxConcurrentReconciles: workers}, func(q *requestQueue) {
				for i := range items {
					q.Add(request(fmt.Sprint(i)))
				}
			})
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = mgr.Start(ctx) // Its error depends on the row.
			}()
			time.Sleep(time.Minute)
			stopped := time.Now()
			stop()
			if row.lose != nil {
				time.Sleep(5 * time.Second)
				row.lose(l)
				stopped = l.renewed()
			}
			<-over
			time.Sleep(time.Hour)
			mu.Lock()
			defer mu.Unlock()
			end := stopped.Add(row.lasts)
			if last := slices.MaxFunc(began, time.Time.Compare); !last.Before(end) || last.Before(end.Add(-takes-row.early)) {
				t.Errorf("the last reconcile with a live context began %v before the end", end.Sub(last))
			}
			if last := slices.MaxFunc(ended, time.Time.Compare); last.After(end) {
				t.Errorf("a reconcile had a live context %v after the end", last.Sub(end))
			}
			want := fmt.Sprintf("drain left %d queued, %d in flight", items-len(began), workers)
			if lines := logged(); len(lines) != 1 || !strings.Contains(lines[0], row.log) || !strings.Contains(lines[0], want) {
				t.Errorf("logged are %q, want %q and %q", lines, row.log, want)
			}
		})
	}
}

// The last reconcile of each worker was cut short between its two writes. With a Finish nothing begins in that time.
func TestFinish(t *testing.T) {
	const workers, items = 10, 1000
	for finish, want := range map[time.Duration]string{
		0:               "the last began after 19.6s, 10 half written, left 850 queued and 10 in flight after 20s",
		5 * time.Second: "the last began after 14s, 0 half written, left 890 queued and 0 in flight after 15.4s",
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // guards written and last
			written, last := make(map[string]int), time.Time{}
			var named workqueue.Snapshot[reconcile.Request]
			o := draining(20 * time.Second)
			o.Finish = finish
			var from, ended time.Time
			logger, logged := newLog()
			o.Logger = &logger
			o.OnStop = func(_ string, left workqueue.Snapshot[reconcile.Request]) { named, ended = left, time.Now() }
			c := start(t, "finishes", o, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				for range 2 {
					mu.Lock()
					if written[r.Name]++; written[r.Name] == 1 {
						last = time.Now()
					}
					mu.Unlock()
					if err := works(ctx, 700*time.Millisecond); err != nil {
						return reconcile.Result{}, err
					}
				}
				return reconcile.Result{}, nil
			}, atATime(workers))
			for i := range items {
				c.q.Add(request(fmt.Sprint(i)))
			}
			from = time.Now()
			c.end(t)
			half := 0
			for _, n := range written {
				half += n % 2
			}
			got := fmt.Sprintf("the last began after %v, %d half written, left %d queued and %d in flight after %v",
				last.Sub(from), half, named.QueuedTotal, named.InFlightTotal, ended.Sub(from))
			if lines := logged(); len(lines) != 1 || !strings.Contains(lines[0], "Grace is over") {
				t.Errorf("with a Finish of %v the log has %q", finish, lines)
			}
			if got != want {
				t.Errorf("with a Finish of %v: %s, want %s", finish, got, want)
			}
		})
	}
}

// A worker that waits for a group at its limit gets an item in the Finish, and begins nothing. OnStop names the item.
func TestWorkerThatGetsItsItemInTheFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var named workqueue.Snapshot[reconcile.Request]
		o := draining(20 * time.Second)
		o.Finish = 5 * time.Second
		o.Order = workqueue.Order[reconcile.Request]{Group: ctrlqueue.Namespace, MaxInFlight: func(string) int { return 1 }}
		o.OnStop = func(_ string, left workqueue.Snapshot[reconcile.Request]) { named = left }
		begun := 0
		c := start(t, "waits", o, func(context.Context, reconcile.Request) (reconcile.Result, error) {
			begun++
			time.Sleep(17 * time.Second)
			return reconcile.Result{}, nil
		}, atATime(2))
		c.q.Add(request("a"))
		c.q.Add(request("b"))
		synctest.Wait()
		barrier := make(chan error, 1)
		go func() { barrier <- c.q.Barrier(t.Context()) }()
		synctest.Wait()
		c.end(t)
		if err := <-barrier; err != workqueue.ErrShutDown {
			t.Errorf("got %v from a Barrier behind an item that was not reconciled", err)
		}
		if begun != 1 || named.QueuedTotal != 1 || len(named.Queued) != 1 || named.Queued[0].Item != request("b") || named.InFlightTotal != 0 {
			t.Errorf("%d have begun, left %v", begun, named)
		}
	})
}

// A controller whose Pace is paused held up the end of its manager for ever, and a slow Pace gave each worker a token
// to leave with.
func TestShutDownReleasesWorkersThatWaitForAToken(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, q *ctrlqueue.Queue[string]){
		"ShutDown": func(_ *testing.T, q *ctrlqueue.Queue[string]) { q.ShutDown() },
		"Drain": func(t *testing.T, q *ctrlqueue.Queue[string]) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := q.Drain(ctx); !errors.Is(err, workqueue.ErrNotDrained) {
				t.Errorf("got %v from Drain", err)
			}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			limiter := rate.NewLimiter(0, 0)
			var named workqueue.Snapshot[string]
			q := open(stringOptions{Pace: limiter, OnStop: func(_ string, left workqueue.Snapshot[string]) { named = left }})
			q.AddWithOpts(priorityqueue.AddOpts{}, "a", "b")
			var left sync.WaitGroup
			for range 3 {
				left.Go(func() {
					if item, _, shutdown := q.GetWithPriority(); !shutdown {
						t.Errorf("%s was handed out", item)
					}
				})
			}
			synctest.Wait()
			begun := time.Now()
			end(t, q)
			unblock := time.AfterFunc(time.Hour, func() { limiter.SetLimit(rate.Inf) })
			left.Wait()
			unblock.Stop()
			if took := time.Since(begun); took > time.Second || named.QueuedTotal != 2 {
				t.Errorf("the workers have left after %v, and OnStop was told of %v", took, named)
			}
		})
	}
}

// A worker gets its item, and the Grace is over before the reconcile begins. The new context heard of
// the end on another goroutine, and was live at the start of the reconcile.
func TestContextOfAReconcileThatBeginsAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *running){
		"Grace":               func(c *running) { c.stop() },
		"the leadership lost": func(c *running) { c.mgr.lost <- errors.New("leader election lost") },
	} {
		bubble(t, name, func(t *testing.T) {
			var atStart []error
			c := start(t, "late", draining(20*time.Second), func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				atStart = append(atStart, ctx.Err())
				return reconcile.Result{}, nil
			}, func(o *controller.Options) {
				o.LogConstructor = func(r *reconcile.Request) logr.Logger {
					if r != nil { // After the hand-out, before the reconcile.
						time.Sleep(time.Minute)
					}
					return logr.Discard()
				}
			})
			c.q.Add(request("a"))
			c.q.Add(request("b"))
			time.Sleep(time.Second)
			end(c)
			<-c.over
			c.mgr.running.Wait() // Start returns before the controllers when the leadership is lost.
			if fmt.Sprint(atStart) != "[context canceled]" {
				t.Errorf("the contexts had %v, want one, and ended", atStart)
			}
		})
	}
}

// newLog returns a logger, and its lines so far.
func newLog() (logger logr.Logger, lines func() []string) {
	var mu sync.Mutex
	var all []string // guarded by mu
	logger = funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, line)
	}, funcr.Options{})
	return logger, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// The waiting objects were dropped without a name at each end, and the queued ones were only counted. What
// a reconcile asked for after the shutdown was in no list, and what the end of the contexts had interrupted was
// so at times. After a lost leadership Start returned before OnStop was called, and with it the program.
func TestOnStopNamesWhatIsLeft(t *testing.T) {
	takes := func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		time.Sleep(3 * time.Second)
		return reconcile.Result{}, nil
	}
	asks := func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		time.Sleep(3 * time.Second)
		switch r.Name {
		case "a":
			return reconcile.Result{}, errors.New("conflict")
		case "b":
			return ctrlqueue.DeferFor(ctx, time.Minute), nil
		}
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}
	terminal := func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		time.Sleep(3 * time.Second)
		if r.Name == "a" {
			return reconcile.Result{}, reconcile.TerminalError(errors.New("no such class"))
		}
		return reconcile.Result{}, nil
	}
	givingUp := draining(10 * time.Second)
	givingUp.MaxAttempts = 1
	hears := func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		<-ctx.Done()
		return reconcile.Result{}, ctx.Err()
	}
	for name, row := range map[string]struct {
		options options
		do      reconcile.Func
		lost    bool
		want    string
	}{
		"stop":                         {options{}, takes, false, "queued[b c] held[a] waiting[w] failed[]"},
		"drain that is too short":      {draining(time.Second), takes, false, "queued[b c] held[a] waiting[w] failed[]"},
		"drain":                        {draining(10 * time.Second), takes, false, "queued[] held[] waiting[w] failed[]"},
		"reconciles ask for more":      {draining(10 * time.Second), asks, false, "queued[] held[] waiting[b c w] failed[a]"},
		"the Grace ends the reconcile": {draining(time.Second), hears, false, "queued[b c] held[a] waiting[w] failed[]"},
		"a reconcile gives up":         {draining(10 * time.Second), terminal, false, "queued[] held[] waiting[w] failed[a]"},
		"MaxAttempts gives up":         {givingUp, asks, false, "queued[] held[] waiting[b c w] failed[a]"},
		"the leadership is lost":       {draining(time.Second), takes, true, "queued[b c] held[a] waiting[w] failed[]"},
	} {
		bubble(t, name, func(t *testing.T) {
			var told []string
			row.options.OnStop = func(controller string, left workqueue.Snapshot[reconcile.Request]) {
				time.Sleep(time.Millisecond) // The manager waits.
				told = append(told, controller+": "+namesOf(left))
			}
			s := newStandIn()
			c := startIn(t, s, ctrlqueue.WrapManager(s, row.options), "left", controller.Options{Reconciler: row.do})
			c.q.AddAfter(request("w"), time.Hour)
			c.q.AddWithOpts(priorityqueue.AddOpts{}, request("a"), request("b"), request("c"))
			time.Sleep(time.Second)
			if row.lost {
				s.lost <- errors.New("leader election lost")
			} else {
				c.stop()
			}
			if err := <-c.over; (err != nil) != row.lost {
				t.Error(err)
			}
			if want := []string{"left: " + row.want}; !slices.Equal(told, want) {
				t.Errorf("OnStop was told %q before Start has returned, want %q", told, want)
			}
			c.stop()
			s.running.Wait()
		})
	}
}

// namesOf returns the names of what is left, by state.
func namesOf(left workqueue.Snapshot[reconcile.Request]) string {
	var states []string
	for _, state := range []struct {
		name  string
		infos []workqueue.ItemInfo[reconcile.Request]
	}{{"queued", left.Queued}, {"held", left.InFlight}, {"waiting", left.Waiting}, {"failed", left.Failed}} {
		var names []string
		for _, info := range state.infos {
			names = append(names, info.Item.Name)
		}
		slices.Sort(names)
		states = append(states, state.name+fmt.Sprint(names))
	}
	return strings.Join(states, " ")
}

// An object that is handed out once more after its reconcile has failed in the drain, or removed, is not left, whatever
// the reconcile of a removed object asks for.
func TestOnStopForgetsWhatComesAgainInTheDrain(t *testing.T) {
	nothing := func(*requestQueue) {}
	remove := func(name string) func(q *requestQueue) {
		return func(q *requestQueue) { q.Remove(request(name)) }
	}
	for name, row := range map[string]struct {
		want                string
		before, first, then func(q *requestQueue) // in the reconcile of a, before and after the end has begun, and in that of b, which follows
		end                 func(ctx context.Context) (reconcile.Result, error)
	}{
		"nothing happens":           {"waiting[w] failed[a]", nothing, nothing, nothing, fail},
		"Remove":                    {"waiting[w] failed[]", nothing, nothing, remove("a"), fail},
		"Remove of what has waited": {"waiting[] failed[a]", nothing, nothing, remove("w"), fail},
		"RemoveFunc": {"waiting[] failed[]", nothing, nothing, func(q *requestQueue) {
			q.RemoveFunc(func(r reconcile.Request) bool { return r.Name == "a" || r.Name == "w" })
		}, fail},
		"an event has come before the end": {"waiting[w] failed[]", func(q *requestQueue) { q.Add(request("a")) }, nothing, nothing, fail},
		"Remove before a failure":          {"waiting[w] failed[]", nothing, remove("a"), nothing, fail},
		"Remove before a RequeueAfter":     {"waiting[w] failed[]", nothing, remove("a"), nothing, asks(reconcile.Result{RequeueAfter: time.Second}, nil)},
		"Remove before a TerminalError":    {"waiting[w] failed[]", nothing, remove("a"), nothing, asks(reconcile.Result{}, terminal())},
		"Remove before a DeferFor":         {"waiting[w] failed[]", nothing, remove("a"), nothing, asks(reconcile.Result{}, nil, time.Hour)},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told string
			o := draining(10 * time.Second)
			o.OnStop = func(_ string, left workqueue.Snapshot[reconcile.Request]) { told = namesOf(left) }
			failed := false
			var c *running
			c = start(t, "left", o, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				switch {
				case r.Name == "b":
					row.then(c.q)
				case !failed:
					failed = true
					row.before(c.q)
					c.stop()
					time.Sleep(time.Second)
					row.first(c.q)
					return row.end(ctx)
				}
				return reconcile.Result{}, nil
			})
			c.q.AddAfter(request("w"), time.Hour)
			c.q.AddWithOpts(priorityqueue.AddOpts{}, request("a"), request("b"))
			time.Sleep(time.Minute)
			c.end(t)
			if want := "queued[] held[] " + row.want; told != want {
				t.Errorf("%s: OnStop was told %s, want %s", name, told, want)
			}
		})
	}
}

// What reconciles ask for at the instant of the end was dropped by the shutdown, and OnStop did not name 2 to 22 of 100.
func TestOnStopNamesWhatFailsAtTheEnd(t *testing.T) {
	const workers = 20
	for name, o := range map[string]options{"retries": {}, "given up": {MaxAttempts: 1, GiveUpFor: time.Minute}} {
		for range 100 {
			synctest.Test(t, func(t *testing.T) {
				var left workqueue.Snapshot[reconcile.Request]
				o.OnStop = func(_ string, l workqueue.Snapshot[reconcile.Request]) { left = l }
				s := newStandIn()
				opts := controller.Options{MaxConcurrentReconciles: workers, Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					time.Sleep(time.Second)
					return fail(ctx)
				})}
				fromASecond(&opts)
				c := startIn(t, s, ctrlqueue.WrapManager(s, o), fresh("ends"), opts)
				for i := range workers {
					c.q.Add(request(fmt.Sprint(i)))
				}
				time.Sleep(time.Second)
				c.end(t)
				if named := left.QueuedTotal + left.InFlightTotal + left.WaitingTotal + left.FailedTotal; named != workers {
					t.Fatalf("%s: OnStop names %d of %d objects: %v", name, named, workers, left)
				}
			})
		}
	}
}

// An operator could not tell what the end of a manager without a drain had dropped.
func TestQueuedItemsThatAreDroppedAreLogged(t *testing.T) {
	logger, logged := newLog()
	q := open(stringOptions{Logger: &logger})
	q.Add("held")
	q.Get()
	q.Add("a")
	q.Add("b")
	q.AddAfter("waits", time.Hour)
	q.ShutDown()
	q.ShutDown()
	if got, want := logged(), []string{`"level"=0 "msg"="Queued items are dropped" "queued"=2 "waiting"=1`}; !slices.Equal(got, want) {
		t.Errorf("logged are %q, want %q", got, want)
	}
}

// The log names what has ended a drain, and what the drain leaves to do. Nobody waits for the items of a queue without
// workers: the controller of a replica that has never led fills its queue, for example with EnableWarmup.
func TestLogOfADrainThatIsCutOff(t *testing.T) {
	const notDrained = `"level"=0 "msg"="The queue was not drained" `
	for name, row := range map[string]struct {
		works bool
		drain context.Context // of another Drain; nil for none
		want  []string
	}{
		"the Grace": {works: true, want: []string{notDrained + `"cause"="ctrlqueue: Grace is over" "left"="workqueue: drain left 1 queued, 1 in flight (held), 0 waiting: context deadline exceeded"`}},
		"another Drain, within the Grace": {works: true, drain: canceled(), want: []string{notDrained +
			`"cause"="workqueue: queue is shut down" "left"="workqueue: drain left 1 queued, 1 in flight (held), 0 waiting: workqueue: queue is shut down"`}},
		"without workers": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			logger, logged := newLog()
			q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Second, Logger: &logger})
			q.Add("held")
			if row.works {
				q.Get()
			}
			q.Add("a")
			q.ShutDown()
			synctest.Wait()
			if row.drain != nil {
				if err := q.Drain(row.drain); !errors.Is(err, context.Canceled) {
					t.Errorf("Drain returned %v", err)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := logged(); !slices.Equal(got, row.want) {
				t.Errorf("%s: logged are %q, want %q", name, got, row.want)
			}
		})
	}
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// After ShutDown no worker gets a queued item, so a drain waits for nothing, before or afterwards. It names what is left.
func TestShutDownEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(stringOptions{})
		q.Add("held")
		q.Get()
		q.Add("queued")
		drained := make(chan error, 2)
		drain := func() { drained <- q.Drain(context.Background()) }
		go drain()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("the drain has not waited")
		}
		q.ShutDown()
		q.ShutDownWithDrain()
		drain()
		for range 2 {
			err := <-drained
			var left *workqueue.DrainError[string]
			if !errors.As(err, &left) || left.Left.QueuedTotal != 1 || left.Left.InFlightTotal != 1 || left.Err != workqueue.ErrShutDown {
				t.Errorf("the drain returned %v", err)
			}
		}
		q.Done("held")
	})
}
