package notes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/notes"
	"github.com/seed16c08ea7/workqueue/wait"
)

func join(older, newer []int) []int { return slices.Concat(older, newer) }

func yes() bool { return true }
func no() bool  { return false }

// A pair is what the table of the package comment says of a key.
type pair struct{ pending, taken []int }

// Random calls, against the table of the package comment.
func TestNotesFollowTheTable(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := notes.New[string](join)
		model := map[string]pair{}
		for step := range 200 {
			key := string(rune('a' + random.IntN(3)))
			was := model[key]
			var got, want string
			switch random.IntN(6) {
			case 0:
				got, want = fmt.Sprint(n.Put(key, []int{step}, yes)), "true"
				model[key] = pair{join(was.pending, []int{step}), was.taken}
			case 1:
				got, want = fmt.Sprint(n.Put(key, []int{step}, no)), "false"
			case 2:
				value, ok := n.Take(key)
				all := join(was.taken, was.pending)
				got, want = fmt.Sprint(value, ok), fmt.Sprint(all, len(all) > 0)
				model[key] = pair{nil, all}
			case 3:
				value, ok := n.Forget(key)
				got, want = fmt.Sprint(value, ok), fmt.Sprint(was.taken, len(was.taken) > 0)
				model[key] = pair{was.pending, nil}
			case 4:
				got, want = fmt.Sprint(n.Remove(key, yes)), "true"
				model[key] = pair{}
			case 5:
				got, want = fmt.Sprint(n.Remove(key, no)), "false"
			}
			maps.DeleteFunc(model, func(_ string, p pair) bool { return len(p.pending)+len(p.taken) == 0 })
			if got != want || n.Len() != len(model) {
				t.Fatalf("seed %d, step %d: got %s, want %s; %d notes, want %d", seed, step, got, want, n.Len(), len(model))
			}
		}
	}
}

// A panic of foreign code changes nothing, and the lock is free afterwards.
func TestPanicKeepsTheNotes(t *testing.T) {
	fails := false
	n := notes.New[string](func(older, newer []int) []int {
		if fails {
			panic("merge")
		}
		return join(older, newer)
	})
	n.Put("a", []int{1}, yes)
	n.Take("a")
	n.Put("a", []int{2}, yes)
	panics := func(what string, call func()) {
		t.Helper()
		defer func() {
			if got := recover(); got != what {
				t.Errorf("got the panic %v, want %s", got, what)
			}
		}()
		call()
	}
	panics("add", func() { n.Put("a", []int{3}, func() bool { panic("add") }) })
	panics("remove", func() { n.Remove("a", func() bool { panic("remove") }) })
	fails = true
	panics("merge", func() { n.Put("a", []int{4}, yes) })
	panics("merge", func() { n.Take("a") })
	fails = false
	if got, _ := n.Take("a"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v, want [1 2]", got)
	}
	panics("notes: merge is nil", func() { notes.New[string, int](nil) })
	panics("notes: Put of a key that differs from itself", func() {
		notes.New[float64](join).Put(0, nil, yes)
		notes.New[float64](join).Put(math.NaN(), nil, yes)
	})
}

// A map of Go keeps its memory.
func TestMemoryOfABurstReturns(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	n := notes.New[string](join)
	const burst = 100_000
	before := heap()
	for i := range burst {
		n.Put(fmt.Sprint(i), nil, yes)
	}
	during := heap() - before
	for i := range burst {
		n.Remove(fmt.Sprint(i), yes)
	}
	after := max(heap(), before) - before
	if during < burst*64 || after > during/20 {
		t.Errorf("%d bytes during the burst, and %d afterwards", during, after)
	}
	runtime.KeepAlive(n)
}

// A ledger has the accepted notes that no end has got so far.
type ledger struct {
	mu       sync.Mutex
	open     map[string][]int
	accepted map[int]bool
	ends     map[string]int
}

func (l *ledger) accept(key string, id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[key] = append(l.open[key], id)
	l.accepted[id] = true
}

