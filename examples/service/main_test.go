package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/bbolt"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

var order = job{"acme", "order-7"}

// What your clients would post.
const (
	payload      = `{"paid": true}`
	otherPayload = `{"paid": false}`
)

// testPolicy has the numbers that the tests count with, so that they hold whatever the defaults are.
var testPolicy = policy{
	payingWorkers: 8, otherWorkers: 4, tenantWorkers: 3,
	maxAttempts: 30, backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Cap: 10 * time.Minute},
	timeout: 5 * time.Second, longestHold: time.Hour, keepDone: 24 * time.Hour, maxPayload: 1 << 20,
	closing: 5 * time.Second, drain: 10 * time.Second,
}

// testDB returns an empty database.
func testDB(t *testing.T) *bbolt.DB {
	t.Helper()
	db, err := openDB(filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.MaxBatchSize = 1 // Each step at once: synctest.Wait does not wait for a batch to fill.
	db.NoSync = true    // The machine goes on.
	return db
}

// A tested service is one start.
type tested struct {
	*service
	t *testing.T
}

// start starts without workers. The tenant gold pays.
func start(t *testing.T, db *bbolt.DB, receiver http.RoundTripper) tested {
	t.Helper()
	return startWith(t, db, receiver, testPolicy)
}

func startWith(t *testing.T, db *bbolt.DB, receiver http.RoundTripper, p policy) tested {
	t.Helper()
	s := newService(db, "http://receiver/", []string{"gold"}, prometheus.NewRegistry(), p)
	s.client.Transport = receiver
	if err := s.resume(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.paying.ShutDown) // A bubble waits for what waits in a queue without workers.
	t.Cleanup(s.others.ShutDown)
	return tested{s, t}
}

// begin starts the workers. end is a SIGTERM, and waits for the drain.
func (s tested) begin() (end func()) {
	ctx, stop := context.WithCancel(s.t.Context())
	worked := make(chan error, 1)
	go func() { worked <- s.work(ctx) }()
	return func() {
		s.t.Helper()
		stop()
		if err := <-worked; err != nil {
			s.t.Error(err)
		}
	}
}

// post posts a job, and wants a 202.
func (s tested) post(j job) {
	s.t.Helper()
	if code, text := s.send("/jobs/"+j.Tenant, payload, j.ID); code != http.StatusAccepted {
		s.t.Errorf("%v: got %d, %s", j, code, text)
	}
}

// send posts a payload.
func (s tested) send(path, body, key string) (code int, text string) {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.public().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// call is a call of an operator, such as "POST /wake".
func (s tested) call(what, password string) (code int, text string) {
	method, path, _ := strings.Cut(what, " ")
	r := httptest.NewRequest(method, path, nil)
	if password != "" {
		r.SetBasicAuth("admin", password)
	}
	w := httptest.NewRecorder()
	s.admin(http.NotFoundHandler(), "secret").ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// store stores a job with an empty payload.
func (s tested) store(j job, r record) {
	s.t.Helper()
	r.State = cmp.Or(r.State, open)
	if err := s.step(j, func(_ *bbolt.Tx, stored *record) error { *stored = r; return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// record returns the record of a job.
func (s tested) record(j job) (r record) {
	s.t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) (err error) {
		r, err = load(tx, j)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// wantStored compares what is in the buckets of the database.
func (s tested) wantStored(wantOpen, wantFailed, wantPayloads int) {
	s.t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		n := func(bucket string) int { return tx.Bucket([]byte(bucket)).Stats().KeyN }
		got, want := []int{n(string(open)), n(string(failed)), n(string(payloads))}, []int{wantOpen, wantFailed, wantPayloads}
		if !reflect.DeepEqual(got, want) {
			s.t.Errorf("open, failed jobs and payloads are %v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// A receiver is one without a network, which a bubble of synctest can wait for.
type receiver func(r *http.Request) (code int, retryAfter string)

func (f receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	code, after := f(r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	header := http.Header{}
	if after != "" {
		header.Set("Retry-After", after)
	}
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Header: header, Body: http.NoBody}, nil
}

// always answers with one status.
func always(code int) receiver { return func(*http.Request) (int, string) { return code, "" } }

// busy always names a time.
func busy(after string) receiver {
	return func(*http.Request) (int, string) { return http.StatusTooManyRequests, after }
}

// A request that is still at work when the drain begins gets no 202, and the accepted jobs are done.
func TestNo202WhenTheDrainRefusesTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, posted := make(chan struct{}), 0
		s := start(t, testDB(t), receiver(func(*http.Request) (int, string) {
			posted++
			<-release
			return http.StatusOK, ""
		}))
		end := s.begin()
		s.post(order)
		synctest.Wait()
		time.AfterFunc(time.Second, func() {
			if code, text := s.send("/jobs/acme", payload, ""); code != http.StatusServiceUnavailable {
				t.Errorf("during the drain: got %d, %s", code, text)
			}
			close(release)
		})
		end()
		if posted != 1 {
			t.Errorf("%d jobs were done", posted)
		}
		s.wantStored(0, 0, 0)
	})
}

// Each payload that got a 202 is delivered, and once. The key gets a 409 with another payload, whether the first is
// queued, at work or done: a receiver that knows the key would drop the second.
func TestNo202IsLostToAnotherPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, delivered := make(chan struct{}), map[string]int{}
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			<-release
			delivered[string(body)]++ // One job at a time.
			return http.StatusOK, ""
		}))
		post := func(when, body string, want int) {
			t.Helper()
			code, text := s.send("/jobs/acme", body, "order-7")
			if synctest.Wait(); code != want {
				t.Errorf("%s, payload %q: got %d, %s, want %d", when, body, code, text, want)
			}
		}
		post("new", payload, http.StatusAccepted)
		post("queued", otherPayload, http.StatusConflict)
		end := s.begin()
		synctest.Wait()
		post("at work", otherPayload, http.StatusConflict)
		post("at work", payload, http.StatusAccepted)
		close(release)
		for _, when := range []string{"done", "done, and the service began anew", "done 23 hours ago"} {
			post(when, payload, http.StatusAccepted)
			post(when, otherPayload, http.StatusConflict)
			end()
			if !strings.Contains(when, "anew") {
				time.Sleep(23 * time.Hour)
			}
			s = start(t, s.db, s.client.Transport)
			end = s.begin()
		}
		time.Sleep(25 * time.Hour)
		post("done days ago", otherPayload, http.StatusAccepted)
		end()
		if want := map[string]int{payload: 1, otherPayload: 1}; !reflect.DeepEqual(delivered, want) {
			t.Errorf("delivered %v", delivered)
		}
		s.wantStored(0, 0, 0)
	})
}

// A key is one job, whatever its priority, and the highest priority counts, also for the next start.
func TestThePriorityIsNotPartOfTheKey(t *testing.T) {
	s := start(t, testDB(t), nil)
	for priority, key := range map[string]string{"0": "order-7", "5": `"order-7"`, "": "order-7"} {
		code, name := s.send("/jobs/acme?priority="+priority, payload, key)
		if code != http.StatusAccepted || name != "acme.order-7" {
			t.Errorf("priority %q: got %d, %s", priority, code, name)
		}
	}
	for _, s := range []tested{s, start(t, s.db, nil)} {
		if info, ok := s.others.Find(order); !ok || info.Priority != 5 || s.others.Len() != 1 {
			t.Errorf("got %v, of %d", info, s.others.Len())
		}
	}
	s.wantStored(1, 0, 1)
}

// A job that was given up, and a job that waits for a retry, are tried again without a restart.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, tries := http.StatusGone, 0
		s := start(t, testDB(t), receiver(func(*http.Request) (int, string) { tries++; return code, "" }))
		end := s.begin()
		retry := func(want int) {
			t.Helper()
			if code, text := s.call("POST /jobs/acme.order-7/retry", "secret"); code != want {
				t.Errorf("got %d, %s, want %d", code, text, want)
			}
			synctest.Wait()
		}
		retry(http.StatusNotFound)
		s.post(order)
		synctest.Wait()
		if r := s.record(order); r.State != failed || r.Error != "410" || s.count(failed) != 1 {
			t.Errorf("the record of a job that was given up is %+v, and %d have failed", r, s.count(failed))
		}
		if _, text := s.call("GET /jobs", "secret"); !strings.Contains(text, `discard</button> acme.order-7 410`) {
			t.Errorf("the list of what was given up is %q", text)
		}
		if code, _ := s.send("/jobs/acme", otherPayload, "order-7"); code != http.StatusConflict {
			t.Errorf("another payload: got %d", code)
		}
		if code, text := s.call("GET /jobs/acme.order-7", "secret"); code != 200 || !strings.Contains(text, `"State":"failed"`) || !strings.Contains(text, `"Error":"410"`) {
			t.Errorf("the job is shown by %d, %s", code, text)
		}
		s.post(order) // Is tried, and given up again.
		synctest.Wait()
		code = http.StatusBadGateway
		retry(http.StatusAccepted) // The job was given up, and now waits for a retry.
		code = http.StatusOK
		retry(http.StatusAccepted)
		retry(http.StatusNotFound)
		if stats := s.others.Stats(); tries != 4 || stats.Waiting > 0 {
			t.Errorf("%d tries, and %d jobs wait", tries, stats.Waiting)
		}
		s.wantStored(0, 0, 0)
		end()
	})
}

