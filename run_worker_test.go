package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// An item is failed first and done then: whoever gets it in between would find
// its failure not counted.
func TestRunCountsAFailureBeforeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, func(q *workqueue.TypedRateLimiting[string]) rateLimited { return q })
		s.queue = callOrder{s.queue, s}
		s.queue.Add("a")
		s.run(runOptions{}, replies(fails, requeues(time.Second), permanently))
		time.Sleep(10 * time.Second)
		s.want("0:a 0:limited 0:done 1:a 1:forget 1:after 1s 1:done 2:a 2:forget 2:done")
		s.queue.Add("a")
		s.want("10:a 10:forget 10:done")
		s.stop()
		s.end()
	})
}

// callOrder notes the calls by which an item is accounted for.
type callOrder struct {
	rateLimited
	show *show
}

func (q callOrder) AddRateLimited(item string) {
	q.show.note("limited")
	q.rateLimited.AddRateLimited(item)
}

func (q callOrder) AddAfter(item string, d time.Duration) {
	q.show.note("after %v", d)
	q.rateLimited.AddAfter(item, d)
}

func (q callOrder) Forget(item string) { q.show.note("forget"); q.rateLimited.Forget(item) }

func (q callOrder) Done(item string) { q.show.note("done"); q.rateLimited.Done(item) }

func TestRunWorkers(t *testing.T) {
	for _, workers := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for i := range 7 {
					s.queue.Add(itemOf(i))
				}
				var atWork, most int
				s.run(runOptions{Workers: workers}, func(context.Context, string) error {
					s.mu.Lock()
					atWork++
					most = max(most, atWork)
					s.mu.Unlock()
					time.Sleep(time.Second)
					s.mu.Lock()
					atWork--
					s.mu.Unlock()
					return nil
				})
				time.Sleep(10 * time.Second)
				s.stop()
				s.end()
				if want := max(1, workers); most != want || len(s.events) != 8 {
					t.Errorf("got %d items at a time in %d events, want %d in 8", most, len(s.events), want)
				}
			})
		})
	}
}

// The workers live on after foreign code has ended one: as many as before.
func TestRunReplacesWorkers(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		for i := range 4 {
			s.queue.Add(itemOf(i))
		}
		s.run(runOptions{Workers: 2}, func(context.Context, string) error {
			if time.Since(s.start) == 0 {
				runtime.Goexit()
			}
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(1500 * time.Millisecond) // All are back after a second.
		if n := s.fifo.Held(); n != 2 {
			t.Errorf("%d items are held by 2 workers", n)
		}
		time.Sleep(10 * time.Second)
		s.stop()
		if err := s.end(); err != nil || len(s.events) != 9 {
			t.Errorf("got %v, %q, want each item twice", err, s.events)
		}
	})
}

func TestRunOnAQueueThatEndsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, func(q *workqueue.TypedRateLimiting[string]) rateLimited { return exitingQueue{q} })
		s.queue.Add("a")
		s.queue.Add("b")
		s.run(runOptions{}, replies(fails))
		time.Sleep(10 * time.Second)
		s.want("0:a 0:b") // The retry is lost with the call of AddRateLimited, a is not.
		s.queue.Add("a")
		s.want("10:a")
		s.stop()
		s.end()
	})
}

type exitingQueue struct{ rateLimited }

func (exitingQueue) AddRateLimited(string) { runtime.Goexit() }

// A Done that ends the worker's goroutine is not called a second time: by then the item can
// be held by another worker.
func TestRunCallsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["neither"])
		q := &exitingDone{rateLimited: s.queue, exit: true}
		s.queue = q
		s.queue.Add("a")
		s.queue.Add("b")
		s.run(runOptions{}, replies())
		s.want("0:a 0:b")
		if q.calls != 2 {
			t.Errorf("got %d calls of Done for 2 items", q.calls)
		}
		s.stop()
		s.end()
	})
}

// exitingDone ends the goroutine of its caller once.
type exitingDone struct {
	rateLimited
	exit  bool
	calls int
}

func (q *exitingDone) Done(item string) {
	q.calls++
	q.rateLimited.Done(item)
	if q.exit {
		q.exit = false
		runtime.Goexit()
	}
}

// A worker that has had no item yet is not done with any, such as the zero value.
func TestRunDoesNothingWithTheZeroItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue.Add("")
		s.run(runOptions{Workers: 9}, func(context.Context, string) error {
			time.Sleep(time.Second)
			if n := s.fifo.Held(); n != 1 {
				t.Errorf("%d items are held, want 1", n)
			}
			return nil
		})
		time.Sleep(2 * time.Second)
		s.stop()
		s.end()
	})
}

// A worker that leaves is not done with its last item again: somebody else holds it.
func TestRunLeavesTheItemsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		q := s.queue.(*workqueue.TypedRateLimiting[string])
		s.queue.Add("a")
		s.run(runOptions{KeepQueue: true}, replies())
		for held := false; !held; {
			synctest.Wait() // The worker is parked.
			s.queue.Add("a")
			_, held = q.TryGet() // Mostly this is faster than the worker.
		}
		s.stop()
		<-s.ended
		if n := s.fifo.Held(); n != 1 {
			t.Errorf("%d items are held, want 1", n)
		}
		s.queue.ShutDown()
	})
}
