package ctrlqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// This file plays a list of calls on a queue, of either implementation.

type (
	queue   = priorityqueue.PriorityQueue[string]
	limiter = clientgo.TypedRateLimiter[string]
)

// An impl makes a queue without a name, and so without metrics.
type impl struct {
	name string
	open func(limiter) queue
}

var theirs = impl{"controller-runtime", func(l limiter) queue {
	return priorityqueue.New("", func(o *priorityqueue.Opts[string]) { o.RateLimiter = l })
}}

var ours = impl{"workqueue", func(l limiter) queue {
	return ctrlqueue.For(ctrlqueue.Options[string]{}).NewQueue("", l).(queue)
}}

func newLimiter() limiter {
	return clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
}

// A play is a queue with its workers. A play runs in a bubble of synctest: after each step all
// effects of the step have happened, also in a queue with goroutines. So each play has one outcome.
type play struct {
	t      *testing.T
	q      queue
	asking []chan hand // workers that are in GetWithPriority, in the order of their calls
	shut   bool
	where  string

	drained chan struct{} // closed when a ShutDownWithDrain has returned
}

// A hand is the result of GetWithPriority.
type hand struct {
	item     string
	priority int
	shutdown bool
}

func (h hand) String() string {
	if h.shutdown {
		return "shutdown with " + fmt.Sprintf("%q", h.item)
	}
	return fmt.Sprintf("%s at %d", h.item, h.priority)
}

// A step is one call and its expected result.
type step struct {
	name string
	do   func(*play)
}

// run plays the steps on a new queue.
func (i impl) run(t *testing.T, steps []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &play{t: t, q: i.open(newLimiter())}
		defer p.end()
		for n, s := range steps {
			p.where = fmt.Sprintf("step %d, %s", n, s.name)
			s.do(p)
			synctest.Wait()
		}
	})
}

// end shuts the queue down, and checks that all workers leave.
func (p *play) end() {
	if !p.shut {
		p.q.ShutDown()
	}
	synctest.Wait()
	for _, asked := range p.asking {
		select {
		case <-asked:
		default:
			p.t.Error("a worker is still in GetWithPriority after the shutdown")
		}
	}
}

func (p *play) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf(p.where+": "+format, args...)
}

// ask makes a worker call GetWithPriority, and returns the result if there is one at once.
func (p *play) ask() (got hand, ok bool) {
	asked := make(chan hand, 1)
	go func() {
		item, priority, shutdown := p.q.GetWithPriority()
		asked <- hand{item, priority, shutdown}
	}()
	synctest.Wait()
	select {
	case got = <-asked:
		return got, true
	default:
		p.asking = append(p.asking, asked)
		return got, false
	}
}

// arrived returns the result of one of the waiting workers.
func (p *play) arrived() (got hand, ok bool) {
	for n, asked := range p.asking {
		select {
		case got = <-asked:
			p.asking = append(p.asking[:n], p.asking[n+1:]...)
			return got, true
		default:
		}
	}
	return got, false
}

func add(items ...string) step {
	return step{fmt.Sprint("Add ", items), func(p *play) {
		for _, item := range items {
			p.q.Add(item)
			synctest.Wait()
		}
	}}
}

// with adds the items in one call. A nil priority names none.
func with(o priorityqueue.AddOpts, items ...string) step {
	priority := "no priority"
	if o.Priority != nil {
		priority = fmt.Sprint("priority ", *o.Priority)
	}
	return step{fmt.Sprintf("AddWithOpts %v, after %v, rate limited %v, %v", items, o.After, o.RateLimited, priority), func(p *play) { p.q.AddWithOpts(o, items...) }}
}

func at(priority int, items ...string) step {
	return with(priorityqueue.AddOpts{Priority: &priority}, items...)
}

func after(d time.Duration, items ...string) step {
	return with(priorityqueue.AddOpts{After: d}, items...)
}

func atAfter(priority int, d time.Duration, items ...string) step {
	return with(priorityqueue.AddOpts{Priority: &priority, After: d}, items...)
}

func addAfter(item string, d time.Duration) step {
	return step{"AddAfter", func(p *play) { p.q.AddAfter(item, d) }}
}

func addRateLimited(item string) step {
	return step{"AddRateLimited", func(p *play) { p.q.AddRateLimited(item) }}
}

// gets: a worker asks, and gets the item at once.
func gets(item string, priority int) step {
	return gives(fmt.Sprintf("Get %s at %d", item, priority), (*play).ask, &hand{item, priority, false})
}

// refused: a worker asks, and hears of the shutdown at once.
func refused() step { return gives("Get after a shutdown", (*play).ask, &hand{shutdown: true}) }

// parks: a worker asks, gets nothing, and waits.
func parks() step { return gives("Get of nothing", (*play).ask, nil) }

// arrives: a waiting worker has got the item.
func arrives(item string, priority int) step {
	return gives(fmt.Sprintf("a parked worker has %s at %d", item, priority), (*play).arrived, &hand{item, priority, false})
}

// stays: no waiting worker has got anything.
func stays() step { return gives("parked workers have nothing", (*play).arrived, nil) }

// leaves: a waiting worker has heard of the shutdown.
func leaves() step { return gives("a parked worker leaves", (*play).arrived, &hand{shutdown: true}) }

// gives checks what a worker has got: nothing if want is nil.
func gives(name string, worker func(*play) (hand, bool), want *hand) step {
	return step{name, func(p *play) {
		p.t.Helper()
		switch got, ok := worker(p); {
		case !ok && want != nil:
			p.errorf("nothing")
		case ok && (want == nil || got != *want):
			p.errorf("got %v", got)
		}
	}}
}

func done(items ...string) step {
	return step{fmt.Sprint("Done ", items), func(p *play) {
		for _, item := range items {
			p.q.Done(item)
			synctest.Wait()
		}
	}}
}

func forget(item string) step {
	return step{"Forget", func(p *play) { p.q.Forget(item) }}
}

func requeues(item string, want int) step {
	return reports("NumRequeues "+item, func(q queue) int { return q.NumRequeues(item) }, want)
}

func length(want int) step { return reports("Len", queue.Len, want) }

func shuttingDown(want bool) step { return reports("ShuttingDown", queue.ShuttingDown, want) }

func reports[T comparable](name string, call func(queue) T, want T) step {
	return step{name, func(p *play) {
		p.t.Helper()
		if got := call(p.q); got != want {
			p.errorf("%v, want %v", got, want)
		}
	}}
}

func wait(d time.Duration) step {
	return step{fmt.Sprint("wait ", d), func(*play) { time.Sleep(d) }}
}

func shutDown() step {
	return step{"ShutDown", func(p *play) {
		p.shut = true
		p.q.ShutDown()
	}}
}

func panics(with string, s step) step {
	return step{s.name + " panics", func(p *play) {
		p.t.Helper()
		defer func() {
			if got := recover(); got == nil || !strings.Contains(fmt.Sprint(got), with) {
				p.errorf("%v, want a panic with %q", got, with)
			}
		}()
		s.do(p)
	}}
}

// shutDownWithDrain calls it on a goroutine of its own, as it may block.
func shutDownWithDrain() step {
	return step{"ShutDownWithDrain", func(p *play) {
		p.drained = make(chan struct{})
		p.shut = true
		go func() {
			p.q.ShutDownWithDrain()
			close(p.drained)
		}()
	}}
}

func drained(want bool) step {
	return step{"the drain", func(p *play) {
		p.t.Helper()
		select {
		case <-p.drained:
			if !want {
				p.errorf("it has returned")
			}
		default:
			if want {
				p.errorf("it has not returned")
			}
		}
	}}
}
