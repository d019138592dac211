package workqueue_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue"
)

// A capped queue is a FIFO that holds items back: of those with the same rest of
// a division by 3 only so many may be out at a time. It knows what is out, and so sees
// whether it hears of each end once.
type capped struct {
	items []int
	out   map[int]bool
	most  int
	wrong string
	hook  func(call string)
}

func newCapped(most int) *capped { return &capped{out: make(map[int]bool), most: most} }

func (c *capped) note(call string) {
	if c.hook != nil {
		c.hook(call)
	}
}

func (c *capped) next() int {
	return slices.IndexFunc(c.items, func(item int) bool {
		busy := 0
		for out := range c.out {
			if out%3 == item%3 {
				busy++
			}
		}
		return busy < c.most
	})
}

func (c *capped) Touch(item int) {
	c.note("touch")
	if !slices.Contains(c.items, item) {
		c.wrong = fmt.Sprint("Touch of ", item)
	}
}

func (c *capped) Push(item int) {
	c.note("push")
	if c.out[item] || slices.Contains(c.items, item) {
		c.wrong = fmt.Sprint("Push of ", item, " before its Done, or twice")
	}
	c.items = append(c.items, item)
}

func (c *capped) Len() int    { return len(c.items) }
func (c *capped) Ready() bool { c.note("ready"); return c.next() >= 0 }

func (c *capped) Pop() int {
	c.note("pop")
	at := c.next()
	item := c.items[at]
	c.items = slices.Delete(c.items, at, at+1)
	c.out[item] = true
	return item
}

func (c *capped) Done(item int) {
	c.note("done")
	if !c.out[item] {
		c.wrong = fmt.Sprint("Done of ", item)
	}
	delete(c.out, item)
}

// A naiveCapped is the model of a Typed with a capped queue.
type naiveCapped struct {
	naive
	most int
}

func (m *naiveCapped) get() (item int, ok bool) {
	for {
		at := slices.IndexFunc(m.line, func(item int) bool {
			busy := 0
			for _, held := range m.held {
				if held%3 == item%3 {
					busy++
				}
			}
			return busy < m.most
		})
		if at < 0 {
			return 0, false
		}
		item = m.line[at]
		m.line = slices.Delete(m.line, at, at+1)
		if !slices.Contains(m.removed, item) {
			m.held = append(m.held, item)
			return item, true
		}
		m.removed = without(m.removed, item)
	}
}

// TestModelHolding and FuzzHolding play random calls on a queue whose order holds items
// back, also as the order within a level.
func TestModelHolding(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playHolding(t, randomScript(rnd, 300))
	}
}

func FuzzHolding(f *testing.F) { f.Fuzz(inParallel(playHolding)) }

func playHolding(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	c := newCapped(1 + int(script[0]%3))
	var order workqueue.Queue[int] = c
	if script[0]&4 != 0 {
		order = workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] { return c }})
	}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: order})
	m := &naiveCapped{most: c.most}
	m.stored = true
	for i := 1; i+1 < len(script); i += opSize {
		op, item := script[i], int(script[i+1])%24
		call := stepHolding(q, m, op, item)
		got, want := fmt.Sprint(q.Len(), q.Held(), c.wrong), fmt.Sprint(m.queued(), len(m.held), "")
		if got != want || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch {
			t.Fatalf("step %d: %s: queued, held, wrong: got %s, want %s", i/opSize, call, got, want)
		}
		checkInvariants(t, i/opSize, q)
		checkInvariants(t, i/opSize, order)
	}
	q.ShutDown()
}

