package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed16c08ea7/workqueue"
)

// An election has two replicas of a controller, whose work is the leader's alone. The requests of the
// leader for its Lease are lost while clients change objects, so the leader loses its term with
// keys queued and at work. The other replica leads, and loses its term too: the first leads again,
// in the same process.
type election struct{ objects int }

// The times of the election. They are short, as each loss takes a LeaseDuration.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
	leaseName     = "leader"
)

// keeping is our implementation as a controller with terms has it: the queue goes on between the
// terms, and has what has changed since when the next term begins.
var keeping = implementation{name: ours.name, queue: ours.queue, work: running(workqueue.RunOptions[key]{AtEnd: workqueue.EndKeep})}

func TestElection(t *testing.T) {
	needServers(t)
	s := size(election{300}, election{100})
	for _, impl := range []implementation{keeping, theirs} {
		t.Run(impl.name, func(t *testing.T) {
			if err := s.run(t, impl); err != nil {
				t.Error(err)
			}
		})
	}
}

// The usual loop handles what is queued after ShutDown. So each leader that is lost hands out keys
// without a term.
func TestElectionNoticesFaults(t *testing.T) {
	drains := theirs
	drains.name = "goes on after its term"
	notices(t, election{60}.run, control{drains, "were handed out after the term"})
}

func (s election) run(t *testing.T, impl implementation) error {
	w := newWorld(t)
	shared := newJournal()
	a, b := s.replica(t, w, impl, "a", shared), s.replica(t, w, impl, "b", shared)
	changing, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 8 {
		clients.Go(func() {
			for changing.Err() == nil {
				_ = w.changeAtRandom(changing, rand.IntN(s.objects), rand.IntN(1e6))
			}
		})
	}
	a.run(t)
	if err := a.leads(t.Context(), 1); err != nil {
		return err
	}
	b.run(t)
	a.cut.Store(true)
	if err := b.leads(t.Context(), 1); err != nil {
		return err
	}
	a.cut.Store(false)
	b.cut.Store(true)
	if err := a.leads(t.Context(), 2); err != nil {
		return err
	}
	stop()
	clients.Wait()
	began := time.Now()
	if err := (outage{objects: s.objects}).update(t.Context(), w, 2e6); err != nil {
		t.Fatal(err)
	}
	err := w.converge(t.Context(), a.current.Load(), still)
	took := time.Since(began)

	late := a.late.Load() + b.late.Load()
	lists := a.lists.Load() + b.lists.Load()
	// A worker that has just got a key may call the handler after the end.
	if impl.name != theirs.name && late > 2*workers {
		err = errors.Join(err, fmt.Errorf("%d keys were handed out after the term of their leader", late))
	}
	name := fmt.Sprintf("election, %d objects", s.objects)
	results.add(name, "keys handed out after the term of their leader, of two terms", impl, late)
	results.add(name, "lists from the API server, of three terms", impl, lists)
	results.add(name, "from one more change of each object to convergence", impl, took)
	return errors.Join(err, shared.err())
}

// A contender is a replica with its elector. With client-go's queue each term has a controller of
// its own, as the end of a term shuts the queue down. With ours one controller has all terms.
type contender struct {
	elector leaderelection.LeaderElectionConfig
	leases  coordination.LeaseInterface
	make    func(ctx context.Context) *controller // for a term

	cut     atomic.Bool  // the requests for the Lease are lost
	lists   atomic.Int64 // of objects
	handled atomic.Int64
	late    atomic.Int64 // hand-outs after the term
	terms   atomic.Int64
	current atomic.Pointer[controller]
}

func (s election) replica(t *testing.T, w *world, impl implementation, name string, shared *journal) *contender {
	t.Helper()
	r := new(contender)
	config := servers.config()
	config.Wrap(r.wrap)
	c, err := newClients(config, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	r.leases = w.kube.CoordinationV1().Leases(w.namespace)
	r.elector = leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: w.namespace, Name: leaseName},
			Client:     c.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
	}
	newController := func() *controller {
		c := w.controller(t, impl, backoff{5 * time.Millisecond, time.Second}, r.wrap)
		c.journal = shared
		c.handle = r.handler(c.handle)
		return c
	}
	r.make = func(ctx context.Context) *controller {
		c := newController()
		c.watch(ctx)
		return c
	}
	if impl.name == keeping.name {
		c := newController()
		wait := c.watch(t.Context())
		t.Cleanup(wait)
		r.make = func(context.Context) *controller { return c }
	}
	return r
}

// handler takes its time, so that keys pile up.
func (r *contender) handler(handle handler) handler {
	return func(ctx context.Context, k key) error {
		r.handled.Add(1)
		if ctx.Err() != nil {
			r.late.Add(1)
		}
		select {
		case <-time.After(20 * time.Millisecond):
			return handle(ctx, k)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wrap loses the requests for the Lease while the replica is cut off, and counts lists.
func (r *contender) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		ofLease, query := strings.HasSuffix(request.URL.Path, "/leases/"+leaseName), request.URL.Query()
		switch {
		case ofLease && r.cut.Load():
			if request.Body != nil {
				_ = request.Body.Close() // RoundTrip must close the body.
			}
			return nil, errLost
		case !ofLease && !isWrite(request) && (query.Get("watch") == "" || query.Get("sendInitialEvents") != ""):
			r.lists.Add(1)
		}
		return next.RoundTrip(request)
	})
}

// run contends for terms until the test ends.
func (r *contender) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		for ctx.Err() == nil {
			r.contend(ctx)
		}
	})
}

// contend plays one term. The elector starts its callback on a goroutine, which nobody can wait for:
// so the callback only passes the context on.
func (r *contender) contend(ctx context.Context) {
	elected, over := make(chan context.Context, 1), make(chan struct{})
	config := r.elector
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(term context.Context) { elected <- term },
		OnStoppedLeading: func() {},
	}
	go func() {
		defer close(over)
		leaderelection.RunOrDie(ctx, config)
	}()
	select {
	case term := <-elected:
		c := r.make(term)
		r.current.Store(c)
		r.terms.Add(1)
		_ = c.work(term, workers) // The error is that of the ended term.
	case <-over:
	}
	<-over
}

// leads waits until the API server names the replica as leader, for the nth time, and the replica
// has handled some keys since.
func (r *contender) leads(ctx context.Context, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for enough := int64(math.MaxInt64); r.handled.Load() < enough; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("the replica %s does not work in its term %d", r.elector.Lock.Identity(), term)
		}
		if lease, err := r.leases.Get(ctx, leaseName, metav1.GetOptions{}); err != nil || *lease.Spec.HolderIdentity != r.elector.Lock.Identity() {
			continue
		}
		if r.terms.Load() == term && enough == math.MaxInt64 {
			enough = r.handled.Load() + 50
		}
	}
	return nil
}
