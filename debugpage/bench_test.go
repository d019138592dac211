package debugpage_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/debugpage"
)

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// durations returns a function that reports quantiles.
func durations(b *testing.B, took []time.Duration) func(unit string, quantile float64) {
	slices.Sort(took)
	return func(unit string, quantile float64) {
		at := min(int(quantile*float64(len(took))), len(took)-1)
		b.ReportMetric(float64(took[at].Nanoseconds())/1000, unit)
	}
}

// BenchmarkBeside measures Adds of a queued item to a queue with a million items, beside requests that follow
// each other without a pause. With requests for another queue of a million items, the collector and
// the scheduler have the same work, and the lock is free.
func BenchmarkBeside(b *testing.B) {
	q, other := queueOfMany(b, 1_000_000), queueOfMany(b, 1_000_000)
	for _, kind := range []struct {
		name, query string
		queue       *queueOf[string]
	}{
		{"none", "", nil},
		{"other", "?queue=q", other},
		{"queue", "?queue=q", q},
		{"other-search", "?queue=q&search=99", other},
		{"search", "?queue=q&search=99", q},
	} {
		b.Run("requests="+kind.name, func(b *testing.B) {
			stop, stopped := make(chan struct{}), make(chan struct{})
			var requests, size int
			var busy time.Duration
			go func() {
				defer close(stopped)
				for kind.queue != nil {
					select {
					case <-stop:
						return
					default:
					}
					p := debugpage.New(debugpage.Options{}) // A new page has no result to show again.
					debugpage.Add(p, "q", kind.queue)
					busy += timed(func() {
						w := get(b, p, kind.query)
						if size = w.Body.Len(); w.Code != http.StatusOK {
							b.Error(w.Code)
						}
					})
					requests++
				}
			}()
			var calls []time.Duration
			for b.Loop() {
				calls = append(calls, timed(func() { q.Add("namespace-0/object-100000") }))
				time.Sleep(20 * time.Microsecond)
			}
			close(stop)
			<-stopped
			report := durations(b, calls)
			report("us/p99", 0.99)
			report("us/longest", 1)
			if requests > 0 {
				b.ReportMetric(float64(busy.Milliseconds())/float64(requests), "ms/request")
				b.ReportMetric(float64(size), "B/response")
			}
		})
	}
}