// all reports whether all notes were accepted.
func (l *ledger) all(ids []int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id int) bool { return !l.accepted[id] })
}

// end closes the notes of a key. With nil, it closes all of them.
func (l *ledger) end(how, key string, ids []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[how]++
	l.open[key] = slices.DeleteFunc(l.open[key], func(id int) bool { return ids == nil || slices.Contains(ids, id) })
	if len(l.open[key]) == 0 {
		delete(l.open, key)
	}
}

// Producers, removers, failures, panics, items that are given up, and an end of Run in the middle:
// each accepted note has an end, no refused note is seen, and no note is left.
func TestEachNoteHasAnEnd(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(40) {
		for _, end := range []workqueue.End{workqueue.EndDrain, workqueue.EndStop} {
			synctest.Test(t, func(t *testing.T) {
				play(t, seed, end, ends)
			})
		}
	}
	for _, how := range []string{"succeeded", "given up", "left", "removed", "refused"} {
		if ends[how] == 0 {
			t.Errorf("no note was %s: %v", how, ends)
		}
	}
}

func play(t *testing.T, seed uint64, end workqueue.End, ends map[string]int) {
	t.Helper()
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 50 * time.Millisecond}),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	n := notes.New[string](join)
	l := &ledger{open: map[string][]int{}, accepted: map[int]bool{}, ends: ends}
	ctx, stop := context.WithCancel(t.Context())

	var callers sync.WaitGroup
	for p := range 3 {
		random := rand.New(rand.NewPCG(seed, uint64(p)))
		callers.Go(func() {
			for i := range 100 {
				key := string(rune('a' + random.IntN(8)))
				if id := p*1000 + i; random.IntN(8) == 0 {
					n.Remove(key, func() bool {
						removed := queue.Remove(key)
						if removed {
							l.end("removed", key, nil)
						}
						return removed
					})
				} else if !n.Put(key, []int{id}, func() bool {
					after := time.Duration(random.IntN(2)) * 3 * time.Millisecond
					added := queue.AddWith(workqueue.AddOptions{After: after}, key) > 0
					if added {
						l.accept(key, id)
					}
					return added
				}) {
					l.end("refused", key, []int{id})
				}
				time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
			}
		})
	}
	callers.Go(func() {
		time.Sleep(time.Duration(20+seed) * time.Millisecond)
		stop()
	})
	handle := func(ctx context.Context, key string) error {
		ids, _ := n.Take(key)
		if !l.all(ids) {
			t.Errorf("a worker sees %v, of which a part was refused", ids)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		switch rand.IntN(8) {
		case 0:
			return errors.New("failed")
		case 1:
			panic("failed")
		case 2:
			return workqueue.Permanent(errors.New("failed for good"))
		case 3:
			return workqueue.RequeueAfter(time.Millisecond)
		}
		if got, _ := n.Forget(key); got != nil && !slices.Equal(got, ids) {
			t.Errorf("forgot %v, took %v", got, ids)
		}
		l.end("succeeded", key, append([]int{-1}, ids...))
		return nil
	}
	workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{
		Workers: 3, MaxAttempts: 3, AtEnd: end, Grace: 10 * time.Millisecond, Logger: quiet(),
		OnGiveUp: func(_ context.Context, key string, _ error) {
			ids, _ := n.Forget(key)
			l.end("given up", key, append([]int{-1}, ids...))
		},
		OnStop: func(_ context.Context, left workqueue.Snapshot[string]) {
			for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed) {
				n.Take(info.Item)
				ids, _ := n.Forget(info.Item)
				l.end("left", info.Item, append([]int{-1}, ids...))
			}
		},
	})
	callers.Wait()
	if n.Len() != 0 || len(l.open) != 0 {
		t.Errorf("seed %d, end %d: %d notes are left, and %v have no end", seed, end, n.Len(), l.open)
	}
}

func quiet() *logr.Logger {
	discard := logr.Discard()
	return &discard
}