// The tries of all starts count together, those that end with the process too, and those that an operator brings. With
// the count of Run alone each start began anew, and a job that ends the process was tried for ever.
func TestTriesOfAllStartsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, tries := testDB(t), 0
		run := func(answer func(s tested, stop func()) int) {
			ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
			defer stop()
			var s tested
			s = start(t, db, receiver(func(*http.Request) (int, string) { tries++; return answer(s, stop), "" }))
			if s.record(order).State == unknown {
				s.post(order)
			}
			if err := s.work(ctx); err != nil {
				t.Error(err)
			}
		}
		failedAfter := func(want int, reason string) {
			t.Helper()
			r := start(t, db, nil).record(order)
			if r.State != failed || tries != want || r.Tries != testPolicy.maxAttempts || !strings.Contains(r.Error, reason) {
				t.Errorf("%d tries of %+v, want %d and %q", tries, r, want, reason)
			}
			tries = 0
		}
		for range 5 { // Each start ends in its second try, and the drain has two or three more.
			before := tries
			run(func(_ tested, stop func()) int {
				if tries == before+2 {
					stop()
				}
				return http.StatusBadGateway
			})
		}
		run(func(s tested, _ func()) int {
			s.others.Wake(order) // The next try comes at once.
			return http.StatusBadGateway
		})
		failedAfter(testPolicy.maxAttempts, "502")

		s := start(t, db, nil)
		s.store(order, record{})
		for range testPolicy.maxAttempts { // A process that dies in each try: another one begins where it was.
			if _, _, err := s.service.begin(order); err != nil {
				t.Fatal(err)
			}
		}
		run(func(tested, func()) int { return http.StatusOK })
		failedAfter(0, "has not ended")
		if r := s.record(order); strings.Count(r.Error, "not ended") != 1 {
			t.Errorf("the reason is %q", r.Error)
		}

		s.store(order, record{})
		run(func(tested, func()) int { panic("at the disco") })
		failedAfter(testPolicy.maxAttempts, "at the disco")
	})
}

