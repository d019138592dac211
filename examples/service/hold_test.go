package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// busy always names a time.
func busy(after string) receiver {
	return func(*http.Request) (int, string) { return http.StatusTooManyRequests, after }
}

// A Retry-After of 300 years was a negative duration, and all tries came at once.
func TestRetryAfterHasABound(t *testing.T) {
	s := start(t, testDB(t), nil)
	for _, after := range []string{"9999999999", "99999999999999999999", time.Now().Add(9999 * time.Hour).UTC().Format(http.TimeFormat)} {
		s.client.Transport = busy(after)
		err := s.deliver(t.Context(), order, "", nil)
		if v := workqueue.VerdictOf(err); v.Outcome != workqueue.OutcomeFailed || v.After != time.Hour || err.Error() != "429" {
			t.Errorf("%s: got %v, %q, want a failure, an hour and the status", after, v, err)
		}
	}
	for _, after := range []string{"tomorrow", "-9223372037", "0"} {
		s.client.Transport = busy(after)
		if v := workqueue.VerdictOf(s.deliver(t.Context(), order, "", nil)); v.Outcome != workqueue.OutcomeFailed || v.After != 0 {
			t.Errorf("%s: got %v, want a failure with the backoff alone", after, v)
		}
	}
}

// Of two answers the later time counts. A second with the shorter time let all jobs call again after that.
func TestTheLaterRetryAfterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), nil)
		for _, after := range []string{"60", "1"} {
			s.client.Transport = busy(after)
			if err := s.deliver(t.Context(), order, "", nil); err == nil {
				t.Error("the job is done")
			}
		}
		for _, row := range []struct {
			sleep time.Duration
			limit rate.Limit
			page  string
		}{{59 * time.Second, 0, "for 1s."}, {2 * time.Second, 1, "1 a second"}} {
			time.Sleep(row.sleep)
			synctest.Wait()
			if _, page := s.call("GET /jobs", "secret"); s.payingPace.Limit() != row.limit || !strings.Contains(page, row.page) {
				t.Errorf("the limit is %v, want %v, and the page is\n%s", s.payingPace.Limit(), row.limit, page)
			}
		}
	})
}

// A receiver that was out for an hour, and answered 503 with a Retry-After of a second, had each job given up
// after 30 seconds. Later it got 3,600 requests for each job, and nothing said that they failed.
func TestRetryAfterDoesNotUseUpTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), busy("1"))
		end := s.begin()
		s.post(order)
		time.Sleep(time.Hour)
		end()
		s.wantStored(1, 0, 1)
		if n := s.record(order).Failures; n < 12 || n > 18 {
			t.Errorf("%d failures in an hour, want the 12 to 18 of the backoff", n)
		}
	})
}

// An outage of six hours, in which the receiver answers 429, gave up 20 of 20 jobs: at the end of each hold as many jobs as
// there are workers had a try that counted.
func TestRetryAfterIsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			if time.Since(begun) < 6*time.Hour {
				return http.StatusTooManyRequests, "10"
			}
			return http.StatusOK, ""
		}))
		end := s.begin()
		for n := range 20 {
			s.post(job{"acme", fmt.Sprint("order-", n)})
		}
		time.Sleep(7 * time.Hour)
		s.wantStored(0, 0, 0)
		end()
	})
}

// Each tenant has a receiver, and one is down. Its Retry-After stopped the jobs of all.
func TestRetryAfterOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.holdTenant = true
		var mu sync.Mutex
		answers := map[string][]string{}
		begun := time.Now()
		s := startWith(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			mu.Lock()
			defer mu.Unlock()
			tenant, _, _ := strings.Cut(r.URL.Host, ".")
			answers[tenant] = append(answers[tenant], time.Since(begun).String())
			if tenant == "flood" && time.Since(begun) < 30*time.Second {
				return http.StatusServiceUnavailable, "30"
			}
			return http.StatusOK, ""
		}), p)
		s.target = "http://{tenant}.example.com/hook"
		end := s.begin()
		for n := range 100 {
			s.post(job{"flood", fmt.Sprint(n)})
		}
		synctest.Wait()
		s.post(order)
		time.Sleep(10 * time.Second)
		mu.Lock()
		if flood, acme := len(answers["flood"]), fmt.Sprint(answers["acme"]); flood > 3 || acme != "[0s]" {
			t.Errorf("%d calls for the tenant with the limit, and calls at %s for another", flood, acme)
		}
		mu.Unlock()
		if _, text := s.call("GET /jobs/flood.99", "secret"); !strings.Contains(text, `"Tenant":"2000-01-01T00:00:30Z"`) {
			t.Errorf("a job of the tenant with the limit is shown as %s", text)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.wantStored(0, 0, 0)
		end()
	})
}

