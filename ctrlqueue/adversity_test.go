package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Edge cases of the queue of a controller: quiet times, registries, clocks, drains and shutdowns,
// namespaces.

// An add with a named priority is not put off, and with a Priority function 0 is a name.
func TestQuietWithAPriorityFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(stringOptions{Order: order{Priority: func(string) int { return 7 }}, Quiet: time.Second})
		defer q.ShutDown()
		q.Add("event")
		q.AddWithOpts(prioritized(-100), "listed")
		q.AddWithOpts(prioritized(0), "named")
		if got := fmt.Sprint(take(q)); got != "[named listed]" {
			t.Errorf("at once: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, priority, _ := q.GetWithPriority(); priority != 7 {
			t.Errorf("the event has priority %d", priority)
		}
	})
}

func TestPrioritiesAtTheEndsOfInt(t *testing.T) {
	for _, i := range []impl{theirs, ours} {
		i.run(t, []step{
			add("zero"), at(math.MinInt, "least", "raised"), at(math.MaxInt, "most"), at(math.MaxInt, "raised"),
			atAfter(math.MinInt, math.MinInt64, "past"), atAfter(math.MaxInt, math.MaxInt64, "never"),
			gets("most", math.MaxInt), gets("raised", math.MaxInt), gets("zero", 0),
			gets("least", math.MinInt), gets("past", math.MinInt), parks(),
		})
	}
}

// A registry that combines several registries is a struct with a slice, which is no map key.
type combined struct {
	prometheus.Registerer
	prometheus.Gatherers
}

// A program has one registry of this type, also when the test runs several times.
var inCombined = prometheus.NewRegistry()

func TestARegistryThatCannotBeCompared(t *testing.T) {
	defer func(r metrics.RegistererGatherer) { metrics.Registry = r }(metrics.Registry)
	metrics.Registry = combined{inCombined, prometheus.Gatherers{inCombined}}
	for _, name := range []string{"combined", "combined-again"} { // The provider is registered once.
		q := openOurs(name)
		q.Add("a")
		if got := depths(t, name); got[""] != 1 {
			t.Errorf("depths of %s are %v", name, got)
		}
		q.ShutDown()
	}
}

// Delays are measured by the given clock.
func TestClockOfTheOptions(t *testing.T) {
	fake := testingclock.NewFakeClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	q := open(stringOptions{Clock: fake})
	defer q.ShutDown()
	q.AddAfter("a", time.Hour)
	fake.Step(59 * time.Minute)
	if n := q.Len(); n != 0 {
		t.Errorf("%d are queued before their time", n)
	}
	fake.Step(time.Minute)
	if item, _, _ := q.GetWithPriority(); item != "a" { // The Get blocks until the goroutine has moved the item.
		t.Errorf("got %s", item)
	}
}

// A drain that is cut off says so in the given logger.
func TestADrainThatIsCutOffIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Second, Logger: &logger})
		q.Add("held")
		q.Get()
		q.Add("a")
		q.ShutDown()
		time.Sleep(time.Minute)
		synctest.Wait()
		const want = `"level"=0 "msg"="The queue was not drained" "cause"="ctrlqueue: Grace is over" "left"="workqueue: drain left 1 queued, 1 in flight (held), 0 waiting: context deadline exceeded"`
		if len(lines) != 1 || lines[0] != want {
			t.Errorf("logged are %q, want %q", lines, want)
		}
	})
}

// An operator could not tell what the end of a manager without a drain had dropped.
func TestQueuedItemsThatAreDroppedAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	q := open(stringOptions{Logger: &logger})
	q.Add("held")
	q.Get()
	q.Add("a")
	q.Add("b")
	q.AddAfter("waits", time.Hour)
	q.ShutDown()
	q.ShutDown()
	if want := []string{`"level"=0 "msg"="Queued items are dropped" "queued"=2 "waiting"=1`}; !slices.Equal(lines, want) {
		t.Errorf("logged are %q, want %q", lines, want)
	}
}

// A drain of the caller whose context ends ends the drain of ShutDown too, within the Grace.
func TestADrainThatAnotherDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Hour, Logger: &logger})
		q.Add("held")
		q.Get()
		q.ShutDown()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.Drain(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Drain returned %v", err)
		}
		synctest.Wait()
		if len(lines) != 1 || !strings.Contains(lines[0], `"cause"="workqueue: queue is shut down"`) {
			t.Errorf("logged are %q", lines)
		}
	})
}

