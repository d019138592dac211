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
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
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
	"github.com/seed16c08ea7/workqueue/wait"
)

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

	// resting has until when tenants rest: in a pause, or with holdTenant until the time of their receiver, for which a
	// restart asks once. An add asks for the time within a transaction, so holding would be the wrong lock.
	resting sync.Map
}

// A policy has the numbers that you will change. The tests have numbers of their own.
type policy struct {
	// Tenants who pay have a queue and workers of their own, so neither class holds the other up, also after an outage.
	// If all tenants are alike, one queue will do.
	payingWorkers, otherWorkers int // how many jobs are at work at a time
	tenantWorkers               int // of one tenant, so that a flood of jobs does not hold up the others of its class

	// The rates are jobs a second, for a receiver that allows no more than both together; 0 is no limit. Neither class uses
	// what the other leaves.
	payingRate, otherRate float64

	// maxAttempts, of all starts together, and backoff say which outage of the receiver a job survives.
	maxAttempts int
	backoff     wait.Backoff

	// countEach is for a receiver that must see at most maxAttempts requests of a job: each counts, and only an operator
	// has the job tried anew. Without countEach an answer with a Retry-After is no try, nor is a request that the end
	// of the process cuts short, and a client who posts a failed job again has it tried anew.
	countEach bool

	// holdTenant is for a receiver of each tenant, or for one that counts the requests of each tenant: a Retry-After is about
	// the jobs of its tenant then, and not about all jobs.
	holdTenant bool

	timeout     time.Duration // of a request to the receiver
	longestHold time.Duration // of a Retry-After: a great number would be a job without an end, or a negative time
	keepDone    time.Duration // how long a key is one job after it is done; at least as long as the receiver knows keys
	maxPayload  int64         // bytes

	// The times of the end are 27 seconds together, of the 30 that a pod has between SIGTERM and SIGKILL. A longer scrape
	// interval needs a longer terminationGracePeriodSeconds.
	settle  time.Duration // readiness has ended, and load balancers notice
	closing time.Duration // for the last requests
	grace   time.Duration // for the jobs at work; a handler that ignores its context has a fifth more
	scrape  time.Duration // the metrics show the end
}

// defaults survive an outage of 2.4 to 3.5 hours, see docs/choosing.md. The Cap is for a wait with its jitter.
var defaults = policy{
	payingWorkers: 8, otherWorkers: 4, tenantWorkers: 3,
	maxAttempts: 30, backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Cap: 10 * time.Minute},
	timeout: 5 * time.Second, longestHold: time.Hour, keepDone: 24 * time.Hour, maxPayload: 1 << 20,
	settle: 5 * time.Second, closing: 5 * time.Second, grace: 10 * time.Second, scrape: 5 * time.Second,
}

// check says which numbers make no sense.
func (p policy) check() error {
	switch {
	case min(p.payingWorkers, p.otherWorkers, p.tenantWorkers, p.maxAttempts) < 1:
		return errors.New("want at least one worker of each kind, and one attempt")
	case !(p.payingRate >= 0 && p.otherRate >= 0):
		return errors.New("want rates of 0 or more")
	case min(p.timeout, p.grace) <= 0:
		return errors.New("want a timeout and a grace above 0")
	case p.backoff.Duration < 0 || p.backoff.Factor < 0 || p.backoff.Cap < p.backoff.Duration:
		return errors.New("want a backoff and a factor of 0 or more, and a cap that is not shorter")
	case p.countEach && p.timeout >= p.grace:
		return fmt.Errorf("the timeout of %v has to be shorter than the grace of %v, or the end cuts requests short that count", p.timeout, p.grace)
	}
	return nil
}

// checkTarget finds an address that would have all jobs fail.
func checkTarget(target string) error {
	if u, err := url.Parse(strings.ReplaceAll(target, "{tenant}", "acme")); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("want the URL of the receiver, such as https://example.com/hook, got %q", target)
	}
	return nil
}