// An operator keeps the jobs of a tenant back, through a restart. A time that its receiver names ends no pause.
func TestPauseOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.holdTenant = true
		var delivered []string
		done := receiver(func(r *http.Request) (int, string) {
			delivered = append(delivered, r.Header.Get("Idempotency-Key"))
			return http.StatusOK, ""
		})
		s := startWith(t, testDB(t), done, p)
		end := s.begin()
		if code, text := s.call("POST /pause?tenant=acme&on=true", "secret"); code != http.StatusOK || text != "Paused tenants: acme" {
			t.Errorf("got %d, %s", code, text)
		}
		s.notBefore("acme", time.Now().Add(time.Second))
		s.post(order)
		s.post(job{"other", "order-8"})
		time.Sleep(time.Minute)
		end()
		s = startWith(t, s.db, done, p)
		end = s.begin()
		time.Sleep(time.Minute)
		if _, text := s.call("GET /jobs", "secret"); !strings.Contains(text, "Paused tenants: [acme]") || fmt.Sprint(delivered) != "[other.order-8]" {
			t.Errorf("in a pause %v are delivered, and the page is %s", delivered, text)
		}
		if code, text := s.call("POST /pause?tenant=acme&on=false", "secret"); code != http.StatusOK || text != "Paused tenants:" {
			t.Errorf("got %d, %s", code, text)
		}
		synctest.Wait()
		end()
		s = startWith(t, s.db, done, p)
		if _, ok := s.resting.Load("acme"); ok || fmt.Sprint(delivered) != "[other.order-8 acme.order-7]" {
			t.Errorf("after a pause %v are delivered, and the next start knows of the pause: %v", delivered, ok)
		}
		s.wantStored(0, 0, 0)
	})
}

// The receiver is always at rest for one job. The job came first after each rest, and began the next one: in an hour the
// others had some hand-outs.
func TestAJobThatAlwaysHearsOfARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			if r.Header.Get("Idempotency-Key") == "gold.poison" {
				return http.StatusServiceUnavailable, "600"
			}
			return http.StatusOK, ""
		}))
		end := s.begin()
		s.post(job{"gold", "poison"})
		time.Sleep(12 * time.Hour)
		for n := range 200 {
			s.post(job{"acme", fmt.Sprint(n)})
		}
		time.Sleep(30 * time.Minute)
		s.wantStored(1, 0, 1)
		end()
	})
}

// A retry, a wake and the end of a pause leave the time of the receiver alone.
func TestOnlyCallNowEndsTheHoldOfTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), busy("3600"))
		end := s.begin()
		s.post(order)
		synctest.Wait()
		s.client.Transport = always(http.StatusOK)
		for _, row := range []struct {
			call string
			open int
		}{{"POST /jobs/acme.order-7/retry", 1}, {"POST /wake", 1}, {"POST /pause?on=false", 1}, {"POST /call-now", 0}} {
			if code, text := s.call(row.call, "secret"); code/100 != 2 {
				t.Errorf("%s: got %d, %s", row.call, code, text)
			}
			time.Sleep(4 * time.Second) // One of four probes.
			synctest.Wait()
			s.wantStored(row.open, 0, row.open)
		}
		end()
	})
}

// A Retry-After whose body does not end held nobody back before the Timeout.
func TestRetryAfterBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Status: "503", Header: http.Header{"Retry-After": {"60"}}, Body: endless{r.Context()}}, nil
		}))
		end := s.begin()
		s.post(order)
		synctest.Wait()
		if rest := s.held().rest(); rest != time.Minute {
			t.Errorf("the hold lasts for %v", rest)
		}
		time.Sleep(5 * time.Second)
		end()
	})
}

