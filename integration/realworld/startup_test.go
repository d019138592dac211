package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

// A startup is a controller with two workers that finds many objects of one namespace at its start, and
// reads each from the API server. Then an object of another namespace changes, and its
// change is urgent.
type startup struct{ objects int }

// A way says how the urgent change gets before the objects of the start.
type way struct {
	measure string
	order   workqueue.Order[key]
	// add adds a key of the first list.
	add func(q queue, k key)
	// passes is whether the urgent change comes before what is queued.
	passes bool
}

func plainAdd(q queue, k key) { q.Add(k) }

func lowAdd(q queue, k key) {
	low := -100
	q.(*workqueue.TypedRateLimiting[key]).AddWith(workqueue.AddOptions{Priority: &low}, k)
}

var (
	inOrder  = way{measure: "first in, first out", add: plainAdd}
	lowFirst = way{measure: "with a low priority for the first list", add: lowAdd, passes: true}
	inTurns  = way{
		measure: "with namespaces that take turns", add: plainAdd, passes: true,
		order: workqueue.Order[key]{Group: func(k key) string { return k.Namespace }},
	}
)

func TestStartup(t *testing.T) {
	needServers(t)
	s := size(startup{50_000}, startup{3_000})
	w := s.fill(t)
	for _, impl := range implementations {
		for _, way := range []way{inOrder, lowFirst, inTurns} {
			if way.passes && impl.name == theirs.name {
				continue // client-go's queue has one order.
			}
			t.Run(impl.name+"/"+way.measure, func(t *testing.T) {
				if err := s.run(t, impl, w, way); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestStartupNoticesFaults(t *testing.T) {
	s := startup{300}
	plain := lowFirst
	plain.add = plainAdd
	notices(t, func(t *testing.T, impl implementation) error { return s.run(t, impl, s.fill(t), plain) },
		control{implementation{"has no priorities", nil, ours.work}, "keys came before the urgent change, want at most"})
}

// fill makes the objects.
func (s startup) fill(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	err := parallel(t.Context(), 32, s.objects, func(ctx context.Context, i int) error {
		_, err := w.fleets.Create(ctx, newFleet(i, 0), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (s startup) run(t *testing.T, impl implementation, many *world, way way) error {
	const readers = 2
	urgent := newWorld(t)
	if err := urgent.update(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	b := backoff{5 * time.Millisecond, time.Second}
	q := impl.queue
	if impl.name != theirs.name {
		q = func(b backoff) queue {
			return workqueue.NewTypedRateLimitingQueueWithConfig(
				workqueue.NewTypedItemExponentialFailureRateLimiter[key](b.first, b.most),
				workqueue.TypedRateLimitingQueueConfig[key]{Name: "fleets", Order: way.order})
		}
	}
	r := &reader{queue: q(b), urgent: key{Namespace: urgent.namespace, Name: fleetName(0)}, worlds: map[string]*world{
		many.namespace: many, urgent.namespace: urgent,
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, w := range []*world{many, urgent} { // The urgent object is the last of the start.
		if err := r.watch(ctx, &running, w, way.add); err != nil {
			return err
		}
	}
	over := make(chan error, 1)
	running.Go(func() { over <- impl.work(ctx, r.queue, readers, r.handle) })

	before, began := r.handled.Load(), time.Now()
	if err := urgent.update(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := urgent.observed(t.Context(), &r.handled); err != nil {
		return err
	}
	took := time.Since(began)
	passed := r.place.Load() - before - 1
	cancel()
	err := <-over
	// The workers have some keys in hand while the change is on its way.
	if most := int64(s.objects / 10); way.passes && passed > most {
		err = errors.Join(err, fmt.Errorf("%d keys came before the urgent change, want at most %d", passed, most))
	}
	name := fmt.Sprintf("start-up, %d objects, 2 workers", s.objects)
	results.add(name, "keys before an urgent change, "+way.measure, impl, passed)
	results.add(name, "time until the change was done, "+way.measure, impl, took)
	return err
}

// observed waits until the API server shows that the change of the Fleet was done.
func (w *world) observed(ctx context.Context, handled *atomic.Int64) error {
	last, since := int64(-1), time.Now()
	for {
		f, err := w.fleets.Get(ctx, fleetName(0), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if f.Status.ObservedGeneration == 2 {
			return nil
		}
		if n := handled.Load(); n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > still {
			return fmt.Errorf("nothing was handled for %v, and the urgent change is not done", still)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A reader is a controller that reads each object from the API server.
type reader struct {
	queue   queue
	urgent  key
	worlds  map[string]*world
	handled atomic.Int64
	place   atomic.Int64 // of the urgent change among the hand-outs
}

// watch returns when all objects of the first list are queued.
func (r *reader) watch(ctx context.Context, running *sync.WaitGroup, w *world, addFirst func(q queue, k key)) error {
	i := informer(&Fleet{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return w.fleets.List(ctx, o)
	}, w.fleets.Watch)
	handled, err := i.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, isInInitialList bool) {
			if k := (key{Namespace: w.namespace, Name: o.(*Fleet).Name}); isInInitialList {
				addFirst(r.queue, k)
			} else {
				r.queue.Add(k)
			}
		},
		UpdateFunc: func(_, o any) { r.queue.Add(key{Namespace: w.namespace, Name: o.(*Fleet).Name}) },
	})
	if err != nil {
		return err
	}
	running.Go(func() { i.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (r *reader) handle(ctx context.Context, k key) error {
	place := r.handled.Add(1)
	w := r.worlds[k.Namespace]
	f, err := w.fleets.Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil || k != r.urgent || f.Generation < 2 || f.Status.ObservedGeneration == f.Generation {
		return err
	}
	r.place.Store(place)
	f.Status.ObservedGeneration = f.Generation
	_, err = w.fleets.UpdateStatus(ctx, f, metav1.UpdateOptions{})
	return err
}
