package ctrlqueue_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type stringOptions = ctrlqueue.Options[string]

type order = workqueue.Order[string]

func open(o stringOptions) *ctrlqueue.Queue[string] {
	return ctrlqueue.For(o).NewQueue("", nil).(*ctrlqueue.Queue[string])
}

func prioritized(priority int) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &priority}
}

// A worker in GetWithPriority may have taken an item when the queue is shut down. The queue must not hand
// out the item: the worker would reconcile the item.
func TestNothingIsHandedOutAfterAShutdown(t *testing.T) {
	for range 200 {
		var q *ctrlqueue.Queue[string]
		q = open(stringOptions{OnStop: func(string, workqueue.Snapshot[string]) { q.ShutDown() }}) // Once more.
		for i := range 1000 {
			q.Add(fmt.Sprint(i))
		}
		var shut atomic.Bool
		var late atomic.Int64
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					before := shut.Load()
					item, _, shutdown := q.GetWithPriority()
					if shutdown {
						if item != "" {
							t.Errorf("%s came with the shutdown", item)
						}
						return
					}
					if before {
						late.Add(1)
					}
					q.Done(item)
				}
			})
		}
		runtime.Gosched()
		q.ShutDown()
		shut.Store(true)
		workers.Wait()
		if n := late.Load(); n > 0 {
			t.Fatalf("%d items were handed out after the shutdown", n)
		}
	}
}

// goroutines returns how many there are in the bubble of the caller.
func goroutines() int {
	stack := make([]byte, 1<<20)
	own := string(stack[:runtime.Stack(stack, false)])
	_, bubble, _ := strings.Cut(own, "synctest bubble ")
	bubble, _, _ = strings.Cut(bubble, "]")
	return strings.Count(string(stack[:runtime.Stack(stack, true)]), "synctest bubble "+bubble+"]")
}

// Whatever the options are, a queue has no goroutine at rest and at work, and one while items wait or the queue is
// drained. controller-runtime's queue has 5, with metrics.
func TestGoroutines(t *testing.T) {
	busy := stringOptions{
		Order: order{OldestEvery: 2, Group: groupOf, Weight: func(string) int { return 2 }, MaxInFlight: func(string) int { return 2 }},
		Quiet: time.Second, Most: time.Minute, AtEnd: workqueue.EndDrain, Grace: time.Minute,
	}
	for drains, o := range []stringOptions{{}, busy} {
		synctest.Test(t, func(t *testing.T) {
			q := openStopped(t, fresh("goroutines"), o)
			before := goroutines()
			expect := func(what string, want int) {
				t.Helper()
				synctest.Wait()
				if got := goroutines() - before; got != want {
					t.Errorf("drains %d, %s: %d goroutines, want %d", drains, what, got, want)
				}
			}
			q.AddWithOpts(prioritized(9), "a", "b")
			expect("two queued", 0)
			q.Get()
			expect("one held", 0)
			q.AddAfter("c", time.Minute)
			q.AddRateLimited("d")
			expect("two wait", 1)
			time.Sleep(2 * time.Minute)
			expect("they are due", 0)
			q.AddAfter("e", time.Minute)
			q.ShutDown()
			expect("after the shutdown", drains)
			time.Sleep(time.Hour)
			expect("at its end", 0)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		before := goroutines()
		q := openTheirs("goroutines-theirs")
		synctest.Wait()
		if n := goroutines() - before; n != 5 {
			t.Errorf("controller-runtime's has %d goroutines, and the row of the README is to be changed", n)
		}
		q.ShutDown()
	})
}

// take returns the items in the order in which they are handed out. It calls Done for
// each of them.
func take(q *ctrlqueue.Queue[string]) (items []string) {
	for q.Len() > 0 {
		item, _, _ := q.GetWithPriority()
		items = append(items, item)
		q.Done(item)
	}
	return items
}

func groupOf(item string) string { return item[:1] }

func TestQuietAndMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(stringOptions{Quiet: time.Second, Most: 3 * time.Second})
		defer q.ShutDown()
		q.Add("a")
		time.Sleep(999 * time.Millisecond)
		q.Add("a")
		time.Sleep(999 * time.Millisecond)
		if n := q.Len(); n != 0 {
			t.Error("a burst has not been put off")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(take(q)); got != "[a]" {
			t.Errorf("after the quiet time: %s", got)
		}
		for range 6 { // A burst without an end.
			q.Add("b")
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if got := fmt.Sprint(take(q)); got != "[b]" {
			t.Errorf("after the longest time: %s", got)
		}
		q.AddWithOpts(prioritized(-100), "c") // Of the initial list.
		q.AddWithOpts(prioritized(100), "d")
		if got := fmt.Sprint(take(q)); got != "[d c]" {
			t.Errorf("adds with a priority: %s", got)
		}
		// An event raises what is queued, and does not put it off.
		q.AddWithOpts(prioritized(-100), "e", "f")
		q.Add("f")
		if got := fmt.Sprint(take(q)); got != "[f e]" {
			t.Errorf("an event of what is queued: %s", got)
		}
	})
}

