package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
		control{hasty, "after its failure"})
}

func (s outage) run(t *testing.T, impl implementation) error {
	var answer atomic.Int64
	f := &faults{fate: func(*http.Request) fate { return fate(answer.Load()) }}
	w := newWorld(t)
	c := w.controller(t, impl, outageBackoff, f.wrap)
	p := newPacer(c)
	stop := c.start(t, workers)
	if err := s.update(t.Context(), w, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.kills(t.Context(), w, f); err != nil {
		t.Fatal(err)
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
	afterKills, before := time.Since(began), f.failed.Load()
	began = time.Now()
	if err := s.refuse(t.Context(), w, &answer); err != nil {
		t.Fatal(err)
	}
	refused, most := f.failed.Load()-before, s.objects*(1+retries(time.Since(began)))
	began = time.Now()
	err := w.converge(t.Context(), c, still)
	afterRefusals := time.Since(began)
	err = errors.Join(err, stop(), p.err())
	if refused == 0 || refused > int64(most) {
		err = errors.Join(err, fmt.Errorf("%d writes were answered 429 or 500, want up to %d", refused, most))
	}

	name := fmt.Sprintf("outage, %d objects", s.objects)
	results.add(name, fmt.Sprintf("failed writes, kube-apiserver killed %d times", s.restarts), impl, atKills)
	results.add(name, "from the last start to the convergence of two more changes of each object", impl, afterKills)
	results.add(name, fmt.Sprintf("writes answered 429 or 500 in %v, and the most that the delays allow", 2*s.refused), impl,
		fmt.Sprint(refused, " of ", most))
	results.add(name, "from the last 500 to convergence", impl, afterRefusals)
	return err
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
// written 50 times, so its informers have found the server again.
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
		servers.apiserver.kill()
		if err := servers.apiserver.start(ctx); err != nil {
			return err
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

// A pacer sees that no key is retried before its delay is over. A hand-out without an event since
// the last hand-out is a retry.
type pacer struct {
	mu    sync.Mutex
	keys  map[key]*pace
	first error // the first retry that was too soon
}

type pace struct {
	event    bool // since the last hand-out
	failures int  // in a row
	failed   time.Time
	// due has the times of retries. One that an event comes before can follow as a hand-out of its own,
	// or be the same: so an event removes none.
	due []time.Time
}

// newPacer comes between the queue and the handler of a controller that does not run yet.
func newPacer(c *controller) *pacer {
	p := &pacer{keys: make(map[key]*pace)}
	c.onEvent = func(k key) { p.of(k, func(o *pace) { o.event = true }) }
	handle := c.handle
	c.handle = func(ctx context.Context, k key) error {
		p.of(k, func(o *pace) { p.handedOut(k, o) })
		err := handle(ctx, k)
		p.of(k, func(o *pace) { o.handled(err) })
		return err
	}
	return p
}

func (p *pacer) of(k key, do func(o *pace)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[k] == nil {
		p.keys[k] = new(pace)
	}
	do(p.keys[k])
}

func (p *pacer) handedOut(k key, o *pace) {
	if o.event {
		o.event = false
		return
	}
	now := time.Now()
	earliest := slices.IndexFunc(o.due, func(due time.Time) bool { return !due.After(now) })
	if earliest >= 0 {
		o.due = slices.Delete(o.due, earliest, earliest+1)
	} else if p.first == nil {
		p.first = fmt.Errorf("%v is retried %v after its failure %d in a row", k, now.Sub(o.failed), o.failures)
	}
}

func (o *pace) handled(err error) {
	if err == nil {
		o.failures = 0
		return
	}
	o.failures++
	o.failed = time.Now()
	delay := min(outageBackoff.first<<min(o.failures-1, 20), outageBackoff.most)
	o.due = append(o.due, o.failed.Add(delay))
}

func (p *pacer) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}
