package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

func newNamed(name string, keepTimes bool) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name, KeepTimes: keepTimes})
}

// Run ignored the logger of its context, and a handler had none with the item. Its name
// was not that of the queue.
func TestRunLogsToTheLoggerOfItsContext(t *testing.T) {
	for name, tt := range map[string]struct {
		option bool
		name   string
		want   string
	}{
		"of the context": {false, "", "context"},
		"of the options": {true, "", "option"},
		"with a name":    {false, "other", "context"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs [2]bytes.Buffer
				first := logr.FromSlogHandler(slog.NewTextHandler(&logs[0], nil)).WithValues("from", "context")
				second := logr.FromSlogHandler(slog.NewTextHandler(&logs[1], nil)).WithValues("from", "option")
				options := runOptions{Name: tt.name, Timeout: time.Minute}
				if tt.option {
					options.Logger = &second
				}
				q := newNamed("jobs", false)
				q.Add("a")
				q.Add("b")
				workqueue.Run(logr.NewContext(t.Context(), first), q, func(ctx context.Context, item string) error {
					logr.FromContextOrDiscard(ctx).Info("logr", "of", item)
					logr.FromContextAsSlogLogger(context.WithoutCancel(ctx)).Info("slog", "of", item)
					if item == "b" {
						q.ShutDown()
						return permanently()
					}
					return nil
				}, options)
				got := logs[0].String() + logs[1].String()
				queue := "jobs"
				if tt.name != "" {
					queue = tt.name
				}
				for _, want := range []string{"msg=logr from=F queue=Q item=a of=a", "msg=slog from=F queue=Q item=b of=b", `msg="Item given up" from=F queue=Q item=b`} {
					want = strings.NewReplacer("=F", "="+tt.want, "=Q", "="+queue).Replace(want)
					if !strings.Contains(got, want) {
						t.Errorf("got\n%s\nwithout %s", got, want)
					}
				}
			})
		})
	}
}

// A handler could not see the deadline of the context that Run was given.
func TestRunHandlerHasTheDeadlineOfRun(t *testing.T) {
	want := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), want)
	defer cancel()
	q := newNamed("", false)
	q.Add("a")
	workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
		if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("got the deadline %v, %v, want %v", got, ok, want)
		}
		q.ShutDown()
		return nil
	}, runOptions{})
}

// An item may be larger than the piece in which a worker allocates contexts.
func TestRunWithLargeItems(t *testing.T) {
	type large [4096]byte
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[large]())
	q.Add(large{1})
	q.Add(large{2})
	calls := byte(0)
	workqueue.Run(t.Context(), q, func(ctx context.Context, item large) error {
		calls++
		if info, _ := workqueue.ItemInfoFromContext[large](ctx); item[0] != calls || info.Item != item {
			t.Errorf("call %d is for %d, with the context of %d", calls, item[0], info.Item[0])
		}
		if calls == 2 {
			q.ShutDown()
		}
		return nil
	}, workqueue.RunOptions[large]{})
	if calls != 2 {
		t.Errorf("got %d calls, want 2", calls)
	}
}

// A goroutine that a handler leaves behind goes on to have the item of that handler.
func TestRunContextKeepsItsItem(t *testing.T) {
	var kept []context.Context
	q := newNamed("", false)
	for i := range 1000 {
		q.Add(itemOf(i))
	}
	workqueue.Run(t.Context(), q, func(ctx context.Context, item string) error {
		if kept = append(kept, ctx); len(kept) == 1000 {
			q.ShutDown()
		}
		return nil
	}, runOptions{})
	for i, ctx := range kept {
		if info, ok := workqueue.ItemInfoFromContext[string](ctx); !ok || info.Item != itemOf(i) {
			t.Fatalf("context %d is of %v, %v", i, info.Item, ok)
		}
	}
}

// What a handler can know of its item, without being given it.
func TestItemInfoFromContext(t *testing.T) {
	for _, times := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := newNamed("", times)
			q.Add("a")
			time.Sleep(3 * time.Second)
			var got []workqueue.ItemInfo[string]
			workqueue.Run(t.Context(), q, func(ctx context.Context, _ string) error {
				if _, ok := workqueue.ItemInfoFromContext[int](ctx); ok {
					t.Error("the context has an item of another type")
				}
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				info, ok := workqueue.ItemInfoFromContext[string](ctx)
				if !ok {
					t.Fatal("the context has no item")
				}
				got = append(got, info)
				switch len(got) {
				case 1:
					return errFailed
				case 2:
					q.Add("a")
					return workqueue.RetryAfter(time.Hour, errFailed)
				}
				q.ShutDown()
				return nil
			}, runOptions{Logger: discard(), Timeout: time.Hour})
			age := []time.Duration{3 * time.Second, 0, 0}
			for i, info := range got {
				want := workqueue.ItemInfo[string]{Item: "a", State: workqueue.ItemInFlight, Failures: i}
				if times {
					want.Age = age[i]
				}
				if info != want {
					t.Errorf("call %d: got %+v, want %+v", i+1, info, want)
				}
			}
		})
	}
	if _, ok := workqueue.ItemInfoFromContext[string](t.Context()); ok {
		t.Error("a context that is not of Run has an item")
	}
}

// OnGiveUp could not write a status: the context of the handler had ended by then, if it
// had got it at all.
func TestRunOnGiveUpHasAContext(t *testing.T) {
	for name, tt := range map[string]struct {
		options runOptions
		want    string // when the context ends, and why
	}{
		"with grace":    {runOptions{Timeout: time.Second, Grace: 5 * time.Second}, "1:gave up a 8:context canceled 8:end"},
		"without grace": {runOptions{Timeout: time.Second}, "1:gave up a 3:context canceled 3:end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				s.queue.Add("a")
				tt.options.MaxAttempts = 1
				tt.options.OnGiveUp = func(ctx context.Context, item string, err error) {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					if info, ok := workqueue.ItemInfoFromContext[string](ctx); !ok || info.Item != item {
						t.Errorf("got %+v, %v", info, ok)
					}
					if ctx.Err() != nil {
						t.Errorf("the context has ended: %v", ctx.Err())
					}
					s.note("gave up %s", item)
					<-ctx.Done()
					s.note("%v", ctx.Err())
				}
				s.run(tt.options, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
				synctest.Wait()
				s.want("0:a")
				time.Sleep(3 * time.Second)
				s.stop()
				s.end()
				s.want(tt.want)
			})
		})
	}
}
