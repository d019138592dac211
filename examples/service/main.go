// Command service takes jobs over HTTP and does them in the background. The job here is a webhook:
// the payload is posted to the URL of -target. Put your own work into the method do.
//
//	go run ./service -target https://example.com/hook
//	curl -d '{"paid": true}' 'http://127.0.0.1:8080/jobs/acme?priority=5'
//
// The queue has the names of the jobs, in memory. The payloads are files of -dir: a job that was
// accepted is done, or its file is there for the next start. A job can be done twice if the process is
// killed between the work and the end of its file, so the receiver gets the name of the job as
// Idempotency-Key. The tries are counted beside the payload, over all starts.
//
// The second address, -admin, is for the inside: /readyz and /metrics. For the user admin and the password
// in ADMIN_PASSWORD it also has the page of the queue, /debug/workqueue/, POST /jobs/{job}/retry, GET /failed, and
// POST /retry-failed. An operator gets the goroutines, ends all waits, and pauses the queue:
//
//	curl -u admin:PASSWORD 'http://127.0.0.1:8081/debug/pprof/goroutine?debug=2'
//	curl -u admin:PASSWORD -X POST 'http://127.0.0.1:8081/wake'  # with ?job=acme.order-7: this job
//	curl -u admin:PASSWORD -X POST 'http://127.0.0.1:8081/pause?on=true'
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"path/filepath"
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
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	"github.com/seed16c08ea7/workqueue/wait"
)

// A job is an item of the queue. Two jobs are the same if all fields are equal, so the priority and
// the payload are in the file.
type job struct{ Tenant, ID string }

func (j job) String() string { return j.Tenant + "." + j.ID }

var name = regexp.MustCompile(`^[\w-]{1,64}\.[\w-]{1,64}$`)

// parse reads what String returns. ok is false for any other text, such as the path to another file.
func parse(text string) (j job, ok bool) {
	tenant, id, _ := strings.Cut(text, ".")
	return job{tenant, id}, name.MatchString(text)
}

type service struct {
	dir, target string
	client      http.Client
	pace        *rate.Limiter
	limiter     workqueue.TypedRateLimiter[job]
	queue       *workqueue.TypedRateLimiting[job]
	grace       time.Duration // for the drain
	ready       atomic.Bool
	naming      sync.Mutex // while a file gets the name of a job
	lastErrors  sync.Map   // the last error of a job that has failed, by the text of the job

	holding sync.Mutex
	hold    hold // guarded by holding
}

// A hold keeps all jobs back, which stay queued. It is a file, and holds through a restart.
type hold struct {
	Paused    bool      // by an operator
	NotBefore time.Time // that the receiver has named by a Retry-After
}

// workers is how many jobs are at work at a time.
const workers = 8

// longestHold bounds a Retry-After: a great number is a job that never comes, or a negative time.
const longestHold = time.Hour

// The times of the end are 27 seconds together, of the 30 that a pod has between SIGTERM and SIGKILL. For a shorter
// end lower them. A longer scrape interval needs a longer terminationGracePeriodSeconds.
const (
	settleTime  = 5 * time.Second  // readiness has ended, and load balancers notice
	closeTime   = 5 * time.Second  // for the last requests
	drainTime   = 10 * time.Second // for the queued jobs; a handler that ignores its context has a fifth more
	scrapeTime  = 5 * time.Second  // the metrics show the drain
	requestTime = 10 * time.Second // for a client to send a job
)

// maxAttempts, of all starts together, and the backoff below say which outage of the receiver a job survives: the waits
// between 30 attempts are 2.3 to 3.5 hours together. The Cap is for a wait with its jitter.
const maxAttempts = 30

