package ctrlqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// This file has what a queue does while nobody calls it.

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
		t.Run(i.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// A limiter of a caller may panic. The caller of the queue sees that, and the queue works
// on.
func TestALimiterThatPanicsLeavesTheQueueUsable(t *testing.T) {
	q := ctrlqueue.For(stringOptions{}).NewQueue("", broken{newLimiter()}).(queue)
	defer q.ShutDown()
	for what, call := range map[string]func(){
		"AddRateLimited": func() { q.AddRateLimited("a") },
		"AddWithOpts":    func() { q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(3)}, "a") },
		"Forget":         func() { q.Forget("a") },
		"NumRequeues":    func() { q.NumRequeues("a") },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "the limiter is broken" {
					t.Errorf("%s: the panic is %s", what, got)
				}
			}()
			call()
		}()
	}
	q.AddWithOpts(prioritized(1), "a")
	if item, priority, _ := q.GetWithPriority(); item != "a" || priority != 1 {
		t.Errorf("got %s at %d", item, priority)
	}
	q.Done("a")
}

type broken struct{ limiter }

func (broken) When(string) time.Duration { panic("the limiter is broken") }
func (broken) Forget(string)             { panic("the limiter is broken") }
func (broken) NumRequeues(string) int    { panic("the limiter is broken") }
