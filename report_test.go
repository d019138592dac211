package workqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The last Done may come while the gauges are being set to what was in flight
// before it. They are set once more then, to zero.
func TestGaugesOfAQueueAtRestAreZero(t *testing.T) {
	for _, gauge := range []string{"unfinished", "longest"} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
			defer q.ShutDown()
			q.Add("a")
			q.Get()
			r.setHook(func(event string) {
				if strings.HasPrefix(event, gauge) {
					q.Done("a")
				}
			})
			time.Sleep(time.Hour)
			synctest.Wait()
			want := "unfinished=0.5 longest=0.5 unfinished=0 longest=0"
			if got := strings.Join(reportsOf(r), " "); got != want {
				t.Errorf("Done in the Set of %s: set %q, want %q", gauge, got, want)
			}
			if n := goroutines(); n != 0 {
				t.Errorf("Done in the Set of %s: %d goroutines at rest", gauge, n)
			}
		})
	}
}
