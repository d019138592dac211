package compat_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// An item fails until the end of an outage, and an event adds the item each second until then. The limiter is the
// default of controllers, with waits of 5 ms, doubled up to 1000 s. docs/semantics.md has the table. The outage of 20 s
// is that of kubernetes/kubernetes#136853, and the outage of a minute that of kubernetes/kubernetes#132805.
func TestEventsWhileAnItemFails_kubernetes136853(t *testing.T) {
	theirs := func() rateLimitingQueue[key] {
		return clientgo.NewTypedRateLimitingQueue(clientgo.DefaultTypedControllerRateLimiter[key]())
	}
	ours := func(c workqueue.TypedRateLimitingQueueConfig[key]) func() rateLimitingQueue[key] {
		return func() rateLimitingQueue[key] {
			return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[key](), c)
		}
	}
	plain := ours(workqueue.TypedRateLimitingQueueConfig[key]{})
	oneEntry := ours(workqueue.TypedRateLimitingQueueConfig[key]{OneEntry: true})
	strict := ours(workqueue.TypedRateLimitingQueueConfig[key]{StrictBackoff: true})
	page, err := os.ReadFile("../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		queue func() rateLimitingQueue[key]
		work  work
		want  string // with the two outages
	}{
		// The limiter counts the events of 1, 2 and 3 s too. So the retry at 3.835 s is failure 13, and waits 20.48 s.
		// The later events ask for later times, and the earliest time counts. In the longer outage the retry at 24.315 s
		// fails too. With the events since 4 s, it waits 1000 s.
		{"client-go, loop by hand", theirs, byHand, "24.315s | 17m4.315s"},
		{"plain, loop by hand", plain, byHand, "24.315s | 17m4.315s"}, // The rules are those of client-go.

		// Each Add ends the wait before. So the wait of 1000 s after the last event counts, at 19 s or 59 s.
		{"`OneEntry`, loop by hand", oneEntry, byHand, "16m59s | 17m39s"},

		// The wait is firm, so no event brings a hand-out. The waits of 12 failures end at 20.475 s, those of 14 at 81.915 s.
		{"`StrictBackoff`, loop by hand", strict, byHand, "20.475s | 1m21.915s"},
		{"`StrictBackoff`, `Run`", strict, byRun, "20.475s | 1m21.915s"},

		// Events bring early hand-outs, and Run does not count their failures.
		{"plain, `Run`", plain, byRun, "20.475s | 1m21.915s"},
		{"`OneEntry`, `Run`", oneEntry, byRun, "20.475s | 1m21.915s"},
	} {
		got := fmt.Sprint(healing(t, 20*time.Second, tt.queue, tt.work), " | ", healing(t, time.Minute, tt.queue, tt.work))
		if got != tt.want {
			t.Errorf("%s: healed after %s, want %s", tt.name, got, tt.want)
		}
		if row := "\n| " + tt.name + " | " + tt.want + " |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/semantics.md has no row %s", row)
		}
	}
}

// A work calls handle for the items of a queue until the queue is shut down.
type work func(ctx context.Context, q rateLimitingQueue[key], handle func(context.Context, key) error)

// healing returns when the item first succeeds.
func healing(t *testing.T, outage time.Duration, queue func() rateLimitingQueue[key], work work) (healed time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		q, start := queue(), time.Now()
		go work(t.Context(), q, func(context.Context, key) error {
			if time.Since(start) < outage {
				return errors.New("the outage goes on")
			}
			healed = cmp.Or(healed, time.Since(start))
			return nil
		})
		for time.Since(start) < outage {
			q.Add("a")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		q.ShutDown()
		synctest.Wait()
	})
	return healed
}

// byHand is the loop of most controllers.
func byHand(ctx context.Context, q rateLimitingQueue[key], handle func(context.Context, key) error) {
	for item, end := q.Get(); !end; item, end = q.Get() {
		if handle(ctx, item) != nil {
			q.AddRateLimited(item)
		} else {
			q.Forget(item)
		}
		q.Done(item)
	}
}

func byRun(ctx context.Context, q rateLimitingQueue[key], handle func(context.Context, key) error) {
	logger := logr.Discard()
	_ = workqueue.Run(ctx, q, handle, workqueue.RunOptions[key]{Logger: &logger})
}
