// Command service takes jobs over HTTP and does them in the background. The job here is a webhook: the payload
// is posted to the URL of -target. Put your own work into the method deliver.
//
//	go run ./service -target https://example.com/hook -paying acme
//	curl -d '{"paid": true}' 'http://127.0.0.1:8080/jobs/acme?priority=5'
//
// The queues have the names of the jobs, in memory. The payloads are in a database, the file of -db: a job that was
// accepted is done, or it is there for the next start. Each step of a job is a transaction, so that a kill or a full
// disk leaves no half of a step. A job can be done twice if the process is killed between the work and the transaction
// after it, so the receiver gets the name of the job as Idempotency-Key. The tries are counted over all starts.
//
// The second address, -admin, is for the inside: /readyz and /metrics. For the user admin and the password in
// ADMIN_PASSWORD it also has the page of the queues, /debug/workqueue/, and the page /jobs. There an operator sees the
// failed jobs and who holds all jobs back, tries jobs again, and pauses the service. Each button is a call too:
//
//	curl -u admin:PASSWORD -X POST 'http://127.0.0.1:8081/wake'  # with ?job=acme.order-7: this job
//	curl -u admin:PASSWORD -X POST 'http://127.0.0.1:8081/pause?on=true'
//	curl -u admin:PASSWORD 'http://127.0.0.1:8081/jobs/acme.order-7'
//	curl -u admin:PASSWORD 'http://127.0.0.1:8081/debug/pprof/goroutine?debug=2'
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/bbolt"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	"github.com/seed16c08ea7/workqueue/wait"
)

// A job is an item of a queue. Two jobs are the same if all fields are equal, so the priority and the payload are in
// the database.
type job struct{ Tenant, ID string }

func (j job) String() string { return j.Tenant + "." + j.ID }

func (j job) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

var name = regexp.MustCompile(`^[\w-]{1,64}\.[\w-]{1,64}$`)

// parse reads what String returns. ok is false for any other text.
func parse(text string) (j job, ok bool) {
	tenant, id, _ := strings.Cut(text, ".")
	return job{tenant, id}, name.MatchString(text)
}

type queue = workqueue.TypedRateLimiting[job]

type service struct {
	policy
	db             *bbolt.DB
	target         string
	client         http.Client
	payers         []string // tenants who pay
	paying, others *queue
	ready          atomic.Bool

	payingPace, pace *rate.Limiter // of the two queues

	holding sync.Mutex
	hold    hold // guarded by holding

	// resting has the times at which the receiver wants the tenants again, with holdTenant. A restart asks once for each.
	// An add asks for the time within a transaction, so holding would be the wrong lock.
	resting sync.Map
}

// A policy has the numbers that you will change. The tests have numbers of their own.
type policy struct {
	// Tenants who pay have a queue and workers of their own, so neither class holds the other up, also after an outage.
	// If all tenants are alike, one queue will do.
	payingWorkers, otherWorkers int // how many jobs are at work at a time
	tenantWorkers               int // of one tenant, so that a flood of jobs does not hold up the others of its class

	// maxAttempts, of all starts together, and backoff say which outage of the receiver a job survives.
	maxAttempts int
	backoff     wait.Backoff

	// countEach is for a receiver that must see at most maxAttempts requests of a job: each counts, and only an operator
	// has the job tried anew. Without countEach an answer with a Retry-After is no try, nor is a request that the end
	// of the process cuts short, and a client who posts a failed job again has it tried anew.
	countEach bool

	// holdTenant is for a receiver that counts the requests of each tenant: a 429 is about its tenant then, and only a 503
	// about all jobs.
	holdTenant bool

	timeout     time.Duration // of a request to the receiver
	longestHold time.Duration // of a Retry-After: a great number would be a job without an end, or a negative time
	keepDone    time.Duration // how long a key is one job after it is done; at least as long as the receiver knows keys
	maxPayload  int64         // bytes

	// The times of the end are 27 seconds together, of the 30 that a pod has between SIGTERM and SIGKILL. A longer scrape
	// interval needs a longer terminationGracePeriodSeconds.
	settle  time.Duration // readiness has ended, and load balancers notice
	closing time.Duration // for the last requests
	drain   time.Duration // for the queued jobs; a handler that ignores its context has a fifth more
	scrape  time.Duration // the metrics show the drain
}

// defaults survive an outage of 2.4 to 3.5 hours, see docs/choosing.md. The Cap is for a wait with its jitter.
var defaults = policy{
	payingWorkers: 8, otherWorkers: 4, tenantWorkers: 3,
	maxAttempts: 30, backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Cap: 10 * time.Minute},
	timeout: 5 * time.Second, longestHold: time.Hour, keepDone: 24 * time.Hour, maxPayload: 1 << 20,
	settle: 5 * time.Second, closing: 5 * time.Second, drain: 10 * time.Second, scrape: 5 * time.Second,
}

// check says which numbers make no sense.
func (p policy) check() error {
	switch {
	case min(p.payingWorkers, p.otherWorkers, p.tenantWorkers, p.maxAttempts) < 1:
		return errors.New("want at least one worker of each kind, and one attempt")
	case min(p.timeout, p.drain) <= 0:
		return errors.New("want a timeout and a drain above 0")
	case p.backoff.Duration < 0 || p.backoff.Factor < 0 || p.backoff.Cap < p.backoff.Duration:
		return errors.New("want a backoff and a factor of 0 or more, and a cap that is not shorter")
	case p.countEach && p.timeout >= p.drain:
		return fmt.Errorf("the timeout of %v has to be shorter than the drain of %v, or the end cuts requests short that count", p.timeout, p.drain)
	}
	return nil
}

// checkTarget finds an address that would have all jobs fail.
func checkTarget(target string) error {
	if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("want the URL of the receiver, such as https://example.com/hook, got %q", target)
	}
	return nil
}

// isFinal reports whether an answer is about the job, so that no other try will help. A 401 or a 404 is about the
// receiver, and would give up the whole backlog. A 409 can mean that the receiver is still at the last try.
func isFinal(code int) bool {
	return slices.Contains([]int{400, 410, 413, 415, 422}, code)
}

