package workqueue_test

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func newStored(s workqueue.Queue[string]) *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: s})
}

func TestStorageDecidesTheOrder(t *testing.T) {
	timeline(t, func() workqueue.TypedInterface[string] { return newStored(&shelf[string]{}) },
		step{"addall a b c", ""}, step{"len", "3"}, step{"get", "c"},
		step{"add a", ""}, step{"get", "a"}, // Touch has moved the item to the top.
		step{"add c", ""}, step{"add b", ""}, step{"done c", ""}, step{"get", "c"}, step{"get", "b"},
		step{"w: get", "blocks"}, step{"done a", ""}, step{"add a", ""}, step{"w: returns", "a"})
}

func TestStorageIsCalled(t *testing.T) {
	s := &shelf[string]{}
	q := newStored(s)
	for i, row := range []struct {
		do    string
		f     func()
		calls []string
	}{
		{"an Add of a new item pushes", func() { q.Add("a") }, []string{"push[a]"}},
		{"an Add of a queued item touches", func() { q.Add("a") }, []string{"touch[a]"}},
		{"AddAll does either", func() { q.AddAll("b", "a", "b") }, []string{"push[b]", "touch[a]", "touch[b]"}},
		{"Get pops", func() { q.Get() }, []string{"pop[]"}},
		{"an Add of a held item does nothing yet", func() { q.Add("b") }, nil},
		{"nor does a second one", func() { q.Add("b") }, nil},
		{"Done of a re-added item pushes", func() { q.Done("b") }, []string{"push[b]"}},
		{"Done of a queued item does nothing", func() { q.Done("b") }, nil},
		{"Len and TryGet of an empty queue do not pop", func() { takeAll(q); q.TryGet() }, []string{"pop[]", "pop[]"}},
		{"Done has forgotten the item", func() { q.Add("a") }, []string{"push[a]"}},
		{"Remove says nothing", func() { q.Remove("a") }, nil},
		{"an Add of what was removed touches", func() { q.Add("a") }, []string{"touch[a]"}},
		{"what was removed is dropped", func() {
			if q.Remove("a"); len(takeAll(q)) > 0 {
				t.Error("a removed item comes out of the Queue")
			}
			q.Add("a")
		}, []string{"pop[]", "push[a]"}},
		{"after a shutdown nothing is pushed or touched", func() { q.ShutDown(); q.Add("a"); q.Add("c") }, nil},
		{"but popped", func() { q.Get(); q.Get() }, []string{"pop[]"}},
	} {
		row.f()
		if !slices.Equal(s.calls, row.calls) {
			t.Errorf("step %d: %s: got %v, want %v", i, row.do, s.calls, row.calls)
		}
		s.calls = nil
		checkInvariants(t, i, q)
	}
}

// Each method fails once, by a panic or by ending the goroutine, in each call of the queue that
// uses the method. Every accepted item is handed out exactly once.
func TestStorageThatFails(t *testing.T) {
	for _, row := range []struct {
		name   string
		method string
		before func(q *workqueue.Typed[string])
		f      func(q *workqueue.Typed[string])
		want   []string // what the queue hands out afterwards
	}{
		{"Push in Add", "push", nil, func(q *workqueue.Typed[string]) { q.Add("x") }, []string{"x", "b", "a"}},
		{"Push in AddAll", "push", nil, func(q *workqueue.Typed[string]) { q.AddAll("a", "x") }, []string{"x", "a", "b"}},
		{"Push in Done", "push", func(q *workqueue.Typed[string]) { q.Get(); q.Add("b") },
			func(q *workqueue.Typed[string]) { q.Done("b") }, []string{"b", "a"}},
		{"Touch in Add", "touch", nil, func(q *workqueue.Typed[string]) { q.Add("a") }, []string{"b", "a"}},
		{"Pop in Get", "pop", nil, func(q *workqueue.Typed[string]) { q.Get() }, []string{"b", "a"}},
		{"Pop in TryGet", "pop", nil, func(q *workqueue.Typed[string]) { q.TryGet() }, []string{"b", "a"}},
		{"Len in Get", "len", nil, func(q *workqueue.Typed[string]) { q.Get() }, []string{"b", "a"}},
		{"Len in Len", "len", nil, func(q *workqueue.Typed[string]) { q.Len() }, []string{"b", "a"}},
	} {
		for kind, fail := range map[string]func(){"panic": func() { panic("storage") }, "Goexit": runtime.Goexit} {
			t.Run(row.name+"/"+kind, func(t *testing.T) {
				s := &shelf[string]{}
				q := newStored(s)
				q.AddAll("a", "b")
				if row.before != nil {
					row.before(q)
				}
				failures := failOnce(s, row.method, fail)
				panicked := goes(func() { row.f(q) })
				if want := map[string]any{"panic": "storage"}[kind]; panicked != want || *failures != 1 {
					t.Errorf("the caller got the panic %v at %d failures, want %v at 1", panicked, *failures, want)
				}
				checkInvariants(t, 0, q)
				if got := takeAll(q); !slices.Equal(got, row.want) {
					t.Errorf("handed out %v afterwards, want %v", got, row.want)
				}
				checkInvariants(t, 1, q)
				q.ShutDownWithDrain()
			})
		}
	}
}