// A client that posts its job again and again during an outage does not use up the tries. After a start the backoff goes
// on where it was.
func TestTriesKeepTheirBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, tries := testDB(t), 0
		run := func(posts int) {
			s := start(t, db, receiver(func(*http.Request) (int, string) { tries++; return http.StatusBadGateway, "" }))
			end := s.begin()
			for range posts {
				s.post(order)
				time.Sleep(100 * time.Millisecond)
			}
			end()
		}
		run(600) // A minute, and the drain: waits of 1, 2, 4, 8, 16 and 32 s, with their jitter.
		if tries < 5 || tries > 7 {
			t.Errorf("%d tries in a minute, want 5 to 7", tries)
		}
		before := tries
		for range 5 {
			run(10)
		}
		if tries != before {
			t.Errorf("%d tries at five starts that last a second, want none", tries-before)
		}
		// The whole wait began anew at each start, so a process that started often never tried the job again.
		for range 100 {
			run(1)
			time.Sleep(2900 * time.Millisecond)
		}
		if tries < before+2 || tries > before+3 {
			t.Errorf("%d tries in the next five minutes, want 2 or 3", tries-before)
		}
	})
}

// Two wakes in an outage of an hour failed 50 of 50 jobs, which have 8 tries with long waits between: the waits did not grow
// with these tries.
func TestWakesInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.maxAttempts, p.backoff = 8, wait.Backoff{Duration: 15 * time.Second, Factor: 3, Jitter: 0.5, Cap: time.Hour}
		begun := time.Now()
		s := startWith(t, testDB(t), receiver(func(*http.Request) (int, string) {
			if time.Since(begun) < time.Hour {
				return http.StatusBadGateway, ""
			}
			return http.StatusOK, ""
		}), p)
		end := s.begin()
		for n := range 50 {
			s.post(job{"acme", fmt.Sprint(n)})
		}
		time.Sleep(30 * time.Second)
		for range 3 {
			s.call("POST /wake", "secret")
			time.Sleep(4 * time.Second)
		}
		time.Sleep(24 * time.Hour)
		s.wantStored(0, 0, 0)
		end()
	})
}

// A job that no try will help is not for ever among the failed jobs, and its key can be used again. A discard takes an open
// job too, during its try as well: the end of the try wrote a record without a payload.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, discarded := http.StatusOK, 0
		var s tested
		discard := func(want int) {
			if code, text := s.call("POST /jobs/acme.order-7/discard", "secret"); code != want {
				t.Errorf("got %d, %s, want %d", code, text, want)
			}
		}
		s = start(t, testDB(t), receiver(func(*http.Request) (int, string) {
			discarded++
			discard(http.StatusAccepted)
			return code, ""
		}))
		s.store(order, record{State: failed, Error: "422"})
		discard(http.StatusAccepted)
		discard(http.StatusNotFound)
		s.post(order)
		if _, text := s.call("GET /jobs/acme.order-7/payload", "secret"); text != payload {
			t.Errorf("the payload is shown as %q", text)
		}
		discard(http.StatusAccepted)
		if code, _ := s.call("GET /jobs/acme.order-7/payload", "secret"); code != http.StatusNotFound || s.others.Len() > 0 {
			t.Errorf("the payload is shown with %d, and %d jobs are queued", code, s.others.Len())
		}
		end := s.begin()
		for _, code = range []int{http.StatusOK, http.StatusBadGateway, http.StatusGone} {
			s.post(order)
			time.Sleep(time.Hour)
			s.wantStored(0, 0, 0)
			if r := s.record(order); r.State != unknown {
				t.Errorf("a job that was discarded during a try with %d is %+v", code, r)
			}
		}
		if discarded != 3 {
			t.Errorf("%d tries, want 3", discarded)
		}
		end()
	})
}