// A hold keeps all jobs back, which stay queued. It is in the database, and holds through a restart.
type hold struct {
	PausedAt  time.Time `json:",omitzero"` // by an operator
	NotBefore time.Time `json:",omitzero"` // that the receiver has named by a Retry-After
	Probing   int       // how many jobs a second are handed out after that time; 0 is no limit, see heard
}

// rest returns for how long a job is kept back at least. A pause has no end: the queues keep the job afterwards.
func (h hold) rest() time.Duration {
	if h.paused() {
		return max(time.Second, time.Until(h.NotBefore))
	}
	return time.Until(h.NotBefore)
}

func (h hold) paused() bool { return !h.PausedAt.IsZero() }

func (h hold) String() string {
	var why []string
	if h.paused() {
		why = append(why, fmt.Sprintf("All jobs are paused since %s.", h.PausedAt.Format("2 Jan 15:04:05 MST")))
	}
	if rest := time.Until(h.NotBefore); rest > 0 {
		why = append(why, fmt.Sprintf("The receiver wants no job before %s, for %v.", h.NotBefore.Format("2 Jan 15:04:05 MST"), rest.Round(time.Second)))
	} else if h.Probing > 0 {
		why = append(why, fmt.Sprintf("After a rest or a kill: %d a second, until the receiver takes or refuses one.", h.Probing))
	}
	return cmp.Or(strings.Join(why, " "), "No job is held back.")
}

const (
	requestTime = 10 * time.Second // for a client to send a job
	listed      = 1000             // failed jobs on a page
)

func newService(db *bbolt.DB, target string, payers []string, registry prometheus.Registerer, p policy) *service {
	connections := http.DefaultTransport.(*http.Transport).Clone()
	connections.MaxIdleConnsPerHost = p.payingWorkers + p.otherWorkers // With the default of 2, most requests would dial.
	// HTTP/2 has one connection for all requests, and a timeout ends a request and not the connection. If a balancer drops
	// the connection in silence, all tries would fail for minutes without pings.
	connections.HTTP2 = &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second}
	// A redirect would turn the POST into a GET without the payload, and its 200 would end the job.
	direct := http.Client{Transport: connections, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	// The waits of retries are in the records, see end. The limiter counts too, for the page and the alerts, and has the wait
	// for a record that cannot be read or written.
	limiter := workqueue.NewTypedItemBackoffRateLimiter[job](p.backoff)
	provider := workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{KeepCounts: true})
	s := &service{
		policy: p, db: db, target: target, client: direct, payers: payers,
		payingPace: rate.NewLimiter(rate.Inf, 1), pace: rate.NewLimiter(rate.Inf, 1), // No limit, see paceLocked.
	}
	newQueue := func(name string, pace *rate.Limiter) *queue {
		return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[job]{
			Name:            name,
			OneEntry:        true,
			StrictBackoff:   true, // A job that is posted again keeps its wait.
			MetricsProvider: provider,
			Pace:            pace,
			Order: workqueue.Order[job]{
				Group:       func(j job) string { return j.Tenant },
				MaxInFlight: s.limitOf,
				GroupsFirst: true, // A client chooses the priority: it counts among the jobs of its tenant.
				OldestEvery: 10,   // So that jobs of a low priority do not wait for ever behind others of their tenant.
			},
		})
	}
	s.paying, s.others = newQueue("paying", s.payingPace), newQueue("others", s.pace)
	gauge := func(name, by, help string, value func() int) {
		var labels prometheus.Labels
		if by != "" {
			labels = prometheus.Labels{"by": by}
		}
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value()) }))
	}
	is := func(held bool) int {
		if held {
			return 1
		}
		return 0
	}
	const help = "1 while an operator or the receiver holds all jobs back."
	gauge("jobs_held", "operator", help, func() int { return is(s.held().paused()) })
	gauge("jobs_held", "receiver", help, func() int { return is(time.Until(s.held().NotBefore) > 0) })
	gauge("jobs_failed", "", "Jobs that were given up, and wait for an operator.", func() int { return s.count(failed) })
	gauge("jobs_probing", "", "How many jobs a second are tried after a rest or a kill; 0 is no limit.", func() int { return s.held().Probing })
	return s
}

// queueOf returns the queue of a job. If your own data says who pays, ask once in a process: a job that changes its queue
// is given to two workers.
func (s *service) queueOf(j job) *queue {
	if slices.Contains(s.payers, j.Tenant) {
		return s.paying
	}
	return s.others
}

// A state of a job is the bucket of the database that has its record.
type state string

const (
	unknown state = ""       // never accepted, or done long ago
	open    state = "open"   // in a queue, or for the next start
	failed  state = "failed" // given up, until it is posted again or retried
	done    state = "done"   // remembered for clients who repeat a request
)

var states = []state{open, failed, done}

// The other buckets. Payloads are apart from the records, which each try writes.
var payloads, settings = []byte("payloads"), []byte("settings")

// A record is what the service knows of a job.
type record struct {
	State       state  `json:"-"` // the bucket
	Sum         []byte // of the payload
	ContentType string
	Priority    int
	Accepted    time.Time
	Tries       int       // that have begun, of all starts together
	Failures    int       // in a row, with those that are no tries: the backoff grows with each
	NextTry     time.Time `json:",omitzero"` // of an open job: the end of its wait, which only an operator ends before
	Error       string    // of the last try
	Done        time.Time `json:",omitzero"` // by the receiver
}

