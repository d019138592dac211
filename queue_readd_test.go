package workqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A reAdded is any of the three queues.
type reAdded interface {
	workqueue.TypedInterface[string]
	TryGet() (string, bool)
	Remove(item string) bool
	ReAddContext(ctx context.Context, item string) (context.Context, context.CancelFunc)
}

func onReAddQueues(t *testing.T, test func(t *testing.T, q reAdded)) {
	for name, open := range map[string]func() reAdded{
		"FIFO": func() reAdded { return workqueue.NewTyped[string]() },
		"storage": func() reAdded {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
		},
		"delaying": func() reAdded {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		},
		"rate limiting": func() reAdded {
			return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open()
				defer q.ShutDown()
				test(t, q)
			})
		})
	}
}

// What comes of a context by the calls before and after it.
func TestReAddContext(t *testing.T) {
	held := func(q reAdded) { q.Add("a"); q.TryGet() }
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		for _, row := range []struct {
			name          string
			before, after func(q reAdded)
			want          error
		}{
			{"nothing", held, func(reAdded) {}, nil},
			{"an Add", held, func(q reAdded) { q.Add("a") }, workqueue.ErrReAdded},
			{"an Add between Get and the call", func(q reAdded) { held(q); q.Add("a") }, func(reAdded) {}, workqueue.ErrReAdded},
			{"an Add of another item", held, func(q reAdded) { q.Add("b") }, nil},
			{"an Add that was taken back before", func(q reAdded) { held(q); q.Add("a"); q.Remove("a") }, func(reAdded) {}, nil},
			{"an Add that is taken back", held, func(q reAdded) { q.Add("a"); q.Remove("a") }, workqueue.ErrReAdded},
			{"an Add after Done", held, func(q reAdded) { q.Done("a"); q.Add("a") }, nil},
			{"an Add for the next worker", held, func(q reAdded) { q.Done("a"); held(q); q.Add("a") }, nil},
			{"nobody holds it", func(reAdded) {}, func(q reAdded) { q.Add("a") }, nil},
			{"it is queued", func(q reAdded) { q.Add("a") }, func(q reAdded) { q.Add("a") }, nil},
			{"due after a wait", held, func(q reAdded) {
				if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
					d.AddAfter("a", time.Second)
					time.Sleep(time.Second)
					synctest.Wait()
					return
				}
				q.Add("a")
			}, workqueue.ErrReAdded},
		} {
			row.before(q)
			ctx, cancel := q.ReAddContext(t.Context(), "a")
			row.after(q)
			if got := context.Cause(ctx); got != row.want || (ctx.Err() != nil) != (row.want != nil) {
				t.Errorf("%s: got the cause %v, want %v", row.name, got, row.want)
			}
			cancel()
			if ctx.Err() == nil {
				t.Errorf("%s: the CancelFunc has not ended the context", row.name)
			}
			empty(q)
		}
	})
}

// empty takes and finishes everything, and what was held.
func empty(q reAdded) {
	for _, item := range []string{"a", "b"} {
		q.Done(item)
	}
	for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
		q.Done(item)
	}
}

func TestReAddContextEndsWithTheOneAboveIt(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		for name, parent := range map[string]func() (context.Context, context.CancelCauseFunc){
			"of the library": func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(t.Context()) },
			"with a value": func() (context.Context, context.CancelCauseFunc) {
				ctx, cancel := context.WithCancelCause(t.Context())
				return context.WithValue(ctx, noteKey{}, 2), cancel
			},
		} {
			ctx, end := parent()
			reAdd, cancel := q.ReAddContext(ctx, "a")
			end(errFailed)
			if got := context.Cause(reAdd); got != errFailed {
				t.Errorf("%s: got the cause %v, want %v", name, got, errFailed)
			}
			cancel()
		}
	})
}

type noteKey struct{}

// A callingContext calls the queue whenever it is asked.
type callingContext struct {
	context.Context
	call func()
}

func (c callingContext) Done() <-chan struct{} { c.call(); return c.Context.Done() }
func (c callingContext) Value(key any) any     { c.call(); return c.Context.Value(key) }
func (c callingContext) Err() error            { c.call(); return c.Context.Err() }

// An Add that asked a foreign context with the lock held would wait for itself.
func TestReAddContextAsksNoForeignContextUnderTheLock(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		foreign := callingContext{t.Context(), func() { q.Len() }}
		for name, parent := range map[string]context.Context{
			"itself": foreign, "below one of ours": context.WithValue(foreign, noteKey{}, 2),
		} {
			ctx, cancel := q.ReAddContext(parent, "a")
			derived, end := context.WithTimeout(callingContext{ctx, func() { q.Len() }}, time.Hour)
			q.Add("a")
			if context.Cause(derived) != workqueue.ErrReAdded {
				t.Errorf("%s: got %v", name, context.Cause(derived))
			}
			end()
			cancel()
			q.Remove("a")
		}
	})
}

// Each call has a context of its own, and those that have ended are not kept until
// Done.
func TestReAddContextsOfOneItem(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		var open []context.Context
		for i := range 10 {
			ctx, cancel := q.ReAddContext(t.Context(), "a")
			if i%2 == 0 {
				cancel()
				continue
			}
			defer cancel()
			open = append(open, ctx)
		}
		if q, ok := q.(interface{ Watchers(string) int }); ok && q.Watchers("a") != len(open) {
			t.Errorf("%d watchers are kept, want %d", q.Watchers("a"), len(open))
		}
		q.Add("a")
		for i, ctx := range open {
			if context.Cause(ctx) != workqueue.ErrReAdded {
				t.Errorf("context %d: %v", i, context.Cause(ctx))
			}
		}
	})
}

// Producers add while workers work: a worker whose item was added again is told when
// that Add has returned, whoever else adds it meanwhile.
func TestReAddContextMissesNoAdd(t *testing.T) {
	q := workqueue.NewTyped[int]()
	q.AddAll(0, 2, 4, 6) // They are added again by their workers, so that there is always one.
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 500 {
				item, _ := q.Get()
				ctx, cancel := q.ReAddContext(context.Background(), item)
				if item%2 == 0 {
					if q.Add(item); ctx.Err() == nil {
						t.Errorf("%d was added again, and nobody was told", item)
					}
				}
				cancel()
				q.Done(item)
			}
		})
	}
	for p := range 2 {
		all.Go(func() {
			for i := range 2000 {
				q.Add((i + p) % 7)
			}
		})
	}
	all.Wait()
	checkInvariants(t, 0, q)
	q.ShutDown()
}

func TestReAddContextAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are others under the race detector")
	}
	q := workqueue.NewTyped[int]()
	q.Add(1)
	q.Get()
	own, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		want float64
	}{"made by WithCancel": {own, 3}, "another": {context.Background(), 7}} {
		pass := func() {
			_, cancel := q.ReAddContext(row.ctx, 1)
			cancel()
		}
		pass()
		if n := testing.AllocsPerRun(100, pass); n > row.want {
			t.Errorf("%s: %v allocations, want %v", name, n, row.want)
		}
	}
}

// The worker loop by hand: what CancelOnReAdd does in Run.
func ExampleTyped_ReAddContext() {
	queue := workqueue.NewTyped[string]()
	queue.Add("default/web")
	key, _ := queue.Get()
	ctx, cancel := queue.ReAddContext(context.Background(), key)
	queue.Add(key) // The object has changed: the work is out of date.
	fmt.Println(ctx.Err(), "-", context.Cause(ctx))
	cancel()
	queue.Done(key)
	fmt.Println("queued:", queue.Len())
	// Output:
	// context canceled - workqueue: item was added again
	// queued: 1
}