// A controller of a replica that has never led fills its queue, for example with EnableWarmup, and
// has no workers. The drain has nothing to say.
func TestAQueueWithoutWorkersIsNotLoggedAsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Second, Logger: &logger})
		q.Add("a")
		q.ShutDown()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(lines) > 0 {
			t.Errorf("logged are %q", lines)
		}
	})
}

// ShutDown returns at once if it drains, and later adds do nothing, as after any shutdown.
func TestAddsAfterAShutdownThatDrains(t *testing.T) {
	for range 100 {
		q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Minute})
		q.Add("queued")
		q.ShutDown()
		if !q.ShuttingDown() {
			t.Fatal("it is not shutting down")
		}
		q.Add("late")
		q.AddAfter("late", time.Nanosecond)
		q.AddWithOpts(prioritized(1), "late")
		if item, _ := q.Get(); item != "queued" {
			t.Fatalf("got %s", item)
		}
		q.Done("queued")
		if item, shutdown := q.Get(); !shutdown {
			t.Fatalf("got %s", item)
		}
	}
}

// After ShutDown no worker gets a queued item, so nobody can wait for the item.
func TestShutDownWithDrainAfterShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(stringOptions{})
		q.Add("held")
		q.Get()
		q.Add("queued")
		q.ShutDown()
		q.ShutDownWithDrain()
		var left *workqueue.DrainError[string]
		if err := q.Drain(t.Context()); !errors.As(err, &left) || left.Left.QueuedTotal != 1 || left.Left.InFlightTotal != 1 || left.Err != workqueue.ErrShutDown {
			t.Errorf("the drain returned %v", err)
		}
		q.Done("held")
	})
}

// A ShutDown ends a running drain, which names the items that are left.
func TestShutDownDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(stringOptions{})
		q.Add("held")
		q.Get()
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(context.Background()) }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("the drain has not waited")
		}
		q.ShutDown()
		if err := <-drained; !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("the drain returned %v", err)
		}
	})
}

// Every way to end a queue, at once and again: all calls return, and all workers leave.
func TestShutDownAnyNumberOfTimesAtOnce(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel() // A Drain with an ended context does not wait.
	for _, o := range []stringOptions{{}, {AtEnd: workqueue.EndDrain, Grace: time.Minute}} {
		for range 50 {
			q := openStopped(t, "", o)
			q.AddWithOpts(prioritized(-100), "a", "b", "c")
			q.AddAfter("d", time.Hour)
			var all sync.WaitGroup
			for range 4 {
				all.Go(q.ShutDown)
				all.Go(q.ShutDownWithDrain)
				all.Go(func() { q.Drain(over) })
				all.Go(func() {
					for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
						q.Done(item)
					}
				})
			}
			all.Wait()
			if item, shutdown := q.Get(); !shutdown || item != "" {
				t.Fatalf("got %q, %v", item, shutdown)
			}
			q.ShutDown()
		}
	}
}

// The namespaces of the objects take turns, and each has its limit.
func TestNamespacesTakeTurns(t *testing.T) {
	in := func(namespace, name string) reconcile.Request {
		r := request(name)
		r.Namespace = namespace
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		o := options{Order: workqueue.Order[reconcile.Request]{Group: ctrlqueue.Namespace, MaxInFlight: func(string) int { return 2 }}}
		q := ctrlqueue.For(o).NewQueue("", nil)
		for i := range 5 {
			q.Add(in("loud", fmt.Sprint(i)))
		}
		q.Add(in("quiet", "0"))
		var got []string
		for range 3 {
			r, _ := q.Get()
			got = append(got, r.String())
		}
		if want := "[loud/0 quiet/0 loud/1]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		go q.Get()
		synctest.Wait() // The worker parks: the namespace has two in flight.
		q.Done(in("loud", "1"))
		synctest.Wait()
		if s := q.(*requestQueue).Snapshot(10); s.InFlightTotal != 3 || s.QueuedTotal != 2 {
			t.Errorf("%d in flight and %d queued, want 3 and 2", s.InFlightTotal, s.QueuedTotal)
		}
		q.ShutDown()
	})
}

// The cause of a cancel stays in the context.
func TestCauseOfTheEndOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		c := start(t, "cause", draining(time.Second), func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return reconcile.Result{}, ctx.Err()
		})
		c.q.Add(request("a"))
		synctest.Wait()
		c.end(t)
		if cause == nil || errors.Is(cause, context.Canceled) || cause.Error() != "ctrlqueue: Grace is over" {
			t.Errorf("the cause is %v", cause)
		}
	})
}