// openDB opens the database. A second process would do each job a second time, and does not get the file. An existing
// file is only read here, so that the service starts on a full disk.
//
// The list of free pages is made at the start and not written with each step: after a backlog of large payloads it is
// long, and each step would take twice as long for ever.
func openDB(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open %s, which one process may use: %w", path, err)
	}
	db.MaxBatchDelay = time.Millisecond // Steps that come together are written together: a write waits for the disk.
	there := false
	err = db.View(func(tx *bbolt.Tx) error {
		there = tx.Bucket(settings) != nil
		return nil
	})
	if err == nil && !there {
		err = db.Update(func(tx *bbolt.Tx) (err error) {
			for _, bucket := range [][]byte{[]byte(open), []byte(failed), []byte(done), payloads, settings} {
				_, failure := tx.CreateBucketIfNotExists(bucket)
				err = errors.Join(err, failure)
			}
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// load returns the record of a job.
func load(tx *bbolt.Tx, j job) (r record, err error) {
	for _, r.State = range states {
		if text := tx.Bucket([]byte(r.State)).Get([]byte(j.String())); text != nil {
			return r, json.Unmarshal(text, &r)
		}
	}
	return record{}, nil
}

// A change is what a step does with the record of a job, and with its state. All writers take turns: what a change asks
// or tells a queue belongs to the step too. An error undoes the step. If another step fails that was to be written with
// this one, the change is called again, with the record as it was.
type change func(tx *bbolt.Tx, r *record) error

// step changes a job in a transaction.
func (s *service) step(j job, c change) error {
	return s.db.Batch(func(tx *bbolt.Tx) error { return stepIn(tx, j, c) })
}

// steps changes many jobs, a thousand in a transaction.
func (s *service) steps(jobs []job, c func(j job) change) error {
	for some := range slices.Chunk(jobs, 1000) {
		err := s.db.Update(func(tx *bbolt.Tx) error {
			for _, j := range some {
				if err := stepIn(tx, j, c(j)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func stepIn(tx *bbolt.Tx, j job, c change) error {
	r, err := load(tx, j)
	if err != nil {
		return err
	}
	before := r.State
	if err := c(tx, &r); err != nil {
		return err
	}
	key := []byte(j.String())
	if before != unknown && before != r.State {
		err = tx.Bucket([]byte(before)).Delete(key)
	}
	if r.State == unknown || r.State == done {
		err = errors.Join(err, tx.Bucket(payloads).Delete(key))
	}
	if r.State == unknown {
		return err
	}
	text, unfit := json.Marshal(r)
	return errors.Join(err, unfit, tx.Bucket([]byte(r.State)).Put(key, text))
}

var (
	errOtherPayload = errors.New("the key has another payload")
	errShuttingDown = errors.New("shutting down")
	errUnknown      = errors.New("no such job")
)

// accept stores a job before the answer: 202 means that the job is on the disk and in the queue. The
// tenant is in the path, and the client chooses the priority. If tenants are strangers, take the tenant
// from the credentials, and what its plan allows from your own data.
func (s *service) accept(w http.ResponseWriter, r *http.Request) {
	// A client without an answer sends the job again under the same key: both requests are one job, also after the job is
	// done. Another payload under the key is refused: a receiver that knows the key would drop the payload.
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	j, ok := parse(r.PathValue("tenant") + "." + cmp.Or(key, rand.Text()))
	priority, notNumber := strconv.Atoi(cmp.Or(r.URL.Query().Get("priority"), "0"))
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxPayload))
	if errors.As(err, new(*http.MaxBytesError)) {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	} else if !ok || notNumber != nil || priority < 0 || priority > 9 || err != nil || len(payload) == 0 {
		http.Error(w, "want a payload, a priority from 0 to 9, and a tenant and an Idempotency-Key of at most 64 letters, digits, - or _", http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(payload)
	answer(w, j, s.step(j, func(tx *bbolt.Tx, stored *record) error {
		switch {
		case stored.State == unknown:
			*stored = record{Sum: sum[:], ContentType: r.Header.Get("Content-Type"), Priority: priority, Accepted: time.Now()}
			if err := tx.Bucket(payloads).Put([]byte(j.String()), payload); err != nil {
				return err
			}
		case !bytes.Equal(stored.Sum, sum[:]):
			return errOtherPayload
		case stored.State == done, stored.State == failed && s.countEach:
			return nil
		}
		return s.enter(j, stored, priority)
	}))
}

// enter opens a job, in its step, and queues it: a job that was given up too, whose tries begin anew. A worker that gets
// the job at once waits for the end of the step. Do not ask ShuttingDown before the add: the drain may begin in between.
// If the queue has the job already, it keeps the higher priority.
func (s *service) enter(j job, r *record, priority int) error {
	if s.queueOf(j).AddWith(workqueue.AddOptions{Priority: &priority}, j) == 0 {
		return errShuttingDown
	}
	if r.State != open {
		r.State = open
		r.beginAnew()
	}
	r.Priority = max(r.Priority, priority)
	return nil
}

// beginAnew has the tries and the backoff begin anew.
func (r *record) beginAnew() { r.Tries, r.Failures, r.NextTry = 0, 0, time.Time{} }

// answer tells a client what became of a job. After 503 it has to try again, as after a timeout.
func answer(w http.ResponseWriter, j job, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, j)
	case errors.Is(err, errOtherPayload):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errShuttingDown):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		slog.Error("job not stored", "job", j, "err", err)
		http.Error(w, "cannot store the job", http.StatusInternalServerError)
	}
}

// resume adds the jobs of the last run, the oldest first, and goes on with its hold.
func (s *service) resume() error {
	type left struct {
		job
		record
	}
	var jobs []left
	var over []job
	killed := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		s.resumeHold(tx.Bucket(settings).Get([]byte("hold")))
		return tx.Bucket([]byte(open)).ForEach(func(key, _ []byte) error {
			j, _ := parse(string(key))
			r, err := load(tx, j)
			killed = killed || strings.HasPrefix(r.Error, notEnded)
			switch {
			case err != nil: // Of another version of this program. The other jobs go on.
				slog.Error("a job has no record that can be read", "job", j, "err", err)
				over = append(over, j)
			case r.Tries >= s.maxAttempts: // A kill came during the last try, or before the job was given up.
				slog.Error("job given up", "job", j, "err", r.Error)
				over = append(over, j)
			default:
				jobs = append(jobs, left{j, r})
			}
			return nil
		})
	})
	if killed { // Maybe before a Retry-After was stored.
		s.probe()
	}
	if err := s.setAside(over); err != nil {
		slog.Error("the failed jobs are not among the failed ones before the next start", "err", err)
	}
	slices.SortStableFunc(jobs, func(a, b left) int { return a.Accepted.Compare(b.Accepted) })
	for _, l := range jobs {
		// Many starts would use up the tries without the wait, and with a whole wait at each start the job of a process
		// that starts often would never be tried. A clock that was set back makes no wait longer than it can be.
		rest := min(time.Until(l.NextTry), s.backoffAfter(l.Failures)+s.longestHold)
		s.queueOf(l.job).AddWith(workqueue.AddOptions{Priority: &l.Priority, After: rest, Firm: true}, l.job)
	}
	return err
}

// setAside moves open jobs to the failed ones, where an operator sees them. Their records may be unreadable.
func (s *service) setAside(jobs []job) error {
	if len(jobs) == 0 {
		return nil // A start on a full disk writes nothing.
	}
	return s.db.Update(func(tx *bbolt.Tx) (err error) {
		for _, j := range jobs {
			key := []byte(j.String())
			text := bytes.Clone(tx.Bucket([]byte(open)).Get(key))
			err = errors.Join(err, tx.Bucket([]byte(failed)).Put(key, text), tx.Bucket([]byte(open)).Delete(key))
		}
		return err
	})
}

// forgetDone forgets the jobs that were done long ago, each hour until ctx ends. The workers go on meanwhile: 500,000 jobs
// take some ten seconds.
func (s *service) forgetDone(ctx context.Context) {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for ctx.Err() == nil {
		var old []job
		err := s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(done)).ForEach(func(key, _ []byte) error {
				j, _ := parse(string(key))
				if r, err := load(tx, j); err == nil && time.Since(r.Done) > s.keepDone {
					old = append(old, j)
				}
				return ctx.Err()
			})
		})
		for some := range slices.Chunk(old, 1000) {
			if err == nil && ctx.Err() == nil {
				err = s.steps(some, func(job) change { return func(_ *bbolt.Tx, r *record) error { *r = record{}; return nil } })
			}
		}
		if err != nil && ctx.Err() == nil {
			slog.Error("old jobs are not forgotten", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-hourly.C:
		}
	}
}

// backoffAfter returns the wait after so many failures in a row. Each job has its own, with jitter: the default of
// controllers lets only ten retries a second through, so the last of 200 jobs that fail together would wait for 10 s.
func (p policy) backoffAfter(failures int) (wait time.Duration) {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[job](p.backoff)
	for range failures {
		wait = limiter.When(job{})
	}
	return wait
}

// notEnded comes before the error of a try while the next try is at work, and for ever if a kill ends it.
const notEnded = "the last try has not ended"

// begin counts a try before its work. A count after the work, or the MaxAttempts of Run, which counts in memory, would
// forget the try that ends the process: such a job would end it after each start, for ever.
func (s *service) begin(j job) (payload []byte, before record, err error) {
	err = s.step(j, func(tx *bbolt.Tx, r *record) error {
		if r.State != open {
			return errUnknown
		} else if r.Tries >= s.maxAttempts {
			return workqueue.Permanent(errors.New(r.Error))
		}
		before = *r
		r.Tries++
		r.Failures++ // A kill ends the try without a word, and the next start goes on with this wait.
		r.NextTry = time.Now().Add(s.backoffAfter(r.Failures))
		if r.Error == "" {
			r.Error = notEnded
		} else if !strings.HasPrefix(r.Error, notEnded) {
			r.Error = notEnded + "; before: " + r.Error
		}
		payload = bytes.Clone(tx.Bucket(payloads).Get([]byte(j.String())))
		return nil
	})
	return payload, before, err
}

// do is the handler of the queues. Its error decides when the job is tried again. The last try is permanent: a try that
// an event or an operator brings counts too, and so does one during which the process is killed.
func (s *service) do(ctx context.Context, j job) error {
	payload, before, err := s.begin(j)
	if errors.Is(err, errUnknown) {
		return nil // It was posted again in its last try, which was a success.
	} else if err != nil {
		return err
	}
	held := s.held()
	if rest := held.rest(); rest > 0 { // A hold has begun since the hand-out: this is no try.
		err := s.step(j, func(_ *bbolt.Tx, r *record) error {
			r.Error = before.Error
			r.takeBack()
			return nil
		})
		return errors.Join(err, workqueue.DeferFor(rest))
	}
	err = s.try(ctx, j, before.ContentType, payload)
	if held.Probing > 0 {
		s.heard(held, err)
	}
	return s.end(ctx, j, before.Tries+1 == s.maxAttempts, err)
}

// takeBack makes a try uncounted. The counts are 0 after a retry by hand.
func (r *record) takeBack() {
	r.Tries, r.Failures, r.NextTry = max(0, r.Tries-1), max(0, r.Failures-1), time.Time{}
}

// end stores what has become of a try, and returns what Run makes of it. The backoff is in the record and not in the
// limiter alone, which counts in memory, and does not count a try that a wake brings early: some wakes in an outage would
// use up the tries without the long waits. Of the two waits the later counts.
func (s *service) end(ctx context.Context, j job, last bool, err error) error {
	verdict := workqueue.VerdictOf(err)
	cut := ctx.Err() == context.Canceled // By the end of the grace, which has as many tries at work as there are workers.
	var wait time.Duration
	notStored := s.step(j, func(_ *bbolt.Tx, r *record) error {
		if r.State == unknown { // It was discarded meanwhile.
			return nil
		}
		if err == nil {
			r.State, r.Error, r.Done, r.Failures, r.NextTry = done, "", time.Now(), 0, time.Time{}
			return nil
		}
		r.Error = err.Error()
		// Both: a job that always hears of a rest would come first after each rest, and begin the next one for all others.
		wait = verdict.After + s.backoffAfter(r.Failures)
		r.NextTry = time.Now().Add(wait)
		switch {
		case s.countEach:
		case cut:
			r.takeBack()
		case verdict.Timed: // An outage of such answers gives no job up.
			r.Tries = max(0, r.Tries-1)
		}
		return nil
	})
	switch {
	case notStored != nil:
		return errors.Join(err, notStored)
	case err == nil || verdict.Outcome == workqueue.OutcomeGivenUp:
		return err
	case last && (s.countEach || !cut && !verdict.Timed):
		return workqueue.Permanent(err)
	default:
		return errors.Join(errors.New(err.Error()), workqueue.DeferFor(wait)) // The text alone: it may name another time.
	}
}

// try makes an error of a panic: the last one is the reason why the job is given up.
func (s *service) try(ctx context.Context, j job, contentType string, payload []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &workqueue.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return s.deliver(ctx, j, contentType, payload)
}

// deliver is the work. Its error says whether the job is tried again.
func (s *service) deliver(ctx context.Context, j job, contentType string, payload []byte) error {
	// A reader that the client knows could be read again: on a broken connection the client would send a request with
	// an Idempotency-Key several times, and each would be one try here.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, io.NopCloser(bytes.NewReader(payload)))
	if err != nil {
		return err // Of the target, and not of the job.
	}
	request.ContentLength = int64(len(payload))
	request.Header.Set("Idempotency-Key", j.String())
	request.Header.Set("Content-Type", contentType)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	code, wait := response.StatusCode, time.Duration(0)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		if wait = min(retryAfter(response.Header), s.longestHold); wait > 0 {
			s.notBefore(j.Tenant, code, time.Now().Add(wait)) // Before the body, which can take long.
		}
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // To its end, so that the connection is used again.
	if code/100 == 2 {
		return nil
	}
	err = errors.New(strings.Join(strings.Fields(response.Status+" "+strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")), " "))
	switch {
	case wait > 0:
		return workqueue.RetryAfter(wait, err)
	case isFinal(code):
		return workqueue.Permanent(err)
	}
	return err
}

// retryAfter returns the seconds or the time of the header, or none above 0.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(max(0, min(seconds, 1e9))) * time.Second
	}
	at, _ := http.ParseTime(value)
	if now, err := http.ParseTime(h.Get("Date")); err == nil { // By the clock of the receiver.
		return at.Sub(now)
	}
	return time.Until(at) // Negative for the zero time.
}

// notBefore holds all jobs back until a time, or those of a tenant. With several receivers, take each for a group in this
// way.
func (s *service) notBefore(tenant string, code int, until time.Time) {
	if s.holdTenant && code == http.StatusTooManyRequests {
		s.restTenant(tenant, until)
		return
	}
	err := s.changeHold(func(h *hold) {
		if until.After(h.NotBefore) { // Of two answers the later time counts.
			h.NotBefore, h.Probing = until, 1
		}
	})
	if err != nil {
		slog.Error("a restart would not know the time of the receiver", "err", err)
	}
}

// restTenant holds the jobs of a tenant back until a time.
func (s *service) restTenant(tenant string, until time.Time) {
	s.resting.Store(tenant, until)
	q := s.queueOf(job{Tenant: tenant})
	q.LimitsChanged()
	time.AfterFunc(time.Until(until), q.LimitsChanged)
}

// limitOf returns how many jobs of a tenant may be at work. The queues ask at each add of a job, and after LimitsChanged.
func (s *service) limitOf(tenant string) int {
	if s.rests(tenant).IsZero() {
		return s.tenantWorkers
	}
	return workqueue.HoldBack
}

// rests returns until when a tenant rests, or the zero time.
func (s *service) rests(tenant string) time.Time {
	if until, ok := s.resting.Load(tenant); ok && time.Now().Before(until.(time.Time)) {
		return until.(time.Time)
	}
	return time.Time{}
}

// probe begins with one job a second, see heard.
func (s *service) probe() {
	err := s.changeHold(func(h *hold) { h.Probing = max(1, h.Probing) })
	if err != nil {
		slog.Error("a restart would not probe the receiver", "err", err)
	}
}

// heard ends the probes after the receiver took or refused a job. Any other answer doubles the probes, up to 64 a second:
// jobs that always get a 500 would keep all others waiting. Without an answer, as after a timeout, nothing changes.
func (s *service) heard(since hold, end error) {
	failed := workqueue.VerdictOf(end).Outcome == workqueue.OutcomeFailed
	err := s.changeHold(func(h *hold) {
		switch {
		case !h.NotBefore.Equal(since.NotBefore): // A try that has begun meanwhile has heard another time.
		case !failed:
			h.Probing = 0
		case h.Probing == since.Probing && !errors.As(end, new(*url.Error)):
			h.Probing = 2 * h.Probing % 128
		}
	})
	if err != nil {
		slog.Error("a restart would probe the receiver once more", "err", err)
	}
}

// changeHold changes who holds the jobs back, in memory and in the database.
func (s *service) changeHold(change func(h *hold)) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	change(&s.hold)
	s.paceLocked()
	return s.db.Update(func(tx *bbolt.Tx) error {
		text, err := json.Marshal(s.hold)
		return errors.Join(err, tx.Bucket(settings).Put([]byte("hold"), text))
	})
}

// resumeHold goes on with the hold of the last run.
func (s *service) resumeHold(text []byte) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if err := json.Unmarshal(text, &s.hold); err != nil && text != nil {
		slog.Error("the hold of the last run is forgotten", "err", err)
	}
	if longest := time.Now().Add(s.longestHold); s.hold.NotBefore.After(longest) { // The clock was set back.
		s.hold.NotBefore = longest
	}
	s.paceLocked()
}

// paceLocked has the queues hand out nothing while there is a hold.
func (s *service) paceLocked() {
	rest := time.Until(s.hold.NotBefore)
	if rest > 0 {
		time.AfterFunc(rest, func() {
			s.holding.Lock()
			defer s.holding.Unlock()
			s.paceLocked()
		})
	}
	paying, others, burst := rate.Inf, rate.Inf, 1
	switch {
	case s.hold.paused() || rest > 0:
		paying, others, burst = 0, 0, 0 // With a burst there would be a token.
	case s.hold.Probing > 0:
		paying, others = rate.Limit(s.hold.Probing), rate.Limit(s.hold.Probing)
		if len(s.payers) > 0 && s.paying.Len() > 0 { // Asked anew at the end of each probe.
			others /= 4
		}
	}
	s.payingPace.SetBurst(burst)
	s.payingPace.SetLimit(paying)
	s.pace.SetBurst(burst)
	s.pace.SetLimit(others)
}

func (s *service) held() hold {
	s.holding.Lock()
	defer s.holding.Unlock()
	return s.hold
}

// giveUp leaves a job to an operator. A job that was retried or posted again during its last try is tried again.
func (s *service) giveUp(_ context.Context, j job, failure error) {
	slog.Error("job given up", "job", j, "err", failure)
	err := s.step(j, func(_ *bbolt.Tx, r *record) error {
		r.Error = failure.Error()
		info, _ := s.queueOf(j).Find(j)
		switch again, retried := info.State == workqueue.ItemInFlightAgain, r.Tries == 0; {
		case r.State == unknown, retried && again:
		case again && !s.countEach:
			r.beginAnew()
		default:
			r.State, r.NextTry = failed, time.Time{}
		}
		return nil
	})
	if err != nil {
		slog.Error("the job is given up once more in a minute", "job", j, "err", err)
		s.queueOf(j).AddWith(workqueue.AddOptions{After: time.Minute, Firm: true}, j)
	}
}

// retry tries a job now that was given up or waits for its next try. Its failures count from 0 again.
func (s *service) retry(w http.ResponseWriter, r *http.Request) {
	j, ok := parse(r.PathValue("job"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	answer(w, j, s.step(j, s.again(j)))
}

// again is the change of a retry.
func (s *service) again(j job) change {
	return func(_ *bbolt.Tx, r *record) error {
		if r.State == unknown || r.State == done {
			return errUnknown
		}
		s.queueOf(j).Wake(j)
		s.queueOf(j).Forget(j)
		r.beginAnew()
		return s.enter(j, r, r.Priority)
	}
}

// discard forgets a job that is not done, with its key: no try will help, or it was done by other means. Its record may be
// unreadable. A try that has begun goes on to its end.
func (s *service) discard(w http.ResponseWriter, r *http.Request) {
	j, _ := parse(r.PathValue("job"))
	answer(w, j, s.db.Update(func(tx *bbolt.Tx) error {
		key := []byte(j.String())
		for _, in := range []state{open, failed} {
			bucket := tx.Bucket([]byte(in))
			if text := bucket.Get(key); text != nil {
				slog.Warn("job discarded", "job", j, "state", in, "record", string(text))
				s.queueOf(j).Remove(j)
				s.queueOf(j).Forget(j)
				return errors.Join(bucket.Delete(key), tx.Bucket(payloads).Delete(key))
			}
		}
		return errUnknown
	}))
}

// payload is what a client has posted, of a job that is not done.
func (s *service) payload(w http.ResponseWriter, r *http.Request) {
	var payload []byte
	err := s.db.View(func(tx *bbolt.Tx) error {
		payload = bytes.Clone(tx.Bucket(payloads).Get([]byte(r.PathValue("job"))))
		return nil
	})
	if err != nil || payload == nil {
		http.Error(w, fmt.Sprint(cmp.Or(err, errUnknown)), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // A page of a client would run in the browser of the operator.
	_, _ = w.Write(payload)                                    // The client may be gone.
}

// A failure is a job that was given up.
type failure struct {
	Job job
	record
}

// failures returns the jobs that were given up, in the order of their names: those after a name, and at most so many.
func (s *service) failures(after string, most int) (some []failure, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket([]byte(failed)).Cursor()
		for key, _ := cursor.Seek([]byte(after + "\x00")); key != nil && len(some) < most; key, _ = cursor.Next() {
			j, _ := parse(string(key))
			r, err := load(tx, j)
			if err != nil {
				r = record{Error: err.Error()}
			}
			some = append(some, failure{j, r})
		}
		return nil
	})
	return some, err
}

// count returns how many jobs are in a state.
func (s *service) count(in state) (n int) {
	err := s.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket([]byte(in)).Stats().KeyN
		return nil
	})
	if err != nil {
		slog.Error("the jobs are not counted", "err", err)
	}
	return n
}

// retryFailed tries all jobs that were given up, or those with a text in their error.
func (s *service) retryFailed(w http.ResponseWriter, r *http.Request) {
	failures, err := s.failures("", math.MaxInt)
	var jobs []job
	for _, f := range failures {
		if f.State == failed && strings.Contains(f.Error, r.FormValue("error")) { // It can be read.
			jobs = append(jobs, f.Job)
		}
	}
	err = errors.Join(err, s.steps(jobs, func(j job) change {
		return func(tx *bbolt.Tx, r *record) error {
			if r.State != failed { // Somebody else has retried it.
				return nil
			}
			return s.again(j)(tx, r)
		}
	}))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, len(jobs), "jobs are tried again")
}