const (
	requestTime   = 10 * time.Second // for a client to send a job
	listed        = 1000             // failed jobs on a page
	retryPriority = 10               // of a job that an operator retries; a client has 9 at most
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
		payingPace: rate.NewLimiter(limit(p.payingRate), 1), pace: rate.NewLimiter(limit(p.otherRate), 1), // See paceLocked.
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
	const held = "Tenants whose jobs are held back."
	gauge("tenants_held", "operator", held, func() int { return len(s.heldTenants(true)) })
	gauge("tenants_held", "receiver", held, func() int { return len(s.heldTenants(false)) })
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

// work does jobs until ctx ends. Each request that has begun comes to its end, and no other begins: a drain would cut
// its last requests short, and the receiver would get them twice. All that is left is in the database.
func (s *service) work(ctx context.Context) error {
	run := func(q *queue, workers int) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- workqueue.Run(ctx, q, s.do, workqueue.RunOptions[job]{
				Workers: workers, Timeout: s.timeout, Grace: s.grace, OnGiveUp: s.giveUp,
			})
		}()
		return ended
	}
	working := []<-chan error{run(s.paying, s.payingWorkers), run(s.others, s.otherWorkers)}
	s.forgetDone(ctx)
	var err error
	for _, ended := range working {
		// The log of Run calls "failed" what has failed at the end: these jobs wait for a retry, in the database.
		err = errors.Join(err, <-ended)
	}
	return err
}

func (s *service) public() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{tenant}", s.accept)
	return mux
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
	select { // 4. End the jobs at work. What is left is in the database.
	case left := <-worked:
		err = errors.Join(err, left)
	case <-time.After(s.grace + s.grace/5): // Run waits for each handler, also for one that ignores its context.
		err = errors.Join(err, errors.New("the work does not end"))
		for _, q := range []*queue{s.paying, s.others} {
			for _, hung := range q.Snapshot(20).InFlight {
				err = errors.Join(err, fmt.Errorf("the handler of %v hangs", hung.Item))
			}
		}
	}
	slog.Info("the work has ended, and the next start goes on with what is left", "left", s.count(open), "failed", s.count(failed))
	scrape() // 5. The metrics and the page go last: they show the end, and its counts stay by KeepCounts.
	return errors.Join(err, back.Close())
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` for jobs; port 0 is any free one")
	inside := flag.String("admin", "127.0.0.1:8081", "`address` for metrics, readiness and the page")
	path := flag.String("db", "jobs.db", "`file` of the jobs; one process at a time may use it")
	target := flag.String("target", "http://127.0.0.1:9090/", "`URL` that gets the payloads; {tenant} in it is a receiver for each tenant")
	paying := flag.String("paying", "", "`tenants` who pay, with commas between")
	p := defaults
	flag.IntVar(&p.payingWorkers, "paying-workers", p.payingWorkers, "how many jobs of tenants who pay are at work at a time")
	flag.IntVar(&p.otherWorkers, "workers", p.otherWorkers, "how many jobs of the others are at work at a time")
	flag.IntVar(&p.tenantWorkers, "tenant-workers", p.tenantWorkers, "how many jobs of a tenant are at work at a time")
	flag.Float64Var(&p.payingRate, "paying-rate", p.payingRate, "how many jobs of tenants who pay are begun in a second; 0 is no limit")
	flag.Float64Var(&p.otherRate, "rate", p.otherRate, "how many jobs of the others are begun in a second; 0 is no limit")
	flag.Int64Var(&p.maxPayload, "max-payload", p.maxPayload, "the longest payload in `bytes`")
	flag.IntVar(&p.maxAttempts, "attempts", p.maxAttempts, "how often a job is tried before it is given up")
	flag.DurationVar(&p.backoff.Duration, "backoff", p.backoff.Duration, "the first wait for a retry")
	flag.Float64Var(&p.backoff.Factor, "factor", p.backoff.Factor, "how much longer each further wait is")
	flag.DurationVar(&p.backoff.Cap, "cap", p.backoff.Cap, "the longest wait")
	flag.BoolVar(&p.holdTenant, "hold-tenant", p.holdTenant, "a Retry-After holds the jobs of its tenant back, and not all jobs")
	flag.DurationVar(&p.timeout, "timeout", p.timeout, "for a request to the receiver")
	flag.DurationVar(&p.longestHold, "longest-hold", p.longestHold, "the longest Retry-After that is obeyed; 0 is none")
	flag.DurationVar(&p.keepDone, "keep-done", p.keepDone, "how long a key is one job, at least as long as the receiver knows a key")
	flag.BoolVar(&p.countEach, "count-each", p.countEach, "the receiver sees a job at most -attempts times, unless an operator retries the job")
	flag.DurationVar(&p.settle, "settle", p.settle, "how long to serve after readiness has ended")
	flag.DurationVar(&p.closing, "closing", p.closing, "for the last requests")
	flag.DurationVar(&p.grace, "grace", p.grace, "for the jobs at work at the end; with a timeout that is not shorter, requests are cut and sent again")
	flag.DurationVar(&p.scrape, "scrape", p.scrape, "how long to show the metrics at the end: the scrape interval")
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
