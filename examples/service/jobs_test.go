package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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
	"go.etcd.io/bbolt"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A request that is still at work when the end begins gets no 202, and the job at work is done.
func TestNo202WhenTheEndRefusesTheJob(t *testing.T) {
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
				t.Errorf("during the end: got %d, %s", code, text)
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
		for range 5 { // Each start ends in its second try.
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
		run(600) // A minute: waits of 1, 2, 4, 8, 16 and 32 s, with their jitter.
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

// The end of the grace cut the last try of 8 jobs short, whose receiver was well. The next start gave them up.
func TestADeployUsesUpNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPolicy
		p.grace = time.Second
		s := startWith(t, testDB(t), receiver(func(r *http.Request) (int, string) {
			select {
			case <-time.After(3 * time.Second):
			case <-r.Context().Done():
			}
			return http.StatusOK, ""
		}), p)
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
		if left != len(jobs) {
			t.Errorf("%d of %d jobs are left with the tries that they had", left, len(jobs))
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

// readOnly returns a database with some jobs, in which each step fails at its end, as on a full disk.
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
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, OpenFile: func(name string, _ int, _ os.FileMode) (*os.File, error) {
		return os.Open(name)
	}})
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

func (p piped) Close() error { close(p); return nil }

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
		synctest.Wait()
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
