package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A churn has clients create, update and delete objects at random, while 1 of 10 writes of the
// controller fails.
type churn struct{ objects, clients, changes int }

const workers = 8

// still is how long a controller stands still before a scenario gives up. The longest delay of a
// retry is a second.
const still = 15 * time.Second

func TestChurn(t *testing.T) {
	play(t, size(churn{1000, 8, 10_000}, churn{100, 8, 1_000}).run)
}

func TestChurnNoticesFaults(t *testing.T) {
	notices(t, churn{40, 4, 400}.run,
		control{losing(fleetName(1)), "1 objects are open: [" + fleetName(1)},
		control{forgetting, "-late"},
		control{doubling, "is handed out to 2 workers at a time"},
		control{endless, "is handed out after the end"})
}

func (s churn) run(t *testing.T, impl implementation) error {
	w, f := newWorld(t), &faults{fate: some}
	c := w.controller(t, impl, backoff{5 * time.Millisecond, time.Second}, f.wrap)
	var late atomic.Bool
	var changed sync.Map
	c.handle = func(ctx context.Context, k key) error {
		err := c.reconcile(ctx, k)
		if _, again := changed.Load(k); err != nil || again || !late.Load() {
			return err
		}
		if err := w.changeLate(ctx, c, k); err != nil {
			return err
		}
		changed.Store(k, true)
		return nil
	}
	stop := c.start(t, workers)
	began := time.Now()
	if err := s.change(t.Context(), w, &late); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	err := w.converge(t.Context(), c, still)
	converged := time.Now()
	err = errors.Join(err, stop())
	if err == nil && f.failed.Load() == 0 {
		err = errors.New("no request has failed: the churn is too small")
	}
	const name = "churn"
	results.add(name, fmt.Sprintf("%d changes of %d objects by %d clients", s.changes+s.objects, s.objects, s.clients), impl, ended.Sub(began))
	results.add(name, "from the last change to convergence", impl, converged.Sub(ended))
	results.add(name, "hand-outs", impl, c.journal.handOuts())
	results.add(name, "writes of the controller that failed", impl, f.failed.Load())
	results.add(name, "conflicts of the controller", impl, f.conflicts.Load())
	return err
}

// change makes the random changes, and then a change of each object: 1 of 10 is deleted, and the
// others get one more revision.
func (s churn) change(ctx context.Context, w *world, late *atomic.Bool) error {
	var revision atomic.Int64
	err := parallel(ctx, s.clients, s.changes, func(ctx context.Context, _ int) error {
		return w.changeAtRandom(ctx, rand.IntN(s.objects), int(revision.Add(1)))
	})
	if err != nil {
		return err
	}
	late.Store(true)
	return parallel(ctx, s.clients, s.objects, func(ctx context.Context, i int) error {
		if i%10 == 0 {
			return ignore(w.fleets.Delete(ctx, fleetName(i), metav1.DeleteOptions{}), notFound)
		}
		return w.mustUpdate(ctx, i, int(revision.Add(1)))
	})
}

// parallel calls do for each number below n, on some goroutines, until an error.
func parallel(ctx context.Context, goroutines, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(goroutines)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// changeAtRandom is one change of a client that knows nothing of the others.
func (w *world) changeAtRandom(ctx context.Context, i, revision int) error {
	switch rand.IntN(10) {
	case 0:
		return ignore(w.fleets.Delete(ctx, fleetName(i), metav1.DeleteOptions{}), notFound)
	case 1: // As somebody who does not know that the controller owns the Deployment.
		_, err := w.deployments.Patch(ctx, fleetName(i), types.MergePatchType, []byte(`{"spec": {"replicas": 99}}`), metav1.PatchOptions{})
		return ignore(err, notFound)
	default:
		return ignore(w.update(ctx, i, revision), notFound, conflict, exists)
	}
}

// changeLate changes a Fleet whose key is held by a worker that has made all its writes. The change
// conflicts with none of them, so only the queue remembers that the key is to come again.
func (w *world) changeLate(ctx context.Context, c *controller, k key) error {
	f, err := w.fleets.Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil {
		return ignore(err, notFound)
	}
	f.Spec.Image += "-late"
	if f, err = w.fleets.Update(ctx, f, metav1.UpdateOptions{}); err != nil {
		return err // A conflict with another change: the key comes again.
	}
	for ctx.Err() == nil {
		if seen := cached[*Fleet](c.fleets, k); seen == nil || seen.Generation >= f.Generation {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond) // Now the informer has called Add.
	return nil
}

// update sets the revision of a Fleet, which is created if there is none.
func (w *world) update(ctx context.Context, i, revision int) error {
	f, err := w.fleets.Get(ctx, fleetName(i), metav1.GetOptions{})
	if notFound(err) {
		_, err = w.fleets.Create(ctx, newFleet(i, revision), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	f.revise(revision)
	_, err = w.fleets.Update(ctx, f, metav1.UpdateOptions{})
	return err
}

// mustUpdate tries again after a conflict with the controller, which writes the status.
func (w *world) mustUpdate(ctx context.Context, i, revision int) error {
	err := w.update(ctx, i, revision)
	for conflict(err) {
		err = w.update(ctx, i, revision)
	}
	return err
}