// Each job that was given up is on a page of a thousand, and is tried again by one call.
func TestRetryFailed(t *testing.T) {
	s := start(t, testDB(t), nil)
	const n = 2*listed + 1
	var jobs []job
	for i := range n {
		jobs = append(jobs, job{"acme", fmt.Sprint("b", i)})
	}
	if err := s.steps(jobs, func(job) change {
		return func(_ *bbolt.Tx, r *record) error { *r = record{State: failed, Priority: 3}; return nil }
	}); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for path, pages := "/jobs?format=json", 3; path != ""; pages-- {
		_, text := s.call("GET "+path, "secret")
		var page struct {
			Failed   int
			Failures []struct{ Job string }
			Next     string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || page.Failed != n || pages == 0 {
			t.Fatalf("%s: %d pages are left to come, and it says that %d jobs have failed: %v", path, pages, page.Failed, err)
		}
		for _, f := range page.Failures {
			names[f.Job] = true
		}
		if path = ""; page.Next != "" {
			path = "/jobs?format=json&after=" + page.Next
		}
	}
	if len(names) != n {
		t.Errorf("%d jobs are listed, want %d", len(names), n)
	}
	if _, text := s.call("POST /retry-failed?error=503", "secret"); text != "0 jobs are tried again" {
		t.Errorf("of the jobs with another error: %s", text)
	}
	code, text := s.call("POST /retry-failed", "secret")
	if info, ok := s.others.Find(jobs[1]); code != http.StatusOK || text != fmt.Sprint(n, " jobs are tried again") || !ok || info.Priority != 3 {
		t.Errorf("got %d, %s, and %v", code, text, info)
	}
	s.wantStored(n, 0, 0)
}

// A job that cannot be read, and one that somebody else has retried meanwhile, kept a thousand others from a retry.
func TestRetryFailedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), always(http.StatusOK))
		s.store(job{"acme", "a"}, record{State: failed})
		s.store(job{"acme", "b"}, record{State: failed})
		err := s.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(failed)).Put([]byte("acme.garbage"), []byte("garbage"))
		})
		if err != nil {
			t.Fatal(err)
		}
		end := s.begin()
		if code, text := s.call("POST /retry-failed", "secret"); code != http.StatusOK || text != "2 jobs are tried again" {
			t.Errorf("got %d, %s", code, text)
		}
		end()
		s.wantStored(0, 1, 0)
		if code, text := s.call("GET /jobs?format=json", "secret"); code != http.StatusOK || !strings.Contains(text, "invalid character") {
			t.Errorf("got %d, %s", code, text)
		}
	})
}

// A job that is posted again while its last try is at work has a 202. It went to the failed jobs with that try, its
// next hand-out found nothing, and nobody tried it again.
func TestNo202IsLostToAGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		var s tested
		s = start(t, testDB(t), receiver(func(*http.Request) (int, string) {
			if tries++; tries > 1 {
				return http.StatusOK, ""
			}
			s.post(order)
			s.pace.SetBurst(0)
			s.pace.SetLimit(0) // For a look before the next try.
			return http.StatusGone, ""
		}))
		s.post(order)
		end := s.begin()
		synctest.Wait()
		if r := s.record(order); r.State != open || r.Tries != 0 {
			t.Errorf("the next start would find %+v", r)
		}
		s.pace.SetLimit(rate.Inf)
		time.Sleep(time.Second)
		synctest.Wait()
		end()
		if tries != 2 {
			t.Errorf("%d tries", tries)
		}
		s.wantStored(0, 0, 0)
	})
}

// The operator pauses the queues, and ends the waits.
func TestWakeAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := http.StatusBadGateway
		var tries atomic.Int32
		s := start(t, testDB(t), receiver(func(*http.Request) (int, string) { tries.Add(1); return code, "" }))
		end := s.begin()
		call := func(path, want string, wantTries int32) {
			t.Helper()
			code, text := s.call("POST "+path, "secret")
			if synctest.Wait(); code != 200 || text != want || tries.Load() != wantTries {
				t.Errorf("%s: got %d, %q and %d tries, want %q and %d", path, code, text, tries.Load(), want, wantTries)
			}
		}
		s.post(order)
		s.post(job{"gold", "order-8"})
		synctest.Wait()
		call("/wake?job=acme.order-7", "1 woken", 3)
		call("/pause?on=true", "All jobs are paused since 1 Jan 00:00:00 UTC.", 3)
		if _, text := s.call("GET /jobs", "secret"); !strings.Contains(text, "All jobs are paused since 1 Jan 00:00:00 UTC.") {
			t.Errorf("the page of a pause is %q", text)
		}
		if _, text := s.call("GET /jobs/acme.order-7", "secret"); !strings.Contains(text, `"state":"waiting"`) || !strings.Contains(text, `"why":"retry"`) {
			t.Errorf("a job that waits is shown by %s", text)
		}
		code = http.StatusOK
		call("/wake", "2 woken", 3)
		if code, text := s.call("POST /pause", "secret"); code != http.StatusBadRequest || s.pace.Limit() != 0 {
			t.Errorf("without a wish: %d, %s, and the limit is %v", code, text, s.pace.Limit())
		}
		call("/pause?on=false", "No job is held back.", 3)
		time.Sleep(time.Second)
		synctest.Wait()
		if tries.Load() != 5 {
			t.Errorf("after the pause: %d tries", tries.Load())
		}
		end()
		s.wantStored(0, 0, 0)
	})
}

