package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An outage kills kube-apiserver some times while clients change objects. Later all requests of
// the controller get the answers 429 and 500 for a time, after a change of every object. The 429
// has no Retry-After, which would have the client wait in place of the queue.
type outage struct {
	objects, restarts int
	refused           time.Duration // for each of the two answers
}

// outageBackoff reaches its longest delay within the time of one answer.
var outageBackoff = backoff{5 * time.Millisecond, 2 * time.Second}

func TestOutage(t *testing.T) {
	play(t, size(outage{200, 5, 30 * time.Second}, outage{50, 2, 4 * time.Second}).run)
}

func TestOutageNoticesFaults(t *testing.T) {
	notices(t, outage{20, 0, time.Second}.run,
		control{losing(fleetName(1)), "1 objects are open: [" + fleetName(1)},
		control{hasty, "were answered 429 or 500, want up to"})
}

func (s outage) run(t *testing.T, impl implementation) error {
	var answer atomic.Int64
	f := &faults{fate: func(*http.Request) fate { return fate(answer.Load()) }}
	w := newWorld(t)
	c := w.controller(t, impl, outageBackoff, f.wrap)
	if impl.name == ours.name {
		wakeAfterOutage(c)
	}
	stop := c.start(t, workers)
	if err := s.update(t.Context(), w, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.kills(t.Context(), w, f); err != nil {
		return err
	}
	for n := range c.heard {
		c.heard[n].reset()
	}
	atKills, began := f.failed.Load(), time.Now()
	// The second time the controller needs what its informers have seen of the first time. So both
	// informers have found the server.
	for revision := range 2 {
		if err := s.update(t.Context(), w, 1e6+revision); err != nil {
			t.Fatal(err)
		}
		if err := w.converge(t.Context(), c, s.still()); err != nil {
			return err
		}
	}
	afterKills := time.Since(began)
	time.Sleep(2 * outageBackoff.most) // Now no retry of an earlier failure waits in the queue.
	first, last := c.events()
	found, tail := first.Sub(began), c.journal.ended().Sub(last)
	before := f.failed.Load()
	began = time.Now()
	if err := s.refuse(t.Context(), w, &answer); err != nil {
		t.Fatal(err)
	}
	refused, most := f.failed.Load()-before, s.objects*(1+retries(time.Since(began)))
	began = time.Now()
	err := w.converge(t.Context(), c, still)
	afterRefusals := time.Since(began)
	err = errors.Join(err, stop())
	if refused == 0 || refused > int64(most) {
		err = errors.Join(err, fmt.Errorf("%d writes were answered 429 or 500, want up to %d", refused, most))
	}

	name := fmt.Sprintf("outage, %d objects", s.objects)
	results.add(name, fmt.Sprintf("failed writes, kube-apiserver killed %d times", s.restarts), impl, atKills)
	results.add(name, "from the last start to the convergence of two more changes of each object", impl, afterKills)
	results.add(name, "of these, until both informers had an event again", impl, found)
	results.add(name, "from the last event of the informers to the end of the last hand-out", impl, tail)
	results.add(name, fmt.Sprintf("writes answered 429 or 500 in %v, and the most that the delays allow", 2*s.refused), impl,
		fmt.Sprint(refused, " of ", most))
	results.add(name, "from the last 500 to convergence", impl, afterRefusals)
	return err
}

// wakeAfterOutage wakes all keys at the first write that succeeds after a failure. A conflict is no failure of the
// server. An event ends the wait of its key as well, so that no retry of the key is left after a success.
func wakeAfterOutage(c *controller) {
	c.onEvent = func(k key) {
		c.queue.(waker).Wake(k)
		c.queue.Add(k)
	}
	var down atomic.Bool
	handle := c.handle
	c.handle = func(ctx context.Context, k key) error {
		err := handle(ctx, k)
		if ignore(err, conflict, exists) != nil {
			down.Store(true)
		}
		return err
	}
	c.onWrite = func(metav1.Object) {
		if down.Swap(false) {
			c.queue.(waker).WakeFunc(func(key) bool { return true })
		}
	}
}

// A waker is what our queue has in addition to client-go's interface.
type waker interface {
	Wake(keys ...key) int
	WakeFunc(match func(key) bool) int
}

// retries is how many retries of a key fit into a time.
func retries(d time.Duration) (n int) {
	for delay := outageBackoff.first; d >= delay; delay = min(2*delay, outageBackoff.most) {
		d -= delay
		n++
	}
	return n
}

// still is longer after kills: the informers wait up to 30 seconds, and as long by chance, before they
// ask a server again that was gone.
func (s outage) still() time.Duration {
	if s.restarts > 0 {
		return still + time.Minute
	}
	return still
}

// update gives each Fleet a revision.
func (s outage) update(ctx context.Context, w *world, revision int) error {
	return parallel(ctx, workers, s.objects, func(ctx context.Context, i int) error {
		return w.mustUpdate(ctx, i, revision)
	})
}

// kills kills kube-apiserver while four clients change objects. Before each kill the controller has
// written 50 times, so its informers have found the server again. While the server is away there are
// no events, and only the delays of the queue bound the requests of the workers.
func (s outage) kills(ctx context.Context, w *world, f *faults) error {
	changing, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 4 {
		clients.Go(func() {
			for changing.Err() == nil {
				if w.changeAtRandom(changing, rand.IntN(s.objects), rand.IntN(1e6)) != nil {
					time.Sleep(10 * time.Millisecond) // The server is away.
				}
			}
		})
	}
	for range s.restarts {
		ctx, cancel := context.WithTimeout(ctx, startTime)
		defer cancel()
		for enough := f.succeeded.Load() + 50; f.succeeded.Load() < enough; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				return errors.New("the controller does not write after a start of kube-apiserver")
			}
		}
		began, failed, succeeded := time.Now(), f.failed.Load(), f.succeeded.Load()
		servers.apiserver.kill()
		if err := servers.apiserver.start(ctx); err != nil {
			return err
		}
		// A key begins anew after a success, and comes sooner because of an event. Both are rare: they need
		// the time in which the server works and is not ready.
		keys, failed := int64(s.objects)+f.succeeded.Load()-succeeded, f.failed.Load()-failed
		if most := keys*int64(3+retries(time.Since(began))) + workers; failed > most {
			return fmt.Errorf("%d writes have failed while kube-apiserver was away, want up to %d", failed, most)
		}
	}
	return nil
}

// refuse answers 429 and then 500 to all requests of the controller. Its watches go on, so the
// controller learns of the change of every object.
func (s outage) refuse(ctx context.Context, w *world, answer *atomic.Int64) error {
	defer answer.Store(0)
	answer.Store(http.StatusTooManyRequests)
	if err := s.update(ctx, w, 2e6); err != nil {
		return err
	}
	time.Sleep(s.refused)
	answer.Store(http.StatusInternalServerError)
	time.Sleep(s.refused)
	return nil
}