// failOnce makes the first call of a method fail, and counts the calls.
func failOnce(s *shelf[string], method string, fail func()) *int {
	failures := new(int)
	s.hook = func(call string) {
		if call == method && *failures == 0 {
			*failures++
			fail()
		}
	}
	return failures
}

// Two workers wait, and the woken worker dies in the storage: the other worker has to get the item.
func TestStorageThatFailsForAWokenWorker(t *testing.T) {
	for _, method := range []string{"len", "pop"} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf[string]{}
			q := newStored(s)
			items := make(chan string, 2)
			for range 2 {
				go goes(func() {
					item, _ := q.Get()
					items <- item
				})
			}
			synctest.Wait()
			failed := false
			s.hook = func(call string) {
				if call == method && !failed {
					failed = true
					panic("storage")
				}
			}
			q.Add("a")
			synctest.Wait()
			select {
			case item := <-items:
				if item != "a" || !failed {
					t.Errorf("%s: got %q, failed %v, want a, true", method, item, failed)
				}
			default:
				t.Errorf("%s: a worker and an item wait for each other", method)
				q.Get()
			}
			q.Done("a")
			q.ShutDownWithDrain()
		})
	}
}

// An item that the storage failed to take is handed out to a waiting worker.
func TestStorageThatFailsToTakeWhatAWorkerWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[string]{}
		q := newStored(s)
		got := ""
		go func() { got, _ = q.Get() }()
		synctest.Wait()
		failOnce(s, "push", func() { panic("storage") })
		goes(func() { q.Add("a") })
		synctest.Wait()
		if got != "a" {
			t.Errorf("the worker has got %q, want a", got)
		}
		q.ShutDown()
	})
}

// A generous Queue pushes each item twice, and hands out items that were never pushed.
type generous struct{ shelf[string] }

func (g *generous) Push(item string) {
	g.shelf.Push("gift of " + item)
	g.shelf.Push(item)
	g.shelf.Push(item)
}

func TestStorageThatDoublesAndInvents(t *testing.T) {
	q := newStored(&generous{})
	q.Add("a")
	for i, want := range []string{"a", "gift of a"} {
		item, ok := q.TryGet() // The second "a" is dropped, as the first is held.
		if !ok || item != want {
			t.Fatalf("step %d: got %q, %v, want %q", i, item, ok, want)
		}
		checkInvariants(t, i, q)
	}
	if item, ok := q.TryGet(); ok {
		t.Errorf("got %q from an empty storage", item)
	}
	q.Add("a") // While held; Done queues the item, and pushes it twice again.
	q.Done("gift of a")
	q.Done("a")
	if got, _ := q.TryGet(); got != "a" {
		t.Errorf("got %q, want a", got)
	}
	q.Done("a")
	// No worker holds "a". The second copy in the Queue has no record, so the queue hands it out as
	// a new item.
	if got, want := takeAll(q), []string{"a", "gift of a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	checkInvariants(t, 9, q)
	q.ShutDownWithDrain()
}

// An item that nobody has added has waited for no time, and is held from its Get on. So is an item
// that the queue cannot recognize.
func TestTimesOfWhatTheStorageInvents(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	r := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Clock: clock, Queue: &generous{},
	})
	clock.Step(time.Second)
	q.Add("a")
	q.Get()
	clock.Step(time.Second)
	r.take()
	q.Get()
	if got := r.take(); !slices.Contains(got, "latency(0)") {
		t.Errorf("got %q, want no latency", got)
	}
	checkInvariants(t, 0, q)
	clock.Step(time.Second)
	const want = "0 queued, 2 in flight, 0 waiting\na: in_flight for 2s\ngift of a: in_flight for 1s"
	if got := q.Snapshot(9).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	q.ShutDown()

	nans := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{
		Name: "q", MetricsProvider: r, Clock: clock, Queue: workqueue.DefaultQueue[float64](),
	})
	nans.Add(math.NaN())
	clock.Step(time.Second)
	r.take()
	nans.Get()
	if got := r.take(); !slices.Contains(got, "latency(0)") {
		t.Errorf("got %q for what cannot be recognized, want no latency", got)
	}
	nans.ShutDown()
}

