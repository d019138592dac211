package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Edge cases of the queue of a controller: clocks, drains and shutdowns, namespaces.

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

// The namespaces of the objects take turns.
func TestNamespacesTakeTurns(t *testing.T) {
	in := func(namespace, name string) reconcile.Request {
		r := request(name)
		r.Namespace = namespace
		return r
	}
	q := ctrlqueue.For(options{Order: workqueue.Order[reconcile.Request]{Group: ctrlqueue.Namespace}}).NewQueue("", nil)
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
	q.ShutDown()
}
