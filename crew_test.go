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

// The wait is for the last of a crew, and for that of the next one anew.
func TestCrewIsWaitedFor(t *testing.T) {
	var c workqueue.Crew
	gone := func(left <-chan struct{}) bool {
		select {
		case <-left:
			return true
		default:
			return false
		}
	}
	if !gone(c.Left()) {
		t.Error("nobody has entered, and is waited for")
	}
	for range 2 {
		c.Enter()
		c.Enter()
		before := c.Left()
		c.Leave()
		if gone(before) || gone(c.Left()) {
			t.Error("one is left, and not waited for")
		}
		c.Leave()
		if !gone(before) || !gone(c.Left()) {
			t.Error("nobody is left, and waited for")
		}
	}
}

// A stuck queue blocks in Add until it is released.
type stuck struct {
	bare
	hold chan struct{}
}

func (q stuck) Add(item string) {
	<-q.hold
	q.bare.Add(item)
}

// Each of these has a goroutine of the queue in foreign code that does not
// return, and an item that is not worked off.
var blocked = map[string]func(hold chan struct{}) drainer{
	"a gauge": func(hold chan struct{}) drainer {
		return startBlocked(hold, "unfinished", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a gauge, two layers below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "longest", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a counter of what was due": func(hold chan struct{}) drainer {
		return startBlocked(hold, "adds", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"the queue below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "", func(workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				Queue: stuck{bare{workqueue.NewTyped[string]()}, hold},
			})
		})
	},
}

// startBlocked makes a queue whose metric of that name blocks, and lets the
// goroutine of the queue get there.
func startBlocked(hold chan struct{}, name string, open func(workqueue.MetricsProvider) drainer) drainer {
	r := &recorder{}
	q := open(r)
	if below, ok := q.(*workqueue.TypedDelaying[string]); ok && name == "" {
		go below.Add("a") // Blocks too, before it counts.
	} else {
		q.Add("a")
		q.Get()
	}
	r.setHook(func(event string) {
		if name != "" && strings.HasPrefix(event, name) {
			<-hold
		}
	})
	if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
		d.AddAfter("b", time.Second)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	return q
}

// Whatever foreign code does on the goroutine of a queue, a Drain ends with its
// context, and says what is left. The goroutine ends when that code does.
func TestDrainEndsWithItsContextBesideForeignCodeThatBlocks(t *testing.T) {
	for name, open := range blocked {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				q := open(hold)
				if n := goroutines(); n == 0 {
					t.Fatal("no goroutine of the queue blocks")
				}
				results := make(chan error, 3)
				for n := range cap(results) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Second)
					defer cancel()
					go func() { results <- q.Drain(ctx) }()
				}
				for n := range cap(results) {
					synctest.Wait()
					if len(results) != 1 {
						t.Errorf("%d drains have returned after %d s, want the one of that time", len(results), n)
						break
					}
					checkLeft(t, q, <-results)
					time.Sleep(time.Second)
				}
				close(hold)
				synctest.Wait()
				if n := goroutines(); n != 0 {
					t.Errorf("%d goroutines are left when the foreign code has returned", n)
				}
			})
		})
	}
}

// checkLeft looks at the error of a drain that was ended by its context, for
// which there must be a reason.
func checkLeft(t *testing.T, q drainer, err error) {
	t.Helper()
	s := workqueue.Snapshot[string]{QueuedTotal: q.Len()}
	goes(func() { s = q.Snapshot(0) }) // What is below may have none.
	if s.QueuedTotal+s.InFlightTotal == 0 && err == nil {
		return
	}
	if e, ok := err.(*workqueue.DrainError[string]); !ok || !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("got %v, want a DrainError for a deadline", err)
	}
}

// A drain that is complete waits for the goroutine as long as its context lets
// it, and leaves nothing behind but that.
func TestDrainThatIsCompleteBesideAGaugeThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := blocked["a gauge"](hold)
		q.Done("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := q.Drain(ctx); err != nil || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want nil after 1s", err, time.Since(start))
		}
		time.AfterFunc(time.Minute, func() { close(hold) })
		if err := q.Drain(t.Context()); err != nil || time.Since(start) != time.Minute+time.Second {
			t.Errorf("got %v after %v, want nil after 1m1s", err, time.Since(start))
		}
		q.ShutDown()
		q.ShutDownWithDrain()
	})
}
