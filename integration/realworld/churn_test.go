package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	play(t, size(churn{1000, 8, 10_000}, churn{100, 8, 2_000}).run)
}

func TestChurnNoticesFaults(t *testing.T) {
	notices(t, churn{40, 4, 400}.run,
		control{losing(fleetName(1)), "1 objects are open: [" + fleetName(1)},
		control{doubling, "is handed out to 2 workers at a time"},
		control{endless, "is handed out after the end"})
}

func (s churn) run(t *testing.T, impl implementation) error {
	w, f := newWorld(t), &faults{fate: some}
	c := w.controller(t, impl, backoff{5 * time.Millisecond, time.Second}, f.wrap)
	stop := c.start(t, workers)
	began := time.Now()
	if err := s.change(t.Context(), w); err != nil {
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

// change makes the random changes, and then a last one of each object: 1 of 10 is deleted, and
// the others get a revision that none had before.
func (s churn) change(ctx context.Context, w *world) error {
	var revision atomic.Int64
	err := parallel(ctx, s.clients, s.changes, func(ctx context.Context, _ int) error {
		return w.changeAtRandom(ctx, rand.IntN(s.objects), int(revision.Add(1)))
	})
	if err != nil {
		return err
	}
	return parallel(ctx, s.clients, s.objects, func(ctx context.Context, i int) error {
		if i%10 == 0 {
			return ignore(w.fleets.Delete(ctx, fleetName(i), metav1.DeleteOptions{}), notFound)
		}
		err := w.update(ctx, i, int(revision.Add(1)))
		for conflict(err) { // With the controller, which writes the status.
			err = w.update(ctx, i, int(revision.Add(1)))
		}
		return err
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
