package helpers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A deferral reconciles a key at most once in a second, and not before a time that somebody has named,
// whatever events come. cluster-api has a map of these times around its reconcilers. A reconcile defers its
// own key by DeferFor.
type deferral struct {
	queue *workqueue.TypedRateLimiting[string]
}

func newDeferral() deferral {
	return deferral{workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{ItemPace: workqueue.Rate{Limit: rate.Every(time.Second)}})}
}

// DeferNextReconcile keeps a key back until a time. Of several times the latest counts.
func (d deferral) DeferNextReconcile(key string, at time.Time) {
	d.queue.AddWith(workqueue.AddOptions{After: time.Until(at), Firm: true}, key)
}

// CacheHasTheWrite ends the deferral of a key whose write the cache shows.
func (d deferral) CacheHasTheWrite(key string) { d.queue.Wake(key) }

func TestDeferral(t *testing.T) {
	conflict := errors.New("conflict")
	for name, row := range map[string]struct {
		results []error // of the first reconciles; then nil
		events  func(d deferral)
		want    []string
	}{
		"events of two seconds are three reconciles": {nil, func(d deferral) {
			for range 20 {
				d.queue.Add("a")
				time.Sleep(100 * time.Millisecond)
			}
		}, []string{"a at 0s", "a at 1s", "a at 2s"}},
		"events during a deferral wait for its end": {[]error{workqueue.DeferFor(11 * time.Second)}, func(d deferral) {
			d.queue.Add("a")
			for range 5 {
				time.Sleep(time.Second)
				d.queue.Add("a")
			}
		}, []string{"a at 0s", "a at 11s"}},
		"a requeue that is sooner than the deferral": {[]error{errors.Join(workqueue.RequeueAfter(time.Second), workqueue.DeferFor(11*time.Second))},
			func(d deferral) { d.queue.Add("a") }, []string{"a at 0s", "a at 11s"}},
		"an error and a deferral": {[]error{errors.Join(conflict, workqueue.DeferFor(11*time.Second))},
			func(d deferral) { d.queue.Add("a") }, []string{"a at 0s", "a at 11s"}},
		"an error is retried with backoff": {[]error{conflict, conflict}, func(d deferral) {
			d.queue.Add("a")
		}, []string{"a at 0s", "a at 1s", "a at 3s"}},
		"an error that stays": {[]error{workqueue.Permanent(conflict)}, func(d deferral) {
			d.queue.Add("a")
		}, []string{"a at 0s"}},
		"a deferral of another key, from outside": {nil, func(d deferral) {
			d.DeferNextReconcile("b", time.Now().Add(5*time.Second))
			d.DeferNextReconcile("b", time.Now().Add(7*time.Second))
			d.DeferNextReconcile("b", time.Now().Add(6*time.Second))
			d.queue.Add("b")
			time.Sleep(time.Second)
			d.queue.Add("a")
			d.queue.Add("b")
		}, []string{"a at 1s", "b at 7s"}},
		"until the cache has the write": {[]error{workqueue.DeferFor(time.Minute)}, func(d deferral) {
			d.queue.Add("a")
			time.Sleep(2 * time.Second)
			d.queue.Add("a") // An event of another object.
			time.Sleep(time.Second)
			d.CacheHasTheWrite("a")
		}, []string{"a at 0s", "a at 3s"}},
		"the cache never has the write": {[]error{workqueue.DeferFor(time.Minute)}, func(d deferral) {
			d.queue.Add("a")
		}, []string{"a at 0s", "a at 1m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, j := newDeferral(), newJournal()
				ctx, stop := context.WithCancel(t.Context())
				wait := start(func() error {
					return workqueue.Run(ctx, d.queue, func(_ context.Context, key string) error {
						j.note(key)
						if len(row.results) == 0 {
							return nil
						}
						result := row.results[0]
						row.results = row.results[1:]
						return result
					}, workqueue.RunOptions[string]{Workers: 1, Logger: quiet()})
				})
				row.events(d)
				time.Sleep(time.Hour)
				j.expect(t, row.want...)
				stop()
				wait()
			})
		})
	}
}