// A redirect became a GET without the payload, and its 200 ended the job.
func TestNo202IsLostToARedirect(t *testing.T) {
	var bodies []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bodies = append(bodies, r.Method+" "+string(body)); r.URL.Path != "/login" {
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	}))
	defer target.Close()
	s := newService(testDB(t), target.URL, nil, prometheus.NewRegistry(), testPolicy)
	if err := s.deliver(t.Context(), order, "", []byte(payload)); err == nil || fmt.Sprint(bodies) != "[POST "+payload+"]" {
		t.Errorf("the receiver got %q, and the try ends with %v", bodies, err)
	}
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

// The receiver limits each tenant, and one tenant floods it. A 429 with the limit of that tenant stopped the jobs of all.
func TestRetryAfterOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.holdTenant = true
		var mu sync.Mutex
		answers := map[string][]string{}
		begun, code := time.Now(), http.StatusTooManyRequests
		s := startWith(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			mu.Lock()
			defer mu.Unlock()
			tenant, _, _ := strings.Cut(r.Header.Get("Idempotency-Key"), ".")
			answers[tenant] = append(answers[tenant], time.Since(begun).String())
			if tenant == "flood" && time.Since(begun) < 30*time.Second {
				return code, "30"
			}
			return http.StatusOK, ""
		}), p)
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
		mu.Lock()
		begun, code = time.Now(), http.StatusServiceUnavailable
		mu.Unlock()
		s.post(job{"flood", "more"})
		synctest.Wait()
		s.post(job{"acme", "later"})
		synctest.Wait()
		mu.Lock()
		if rest := s.held().rest(); rest != 30*time.Second || len(answers["acme"]) != 1 {
			t.Errorf("after a 503 all jobs wait for %v, and %d were tried", rest, len(answers["acme"])-1)
		}
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		s.wantStored(0, 0, 0)
		end()
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
func (b endless) Close() error             { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
		s.notBefore("acme", http.StatusServiceUnavailable, time.Now().Add(time.Minute))
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

// The end of the grace cut the last try of 8 jobs short, whose receiver was well. The next start gave them up.
func TestADeployUsesUpNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			select {
			case <-time.After(3 * time.Second):
			case <-r.Context().Done():
			}
			return http.StatusOK, ""
		}))
		var jobs []job
		for n := range 40 {
			jobs = append(jobs, job{fmt.Sprint("tenant", n), "order"})
			s.store(jobs[n], record{Tries: testPolicy.maxAttempts - 1})
			s.others.Add(jobs[n])
		}
		end := s.begin()
		time.Sleep(time.Second)
		end()
		left := 0
		for _, j := range jobs {
			if r := s.record(j); r.State == open && r.Tries == testPolicy.maxAttempts-1 {
				left++
			} else if r.State != done {
				t.Errorf("%v is left as %+v", j, r)
			}
		}
		if done := len(jobs) - left; done != 3*testPolicy.otherWorkers { // In 11 seconds.
			t.Errorf("%d jobs are done, and %d are left", done, left)
		}
	})
}

// With countEach the receiver sees a job at most maxAttempts times, whatever it answers, whoever posts the job again, and
// however often the service starts. An operator has the job tried anew, also during its last try.
func TestCountEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.countEach, p.maxAttempts = true, 8
		db, requests, retry := testDB(t), 0, 0
		var s tested
		busyWithPosts := receiver(func(r *http.Request) (int, string) {
			if requests++; requests == retry {
				if code, text := s.call("POST /jobs/acme.order-7/retry", "secret"); code != http.StatusAccepted {
					t.Errorf("a retry in the last try: %d, %s", code, text)
				}
			}
			s.post(order)
			time.Sleep(time.Second)
			return http.StatusTooManyRequests, "1"
		})
		play := func(want int) {
			t.Helper()
			for range 20 { // Starts.
				s = startWith(t, db, busyWithPosts, p)
				end := s.begin()
				time.Sleep(time.Minute)
				s.post(order)
				time.Sleep(time.Minute)
				end()
			}
			if r := s.record(order); requests != want || r.State != failed || r.Tries != p.maxAttempts {
				t.Errorf("%d requests, want %d, and the record is %+v", requests, want, r)
			}
		}
		s = startWith(t, db, nil, p)
		s.post(order)
		play(8)
		retry = 16
		s.call("POST /jobs/acme.order-7/retry", "secret")
		s = startWith(t, db, nil, p)
		if code, text := s.call("POST /retry-failed", "secret"); code != http.StatusOK {
			t.Errorf("retry all: %d, %s", code, text)
		}
		play(24)
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
	if err := s.step(order, s.again(order)); err != nil {
		t.Error(err)
	}
	s.hold.NotBefore = time.Now().Add(time.Minute)
	s.holding.Unlock()
	if v := workqueue.VerdictOf(<-did); v.Outcome != workqueue.OutcomeDeferred || s.record(order).Tries != 0 {
		t.Errorf("got %v with %d tries", v, s.record(order).Tries)
	}
}