func newService(dir, target string, registry prometheus.Registerer) *service {
	connections := http.DefaultTransport.(*http.Transport).Clone()
	connections.MaxIdleConnsPerHost = workers // With the default of 2, most requests would dial.
	// A redirect would turn the POST into a GET without the payload, and its 200 would end the job.
	direct := http.Client{Transport: connections, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	pace := rate.NewLimiter(rate.Inf, 0) // No limit. A limit of 0 is a pause.
	// Each job has its own backoff, with jitter. The default of controllers also lets only ten
	// retries a second through, so the last of 200 jobs that fail together would wait for 10 s.
	limiter := workqueue.NewTypedItemBackoffRateLimiter[job](wait.Backoff{
		Duration: time.Second, Factor: 2, Jitter: 0.5, Cap: 10 * time.Minute,
	})
	return &service{dir: dir, target: target, client: direct, pace: pace, limiter: limiter, grace: drainTime, queue: workqueue.NewTypedRateLimiting(limiter,
		workqueue.TypedRateLimitingQueueConfig[job]{
			Name:            "jobs",
			OneEntry:        true,
			StrictBackoff:   true, // A job that is posted again keeps its wait: each try counts.
			MetricsProvider: workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{KeepCounts: true}),
			Pace:            pace,
			Order: workqueue.Order[job]{
				OldestEvery: 10, // So that jobs of a low priority do not wait for ever behind others of their tenant.
				Group:       func(j job) string { return j.Tenant },
				MaxInFlight: func(tenant string) int { return 4 }, // Of the workers.
				// A priority counts among the jobs of its tenant: a client chooses it. If few of many tenants shall come
				// first, leave GroupsFirst out, set a Priority by tenant here, and name none in AddWith. Read the limits of
				// that in docs/choosing.md first: after an outage, two queues with one Pace serve the others sooner, as
				// examples/patterns shows.
				GroupsFirst: true,
			},
		})}
}

// accept stores a job before the answer: 202 means that the job is on the disk and in the queue. The
// tenant is in the path, and the client chooses the priority. If tenants are strangers, take the tenant
// from the credentials, and what its plan allows from your own data.
func (s *service) accept(w http.ResponseWriter, r *http.Request) {
	// A client that got no answer sends the job again under the same key: until it is done, it is one job.
	j, ok := parse(r.PathValue("tenant") + "." + cmp.Or(r.Header.Get("Idempotency-Key"), rand.Text()))
	priority, notNumber := strconv.Atoi(cmp.Or(r.URL.Query().Get("priority"), "0"))
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if !ok || notNumber != nil || priority < 0 || priority > 9 || err != nil {
		http.Error(w, "want a payload of at most 1 MB, a priority from 0 to 9, and names of letters and digits", http.StatusBadRequest)
		return
	}
	err = s.save(j, priority, payload)
	if errors.Is(err, errOtherPayload) {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	} else if err != nil {
		slog.Error("job not saved", "job", j, "err", err)
		http.Error(w, "cannot save the job", http.StatusInternalServerError)
		return
	}
	s.add(w, j, priority)
}