func TestLookup(t *testing.T) {
	first := openOurs("looked-up").(*ctrlqueue.Queue[string])
	if q, ok := ctrlqueue.Lookup[string]("looked-up"); !ok || q != first || q.Name() != "looked-up" {
		t.Errorf("Lookup returns %v, %v", q, ok)
	}
	if q, ok := ctrlqueue.Lookup[int]("looked-up"); ok || q != nil {
		t.Error("Lookup returns a queue of other items")
	}
	if !slices.Contains(ctrlqueue.Names(), "looked-up") {
		t.Errorf("Names are %v", ctrlqueue.Names())
	}
	second := openOurs("looked-up").(*ctrlqueue.Queue[string])
	if q, _ := ctrlqueue.Lookup[string]("looked-up"); q != second {
		t.Error("Lookup does not return the youngest")
	}
	second.ShutDown()
	if q, _ := ctrlqueue.Lookup[string]("looked-up"); q != first {
		t.Error("Lookup does not return the one that is left")
	}
	first.ShutDown()
	if _, ok := ctrlqueue.Lookup[string]("looked-up"); ok || slices.Contains(ctrlqueue.Names(), "looked-up") {
		t.Error("Lookup returns a queue that is shut down")
	}
	if _, ok := ctrlqueue.Lookup[string](""); ok {
		t.Error("Lookup returns a queue without a name")
	}
}

// A queue that is dropped without a shutdown is not kept, and its name is forgotten.
func TestLookupOfAQueueThatIsGarbage(t *testing.T) {
	func() { openOurs("dropped").Add("a") }()
	for range 100 {
		runtime.GC()
		if !slices.Contains(ctrlqueue.Names(), "dropped") {
			if len(series(t, "dropped")) == 0 {
				return
			}
		}
		runtime.Gosched()
	}
	t.Errorf("the queue is still known, with the series %v", series(t, "dropped"))
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	wrap := func(o stringOptions) { ctrlqueue.WrapManager(&standIn{}, o) }
	for want, o := range map[string]stringOptions{
		"workqueue: Order.OldestEvery is negative: -1":                                       {Order: order{OldestEvery: -1}},
		"workqueue: Order.GroupsFirst has no effect without Order.Group":                     {Order: order{GroupsFirst: true}},
		"ctrlqueue: Finish leaves nothing of the Grace: 1s of 1s":                            {Grace: time.Second, Finish: time.Second},
		"ctrlqueue: a duration is negative: Quiet -1s, Most 0s, Grace 0s, Finish 0s":         {Quiet: -time.Second},
		"ctrlqueue: a duration is negative: Quiet 0s, Most 0s, Grace -1s, Finish 0s":         {Grace: -time.Second},
		"ctrlqueue: Most needs a Quiet":                                                      {Most: time.Second},
		"ctrlqueue: Most is less than Quiet: 1s and 2s":                                      {Quiet: 2 * time.Second, Most: time.Second},
		"ctrlqueue: CancelOnReAdd is negative: -1":                                           {CancelOnReAdd: -1},
		"ctrlqueue: MaxAttempts is negative: -1":                                             {MaxAttempts: -1},
		"ctrlqueue: GiveUpFor is negative: -1s":                                              {MaxAttempts: 1, GiveUpFor: -time.Second},
		"ctrlqueue: EndKeep keeps nothing: a controller that starts again makes a new queue": {AtEnd: workqueue.EndKeep},
		"ctrlqueue: AtEnd has an unknown value: 9":                                           {AtEnd: 9},
		"ctrlqueue: EndDrain without Grace: there is no time to drain in":                    {AtEnd: workqueue.EndDrain},
		"ctrlqueue: Lock without Grace: there is nothing that the Lock could end":            {Lock: &ctrlqueue.Lock{}},
	} {
		mustPanic(t, want, func() { ctrlqueue.For(o) })
		mustPanic(t, want, func() { wrap(o) })
	}
	mustPanic(t, "ctrlqueue: For with a Grace, which EndDrain needs too, or with a Lock: use WrapManager, which learns why the manager has ended",
		func() { ctrlqueue.For(stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Second}) })
	mustPanic(t, "ctrlqueue: NewLock of a nil lock", func() { ctrlqueue.NewLock(nil) })
}