// A job that cannot be given up, because the disk is full, is neither lost nor tried once more.
func TestAStepThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, tries := testDB(t), 0
		full := readOnly(t, nil)
		var s tested
		s = start(t, db, receiver(func(*http.Request) (int, string) {
			tries++
			s.db = full
			return http.StatusBadGateway, ""
		}))
		s.store(order, record{Tries: testPolicy.maxAttempts - 1})
		s.others.Add(order)
		end := s.begin()
		time.Sleep(time.Second)
		synctest.Wait()
		if info, _ := s.others.Find(order); info.State != workqueue.ItemWaiting {
			t.Errorf("%v, want an item that waits", info)
		}
		s.db = db
		s.others.Wake(order)
		synctest.Wait()
		if r := s.record(order); r.State != failed || tries != 1 {
			t.Errorf("%d tries, and the record is %+v", tries, r)
		}
		end()
	})
}

// A full disk kept the service from a start, when it had jobs to forget or to give up.
func TestStartOnAFullDisk(t *testing.T) {
	s := start(t, readOnly(t, map[job]record{
		{"acme", "old"}: {State: done, Done: time.Now().Add(-48 * time.Hour)}, {"acme", "tried"}: {Tries: testPolicy.maxAttempts},
		order: {},
	}), nil)
	if j, ok := s.others.TryGet(); !ok || j != order {
		t.Errorf("got %v, %v", j, ok)
	}
}

// readOnly returns a database with some jobs, in which each step fails.
func readOnly(t *testing.T, jobs map[job]record) *bbolt.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := openDB(path)
	if err != nil {
		t.Fatal(err)
	}
	for j, r := range jobs {
		tested{&service{db: db}, t}.store(j, r)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// The client sends a request with an Idempotency-Key again when the connection breaks, and nobody counted these tries.
func TestOneTryIsOneRequest(t *testing.T) {
	for _, payload := range []string{payload, ""} {
		var requests atomic.Int32
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); string(body) != payload || err != nil {
				t.Errorf("got %q, %v", body, err)
			}
			if requests.Add(1) > 1 { // The connection of the first request is used again.
				panic(http.ErrAbortHandler)
			}
		}))
		defer target.Close()
		s := newService(testDB(t), target.URL, nil, prometheus.NewRegistry(), testPolicy)
		for n, wantErr := range []bool{false, true} {
			if err := s.deliver(t.Context(), order, "", []byte(payload)); err != nil != wantErr {
				t.Errorf("request %d ends with %v", n, err)
			}
		}
		if got := requests.Load(); got != 2 {
			t.Errorf("payload %q: two tries were %d requests", payload, got)
		}
	}
}

// A balancer that drops the connection in silence swallowed all tries of HTTP/2, whose requests share one connection: the
// job was given up, and the receiver was well.
func TestADeadConnectionSwallowsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, testDB(t), nil)
		only := new(http.Protocols)
		only.SetUnencryptedHTTP2(true)
		received, dials, dead := 0, 0, make(chan struct{})
		server := &http.Server{Protocols: only, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received++ })}
		pipes := make(piped)
		served := make(chan error)
		go func() { served <- server.Serve(pipes) }()
		transport := newService(testDB(t), "", nil, prometheus.NewRegistry(), testPolicy).client.Transport.(*http.Transport)
		transport.Protocols = only
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			pipes <- theirs
			if dials++; dials == 1 {
				ours = mortal{ours, dead}
			}
			return ours, nil
		}
		s.client.Transport = transport
		end := s.begin()
		s.post(job{"acme", "first"})
		synctest.Wait()
		close(dead)
		s.post(order)
		time.Sleep(time.Minute)
		synctest.Wait()
		if r := s.record(order); received != 2 || dials != 2 || r.State != done || r.Tries != 2 {
			t.Errorf("%d requests over %d connections, and the job is %+v", received, dials, r)
		}
		end()
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// piped are the connections of a listener without a network.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p piped) Addr() net.Addr { return &net.TCPAddr{} }
func (p piped) Close() error   { close(p); return nil }

// A mortal connection takes what is written, and says nothing, once it is dead.
type mortal struct {
	net.Conn
	dead chan struct{}
}