// add queues a job that has a file, and answers. Do not ask ShuttingDown before the add: the drain may
// begin in between. The file stays. It may belong to an accepted job of the same key, and a client has
// to try again after 503 as after a timeout.
func (s *service) add(w http.ResponseWriter, j job, priority int) {
	if !s.addFile(j, priority) {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintln(w, j)
}

// addFile queues a job, and has its file where the next start looks: a give-up may have moved the file
// just before. A give-up of the same try after the add leaves the file, and one of the next try moves it.
func (s *service) addFile(j job, priority int) (taken bool) {
	s.naming.Lock()
	defer s.naming.Unlock()
	s.bringLocked(j)
	return s.queue.AddWith(workqueue.AddOptions{Priority: &priority}, j) > 0
}

func (s *service) path(j job) string { return filepath.Join(s.dir, j.String()+".job") }

// failedPath is the path of a job that was given up.
func (s *service) failedPath(j job) string {
	return filepath.Join(s.dir, "failed", j.String()+".job")
}

// reasonPath is the path of the error with which a job was given up.
func (s *service) reasonPath(j job) string {
	return filepath.Join(s.dir, "failed", j.String()+".error")
}

// triesPath is the path of the file whose size is the number of tries that have begun.
func (s *service) triesPath(j job) string { return filepath.Join(s.dir, j.String()+".tries") }

// countTry counts a try before its work. A count after the work, or the MaxAttempts of Run, which counts in memory,
// would forget the try that ends the process: such a job would end it after each start, for ever.
func (s *service) countTry(j job) (tries int64, err error) {
	file, err := os.OpenFile(s.triesPath(j), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	_, err = file.Write([]byte("."))
	now := time.Now()
	if err = errors.Join(err, os.Chtimes(s.triesPath(j), now, now)); err != nil { // See restOfBackoff.
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// takeTryBack undoes countTry: the receiver has refused to try the job.
func (s *service) takeTryBack(j job) error { return os.Truncate(s.triesPath(j), max(0, s.tries(j)-1)) }

// tries returns how many tries of a job have begun.
func (s *service) tries(j job) int64 {
	info, err := os.Stat(s.triesPath(j))
	if err != nil {
		return 0
	}
	return info.Size()
}

// countAnew ends the row of tries of a job: it is done, given up, or tried by hand.
func (s *service) countAnew(j job) error {
	if err := os.Remove(s.triesPath(j)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// revive brings a job back that was given up. A crash may have left its tries.
func (s *service) revive(j job) error {
	if err := s.countAnew(j); err != nil {
		return err
	}
	err := os.Rename(s.failedPath(j), s.path(j))
	if err == nil {
		os.Remove(s.reasonPath(j)) // It may be missing, after a crash.
	}
	return err
}

// load returns the first line of a file, and the rest.
func load(path string) (priority int, payload []byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	first, payload, _ := bytes.Cut(text, []byte("\n"))
	if priority, err = strconv.Atoi(string(first)); err != nil {
		err = fmt.Errorf("%s is not a job: %w", path, err)
	}
	return priority, payload, err
}

// bring is load for a job, which comes back if it was given up.
func (s *service) bring(j job) (priority int, payload []byte, err error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	return s.bringLocked(j)
}

func (s *service) bringLocked(j job) (priority int, payload []byte, err error) {
	priority, payload, err = load(s.path(j))
	if errors.Is(err, fs.ErrNotExist) && s.revive(j) == nil {
		return load(s.path(j))
	}
	return priority, payload, err
}

var errOtherPayload = errors.New("the key has another payload, which is not done")

// save gives a job a file that is complete or absent after a crash. A file is never replaced: its payload has
// a 202, and the handler removes the file after its payload is delivered. If the job is posted again, the
// queue keeps the higher priority, and the file keeps the first.
func (s *service) save(j job, priority int, payload []byte) error {
	file, err := s.write(fmt.Appendf(nil, "%d\n%s", priority, payload))
	if err != nil {
		return err
	}
	there, err := s.name(file, j, payload)
	if there || err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close()) // The new name is on the disk too.
}

// write writes a file that nobody knows yet, such as after a crash: its new name makes it known. A write that fails
// leaves no file.
func (s *service) write(text []byte) (path string, err error) {
	file, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// name gives a file the name of a job, unless the job is there with the same payload. A job that was given
// up is there too, and comes back.
func (s *service) name(file string, j job, payload []byte) (there bool, err error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	for _, path := range []string{s.path(j), s.failedPath(j)} {
		_, old, err := load(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err == nil && !bytes.Equal(old, payload) {
			err = errOtherPayload
		} else if err == nil && path != s.path(j) {
			err = s.revive(j)
		}
		return true, err
	}
	return false, os.Rename(file, s.path(j))
}

// lock has this process use the directory alone, until the file is closed or the process ends. A job that two
// processes have under one key would be done twice. Two hosts that share a directory over NFS need more. Windows has no
// Flock: leave lock out there.
func lock(dir string) (io.Closer, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses the directory %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// resume adds the jobs of the last run, the oldest first. A file that is not a job keeps no other from its work.
func (s *service) resume() error {
	if err := s.resumeHold(); err != nil {
		return err
	}
	files, err := os.ReadDir(s.dir)
	slices.SortStableFunc(files, func(a, b os.DirEntry) int { return writtenAt(a).Compare(writtenAt(b)) })
	for _, file := range files {
		text, isJob := strings.CutSuffix(file.Name(), ".job")
		if j, ok := parse(text); ok && isJob {
			priority, _, broken := load(s.path(j))
			if broken != nil {
				s.giveUp(context.Background(), j, broken)
				continue
			}
			tries := s.tries(j)
			if tries >= maxAttempts { // A kill came during the last try, or while the job was given up.
				s.giveUp(context.Background(), j, s.reason(j))
				continue
			}
			s.queue.AddWith(workqueue.AddOptions{Priority: &priority, After: s.restOfBackoff(j, tries), Firm: true}, j)
		} else if text, isCount := strings.CutSuffix(file.Name(), ".tries"); isCount {
			if j, ok := parse(text); ok && !s.hasFile(j) { // The job was done.
				err = errors.Join(err, s.countAnew(j))
			}
		} else if strings.HasPrefix(file.Name(), "new-") { // Its client got no answer.
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, file.Name())))
		}
	}
	return err
}

// restOfBackoff returns how long a job still has to wait after its last try. Many starts would use up the tries
// without the backoff, and with a whole wait at each start the job of a process that starts often would never be tried.
func (s *service) restOfBackoff(j job, tries int64) time.Duration {
	var wait time.Duration
	for range tries {
		wait = s.limiter.When(j)
	}
	info, err := os.Stat(s.triesPath(j))
	if err != nil {
		return wait
	}
	return min(wait, wait-time.Since(info.ModTime())) // A clock that was set back makes no wait longer.
}

// reason returns why a job is given up that was tried often enough.
func (s *service) reason(j job) error {
	if text, err := os.ReadFile(s.reasonPath(j)); err == nil {
		return errors.New(string(bytes.TrimSpace(text)))
	}
	return errLastTry
}

// hasFile reports whether a job has a file, and was not given up.
func (s *service) hasFile(j job) bool {
	_, err := os.Stat(s.path(j))
	return err == nil
}

// writtenAt returns when a file was written.
func writtenAt(file os.DirEntry) time.Time {
	info, err := file.Info()
	if err != nil {
		return time.Time{} // It is gone.
	}
	return info.ModTime()
}

// do is the handler of the queue. Its error decides when the job is tried again. The last try is permanent: a try that
// an event or an operator brings counts too, and so does one during which the process is killed.
func (s *service) do(ctx context.Context, j job) error {
	_, payload, err := s.bring(j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // It was done, and posted again meanwhile.
	} else if err != nil {
		return err
	}
	if rest := s.rest(); rest > 0 { // The receiver has named a time since the hand-out.
		return workqueue.DeferFor(rest)
	}
	tries, err := s.countTry(j)
	if err != nil {
		return err
	}
	if tries > maxAttempts {
		return workqueue.Permanent(s.reason(j))
	}
	err = s.try(ctx, j, payload)
	// Each end of the grace, and each hold, would use up a try of as many jobs as there are workers.
	if cut := ctx.Err() == context.Canceled; err != nil && cut || errors.As(err, new(later)) {
		return errors.Join(err, s.takeTryBack(j))
	} else if tries == maxAttempts && err != nil {
		return workqueue.Permanent(err)
	} else if err != nil {
		return err
	}
	return errors.Join(os.Remove(s.path(j)), s.countAnew(j)) // A crash in between leaves no job without its tries.
}

var errLastTry = fmt.Errorf("the process has ended during the last of %d tries", maxAttempts)

// try makes an error of a panic: the last one is the reason why the job is given up.
func (s *service) try(ctx context.Context, j job, payload []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &workqueue.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return s.send(ctx, j, payload)
}

func (s *service) send(ctx context.Context, j job, payload []byte) error {
	// A reader that the client knows could be read again: on a broken connection the client would send a request with
	// an Idempotency-Key several times, and each would be one try here.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, io.NopCloser(bytes.NewReader(payload)))
	if err != nil {
		return workqueue.Permanent(err)
	}
	request.ContentLength = int64(len(payload))
	request.Header.Set("Idempotency-Key", j.String())
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // So that the connection is used again.
	response.Body.Close()
	switch code := response.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		if wait := retryAfter(response.Header); wait > 0 {
			// The later of this time and the backoff. Not a RetryAfter, nor a DeferFor alone: a receiver that always
			// names a second would get each job each second.
			s.notBefore(time.Now().Add(wait))
			return later{errors.New(response.Status), wait}
		}
	case code/100 == 4:
		return workqueue.Permanent(errors.New(response.Status))
	}
	return errors.New(response.Status)
}

// A later is a failure that is not tried again before the wait is over. Its text is that of the failure: with
// [errors.Join] the page and the log would have a line of the wait too.
type later struct {
	error
	wait time.Duration
}

func (l later) Unwrap() []error { return []error{l.error, workqueue.DeferFor(l.wait)} }

// retryAfter returns the seconds or the time of the header, or 0.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return min(time.Duration(min(seconds, 1e9))*time.Second, longestHold)
	}
	at, _ := http.ParseTime(value)
	return min(time.Until(at), longestHold) // Negative for the zero time.
}

// notBefore holds all jobs back until a time. With several receivers, take each for a group, and have its MaxInFlight
// return HoldBack.
func (s *service) notBefore(until time.Time) {
	err := s.changeHold(func(h *hold) {
		if until.After(h.NotBefore) { // Of two answers the later time counts.
			h.NotBefore = until
		}
	})
	if err != nil {
		slog.Error("a restart would not know the time of the receiver", "err", err)
	}
}

// goOn forgets the time that the receiver has named: an operator knows better. If nobody may call before that time, leave
// out its calls in retry and wake.
func (s *service) goOn() error {
	return s.changeHold(func(h *hold) { h.NotBefore = time.Time{} })
}

// changeHold changes who holds the jobs back, in memory and in the file.
func (s *service) changeHold(change func(h *hold)) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	change(&s.hold)
	s.paceLocked()
	text, err := json.Marshal(s.hold)
	if err != nil {
		return err
	}
	file, err := s.write(text)
	if err != nil {
		return err
	}
	return os.Rename(file, s.holdPath())
}

func (s *service) holdPath() string { return filepath.Join(s.dir, "hold") }

// resumeHold goes on with the hold of the last run.
func (s *service) resumeHold() error {
	text, err := os.ReadFile(s.holdPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	s.holding.Lock()
	defer s.holding.Unlock()
	if err := json.Unmarshal(text, &s.hold); err != nil {
		slog.Error("the hold of the last run is forgotten", "file", s.holdPath(), "err", err)
		s.hold = hold{}
	}
	s.paceLocked()
	return nil
}

// paceLocked has the queue hand out nothing while there is a hold.
func (s *service) paceLocked() {
	rest := time.Until(s.hold.NotBefore)
	if rest > 0 {
		time.AfterFunc(rest, func() {
			s.holding.Lock()
			defer s.holding.Unlock()
			s.paceLocked()
		})
	}
	limit := rate.Inf
	if s.hold.Paused || rest > 0 {
		limit = 0
	}
	s.pace.SetLimit(limit)
}

// rest returns how long the receiver wants no request.
func (s *service) rest() time.Duration {
	s.holding.Lock()
	defer s.holding.Unlock()
	return time.Until(s.hold.NotBefore)
}

// giveUp moves the payload to the directory failed, for somebody to look at, with the error beside it. A job that
// was posted again during its last try has a 202: its file stays for the next try.
func (s *service) giveUp(_ context.Context, j job, err error) {
	slog.Error("job given up", "job", j, "err", err)
	s.naming.Lock()
	defer s.naming.Unlock()
	if info, _ := s.queue.Find(j); info.State != workqueue.ItemInFlightAgain {
		unknown := os.WriteFile(s.reasonPath(j), []byte(err.Error()+"\n"), 0o600)
		if stays := os.Rename(s.path(j), s.failedPath(j)); stays != nil {
			slog.Error("the job is given up once more in a minute", "job", j, "err", errors.Join(unknown, stays))
			s.queue.AddWith(workqueue.AddOptions{After: time.Minute, Firm: true}, j)
			return
		}
	}
	if err := s.countAnew(j); err != nil {
		slog.Error("the tries of a job are not forgotten", "job", j, "err", err)
	}
}

// retry tries a job now that was given up or waits for its next try, also if the receiver has named a later
// time, which then holds for no job any more. Its failures count from 0 again.
func (s *service) retry(w http.ResponseWriter, r *http.Request) {
	j, ok := parse(r.PathValue("job"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	priority, _, err := s.bring(j)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err := errors.Join(s.goOn(), s.countAnew(j)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.queue.Forget(j)
	s.queue.Wake(j)
	s.add(w, j, priority)
}

var failedPage = template.Must(template.New("failed").Parse(`<!DOCTYPE html><title>Failed jobs</title>
<form method="post" action="/retry-failed"><button>retry all</button></form>
{{range .}}<form method="post" action="/jobs/{{.Job}}/retry"><button>retry</button> {{.Job}} {{.Reason}}</form>
{{end}}`))

// failed lists the jobs that were given up, with their errors and a button for each.
func (s *service) failed(w http.ResponseWriter, _ *http.Request) {
	type row struct{ Job, Reason string }
	var rows []row
	files, err := os.ReadDir(filepath.Join(s.dir, "failed"))
	for _, file := range files {
		if j, ok := parse(strings.TrimSuffix(file.Name(), ".job")); ok {
			reason, _ := os.ReadFile(s.reasonPath(j)) // It may be missing, after a crash.
			rows = append(rows, row{j.String(), string(reason)})
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = failedPage.Execute(w, rows) // The client may be gone.
}

// retryFailed tries all jobs that were given up.
func (s *service) retryFailed(w http.ResponseWriter, r *http.Request) {
	files, err := os.ReadDir(filepath.Join(s.dir, "failed"))
	n := 0
	for _, file := range files {
		if j, ok := parse(strings.TrimSuffix(file.Name(), ".job")); ok {
			if priority, _, err := s.bring(j); err == nil && s.addFile(j, priority) {
				n++
			}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n, "jobs are tried again")
}

// work does jobs until ctx ends, and then those that are queued or wait for a retry, for the grace.
func (s *service) work(ctx context.Context) error {
	err := workqueue.Run(ctx, s.queue, s.do, workqueue.RunOptions[job]{
		Workers: workers, Timeout: 5 * time.Second, OnGiveUp: s.giveUp,
		AtEnd: workqueue.EndDrain, Grace: s.grace, OnResult: s.keepError,
	})
	if errors.Is(err, workqueue.ErrNotDrained) {
		// Run has logged how many jobs are left. Each is in its file for the next start. The number
		// "failed" counts jobs whose try failed at the end: they wait for a retry, and are not given up.
		return nil
	}
	return err
}

// keepError keeps the last error of a job for the page, until the job is done or given up.
func (s *service) keepError(_ context.Context, j job, r workqueue.HandlerResult) {
	switch r.Outcome {
	case workqueue.OutcomeFailed:
		s.lastErrors.Store(j.String(), r.Err)
	case workqueue.OutcomeSucceeded, workqueue.OutcomeGivenUp:
		s.lastErrors.Delete(j.String())
	}
}

// withError is what the page shows of a job: its last error too, so a search finds all jobs of an error.
func (s *service) withError(job string) string {
	if err, ok := s.lastErrors.Load(job); ok {
		return fmt.Sprintf("%s: %v", job, err)
	}
	return job
}

func (s *service) public() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs/{tenant}", s.accept)
	return mux
}

// wake ends the wait of a job, or of all jobs: after an outage they are tried now.
func (s *service) wake(w http.ResponseWriter, r *http.Request) {
	if err := s.goOn(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	name := r.FormValue("job")
	fmt.Fprintln(w, s.queue.WakeFunc(func(j job) bool { return name == "" || j.String() == name }), "woken")
}

// pause holds all jobs back, or lets them go.
func (s *service) pause(w http.ResponseWriter, r *http.Request) {
	on := r.FormValue("on") == "true"
	if err := s.changeHold(func(h *hold) { h.Paused = on }); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "paused:", on)
}

// admin has what only the inside may see.
func (s *service) admin(metrics http.Handler, password string) http.Handler {
	page := debugpage.New(debugpage.Options{Title: "service", Redact: s.withError})
	debugpage.Add(page, "jobs", s.queue)
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
	mux.HandleFunc("POST /jobs/{job}/retry", guard(s.retry))
	mux.HandleFunc("GET /failed", guard(s.failed))
	mux.HandleFunc("POST /retry-failed", guard(s.retryFailed))
	mux.HandleFunc("POST /wake", guard(s.wake))
	mux.HandleFunc("POST /pause", guard(s.pause))
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
	closing, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if slow := front.Shutdown(closing); slow != nil { // 3. Answer the last requests.
		slog.Warn("requests were cut off that had no answer", "err", slow)
		front.Close()
	}
	stopWork()
	select { // 4. Do the queued jobs, except in a pause. What is left is in the files.
	case left := <-worked:
		err = errors.Join(err, left)
	case <-time.After(s.grace + s.grace/5): // Run waits for each handler, also for one that ignores its context.
		err = errors.Join(err, fmt.Errorf("a handler hangs: %v", s.queue.Snapshot(20)))
	}
	scrape() // 5. The metrics and the page go last: they show the drain, and its counts stay by KeepCounts.
	return errors.Join(err, back.Close())
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` for jobs; port 0 is any free one")
	inside := flag.String("admin", "127.0.0.1:8081", "`address` for metrics, readiness and the page")
	dir := flag.String("dir", "jobs", "`directory` of the payloads; one process at a time may use it")
	target := flag.String("target", "http://127.0.0.1:9090/", "`URL` that gets the payloads")
	settle := flag.Duration("settle", settleTime, "how long to serve after readiness has ended")
	scrape := flag.Duration("scrape", scrapeTime, "how long to show the metrics after the drain: the scrape interval")
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
	if err := os.MkdirAll(filepath.Join(*dir, "failed"), 0o700); err != nil {
		return err
	}
	locked, err := lock(*dir)
	if err != nil {
		return err
	}
	defer locked.Close()
	if err := s.resume(); err != nil {
		return err
	}
	if os.Getenv("ADMIN_PASSWORD") == "" {
		slog.Warn("no ADMIN_PASSWORD: nobody can see the page or retry a job")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal kills.
	fmt.Printf("http://%s/jobs/{tenant} takes jobs, http://%s has /readyz, /metrics and /debug/workqueue/\n", outside.Addr(), admin.Addr())
	return s.serve(ctx, outside, admin, s.admin(promhttp.Handler(), os.Getenv("ADMIN_PASSWORD")), func() { time.Sleep(*settle) }, func() { time.Sleep(*scrape) })
}

func main() {
	if err := run(); err != nil {
		slog.Error("service ended", "err", err)
		os.Exit(1)
	}
}
