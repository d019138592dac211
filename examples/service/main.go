// Command service takes jobs over HTTP and does them in the background. The job here is a webhook:
// the payload is posted to the URL of -target. Put your own work into the method do.
//
//	go run ./service -target https://example.com/hook
//	curl -d '{"paid": true}' 'http://127.0.0.1:8080/jobs/acme?priority=5'
//
// The queue has the names of the jobs, in memory. The payloads are files of -dir: a job that was
// accepted is done, or its file is there for the next start. A job can be done twice if the process is
// killed between the work and the end of its file, so the receiver gets the name of the job as
// Idempotency-Key.
//
// The second address, -admin, is for the inside: /readyz, /metrics and the page of the queue,
// /debug/workqueue/, for the user admin and the password in ADMIN_PASSWORD.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	"github.com/seed16c08ea7/workqueue/wait"
)

// A job is an item of the queue, and its text is the name of its file.
type job struct {
	Priority   int // 0 to 9, the highest first
	Tenant, ID string
}

func (j job) String() string { return fmt.Sprintf("%d.%s.%s", j.Priority, j.Tenant, j.ID) }

var name = regexp.MustCompile(`^[0-9]\.[\w-]{1,64}\.[\w-]{1,64}$`)

// parse reads what String returns. ok is false for any other text, such as the path to another file.
func parse(text string) (j job, ok bool) {
	if !name.MatchString(text) {
		return job{}, false
	}
	parts := strings.Split(text, ".")
	priority, err := strconv.Atoi(parts[0])
	return job{priority, parts[1], parts[2]}, err == nil
}

type service struct {
	dir, target string
	client      http.Client
	queue       *workqueue.TypedRateLimiting[job]
	ready       atomic.Bool
}

func newService(dir, target string, registry prometheus.Registerer) *service {
	return &service{dir: dir, target: target, queue: workqueue.NewTypedRateLimiting(
		// Each job has its own backoff, with jitter. The default of controllers also lets only ten
		// retries a second through, so the last of 200 jobs that fail together would wait for 10 s.
		workqueue.NewTypedItemBackoffRateLimiter[job](wait.Backoff{
			Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Minute,
		}),
		workqueue.TypedRateLimitingQueueConfig[job]{
			Name:            "jobs",
			MetricsProvider: workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}),
			Order: workqueue.Order[job]{
				Priority:    func(j job) int { return j.Priority },
				OldestEvery: 10, // So that jobs of a low priority do not wait for ever.
				Group:       func(j job) string { return j.Tenant },
				MaxInFlight: func(tenant string) int { return 4 }, // Of the 8 workers.
				GroupsFirst: true,                                 // A priority counts among the jobs of its tenant.
			},
		})}
}

// accept stores a job before the answer: 202 means that the job is on the disk and in the queue. The
// tenant is in the path; take it from the credentials of the request if tenants are strangers.
func (s *service) accept(w http.ResponseWriter, r *http.Request) {
	// A client that got no answer sends the job again under the same key: it is one job.
	id := cmp.Or(r.Header.Get("Idempotency-Key"), rand.Text())
	j, ok := parse(cmp.Or(r.URL.Query().Get("priority"), "0") + "." + r.PathValue("tenant") + "." + id)
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if !ok || err != nil {
		http.Error(w, "want a payload of at most 1 MB, a priority from 0 to 9, and names of letters and digits", http.StatusBadRequest)
		return
	}
	if err := s.save(j, payload); err != nil {
		slog.Error("job not saved", "job", j, "err", err)
		http.Error(w, "cannot save the job", http.StatusInternalServerError)
		return
	}
	// Not ShuttingDown before the add: the drain may begin in between. The file stays. It may belong
	// to an accepted job of the same key, and a client has to try again after 503 as after a timeout.
	if s.queue.AddWith(workqueue.AddOptions{}, j) == 0 {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintln(w, j)
}

func (s *service) path(j job) string { return filepath.Join(s.dir, j.String()) }

// save writes a file that is complete or absent after a crash.
func (s *service) save(j job, payload []byte) error {
	file, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(payload)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), s.path(j))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close()) // The new name is on the disk too.
}

// resume adds the jobs of the last run.
func (s *service) resume() error {
	files, err := os.ReadDir(s.dir)
	for _, file := range files {
		if j, ok := parse(file.Name()); ok {
			s.queue.Add(j)
		} else if strings.HasPrefix(file.Name(), "new-") { // Its client got no answer.
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, file.Name())))
		}
	}
	return err
}