// A Push that fails leaves the item in our line. If the storage has the item all the same, the item
// is still handed out once.
func TestStorageThatKeepsWhatItFailedToTake(t *testing.T) {
	s := &shelf[string]{}
	q := newStored(s)
	s.hook = func(call string) {
		if call == "push" {
			s.items = append(s.items, "a")
			panic("after the fact")
		}
	}
	goes(func() { q.Add("a") })
	s.hook = nil
	if item, _ := q.TryGet(); item != "a" {
		t.Fatalf("got %q, want a", item)
	}
	if item, ok := q.TryGet(); ok {
		t.Errorf("got %q twice", item)
	}
	checkInvariants(t, 0, q)
	q.Done("a")
	q.ShutDownWithDrain()
}

func TestDefaultQueue(t *testing.T) {
	s := workqueue.DefaultQueue[int]()
	next, want := 0, 0
	for round, n := range []int{1, 5, 3000, 10, 0, 4000} {
		for range n {
			s.Push(next)
			s.Touch(next)
			next++
		}
		for range n - n/5 {
			if got := s.Pop(); got != want {
				t.Fatalf("round %d: got %d, want %d", round, got, want)
			}
			want++
		}
		if got := s.Len(); got != next-want {
			t.Fatalf("round %d: got length %d, want %d", round, got, next-want)
		}
	}
	for s.Len() > 0 {
		s.Pop()
	}
	if got, want := goes(func() { s.Pop() }), "workqueue: Pop of an empty Queue"; got != want {
		t.Errorf("Pop of an empty queue: got the panic %v, want %v", got, want)
	}
	if got := s.Len(); got != 0 {
		t.Errorf("got length %d after it, want 0", got)
	}
}

// A storage may say that it is empty while it holds items back. A worker who then waits must not
// wake itself again and again for the items that count as queued. The next Add of a stored item,
// removed or not, makes the worker look again.
func TestStorageThatHoldsItemsBack(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &reluctant{hidden: true}
			q := newStored(s)
			q.AddAll("a", "b")
			got := make(chan string, 2)
			for range 2 {
				go func() {
					item, _ := q.Get()
					got <- item
				}()
			}
			synctest.Wait()
			if s.asked > 4 {
				t.Fatalf("two workers have asked %d times", s.asked)
			}
			if removed {
				q.Remove("a")
			}
			checkInvariants(t, 0, q)
			s.hidden = false
			q.Add("a")
			synctest.Wait()
			if first, second := <-got, <-got; first+second != "ab" && first+second != "ba" {
				t.Errorf("removed %v: got %q and %q, want a and b", removed, first, second)
			}
			checkInvariants(t, 1, q)
		})
	}
}

// reluctant is a FIFO that may hide its items.
type reluctant struct {
	items  []string
	hidden bool
	asked  int
}

func (s *reluctant) Touch(string)     {}
func (s *reluctant) Push(item string) { s.items = append(s.items, item) }

func (s *reluctant) Len() int {
	if s.asked++; s.asked > 1000 {
		panic("asked 1000 times")
	}
	if s.hidden {
		return 0
	}
	return len(s.items)
}

func (s *reluctant) Pop() string {
	item := s.items[0]
	s.items = s.items[1:]
	return item
}
