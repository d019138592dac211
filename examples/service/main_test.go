package main

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/bbolt"

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
	closing: 5 * time.Second, grace: 10 * time.Second,
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

// begin starts the workers. end is a SIGTERM, and waits for the jobs at work.
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

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Run waits for a handler that ignores its context. The pod would be killed without a word.
func TestEndWithAHandlerThatHangs(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := start(t, testDB(t), receiver(func(*http.Request) (int, string) { close(arrived); <-release; return http.StatusOK, "" }))
	s.grace = 50 * time.Millisecond
	s.post(order)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-arrived; stop() }()
	err := s.serve(ctx, listen(t), listen(t), s.admin(http.NotFoundHandler(), ""), func() {}, func() {})
	if err == nil || !strings.Contains(err.Error(), "the handler of acme.order-7 hangs") {
		t.Errorf("got %v", err)
	}
	s.wantStored(1, 0, 1)
}

// The end goes in this order: not ready, then no connections, then the jobs at work. The metrics are there
// until the counts of the end could be scraped.
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
			t.Errorf("after the end: the metrics are %s", text)
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
	for !s.others.ShuttingDown() { // The end has begun.
		time.Sleep(time.Millisecond)
	}
	if code, err := post(jobs); err == nil {
		t.Errorf("during the end: got %d", code)
	}
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, `workqueue_in_flight{name="others"} 2`) || !strings.Contains(text, "jobs_failed 0") || !strings.Contains(text, `jobs_held{by="operator"} 0`) {
		t.Errorf("during the end: the metrics are %s", text)
	}
	close(release)
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.wantStored(0, 0, 0)
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

// A number that makes no sense was a panic of the queue, or a job that was never tried.
func TestPolicy(t *testing.T) {
	for _, p := range []policy{defaults, testPolicy} {
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
	for name, spoil := range map[string]func(p *policy){
		"attempts": func(p *policy) { p.maxAttempts = 0 }, "workers": func(p *policy) { p.payingWorkers = -1 },
		"rate": func(p *policy) { p.otherRate = -1 }, "timeout": func(p *policy) { p.timeout = 0 }, "grace": func(p *policy) { p.grace = 0 },
		"cap": func(p *policy) { p.backoff.Cap = time.Millisecond }, "end": func(p *policy) { p.countEach, p.timeout = true, p.grace },
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