// do is the handler of the queue. Its error decides when the job is tried again.
func (s *service) do(ctx context.Context, j job) error {
	payload, err := os.ReadFile(s.path(j))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // It was done, and posted again meanwhile.
	} else if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, bytes.NewReader(payload))
	if err != nil {
		return workqueue.Permanent(err)
	}
	request.Header.Set("Idempotency-Key", j.String())
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // So that the connection is used again.
	response.Body.Close()
	switch code := response.StatusCode; {
	case code/100 == 2:
		return os.Remove(s.path(j))
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if seconds > 0 {
			return workqueue.RetryAfter(time.Duration(seconds)*time.Second, errors.New(response.Status))
		}
	case code/100 == 4:
		return workqueue.Permanent(errors.New(response.Status))
	}
	return errors.New(response.Status)
}

// giveUp moves the payload to the directory failed, for somebody to look at. To try a job again, move
// its file back and restart.
func (s *service) giveUp(_ context.Context, j job, err error) {
	slog.Error("job given up", "job", j, "err", err)
	if err := os.Rename(s.path(j), filepath.Join(s.dir, "failed", j.String())); err != nil {
		slog.Error("file not moved", "job", j, "err", err)
	}
}

// work does jobs until ctx ends, and then those that are queued or wait for a retry, for ten seconds.
func (s *service) work(ctx context.Context) error {
	err := workqueue.Run(ctx, s.queue, s.do, workqueue.RunOptions[job]{
		Workers: 8, Timeout: 5 * time.Second, MaxAttempts: 10, OnGiveUp: s.giveUp,
		AtEnd: workqueue.EndDrain, Grace: 10 * time.Second,
	})
	if errors.Is(err, workqueue.ErrNotDrained) {
		return nil // Run has logged how many jobs are left. They are in the files for the next start.
	}
	return err
}

func (s *service) public() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{tenant}", s.accept)
	return mux
}

// admin has what only the inside may see.
func (s *service) admin(metrics http.Handler, password string) http.Handler {
	page := debugpage.New(debugpage.Options{Title: "service"})
	debugpage.Add(page, "jobs", s.queue)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/debug/workqueue/", func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		if password == "" || user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="workqueue"`)
			http.Error(w, "want a password", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
	return mux
}

// serve works until ctx ends. Then it ends in the order of the numbers, within 30 seconds: a pod has
// so many between SIGTERM and SIGKILL.
func (s *service) serve(ctx context.Context, outside, inside net.Listener, admin http.Handler, settle func()) error {
	front := &http.Server{Handler: s.public(), ReadTimeout: 10 * time.Second}
	back := &http.Server{Handler: admin, ReadHeaderTimeout: 5 * time.Second}
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	worked, failed := make(chan error, 1), make(chan error, 2)
	go func() { worked <- s.work(working) }()
	go func() { failed <- front.Serve(outside) }()
	go func() { failed <- back.Serve(inside) }()
	s.ready.Store(true)

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.ready.Store(false) // 1. No new connections, please.
		settle()             // 2. The load balancer needs some seconds to notice.
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, front.Shutdown(closing)) // 3. Answer the last requests.
	stopWork()
	err = errors.Join(err, <-worked)      // 4. Do the queued jobs. What is left is in the files.
	return errors.Join(err, back.Close()) // 5. The metrics and the page go last: they show the drain.
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` for jobs; port 0 is any free one")
	inside := flag.String("admin", "127.0.0.1:8081", "`address` for metrics, readiness and the page")
	dir := flag.String("dir", "jobs", "`directory` of the payloads; one process at a time may use it")
	target := flag.String("target", "http://127.0.0.1:9090/", "`URL` that gets the payloads")
	settle := flag.Duration("settle", 5*time.Second, "how long to serve after readiness has ended")
	flag.Parse()

	s := newService(*dir, *target, prometheus.DefaultRegisterer) // Where the rest of your program has its metrics.
	outside, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", *inside)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(*dir, "failed"), 0o700), s.resume()); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal kills.
	fmt.Printf("http://%s/jobs/{tenant} takes jobs, http://%s has /readyz, /metrics and /debug/workqueue/\n", outside.Addr(), admin.Addr())
	return s.serve(ctx, outside, admin, s.admin(promhttp.Handler(), os.Getenv("ADMIN_PASSWORD")), func() { time.Sleep(*settle) })
}

func main() {
	if err := run(); err != nil {
		slog.Error("service ended", "err", err)
		os.Exit(1)
	}
}