// show is what the service and the queue know of a job: its tries, its last error, why it waits and until when.
func (s *service) show(w http.ResponseWriter, r *http.Request) {
	j, _ := parse(r.PathValue("job"))
	about := struct {
		State  state
		Record record
		Item   *workqueue.ItemInfo[job] `json:",omitempty"`
		Hold   hold
		Tenant time.Time `json:",omitzero"` // when the receiver wants its tenant again
	}{Hold: s.held(), Tenant: s.rests(j.Tenant)}
	err := s.db.View(func(tx *bbolt.Tx) (err error) {
		about.Record, err = load(tx, j)
		about.State = about.Record.State
		return err
	})
	if err != nil || about.State == unknown {
		http.Error(w, fmt.Sprint(cmp.Or(err, errUnknown)), http.StatusNotFound)
		return
	}
	if item, ok := s.queueOf(j).Find(j); ok {
		about.Item = &item
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(about) // The client may be gone.
}

var jobsPage = template.Must(template.New("jobs").Parse(`<!DOCTYPE html><title>Jobs</title>
<p>{{.Hold}} <a href="/debug/workqueue/">What waits, and why</a></p>
<form method="post" action="/pause?on=true"><button>pause</button></form>
<form method="post" action="/pause?on=false"><button>go on</button></form>
<form method="post" action="/call-now"><button>forget the time of the receiver</button></form>
<form method="post" action="/wake"><button>end all waits</button></form>
<p>{{.Failed}} jobs have failed.</p>
<form method="post" action="/retry-failed"><button>retry all</button></form>
{{range .Failures}}<form method="post" action="/jobs/{{.Job}}/retry"><button>retry</button> <button formaction="/jobs/{{.Job}}/discard">discard</button> {{.Job}} {{.Error}}</form>
{{end}}{{with .Next}}<a href="/jobs?after={{.}}">more</a>{{end}}`))

// overview is what an operator sees first: who holds all jobs back, and the failed jobs.
func (s *service) overview(w http.ResponseWriter, r *http.Request) {
	failures, err := s.failures(r.FormValue("after"), listed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	about := struct {
		Hold     hold
		Failed   int
		Failures []failure
		Next     string `json:",omitempty"` // the after of the next page
	}{Hold: s.held(), Failed: s.count(failed), Failures: failures}
	if len(failures) == listed {
		about.Next = failures[listed-1].Job.String()
	}
	if r.FormValue("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(about) // The client may be gone.
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = jobsPage.Execute(w, about)
}

// wake ends the wait of a job, or of all jobs: after an outage they are tried now, unless there is a hold.
func (s *service) wake(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, s.wakeNow(r.FormValue("job")), "woken")
}

func (s *service) wakeNow(name string) (n int) {
	for _, q := range []*queue{s.paying, s.others} {
		n += q.WakeFunc(func(j job) bool { return name == "" || j.String() == name })
	}
	return n
}

// pause holds all jobs back, or lets them go.
func (s *service) pause(w http.ResponseWriter, r *http.Request) {
	on, err := strconv.ParseBool(r.FormValue("on"))
	if err != nil {
		http.Error(w, "want on=true or on=false", http.StatusBadRequest)
		return
	}
	s.answerHold(w, func(h *hold) {
		switch {
		case !on:
			h.PausedAt = time.Time{}
		case !h.paused():
			h.PausedAt = time.Now()
		}
	})
}

// callNow forgets the time that the receiver has named, and ends the waits of the jobs that have heard it: an operator
// knows better.
func (s *service) callNow(w http.ResponseWriter, _ *http.Request) {
	s.wakeNow("")
	s.answerHold(w, func(h *hold) { h.NotBefore = time.Time{} })
}

func (s *service) answerHold(w http.ResponseWriter, change func(h *hold)) {
	if err := s.changeHold(change); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, s.held())
}

// work does jobs until ctx ends, and then, without countEach, those that are queued or wait for a retry, for the grace.
func (s *service) work(ctx context.Context) error {
	atEnd := workqueue.EndDrain
	if s.countEach { // Each request that has begun comes to its end, and no other begins: none is cut short.
		atEnd = workqueue.EndStop
	}
	run := func(q *queue, workers int) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- workqueue.Run(ctx, q, s.do, workqueue.RunOptions[job]{
				Workers: workers, Timeout: s.timeout, AtEnd: atEnd, Grace: s.drain, OnGiveUp: s.giveUp,
			})
		}()
		return ended
	}
	working := []<-chan error{run(s.paying, s.payingWorkers), run(s.others, s.otherWorkers)}
	s.forgetDone(ctx)
	var err error
	for _, ended := range working {
		// Each job that is left is in the database for the next start. Of these, the log of Run calls "failed" those whose
		// try failed at the end: they wait for a retry, and are not given up.
		if left := <-ended; !errors.Is(left, workqueue.ErrNotDrained) {
			err = errors.Join(err, left)
		}
	}
	return err
}