func (m mortal) Write(b []byte) (int, error) {
	select {
	case <-m.dead:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

// The page says why a job waits for a retry, until the job is done.
func TestThePageHasTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var code atomic.Int64
		code.Store(http.StatusInsufficientStorage)
		s := start(t, testDB(t), receiver(func(*http.Request) (int, string) { return int(code.Load()), "" }))
		end := s.begin()
		s.post(order)
		page := func() string {
			synctest.Wait()
			_, page := s.call("GET /debug/workqueue/?queue=others&search=order-7", "secret")
			return page
		}
		if got := page(); !strings.Contains(got, "acme.order-7, try 1: 507") {
			t.Errorf("the page of a failed job lacks its error:\n%s", got)
		}
		if n := s.others.NumRequeues(order); n != 1 { // Else "failed most" of the page and the alerts about retries say nothing.
			t.Errorf("the limiter knows of %d failures, want 1", n)
		}
		code.Store(http.StatusOK)
		time.Sleep(2 * time.Second)
		if got := page(); strings.Contains(got, "507") {
			t.Errorf("the page of a job that is done has its error:\n%s", got)
		}
		end()
	})
}

// Run waits for a handler that ignores its context. The pod would be killed without a word.
func TestEndWithAHandlerThatHangs(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := start(t, testDB(t), receiver(func(*http.Request) (int, string) { close(arrived); <-release; return http.StatusOK, "" }))
	s.drain = 50 * time.Millisecond
	s.post(order)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-arrived; stop() }()
	err := s.serve(ctx, listen(t), listen(t), s.admin(http.NotFoundHandler(), ""), func() {}, func() {})
	if err == nil || !strings.Contains(err.Error(), "the handler of acme.order-7 hangs") {
		t.Errorf("got %v", err)
	}
	s.wantStored(1, 0, 1)
}

// A tenant has three of the workers of its class at most, its urgent jobs come first, and a class that is busy holds
// the other one not up.
func TestTenantsShareTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		count, release := map[string]int{}, make(chan struct{})
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			tenant, id, _ := strings.Cut(r.Header.Get("Idempotency-Key"), ".")
			mu.Lock()
			count[tenant+id[:1]]++
			mu.Unlock()
			<-release
			return http.StatusOK, ""
		}))
		for _, row := range []struct {
			tenant, priority string
			n                int
		}{{"flood", "0", 20}, {"flood", "9", 1}, {"quiet", "0", 1}, {"third", "0", 1}, {"gold", "0", 5}} {
			for n := range row.n {
				s.send("/jobs/"+row.tenant+"?priority="+row.priority, payload, fmt.Sprint(row.priority, "-", n))
			}
		}
		end := s.begin()
		synctest.Wait()
		mu.Lock()
		if fmt.Sprint(count) != "map[flood0:1 flood9:1 gold0:3 quiet0:1 third0:1]" {
			t.Errorf("at work: %v", count)
		}
		mu.Unlock()
		close(release)
		end()
		s.wantStored(0, 0, 0)
	})
}

// Of 200 jobs that fail together, none waits for long: the limiter has no bucket for all of them.
func TestFailingJobsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		attempts := map[string]int{}
		s := start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			mu.Lock()
			defer mu.Unlock()
			name := r.Header.Get("Idempotency-Key")
			if attempts[name]++; attempts[name] == 1 {
				return http.StatusBadGateway, ""
			}
			return http.StatusOK, ""
		}))
		for n := range 200 {
			s.post(job{"acme", strconv.Itoa(n)})
		}
		end := s.begin()
		begun := time.Now()
		if err := s.others.WaitEmpty(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 1500*time.Millisecond {
			t.Errorf("the last of the 200 retries took %v", took)
		}
		end()
	})
}

