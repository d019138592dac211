package sharding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed16c08ea7/workqueue"
)

// Slots that move: to a dead owner, with handlers that hang, and with items left behind in a queue.

// many are the times of a program, with 32 slots.
func many(o *Options, c *client) {
	o.Slots, o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound, o.DrainTimeout = 32, 0, 0, 0, 0, 0
	c.timeout = 10 * time.Second
}

// A replica is killed, and another starts within the LeaseDuration. The dead replica counted as a member beside the
// new replica, and live replicas handed slots over to the dead: nobody owned these slots for 19 s.
func TestSlotsOfLiveReplicasDoNotGoToADeadOne(t *testing.T) {
	for _, restarts := range []string{"pod-0", "pod-new"} {
		for range 3 { // The random part of an identity decides the assignment.
			play(t, func(w *world) {
				all := []*replica{w.start("pod-0", many), w.start("pod-1", many), w.start("pod-2", many)}
				time.Sleep(time.Minute)
				w.spread(all...)
				without := make(map[int]time.Duration)
				for slot := range 32 {
					without[slot] = 0
				}
				for _, slot := range all[0].Held() {
					delete(without, slot)
				}
				all[0].cut(false)
				all[0].stop()
				time.Sleep(time.Second)
				all[0] = w.start(restarts, many)
				const step = 100 * time.Millisecond
				for range 90 * time.Second / step {
					time.Sleep(step)
					owned := make(map[int]bool)
					for _, r := range all {
						for _, slot := range r.Held() {
							owned[slot] = true
						}
					}
					for slot := range without {
						if !owned[slot] {
							without[slot] += step
						}
					}
				}
				for slot, d := range without {
					if d > time.Second {
						t.Errorf("%s starts: slot %d of a live replica was without an owner for %v", restarts, slot, d)
					}
				}
				w.spread(all...)
			})
		}
	}
}

// Four handlers that ignored their contexts kept all slots from moving, for ever and without a word.
func TestHandlersThatHangKeepTheirSlotsOnly(t *testing.T) {
	const hung = 5 // More than MaxMoving.
	play(t, func(w *world) {
		a := w.start("a", many)
		time.Sleep(time.Minute)
		b := w.make("b", many)
		owners := assign([]string{a.id, b.id}, 32)
		theirs := 0
		var free []func()
		for slot, owner := range owners {
			if owner != b.id {
				continue
			}
			if theirs++; len(free) < hung {
				_, done, err := a.Context(context.Background(), itemOf(a.Shards, slot))
				if err != nil {
					t.Fatal(err)
				}
				free = append(free, done)
			}
		}
		b.run()
		time.Sleep(5 * time.Minute)
		if n := len(b.Held()); n != theirs-hung {
			t.Errorf("b has %d slots of %d, and %d handlers hang", n, theirs, hung)
		}
		lines := 0
		for _, line := range a.log.all() {
			if strings.Contains(fmt.Sprint(line), "a slot cannot be handed over") {
				lines++
			}
		}
		if lines != hung || len(a.overruns.all()) != 0 {
			t.Errorf("%d handlers hang, and the log has %d lines: %q; overruns %v", hung, lines, a.log.all(), a.overruns.all())
		}
		for _, done := range free {
			done()
		}
		time.Sleep(time.Minute)
		w.spread(a, b)
	})
}

// The failures of the items that were handed over stayed in the limiter, and the backoff went on when the slot came
// back.
func TestFailuresOfLostSlotsAreForgotten(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil)
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{})
		items := []string{"ns/a", "ns/b", "ns/c"}
		if err := Attach(w.Context(), a.Shards, q, func(context.Context, int) ([]string, error) { return items, nil }); err != nil {
			t.Fatal(err)
		}
		a.run()
		ctx, stop := context.WithCancel(w.Context())
		discard := logr.Discard()
		w.group.Go(func() {
			workqueue.Run(ctx, q, Handle(a.Shards, func(context.Context, string) error { return errors.New("down") }),
				workqueue.RunOptions[string]{Logger: &discard})
		})
		time.Sleep(time.Minute)
		for _, item := range items {
			if q.NumRequeues(item) == 0 {
				t.Errorf("%s has not failed", item)
			}
		}
		a.cut(true)
		time.Sleep(time.Minute)
		for _, item := range items {
			if n := q.NumRequeues(item); n > 0 {
				t.Errorf("the slot is lost, and %s has %d failures", item, n)
			}
		}
		stop()
	})
}

// The watch shows the Lease of another replica, the deletion, and twice our own Lease, made anew. Our second Lease
// ended the wait for the other replica.
func TestLeaseThatIsMadeTwiceWaitsForTheOtherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quick("b")
		o.Slots = 1
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		s := newShards(nil, nil, o)
		lease := func(holder string, epoch int32) *coordinationv1.Lease {
			return &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: s.slotName(0), Labels: s.labels(kindSlot)},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), LeaseTransitions: &epoch,
					RenewTime: new(metav1.NowMicro())},
			}
		}
		s.view.Replace(nil, "")
		time.Sleep(time.Minute)
		s.view.Add(lease("c_uuid", 1))
		s.view.Delete(lease("c_uuid", 1))
		gone := time.Now()
		for epoch := range int32(3) {
			s.view.Add(lease(s.id, epoch+1))
			if got := s.view.slots[0].alone.Sub(gone); got != o.LeaseDuration {
				t.Errorf("epoch %d: alone %v after the deletion of the Lease of c, want %v", epoch+1, got, o.LeaseDuration)
			}
			s.view.Delete(lease(s.id, epoch+1))
			time.Sleep(time.Second)
		}
	})
}