// withError is what the page shows of a job: its last error too, so a search finds all jobs of an error.
func (s *service) withError(text string) string {
	j, ok := parse(text)
	if !ok {
		return text // The name of a tenant.
	}
	_ = s.db.View(func(tx *bbolt.Tx) error { // The page is there after the database is closed.
		if r, err := load(tx, j); err == nil && r.Error != "" {
			text += fmt.Sprintf(", try %d: %s", r.Tries, r.Error)
		}
		return nil
	})
	return text
}

func (s *service) public() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{tenant}", s.accept)
	return mux
}

// admin has what only the inside may see.
func (s *service) admin(metrics http.Handler, password string) http.Handler {
	page := debugpage.New(debugpage.Options{Title: "service", Redact: s.withError})
	debugpage.Add(page, "paying", s.paying)
	debugpage.Add(page, "others", s.others)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		}
	})
	guard := func(inner http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			user, given, _ := r.BasicAuth()
			if password == "" || user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="workqueue"`)
				http.Error(w, "want a password", http.StatusUnauthorized)
				return
			}
			inner(w, r)
		}
	}
	mux.HandleFunc("/debug/workqueue/", guard(page.ServeHTTP))
	mux.HandleFunc("GET /jobs/{job}", guard(s.show))
	mux.HandleFunc("GET /jobs/{job}/payload", guard(s.payload))
	mux.HandleFunc("POST /jobs/{job}/discard", guard(s.discard))
	mux.HandleFunc("POST /jobs/{job}/retry", guard(s.retry))
	mux.HandleFunc("GET /jobs", guard(s.overview))
	mux.HandleFunc("POST /retry-failed", guard(s.retryFailed))
	mux.HandleFunc("POST /wake", guard(s.wake))
	mux.HandleFunc("POST /pause", guard(s.pause))
	mux.HandleFunc("POST /call-now", guard(s.callNow))
	mux.HandleFunc("/debug/pprof/", guard(pprof.Index)) // All but the CPU profile.
	mux.HandleFunc("/debug/pprof/profile", guard(pprof.Profile))
	return http.NewCrossOriginProtection().Handler(mux) // Browsers send the password for other sites too.
}

// serve works until ctx ends. Then it ends in the order of the numbers.
func (s *service) serve(ctx context.Context, outside, inside net.Listener, admin http.Handler, settle, scrape func()) error {
	front := &http.Server{Handler: s.public(), ReadTimeout: requestTime}
	back := &http.Server{Handler: admin, ReadHeaderTimeout: 5 * time.Second}
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	worked, broken := make(chan error, 1), make(chan error, 2)
	go func() { worked <- s.work(working) }()
	go func() { broken <- front.Serve(outside) }()
	go func() { broken <- back.Serve(inside) }()
	s.ready.Store(true)

	var err error
	select {
	case err = <-broken:
	case <-ctx.Done():
		s.ready.Store(false) // 1. No new connections, please.
		settle()             // 2. The load balancer needs some seconds to notice.
	}
	atMost, cancel := context.WithTimeout(context.Background(), s.closing)
	defer cancel()
	if slow := front.Shutdown(atMost); slow != nil { // 3. Answer the last requests.
		slog.Warn("requests were cut off that had no answer", "err", slow)
		front.Close()
	}
	stopWork()
	select { // 4. Do the queued jobs, except in a pause. What is left is in the database.
	case left := <-worked:
		err = errors.Join(err, left)
	case <-time.After(s.drain + s.drain/5): // Run waits for each handler, also for one that ignores its context.
		err = errors.Join(err, errors.New("the drain does not end"))
		for _, q := range []*queue{s.paying, s.others} {
			for _, hung := range q.Snapshot(20).InFlight {
				err = errors.Join(err, fmt.Errorf("the handler of %v hangs", hung.Item))
			}
		}
	}
	slog.Info("the work has ended, and the next start goes on with what is left", "left", s.count(open), "failed", s.count(failed))
	scrape() // 5. The metrics and the page go last: they show the drain, and its counts stay by KeepCounts.
	return errors.Join(err, back.Close())
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` for jobs; port 0 is any free one")
	inside := flag.String("admin", "127.0.0.1:8081", "`address` for metrics, readiness and the page")
	path := flag.String("db", "jobs.db", "`file` of the jobs; one process at a time may use it")
	target := flag.String("target", "http://127.0.0.1:9090/", "`URL` that gets the payloads")
	paying := flag.String("paying", "", "`tenants` who pay, with commas between")
	p := defaults
	flag.IntVar(&p.payingWorkers, "paying-workers", p.payingWorkers, "how many jobs of tenants who pay are at work at a time")
	flag.IntVar(&p.otherWorkers, "workers", p.otherWorkers, "how many jobs of the others are at work at a time")
	flag.IntVar(&p.tenantWorkers, "tenant-workers", p.tenantWorkers, "how many jobs of a tenant are at work at a time")
	flag.Int64Var(&p.maxPayload, "max-payload", p.maxPayload, "the longest payload in `bytes`")
	flag.IntVar(&p.maxAttempts, "attempts", p.maxAttempts, "how often a job is tried before it is given up")
	flag.DurationVar(&p.backoff.Duration, "backoff", p.backoff.Duration, "the first wait for a retry")
	flag.Float64Var(&p.backoff.Factor, "factor", p.backoff.Factor, "how much longer each further wait is")
	flag.DurationVar(&p.backoff.Cap, "cap", p.backoff.Cap, "the longest wait")
	flag.BoolVar(&p.holdTenant, "hold-tenant", p.holdTenant, "a 429 with a Retry-After holds the jobs of its tenant back, and not all jobs")
	flag.DurationVar(&p.timeout, "timeout", p.timeout, "for a request to the receiver")
	flag.DurationVar(&p.longestHold, "longest-hold", p.longestHold, "the longest Retry-After that is obeyed")
	flag.DurationVar(&p.keepDone, "keep-done", p.keepDone, "how long a key is one job, at least as long as the receiver knows a key")
	flag.BoolVar(&p.countEach, "count-each", p.countEach, "the receiver sees a job at most -attempts times, unless an operator retries the job")
	flag.DurationVar(&p.settle, "settle", p.settle, "how long to serve after readiness has ended")
	flag.DurationVar(&p.closing, "closing", p.closing, "for the last requests")
	flag.DurationVar(&p.drain, "drain", p.drain, "for the queued jobs at the end")
	flag.DurationVar(&p.scrape, "scrape", p.scrape, "how long to show the metrics after the drain: the scrape interval")
	flag.Parse()
	if err := p.check(); err != nil {
		return err
	}
	if err := checkTarget(*target); err != nil {
		return err
	}

	outside, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", *inside)
	if err != nil {
		return err
	}
	db, err := openDB(*path)
	if err != nil {
		return err
	}
	defer db.Close()
	payers := strings.FieldsFunc(*paying, func(r rune) bool { return r == ',' || r == ' ' })
	registry, metrics := prometheus.DefaultRegisterer, promhttp.Handler() // Or both of the registry that your program has.
	s := newService(db, *target, payers, registry, p)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal kills.
	if err := s.resume(); err != nil {
		return err
	}
	if os.Getenv("ADMIN_PASSWORD") == "" {
		slog.Warn("no ADMIN_PASSWORD: nobody can see the page or retry a job")
	}
	fmt.Printf("http://%s/jobs/{tenant} takes jobs, http://%s has /readyz, /metrics and /jobs\n", outside.Addr(), admin.Addr())
	return s.serve(ctx, outside, admin, s.admin(metrics, os.Getenv("ADMIN_PASSWORD")), func() { time.Sleep(p.settle) }, func() { time.Sleep(p.scrape) })
}

func main() {
	if err := run(); err != nil {
		slog.Error("service ended", "err", err)
		os.Exit(1)
	}
}
