package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seed16c08ea7/workqueue/wait"
)

// A retry of one job is now, and not behind the backlog of its tenant.
func TestRetryGoesBeforeTheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.tenantWorkers = 1
		var delivered []string
		s := startWith(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			delivered = append(delivered, r.Header.Get("Idempotency-Key"))
			return http.StatusOK, ""
		}), p)
		for n := range 20 {
			if code, text := s.send("/jobs/acme?priority=9", payload, fmt.Sprint(n)); code != http.StatusAccepted {
				t.Errorf("got %d, %s", code, text)
			}
		}
		if code, text := s.call("POST /jobs/acme.15/retry", "secret"); code != http.StatusAccepted {
			t.Errorf("got %d, %s", code, text)
		}
		end := s.begin()
		synctest.Wait()
		end()
		if len(delivered) != 20 || delivered[0] != "acme.15" {
			t.Errorf("delivered %v", delivered)
		}
	})
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

// A backup is a database that a service can use.
func TestBackup(t *testing.T) {
	s := start(t, testDB(t), nil)
	s.post(order)
	_, text := s.call("GET /backup", "secret")
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if s := start(t, db, nil); s.record(order).State != open || s.others.Len() != 1 {
		t.Errorf("the copy has %+v, and %d jobs are queued", s.record(order), s.others.Len())
	}
}

// A discard that could not be stored took the job out of the queue, and nothing tried it before the next start.
func TestDiscardOnAFullDisk(t *testing.T) {
	s := start(t, readOnly(t, map[job]record{order: {}}), nil)
	if code, text := s.call("POST /jobs/acme.order-7/discard", "secret"); code != http.StatusInternalServerError {
		t.Errorf("got %d, %s", code, text)
	}
	if j, ok := s.others.TryGet(); !ok || j != order {
		t.Errorf("got %v, %v from the queue", j, ok)
	}
}

// A job was discarded during a try, and posted again with another payload. The success of the old try was that of the new
// job, whose payload was never sent.
func TestDiscardAndAnotherPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s tested
		var sent []string
		s = start(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			if sent = append(sent, string(body)); len(sent) == 1 {
				s.call("POST /jobs/acme.order-7/discard", "secret")
				time.Sleep(time.Second) // Another time of the acceptance.
				if code, text := s.send("/jobs/acme", otherPayload, "order-7"); code != http.StatusAccepted {
					t.Errorf("got %d, %s", code, text)
				}
			}
			return http.StatusOK, ""
		}))
		end := s.begin()
		s.post(order)
		time.Sleep(time.Hour)
		end()
		if got := fmt.Sprint(sent); got != fmt.Sprint([]string{payload, otherPayload}) {
			t.Errorf("the receiver got %s", got)
		}
		s.wantStored(0, 0, 0)
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
	s.store(job{"acme", "c"}, record{State: failed, Error: "422: no IBAN"})
	if _, text := s.call("POST /discard-failed?error=422", "secret"); text != "1 jobs are discarded" {
		t.Errorf("of one job with the error: %s", text)
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
		synctest.Wait()
		end()
		s.wantStored(0, 1, 0)
		if code, text := s.call("GET /jobs?format=json", "secret"); code != http.StatusOK || !strings.Contains(text, "invalid character") {
			t.Errorf("got %d, %s", code, text)
		}
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