// The end goes in this order: not ready, then no connections, then the drain. The metrics are there
// until the counts of the drain could be scraped.
func TestEndInOrder(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer target.Close()
	registry := prometheus.NewRegistry()
	s := tested{newService(testDB(t), target.URL, nil, registry, testPolicy), t}
	outside, inside := listen(t), listen(t)
	jobs, admin := "http://"+outside.Addr().String()+"/jobs/acme", "http://"+inside.Addr().String()
	settled := func() {
		if code, _ := get(t, admin+"/readyz"); code != http.StatusServiceUnavailable {
			t.Errorf("readyz says %d after the signal", code)
		}
		if code, err := post(jobs); code != http.StatusAccepted {
			t.Errorf("before the load balancer has noticed: got %d, %v", code, err)
		}
		<-arrived
	}
	scraped := func() {
		if _, text := get(t, admin+"/metrics"); !strings.Contains(text, `workqueue_results_total{name="others",result="succeeded"} 2`) {
			t.Errorf("after the drain: the metrics are %s", text)
		}
	}
	ctx, signal := context.WithCancel(t.Context())
	served := make(chan error)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	go func() { served <- s.serve(ctx, outside, inside, s.admin(handler, ""), settled, scraped) }()
	if code, err := post(jobs); code != http.StatusAccepted {
		t.Fatalf("got %d, %v", code, err)
	}
	<-arrived
	if code, _ := get(t, admin+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz says %d", code)
	}
	signal()
	for !s.others.ShuttingDown() { // The drain has begun.
		time.Sleep(time.Millisecond)
	}
	if code, err := post(jobs); err == nil {
		t.Errorf("during the drain: got %d", code)
	}
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, `workqueue_in_flight{name="others"} 2`) || !strings.Contains(text, "jobs_failed 0") || !strings.Contains(text, `jobs_held{by="operator"} 0`) {
		t.Errorf("during the drain: the metrics are %s", text)
	}
	close(release)
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.wantStored(0, 0, 0)
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

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func post(url string) (code int, err error) {
	response, err := http.Post(url, "", strings.NewReader(payload))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func get(t *testing.T, url string) (code int, text string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestRequestsThatAreRefused(t *testing.T) {
	s := start(t, testDB(t), nil)
	for _, path := range []string{"/jobs/a.b", "/jobs/..%2Fetc", "/jobs/acme?priority=x", "/jobs/acme?priority=10"} {
		if code, text := s.send(path, payload, ""); code != http.StatusBadRequest {
			t.Errorf("%s: got %d, %s", path, code, text)
		}
	}
	if code, text := s.send("/jobs/acme", strings.Repeat("x", 1<<20+1), ""); code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, %s", code, text)
	}
	s.wantStored(0, 0, 0)
	s.db = readOnly(t, nil)
	if code, text := s.send("/jobs/acme", payload, ""); code != http.StatusInternalServerError {
		t.Errorf("without a disk: got %d, %s", code, text)
	}
}

// A start adds what the last run has left, by priority and then the oldest first. It gives up what a kill in the last try
// has left, and a record that it cannot read is among the failed ones.
func TestStartAddsWhatIsThere(t *testing.T) {
	s := start(t, testDB(t), nil)
	now := time.Now()
	for id, r := range map[string]record{
		"b": {Accepted: now}, "z": {Accepted: now.Add(-time.Hour)}, "a": {Priority: 3, Accepted: now},
		"tried": {Tries: testPolicy.maxAttempts, Error: "410"}, "failed": {State: failed, Error: "404"},
	} {
		s.store(job{"acme", id}, r)
	}
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return cmp.Or(tx.Bucket([]byte(open)).Put([]byte("acme.garbage"), []byte("garbage")), tx.Bucket(settings).Put([]byte("hold"), []byte("garbage")))
	})
	if err != nil {
		t.Fatal(err)
	}
	s = start(t, s.db, nil)
	for _, want := range []string{"acme.a", "acme.z", "acme.b"} {
		if j, ok := s.others.TryGet(); !ok || j.String() != want {
			t.Errorf("got %v %v, want %s", j, ok, want)
		}
	}
	if r := s.record(job{"acme", "tried"}); s.others.Len() > 0 || r.State != failed || r.Error != "410" {
		t.Errorf("%d jobs more, and %+v", s.others.Len(), r)
	}
	s.wantStored(3, 3, 0)
	if code, text := s.call("POST /jobs/acme.garbage/discard", "secret"); code != http.StatusAccepted {
		t.Errorf("a job that cannot be read is not discarded: %d, %s", code, text)
	}
	s.wantStored(3, 2, 0)
}

// A number that makes no sense was a panic of the queue, or a job that was never tried.
func TestPolicy(t *testing.T) {
	for _, p := range []policy{defaults, testPolicy} {
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
	for name, spoil := range map[string]func(p *policy){
		"attempts": func(p *policy) { p.maxAttempts = 0 }, "workers": func(p *policy) { p.payingWorkers = -1 },
		"timeout": func(p *policy) { p.timeout = 0 }, "drain": func(p *policy) { p.drain = 0 },
		"cap": func(p *policy) { p.backoff.Cap = time.Millisecond }, "end": func(p *policy) { p.countEach, p.timeout = true, p.drain },
	} {
		p := testPolicy
		if spoil(&p); p.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for target, want := range map[string]bool{"http://127.0.0.1:9090/": true, "https://a/b": true, "127.0.0.1:9090/hook": false, "bank.example/hook": false, "": false} {
		if err := checkTarget(target); (err == nil) != want {
			t.Errorf("the target %q: got %v", target, err)
		}
	}
}

// A second process does not start beside the first one.
func TestOneProcessUsesTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // bbolt waits a second for the file.
		db := testDB(t)
		if second, err := openDB(db.Path()); err == nil {
			t.Errorf("%v has two processes", second)
		}
	})
}

func TestAdminAsksForAPassword(t *testing.T) {
	s := start(t, testDB(t), nil)
	for _, call := range []string{
		"GET /debug/workqueue/", "GET /debug/pprof/goroutine?debug=2", "GET /debug/pprof/profile?seconds=1", "GET /jobs",
		"POST /wake", "POST /pause", "POST /call-now", "POST /retry-failed", "POST /jobs/acme.order-7/retry", "POST /jobs/acme.order-7/discard", "GET /jobs/acme.order-7",
	} {
		for given, refused := range map[string]bool{"": true, "wrong": true, "secret": false} {
			if code, _ := s.call(call, given); (code == http.StatusUnauthorized) != refused {
				t.Errorf("%s with the password %q: got %d", call, given, code)
			}
		}
	}
	w := httptest.NewRecorder()
	s.admin(http.NotFoundHandler(), "").ServeHTTP(w, httptest.NewRequest("GET", "/jobs", bytes.NewReader(nil)))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("without a password in the environment: got %d", w.Code)
	}
}