// endless is a body that does not end before its request.
type endless struct{ ctx context.Context }

func (b endless) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

func (b endless) Close() error { return nil }

// At the end of a hold all workers called at once, and had the next hold. Now one job a second is tried until one is done
// or refused. Other answers double the probes: jobs that always got a 502 held up a receiver that was well.
func TestProbesAfterAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var calls []time.Duration
		var mu sync.Mutex
		s := start(t, testDB(t), roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Idempotency-Key") == "slow.order" { // It was at work before the hold, and is done in it.
				time.Sleep(2 * time.Second)
				return always(http.StatusOK).RoundTrip(r)
			}
			mu.Lock()
			defer mu.Unlock()
			at := time.Since(begun).Round(time.Millisecond)
			switch calls = append(calls, at); {
			case at < time.Second:
				return busy("60").RoundTrip(r)
			case at < 63*time.Second:
				return nil, errors.New("no answer")
			case at < 63900*time.Millisecond:
				return always(http.StatusBadGateway).RoundTrip(r)
			}
			return always(http.StatusUnprocessableEntity).RoundTrip(r) // It is well.
		}))
		s.post(job{"slow", "order"})
		end := s.begin()
		synctest.Wait()
		s.post(order)
		synctest.Wait()
		for n := range 20 {
			s.post(job{fmt.Sprint("tenant-", n), "order"})
		}
		time.Sleep(2 * time.Minute)
		end()
		got := fmt.Sprint(calls[:7], calls[8]-calls[7])
		if want := "[0s 1m1s 1m2s 1m3s 1m3.5s 1m3.75s 1m3.875s] 0s"; got != want { // And then all together.
			t.Errorf("the receiver is called at %s, want %s", got, want)
		}
		s.wantStored(0, 21, 21)
	})
}

// While one job a second was tried, a tenant who pays came no more often than another.
func TestProbesPreferThePayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var paying, others atomic.Int64
		s := start(t, testDB(t), roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case time.Since(begun) < time.Minute:
				return busy("60").RoundTrip(r)
			case strings.HasPrefix(r.Header.Get("Idempotency-Key"), "gold."):
				paying.Add(1)
			default:
				others.Add(1)
			}
			return nil, errors.New("no answer")
		}))
		for n := range 50 {
			s.post(job{"gold", fmt.Sprint(n)})
			s.post(job{"acme", fmt.Sprint(n)})
		}
		end := s.begin()
		time.Sleep(time.Minute + 40*time.Second + time.Millisecond)
		if paying.Load() != 40 || others.Load() != 10 {
			t.Errorf("%d jobs who pay and %d others are tried in 40 seconds", paying.Load(), others.Load())
		}
		end()
	})
}

// A Retry-After of the last moment before a kill is forgotten. The next start begins with a probe then.
func TestProbesAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), nil)
		s.post(job{"acme", "at-work"})
		s.post(order)
		if _, _, err := s.service.begin(job{"acme", "at-work"}); err != nil {
			t.Fatal(err)
		}
		s = start(t, s.db, always(http.StatusOK))
		if limit := s.payingPace.Limit(); limit != 1 {
			t.Errorf("the start begins with %v jobs a second", limit)
		}
		end := s.begin()
		time.Sleep(10 * time.Second)
		if limit := s.pace.Limit(); limit != rate.Inf {
			t.Errorf("after a success the limit is %v", limit)
		}
		end()
		s.wantStored(0, 0, 0)
	})
}

// Of 30 jobs, 29 called the receiver before the time that it had named to the first ones.
func TestRetryAfterHoldsForAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early atomic.Int64
		begun := time.Now()
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			if time.Since(begun) < time.Minute {
				early.Add(1)
				return http.StatusTooManyRequests, "60"
			}
			return http.StatusOK, ""
		}))
		for i := range 30 {
			s.post(job{fmt.Sprint("tenant", i), "order"})
		}
		end := s.begin()
		time.Sleep(2 * time.Minute)
		end()
		if n := early.Load(); n > int64(testPolicy.otherWorkers) {
			t.Errorf("%d calls before the time, want at most one for each worker", n)
		}
		s.wantStored(0, 0, 0)
	})
}