func mustPanic(t *testing.T, want string, call func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("the panic is %s, want %s", got, want)
		}
	}()
	call()
}

func TestPageShowsTheQueuesThatRun(t *testing.T) {
	page := debugpage.New(debugpage.Options{})
	shown := func() string {
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequest("GET", "/?format=json", nil))
		var report debugpage.Report
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, q := range report.Queues {
			names = append(names, fmt.Sprint(q.Name, " ", q.Depth))
		}
		return strings.Join(names, ", ")
	}
	options := stringOptions{Page: page}
	first := ctrlqueue.For(options).NewQueue("TestPage-first", nil)
	second := ctrlqueue.For(options).NewQueue("TestPage-second", nil)
	first.Add("a")
	if got := shown(); got != "TestPage-first 1, TestPage-second 0" {
		t.Errorf("the page shows %s", got)
	}
	found, _ := ctrlqueue.Lookup[string]("TestPage-first")
	remove := debugpage.Add(page, "by Lookup", found)
	if got := shown(); got != "TestPage-first 1, TestPage-second 0, by Lookup 1" {
		t.Errorf("with a queue of Lookup the page shows %s", got)
	}
	for info := range found.Items() {
		if info.Item != "a" {
			t.Errorf("Items has %v", info)
		}
	}
	remove()
	first.ShutDown()
	if got := shown(); got != "TestPage-second 0" {
		t.Errorf("after a shutdown the page shows %s", got)
	}
	second.ShutDownWithDrain()
	if got := shown(); got != "" {
		t.Errorf("after both shutdowns the page shows %s", got)
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

// The namespaces of the objects take turns.
func TestNamespacesTakeTurns(t *testing.T) {
	in := func(namespace, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	q := ctrlqueue.For(options{Order: workqueue.Order[reconcile.Request]{Group: ctrlqueue.Namespace}}).NewQueue("", nil)
	defer q.ShutDown()
	for _, r := range []reconcile.Request{in("loud", "0"), in("loud", "1"), in("quiet", "0")} {
		q.Add(r)
	}
	var got []string
	for range 3 {
		r, _ := q.Get()
		got = append(got, r.String())
	}
	if want := "[loud/0 quiet/0 loud/1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A limiter of a caller may panic. The caller of the queue sees the panic, and the queue works on.
func TestALimiterThatPanicsLeavesTheQueueUsable(t *testing.T) {
	q := ours.open(callingLimiter[string]{when: func() { panic("the limiter is broken") }})
	defer q.ShutDown()
	mustPanic(t, "the limiter is broken", func() { q.AddRateLimited("a") })
	mustPanic(t, "the limiter is broken", func() { q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(3)}, "a") })
	q.AddWithOpts(prioritized(1), "a")
	if item, priority, _ := q.GetWithPriority(); item != "a" || priority != 1 {
		t.Errorf("got %s at %d", item, priority)
	}
	q.Done("a")
}

// controller-runtime's queue logs all of its items every ten seconds, with a pass over
// them under its lock.
func TestNothingIsLoggedInAnHour(t *testing.T) {
	for _, i := range []struct {
		name  string
		open  func(logr.Logger) queue
		lines int
	}{
		{"workqueue", func(l logr.Logger) queue {
			return ctrlqueue.For(stringOptions{Logger: &l}).NewQueue("quiet", newLimiter()).(queue)
		}, 0},
		{"controller-runtime", func(l logr.Logger) queue {
			return priorityqueue.New("", func(o *priorityqueue.Opts[string]) { o.Log, o.RateLimiter = l, newLimiter() })
		}, 360},
	} {
		bubble(t, i.name, func(t *testing.T) {
			lines := 0
			q := i.open(funcr.New(func(string, string) { lines++ }, funcr.Options{Verbosity: 10}))
			q.Add("held")
			q.Get()
			q.AddWithOpts(prioritized(-100), "queued")
			q.AddAfter("waits", 2*time.Hour)
			q.AddRateLimited("retried")
			time.Sleep(time.Hour + time.Second)
			synctest.Wait()
			if lines != i.lines {
				t.Errorf("%d lines were logged, want %d", lines, i.lines)
			}
			q.ShutDown()
		})
	}
}
