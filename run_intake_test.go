package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func TestRunWithAContextThatHasEnded(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.queue.Add("b")
		ctx, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		err := workqueue.Run(ctx, s.queue, func(context.Context, string) error { t.Error("called"); return nil }, runOptions{Workers: 2, OnStop: s.onStop})
		if got, want := leftIn(*s.stopped, err), "queued[a b] held[] waiting[]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := s.fifo.Held(); n != 0 {
			t.Errorf("%d items are held", n)
		}
	})
}

// An item that is on its way to a worker when ctx ends is not handled any more,
// and is left behind by name, whether or not it is the zero value.
func TestRunHandOutAtTheEnd(t *testing.T) {
	for name, hide := range map[string]func(*show) rateLimited{
		"GetContext": func(s *show) rateLimited { return lateContext{s.queue.(*workqueue.TypedRateLimiting[string]), s} },
		"Get":        func(s *show) rateLimited { return lateGet{struct{ rateLimited }{s.queue}, s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				s.queue = hide(s)
				s.run(runOptions{}, replies())
				synctest.Wait()
				s.queue.Add("")
				s.queue.Add("b")
				got := s.left()
				s.want("0:end")
				if want := "queued[ b] held[] waiting[]: <nil>"; got != want && got != strings.Replace(want, " b", "b ", 1) {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// lateContext and lateGet end ctx while they hand an item out.
type lateContext struct {
	*workqueue.TypedRateLimiting[string]
	show *show
}

func (q lateContext) GetContext(ctx context.Context) (string, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	q.show.stop()
	return item, err
}

type lateGet struct {
	rateLimited
	show *show
}

func (q lateGet) Get() (string, bool) {
	item, shutdown := q.rateLimited.Get()
	q.show.stop()
	return item, shutdown
}

// A queue may hand nothing out any more once it is shut down: what it keeps to
// itself is counted.
func TestRunOnAQueueThatKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["neither"])
		s.queue = keeping{s.queue}
		s.queue.Add("a")
		s.queue.Add("b")
		s.queue.Add("c")
		s.run(runOptions{}, s.cut)
		synctest.Wait()
		s.stop()
		if got, want := s.left(), "queued[] of 2 held[] waiting[] failed[a]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

type keeping struct{ rateLimited }

func (q keeping) Get() (string, bool) {
	if q.ShuttingDown() {
		return "", true
	}
	return q.rateLimited.Get()
}

// An item that comes with the news of the shutdown, as controller-runtime's
// queue can have it, is done, and left behind by name.
func TestRunHandOutWithTheShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["neither"])
		s.queue = hastyGet{s.queue}
		s.queue.Add("a")
		s.run(runOptions{}, replies())
		got := s.left()
		s.want("0:end")
		if want := "queued[a] held[] waiting[]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

type hastyGet struct{ rateLimited }

func (q hastyGet) Get() (string, bool) {
	item, _ := q.rateLimited.Get()
	q.ShutDown()
	return item, true
}

// A GetContext that fails for a reason of its own ends Run with that.
func TestRunOnAQueueThatFails(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
	defer q.ShutDown()
	err := workqueue.Run(t.Context(), failingQueue{q}, replies(), runOptions{Workers: 3})
	if !errors.Is(err, errFailed) {
		t.Errorf("got %v, want that it failed", err)
	}
}

type failingQueue struct{ rateLimited }

func (failingQueue) GetContext(context.Context) (string, error) { return "", errFailed }

// An item that is handed out when ctx ends, and the queue is shut down, is left behind by
// name: it cannot be put back.
func TestRunDeclinesWhatCannotBePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = lateShutDown{s.queue.(*workqueue.TypedRateLimiting[string]), s}
		s.run(runOptions{}, replies())
		synctest.Wait()
		s.queue.Add("a")
		if got, want := s.left(), "queued[a] held[] waiting[]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// lateShutDown ends ctx, and is shut down, while it hands an item out.
type lateShutDown struct {
	*workqueue.TypedRateLimiting[string]
	show *show
}

func (q lateShutDown) GetContext(ctx context.Context) (string, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	q.show.stop()
	q.ShutDown()
	return item, err
}

// What a queue keeps to itself is counted beside what it hands out at its end, and what it
// has dropped by then is not.
func TestRunOnAQueueThatKeepsSomeOfTheRest(t *testing.T) {
	for want, tt := range map[string]struct{ hands, drops int }{
		"queued[b] of 3 held[] waiting[]: <nil>": {1, 0},
		"<nil>":                                  {0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["neither"])
			s.queue = &keepingSome{s.queue, tt.hands, tt.drops}
			for _, item := range []string{"a", "b", "c", "d"} {
				s.queue.Add(item)
			}
			s.run(runOptions{}, func(context.Context, string) error { time.Sleep(time.Second); return nil })
			synctest.Wait()
			s.stop()
			if got := s.left(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// keepingSome hands out so many items once it is shut down, and drops so many then.
type keepingSome struct {
	rateLimited
	hands, drops int
}

func (q *keepingSome) Get() (string, bool) {
	if !q.ShuttingDown() || q.hands > 0 {
		if q.ShuttingDown() {
			q.hands--
		}
		return q.rateLimited.Get()
	}
	for ; q.drops > 0; q.drops-- {
		item, _ := q.rateLimited.Get()
		q.rateLimited.Done(item)
	}
	return "", true
}
