package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveStored is the model of a Typed with a shelf that fails now and then:
// what that failed to take is in line, ahead of it. Items are compared by their
// names, as one of them differs from itself.
type naiveStored struct {
	line, shelf []string
}

func (m *naiveStored) add(item float64, fails bool) {
	name := fmt.Sprint(item)
	at := slices.Index(m.shelf, name)
	switch duplicate := !math.IsNaN(item); {
	case duplicate && slices.Contains(m.line, name):
	case duplicate && at >= 0:
		if !fails { // It is touched.
			m.shelf = append(slices.Delete(m.shelf, at, at+1), name)
		}
	case fails:
		m.line = append(m.line, name)
	default:
		m.shelf = append(m.shelf, name)
	}
}

// get returns "" for nothing.
func (m *naiveStored) get(fails bool) (name string) {
	switch last := len(m.shelf) - 1; {
	case len(m.line) > 0:
		name, m.line = m.line[0], m.line[1:]
	case len(m.shelf) > 0 && !fails:
		name, m.shelf = m.shelf[last], m.shelf[:last]
	}
	return name
}

// TestModelStorage and FuzzStorage play random calls on a queue whose storage
// fails in some of them, and on the model.
func TestModelStorage(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playStorage(t, randomScript(rnd, 200))
	}
}

func FuzzStorage(f *testing.F) { f.Fuzz(inParallel(playStorage)) }

func playStorage(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	s := &shelf[float64]{}
	config := workqueue.TypedQueueConfig[float64]{Queue: s}
	if script[0]&1 != 0 {
		config.KeepTimes, config.Clock = true, testingclock.NewFakeClock(epoch)
	}
	q, m := workqueue.NewTypedWithConfig(config), &naiveStored{}
	for i, op := range script[1:] {
		item := float64(op >> 5)
		if item == 0 {
			item = math.NaN()
		}
		call, got, want := stepStorage(q, s, m, op, item)
		got, want = fmt.Sprint(got, q.Len()), fmt.Sprint(want, len(m.line)+len(m.shelf))
		if got != want {
			t.Fatalf("step %d: %s: handed out, queued: got %s, want %s", i, call, got, want)
		}
		checkInvariants(t, i, q)
	}
	for len(m.line)+len(m.shelf) > 0 {
		if _, got, want := stepStorage(q, s, m, 4, 0); got != want {
			t.Fatalf("in the end: got %q, want %q", got, want)
		}
	}
	q.ShutDownWithDrain()
}

// stepStorage makes one call of both; one in four fails in the storage.
func stepStorage(q *workqueue.Typed[float64], s *shelf[float64], m *naiveStored, op byte, item float64) (call, got, want string) {
	fails := op&3 == 3
	if s.hook = nil; fails {
		s.hook = func(call string) {
			switch {
			case call == "len":
			case op&8 != 0:
				runtime.Goexit()
			default:
				panic(call)
			}
		}
	}
	if op&4 == 0 {
		goes(func() { q.Add(item) })
		m.add(item, fails)
		call = fmt.Sprint("Add ", item)
	} else {
		goes(func() {
			if item, ok := q.TryGet(); ok {
				got = fmt.Sprint(item)
				q.Done(item)
			}
		})
		want = m.get(fails)
		call = "TryGet"
	}
	s.hook = nil
	return fmt.Sprint(call, ", fails ", fails), got, want
}

// An item that differs from itself is as safe as any other in a storage that
// fails to take it.
func TestStorageThatFailsToTakeWhatDiffersFromItself(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("storage") }, "Goexit": runtime.Goexit} {
		for _, keeps := range []bool{false, true} {
			s := &shelf[float64]{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: s})
			q.AddAll(1, math.NaN())
			s.hook = func(string) {
				if s.hook = nil; keeps {
					s.items = append(s.items, math.NaN())
				}
				fail()
			}
			panicked := goes(func() { q.Add(math.NaN()) })
			checkInvariants(t, 0, q)
			want := "[NaN NaN 1]"
			if keeps { // Nobody can tell that it is the same one.
				want = "[NaN NaN NaN 1]"
			}
			if got := fmt.Sprint(takeAll(q)); got != want || panicked != map[string]any{"panic": "storage"}[kind] {
				t.Errorf("%s, keeps %v: handed out %s after the panic %v, want %s", kind, keeps, got, panicked, want)
			}
			checkInvariants(t, 1, q)
			q.ShutDownWithDrain()
		}
	}
}

// A worker that waits gets it too.
func TestWorkerIsWokenForWhatAStorageHasFailedToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[float64]{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: s})
		defer q.ShutDown()
		go q.Get()
		synctest.Wait()
		s.hook = func(string) { panic("storage") }
		goes(func() { q.Add(math.NaN()) })
		s.hook = nil
		synctest.Wait()
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers and %d items wait for each other", n, q.Len())
		}
	})
}