// A worker that had its job when the receiver named the time called all the same, and so did each start within the time.
func TestRetryAfterHoldsForAWorkerAndThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), receiver(func(*http.Request) (int, string) {
			t.Error("the receiver is called")
			return http.StatusOK, ""
		}))
		s.store(order, record{Tries: 3, Error: "503"})
		s.notBefore("acme", time.Now().Add(time.Minute))
		if v, r := workqueue.VerdictOf(s.do(t.Context(), order)), s.record(order); v.Outcome != workqueue.OutcomeDeferred || v.After != time.Minute || r.Tries != 3 || r.Error != "503" {
			t.Errorf("got %+v of %+v, want a wait of a minute and no try", v, r)
		}
		s.hold.NotBefore = s.hold.NotBefore.Add(48 * time.Hour) // The clock was set back.
		if err := s.changeHold(func(*hold) {}); err != nil {
			t.Fatal(err)
		}
		if rest := start(t, s.db, nil).held().rest(); rest != testPolicy.longestHold {
			t.Errorf("the next start holds for %v", rest)
		}
		s.hold.NotBefore = s.hold.NotBefore.Add(-48 * time.Hour)
		if err := s.changeHold(func(*hold) {}); err != nil {
			t.Fatal(err)
		}
		s = start(t, s.db, nil)
		for _, want := range []rate.Limit{0, 1} {
			if got := s.payingPace.Limit(); got != want {
				t.Errorf("the limit is %v, want %v", got, want)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}

// A retry by hand while a worker finds that a hold has begun left the job with the tries of before.
func TestRetryBesideAHold(t *testing.T) {
	s := start(t, testDB(t), nil)
	s.store(order, record{Tries: 20})
	did := make(chan error)
	s.holding.Lock()
	go func() { did <- s.do(t.Context(), order) }()
	for s.record(order).Tries == 20 { // Until the worker has begun, and waits to ask for the hold.
		time.Sleep(time.Millisecond)
	}
	if err := s.step(order, s.again(order, 0)); err != nil {
		t.Error(err)
	}
	s.hold.NotBefore = time.Now().Add(time.Minute)
	s.holding.Unlock()
	if v := workqueue.VerdictOf(<-did); v.Outcome != workqueue.OutcomeDeferred || s.record(order).Tries != 0 {
		t.Errorf("got %v with %d tries", v, s.record(order).Tries)
	}
}

// A deploy in the middle of an incident called the receiver for each job that a pause had kept back.
func TestPauseHoldsThroughTheEndAndTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := testDB(t)
		for n, want := range []int64{0, 0, 20} {
			var calls atomic.Int64
			s := start(t, db, receiver(func(*http.Request) (int, string) { calls.Add(1); return http.StatusOK, "" }))
			switch n {
			case 0:
				s.call("POST /pause?on=true", "secret")
				for i := range 20 {
					s.post(job{"acme", fmt.Sprint("order-", i)})
				}
			case 2:
				s.call("POST /pause?on=false", "secret")
			}
			end := s.begin()
			time.Sleep(5 * time.Second)
			end()
			if got := calls.Load(); got != want {
				t.Errorf("start %d: %d calls, want %d", n, got, want)
			}
		}
	})
}

// The receiver allows fifteen jobs a second, and refuses more for a second each: it got a third of that.
func TestRatesOfTheClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.payingRate, p.otherRate = 10, 5
		var paying, others atomic.Int64
		s := startWith(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			if strings.HasPrefix(r.Header.Get("Idempotency-Key"), "gold.") {
				paying.Add(1)
			} else {
				others.Add(1)
			}
			return http.StatusOK, ""
		}), p)
		for n := range 200 {
			s.post(job{"gold", fmt.Sprint(n)})
			s.post(job{"acme", fmt.Sprint(n)})
		}
		end := s.begin()
		time.Sleep(10*time.Second + time.Millisecond)
		if paying, others := paying.Load(), others.Load(); paying < 99 || paying > 101 || others < 49 || others > 51 {
			t.Errorf("%d and %d jobs in ten seconds, want 100 and 50", paying, others)
		}
		s.call("POST /pause?on=true", "secret")
		s.call("POST /pause?on=false", "secret")
		time.Sleep(time.Hour)
		s.wantStored(0, 0, 0)
		end()
	})
}