func stepHolding(q *workqueue.Typed[int], m *naiveCapped, op byte, item int) string {
	switch op % 8 {
	case 0, 1, 2:
		q.Add(item)
		m.add(item)
		return fmt.Sprint("Add ", item)
	case 3:
		return same(fmt.Sprint("Remove ", item), fmt.Sprint(q.Remove(item)), fmt.Sprint(m.remove(item)))
	case 4, 5:
		got, ok := q.TryGet()
		want, wantOK := m.get()
		return same("TryGet", fmt.Sprint(got, ok), fmt.Sprint(want, wantOK))
	}
	if len(m.held) > 0 {
		item = m.held[item%len(m.held)]
	}
	q.Done(item)
	m.done(item)
	return fmt.Sprint("Done ", item)
}

// Workers sleep while all that is queued is held back, and one is woken for each item
// that becomes free; several, if several do.
func TestWorkersSleepWhileItemsAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapped(1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
		got := make(chan int, 10)
		for range 5 {
			go func() {
				item, _ := q.Get()
				got <- item
			}()
		}
		synctest.Wait()
		asked := 0
		c.hook = func(call string) {
			if call == "ready" {
				asked++
			}
		}
		q.AddAll(0, 3, 6, 9)
		synctest.Wait()
		if item := <-got; item != 0 || len(got) > 0 || q.Parked() != 4 || q.Len() != 3 {
			t.Fatalf("handed out %d and %d more; %d workers sleep, %d items are queued", item, len(got), q.Parked(), q.Len())
		}
		if asked > 6 { // One for each Add, one by the worker and one behind it.
			t.Errorf("asked %d times whether an item is ready", asked)
		}
		q.Done(0)
		synctest.Wait()
		if item := <-got; item != 3 || q.Parked() != 3 {
			t.Errorf("handed out %d after a Done, %d workers sleep, want 3, 3", item, q.Parked())
		}
		c.most = 3 // The queue is not told. What comes next finds both.
		q.Add(1)
		synctest.Wait()
		if len(got) != 3 || q.Parked() != 0 {
			t.Errorf("%d items were handed out after the bound was raised, %d workers sleep, want 3, 0", len(got), q.Parked())
		}
		q.ShutDown()
		checkInvariants(t, 0, q)
	})
}

// Each method that a HoldingQueue has beyond a Queue fails at each call of it, and nothing
// is lost.
func TestHoldingQueueThatFails(t *testing.T) {
	for kind, fail := range failsBy {
		for _, row := range []struct {
			method string
			f      func(q *workqueue.Typed[int])
			want   string // what is handed out afterwards, with all Dones
		}{
			{"done", func(q *workqueue.Typed[int]) { q.Done(0) }, "[3 6]"},
			{"done", func(q *workqueue.Typed[int]) { q.Add(0); q.Done(0) }, "[0 3 6]"},
			{"ready", func(q *workqueue.Typed[int]) { q.Done(0) }, "[3 6]"},
			{"ready", func(q *workqueue.Typed[int]) { q.Add(1) }, "[1 3 6]"},
			{"ready", func(q *workqueue.Typed[int]) { q.Add(3) }, "[3 6]"},
			{"ready", func(q *workqueue.Typed[int]) { q.Done(0); q.TryGet() }, "[3 6]"},
		} {
			t.Run(fmt.Sprint(row.method, "/", kind), func(t *testing.T) {
				c := newCapped(1)
				q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
				q.AddAll(0, 3, 6)
				q.Get()
				failed := false
				c.hook = func(call string) {
					if call == row.method && !failed {
						failed = true
						fail()
					}
				}
				goes(func() { row.f(q) })
				if !failed {
					t.Fatal("it was not called")
				}
				c.hook = nil
				checkInvariants(t, 0, q)
				q.Done(0)
				delete(c.out, 0) // Where it was not told.
				var got []int
				for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
					got = append(got, item)
					q.Done(item)
					checkInvariants(t, len(got), q)
				}
				slices.Sort(got)
				if fmt.Sprint(got) != row.want {
					t.Errorf("handed out %v afterwards, want %s", got, row.want)
				}
			})
		}
	}
}

var failsBy = map[string]func(){"panic": func() { panic("order") }, "Goexit": runtime.Goexit}
