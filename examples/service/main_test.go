package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/killed"
)

// SIGTERM at any time is an ordinary end, and SIGKILL is not. In both cases each job with a 202 is
// done, or its file is in the directory when the process has ended. The next start does what is there.
func TestKilledUnderLoad(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "service")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mu sync.Mutex
	var accepted, left, done, failed int
	killed.Times(t, func(n int) string {
		l := &life{binary: binary, dir: t.TempDir(), attempts: map[string]int{}, done: map[string]bool{}}
		problem := l.play(n)
		mu.Lock()
		defer mu.Unlock()
		accepted, left, done, failed = accepted+len(l.accepted), left+l.left, done+len(l.done), failed+len(l.files("failed"))
		return problem
	})
	t.Logf("%d jobs got a 202; %d were left at the first end; at last %d were done, and %d had failed", accepted, left, done, failed)
	if left == 0 || done == 0 || failed == 0 { // With as few as 18 accepted jobs, each kind is among them.
		t.Error("that was no load")
	}
}

// A life is a start under load, its end, and a second start in the same directory. It also receives the
// payloads.
type life struct {
	binary, dir string

	enough   int // as many jobs are accepted before atEnough is called
	atEnough func()
	left     int // jobs at the first end

	mu       sync.Mutex
	sick     bool     // the receiver takes nothing
	accepted []string // with a 202
	attempts map[string]int
	done     map[string]bool
}

// play returns what is wrong, or "".
func (l *life) play(n int) (problem string) {
	target := httptest.NewServer(l)
	defer target.Close()
	end := syscall.SIGTERM
	if n%4 == 1 {
		end, l.sick = syscall.SIGKILL, true
	}
	err := l.start(target.URL, func(address string, process *os.Process) {
		l.enough, l.atEnough = 18+n%10*3, func() { process.Signal(end) }
		var posting sync.WaitGroup
		for p := range 3 {
			posting.Go(func() { l.post(address, p) })
		}
		posting.Wait()
	})
	if end == syscall.SIGTERM && err != nil {
		return err.Error()
	}
	l.mu.Lock()
	l.sick = false // A request of the killed process may still be at work.
	l.mu.Unlock()
	l.left = len(l.files("."))
	if problem := l.missing(); problem != "" {
		return problem
	}
	err = l.start(target.URL, func(_ string, process *os.Process) {
		for range 3000 {
			if len(l.files(".")) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		process.Signal(syscall.SIGTERM)
	})
	if err != nil {
		return err.Error()
	}
	if left := l.files("."); len(left) > 0 {
		return fmt.Sprintf("the second start has left %q", left)
	}
	return l.missing()
}

// start starts the program, and returns when it has ended.
func (l *life) start(target string, during func(address string, process *os.Process)) error {
	command := exec.Command(l.binary, "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0",
		"-dir", l.dir, "-target", target, "-settle", "20ms", "-scrape", "20ms")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return err
	}
	hang := time.AfterFunc(3*time.Minute, func() { command.Process.Kill() })
	defer hang.Stop()
	hello, _ := bufio.NewReader(stdout).ReadString('\n')
	address, _, _ := strings.Cut(hello, "{tenant}")
	during(address, command.Process)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return nil
}

// post posts jobs until one is not accepted.
func (l *life) post(address string, poster int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d%04d", poster, i)
		request, err := http.NewRequest(http.MethodPost, address+"tenant-"+strconv.Itoa(i%3), strings.NewReader("payload of "+id))
		if err != nil {
			return
		}
		request.Header.Set("Idempotency-Key", id)
		response, err := client.Do(request)
		if err != nil {
			return
		}
		name, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			return
		}
		l.mu.Lock()
		l.accepted = append(l.accepted, strings.TrimSpace(string(name)))
		if len(l.accepted) == l.enough {
			l.atEnough()
		}
		l.mu.Unlock()
	}
}

// ServeHTTP refuses some jobs twice, and others always.
func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get("Idempotency-Key")
	payload, err := io.ReadAll(r.Body)
	id := name[strings.LastIndex(name, ".")+1:]
	number, _ := strconv.Atoi(id)
	time.Sleep(rand.N(5 * time.Millisecond))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[name]++
	switch {
	case err != nil, string(payload) != "payload of "+id, l.sick:
		w.WriteHeader(http.StatusInternalServerError)
	case number%10 == 3:
		w.WriteHeader(http.StatusGone)
	case number%3 == 1 && l.attempts[name] < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		l.done[name] = true
	}
}

// files returns the jobs in a directory below dir.
func (l *life) files(below string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(l.dir, below))
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".job"); ok {
			names = append(names, name)
		}
	}
	return names
}

// missing names the accepted jobs that are neither done nor in a file.
func (l *life) missing() (problem string) {
	there := map[string]bool{}
	for _, name := range append(l.files("."), l.files("failed")...) {
		there[name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.accepted {
		if !l.done[name] && !there[name] {
			problem += fmt.Sprintf("%s is lost after %d attempts; ", name, l.attempts[name])
		}
	}
	return problem
}

// send calls a handler, and returns the status and the answer.
func send(h http.Handler, method, path, body, password string) (status int, answer string) {
	return sendKey(h, method, path, body, password, "")
}

func sendKey(h http.Handler, method, path, body, password, key string) (status int, answer string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	if password != "" {
		r.SetBasicAuth("admin", password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// A transport is a receiver without a network, which a bubble of synctest can wait for.
type transport func(r *http.Request) int

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	code := t(r)
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Body: http.NoBody}, nil
}

// A request that is still at work when the drain begins gets no 202, and the accepted jobs are done.
func TestNo202WhenTheDrainRefusesTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		release, posted := make(chan struct{}), 0
		s.client.Transport = transport(func(*http.Request) int {
			posted++
			<-release
			return http.StatusOK
		})
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		if code, _ := send(s.public(), "POST", "/jobs/acme", "before", ""); code != http.StatusAccepted {
			t.Fatalf("before the drain: got %d", code)
		}
		synctest.Wait()
		stop()
		synctest.Wait()
		if code, text := send(s.public(), "POST", "/jobs/acme", "during", ""); code != http.StatusServiceUnavailable {
			t.Errorf("during the drain: got %d, %s", code, text)
		}
		close(release)
		if err := <-worked; err != nil || posted != 1 {
			t.Errorf("%d jobs were done, %v", posted, err)
		}
	})
}

// Each payload that got a 202 is delivered, also if its key is posted with another payload, while the first
// is queued or at work. The second payload gets a 409 until the first is delivered.
func TestNo202IsLostToAnotherPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		release, delivered := make(chan struct{}), map[string]int{}
		s.client.Transport = transport(func(r *http.Request) int {
			payload, _ := io.ReadAll(r.Body)
			<-release
			delivered[string(payload)]++ // One job at a time.
			return http.StatusOK
		})
		accepted := map[string]int{}
		post := func(payload string, want int) {
			t.Helper()
			code, text := sendKey(s.public(), "POST", "/jobs/acme", payload, "", "order-7")
			if code == http.StatusAccepted {
				accepted[payload] = 1
			}
			if code != want {
				t.Errorf("%s: got %d, %s, want %d", payload, code, text, want)
			}
		}
		post("first", http.StatusAccepted)
		post("while the first is queued", http.StatusConflict)
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		synctest.Wait()
		post("while the first is at work", http.StatusConflict)
		post("first", http.StatusAccepted)
		close(release)
		synctest.Wait()
		post("second", http.StatusAccepted)
		stop()
		if err := <-worked; err != nil || fmt.Sprint(delivered) != fmt.Sprint(accepted) {
			t.Errorf("accepted %v, delivered %v, %v", accepted, delivered, err)
		}
		if files, err := os.ReadDir(s.dir); len(files) > 0 {
			t.Errorf("%v are left, %v", files, err)
		}
	})
}

// A key is one job, whatever its priority, and the highest priority counts.
func TestThePriorityIsNotPartOfTheKey(t *testing.T) {
	s := newService(t.TempDir(), "", prometheus.NewRegistry())
	for _, priority := range []string{"0", "5", ""} {
		code, name := sendKey(s.public(), "POST", "/jobs/acme?priority="+priority, "payload", "", "order-7")
		if code != http.StatusAccepted || name != "acme.order-7" {
			t.Errorf("priority %q: got %d, %s", priority, code, name)
		}
	}
	info, err := s.queue.GetInfo(t.Context())
	if err != nil || info.Priority != 5 || s.queue.Len() > 0 {
		t.Errorf("got %v, and %d more, %v", info, s.queue.Len(), err)
	}
	if files, err := os.ReadDir(s.dir); len(files) != 1 {
		t.Errorf("the files are %v, %v", files, err)
	}
}

// A job that was given up, and a job that waits for a retry, are tried again without a restart.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
			t.Fatal(err)
		}
		code, tries := http.StatusGone, 0
		s.client.Transport = transport(func(*http.Request) int { tries++; return code })
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		retry := func(want int) {
			t.Helper()
			path := "/jobs/acme.order-7/retry"
			if code, _ := send(s.admin(http.NotFoundHandler(), "secret"), "POST", path, "", "wrong"); code != 401 {
				t.Errorf("with a wrong password: got %d", code)
			}
			if code, text := send(s.admin(http.NotFoundHandler(), "secret"), "POST", path, "", "secret"); code != want {
				t.Errorf("got %d, %s, want %d", code, text, want)
			}
			synctest.Wait()
		}
		retry(http.StatusNotFound)
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
		synctest.Wait()
		if _, err := os.Stat(s.failedPath(job{"acme", "order-7"})); err != nil {
			t.Error(err)
		}
		if reason, err := os.ReadFile(s.reasonPath(job{"acme", "order-7"})); string(reason) != "410\n" {
			t.Errorf("the reason is %q, %v", reason, err)
		}
		if _, text := send(s.admin(http.NotFoundHandler(), "secret"), "GET", "/failed", "", "secret"); !strings.Contains(text, `"/jobs/acme.order-7/retry"><button>retry</button> acme.order-7 410`) {
			t.Errorf("the list of what was given up is %q", text)
		}
		if code, _ := sendKey(s.public(), "POST", "/jobs/acme", "another", "", "order-7"); code != http.StatusConflict {
			t.Errorf("another payload: got %d", code)
		}
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7") // Is tried, and given up again.
		synctest.Wait()
		code = http.StatusBadGateway
		retry(http.StatusAccepted) // The job was given up, and now waits for a retry.
		code = http.StatusOK
		retry(http.StatusAccepted)
		retry(http.StatusNotFound)
		if stats := s.queue.Stats(); tries != 4 || stats.Waiting > 0 {
			t.Errorf("%d tries, and %d jobs wait", tries, stats.Waiting)
		}
		if files, err := os.ReadDir(filepath.Join(s.dir, "failed")); len(files) > 0 {
			t.Errorf("%v is left of jobs that are done, %v", files, err)
		}
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	})
}

// The tries of all starts count together, those that end with the process too, and those that an operator brings. With
// the count of Run alone each start began anew, and a job that ends the process was tried for ever.
func TestTriesOfAllStartsCount(t *testing.T) {
	j := job{"acme", "order-7"}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "failed"), 0o700); err != nil {
		t.Fatal(err)
	}
	tries := 0
	start := func(t *testing.T, answer func(s *service, stop func()) int) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(dir, "http://receiver/", prometheus.NewRegistry())
			ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
			defer stop()
			s.client.Transport = transport(func(*http.Request) int { tries++; return answer(s, stop) })
			if _, err := os.Stat(s.path(j)); errors.Is(err, os.ErrNotExist) {
				sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
			}
			if err := s.resume(); err != nil {
				t.Fatal(err)
			}
			if err := s.work(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	failedAfter := func(want int) {
		t.Helper()
		s := service{dir: dir}
		if _, err := os.Stat(s.failedPath(j)); err != nil || tries != want {
			t.Errorf("%d tries, and the job has not failed: %v, want %d", tries, err, want)
		}
		if _, err := os.Stat(s.triesPath(j)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the next row of tries would not begin anew: %v", err)
		}
		tries = 0
	}
	for range 5 { // Each start ends in its second try, and the drain has two or three more.
		before := tries
		start(t, func(_ *service, stop func()) int {
			if tries == before+2 {
				stop()
			}
			return http.StatusBadGateway
		})
	}
	start(t, func(s *service, _ func()) int {
		s.queue.Wake(j) // The next try comes at once.
		return http.StatusBadGateway
	})
	failedAfter(maxAttempts)

	s := service{dir: dir}
	if _, _, err := s.bring(j); err != nil {
		t.Fatal(err)
	}
	for range maxAttempts { // A process that dies in each try: another one begins where it was.
		if _, err := s.countTry(j); err != nil {
			t.Fatal(err)
		}
	}
	start(t, func(*service, func()) int { return http.StatusOK })
	failedAfter(0)

	start(t, func(*service, func()) int { panic("at the disco") })
	failedAfter(maxAttempts)
	if reason, err := os.ReadFile(s.reasonPath(j)); !strings.Contains(string(reason), "at the disco") {
		t.Errorf("the reason is %q, %v", reason, err)
	}
}

// A client that posts its job again and again during an outage does not use up the tries. After a start the backoff goes
// on where it was.
func TestTriesKeepTheirBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, tries := t.TempDir(), 0
		start := func(posts int) {
			s := newService(dir, "http://receiver/", prometheus.NewRegistry())
			s.client.Transport = transport(func(*http.Request) int { tries++; return http.StatusBadGateway })
			if err := s.resume(); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			worked := make(chan error)
			go func() { worked <- s.work(ctx) }()
			for range posts {
				sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
				time.Sleep(100 * time.Millisecond)
			}
			stop()
			if err := <-worked; err != nil {
				t.Error(err)
			}
		}
		start(600) // A minute, and the drain: waits of 1, 2, 4, 8, 16 and 32 s, with their jitter.
		if tries < 5 || tries > 7 {
			t.Errorf("%d tries in a minute, want 5 to 7", tries)
		}
		before := tries
		for range 5 {
			start(10)
		}
		if tries != before {
			t.Errorf("%d tries at five starts that last a second, want none", tries-before)
		}
		// The whole wait began anew at each start, so a process that started often never tried the job again.
		for range 100 {
			start(1)
			time.Sleep(2900 * time.Millisecond)
		}
		if tries < before+2 || tries > before+3 {
			t.Errorf("%d tries in the next five minutes, want 2 or 3", tries-before)
		}
	})
}

// Each job that was given up is tried again by one call.
func TestRetryFailed(t *testing.T) {
	s := newService(t.TempDir(), "", prometheus.NewRegistry())
	if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if err := os.WriteFile(s.failedPath(job{"acme", id}), []byte("3\npayload"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, text := send(s.admin(http.NotFoundHandler(), "secret"), "POST", "/retry-failed", "", "secret")
	if info, ok := s.queue.Find(job{"acme", "b"}); code != http.StatusOK || text != "2 jobs are tried again" || !ok || info.Priority != 3 {
		t.Errorf("got %d, %s, and %v", code, text, info)
	}
}

// A job that is posted again while its last try is at work has a 202. It went to failed with that try, its
// next hand-out found no file, and nobody tried it again.
func TestNo202IsLostToAGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
			t.Fatal(err)
		}
		tries := 0
		s.client.Transport = transport(func(*http.Request) int {
			if tries++; tries > 1 {
				return http.StatusOK
			}
			if code, _ := sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7"); code != http.StatusAccepted {
				t.Errorf("posted again: got %d", code)
			}
			s.pace.SetLimit(0) // For a look before the next try.
			return http.StatusGone
		})
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		synctest.Wait()
		if _, err := os.Stat(s.path(job{"acme", "order-7"})); err != nil {
			t.Errorf("the next start would not find the job: %v", err)
		}
		s.pace.SetLimit(rate.Inf)
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if err := <-worked; err != nil || tries != 2 {
			t.Errorf("%d tries, %v", tries, err)
		}
		if left, _ := filepath.Glob(filepath.Join(s.dir, "*", "*.job")); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// The operator pauses the queue, and ends the waits. A pause does not outlast the signal.
func TestWakeAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		code := http.StatusBadGateway
		var tries atomic.Int32
		s.client.Transport = transport(func(*http.Request) int { tries.Add(1); return code })
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		post := func(path, want string, wantTries int32) {
			t.Helper()
			code, text := send(s.admin(http.NotFoundHandler(), "secret"), "POST", path, "", "secret")
			if synctest.Wait(); code != 200 || text != want || tries.Load() != wantTries {
				t.Errorf("%s: got %d, %q and %d tries, want %q and %d", path, code, text, tries.Load(), want, wantTries)
			}
		}
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-8")
		synctest.Wait()
		post("/wake?job=acme.order-7", "1 woken", 3)
		post("/pause?on=true", "paused: true", 3)
		code = http.StatusOK
		post("/wake", "2 woken", 3)
		post("/pause", "paused: false", 3)
		time.Sleep(time.Second)
		synctest.Wait()
		if tries.Load() != 5 || s.queue.Len() > 0 {
			t.Errorf("after the pause: %d tries, and %d jobs are queued", tries.Load(), s.queue.Len())
		}
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	})
}

// A redirect became a GET without the payload, and its 200 removed the file.
func TestNo202IsLostToARedirect(t *testing.T) {
	var bodies []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bodies = append(bodies, r.Method+" "+string(body)); r.URL.Path != "/login" {
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	}))
	defer target.Close()
	s := newService(t.TempDir(), target.URL, prometheus.NewRegistry())
	if err := s.save(job{"acme", "order-7"}, 0, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	if err := s.do(t.Context(), job{"acme", "order-7"}); err == nil || fmt.Sprint(bodies) != "[POST payload]" {
		t.Errorf("the receiver got %q, and the try ends with %v", bodies, err)
	}
}

// A Retry-After of 300 years was a negative duration, and all tries came at once.
func TestRetryAfterHasABound(t *testing.T) {
	s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
	for _, after := range []busy{"9999999999", busy(time.Now().Add(9999 * time.Hour).UTC().Format(http.TimeFormat))} {
		s.client.Transport = after
		err := s.send(t.Context(), job{"acme", "order-7"}, nil)
		if v := workqueue.VerdictOf(err); v.Outcome != workqueue.OutcomeFailed || v.After != time.Hour || err.Error() != "429" {
			t.Errorf("%s: got %v, %q, want a failure, an hour and the status", after, v, err)
		}
	}
	s.client.Transport = busy("tomorrow")
	if v := workqueue.VerdictOf(s.send(t.Context(), job{"acme", "order-7"}, nil)); v.Outcome != workqueue.OutcomeFailed || v.After != 0 {
		t.Errorf("got %v, want a failure with the backoff alone", v)
	}
}

// Of two answers the later time counts. A second with the shorter time let all jobs call again after that.
func TestTheLaterRetryAfterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		for _, after := range []string{"60", "1"} {
			s.client.Transport = busy(after)
			if err := s.send(t.Context(), job{"acme", after}, nil); err == nil {
				t.Error("the job is done")
			}
		}
		for _, row := range []struct{ sleep, limit float64 }{{59, 0}, {2, float64(rate.Inf)}} {
			time.Sleep(time.Duration(row.sleep) * time.Second)
			synctest.Wait()
			if got := s.pace.Limit(); float64(got) != row.limit {
				t.Errorf("the limit is %v, want %v", got, row.limit)
			}
		}
	})
}

// A receiver that was out for an hour, and answered 503 with a Retry-After of a second, had each job given up
// after 30 seconds. Later it got 3,600 requests for each job, and nothing said that they failed.
func TestRetryAfterDoesNotUseUpTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		s.client.Transport = busy("1")
		j := job{"acme", "order-7"}
		if err := s.save(j, 0, nil); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		s.queue.Add(j)
		if err := s.work(ctx); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.path(j)); err != nil {
			t.Error(err)
		}
		if n := s.queue.NumRequeues(j); n < 12 || n > 18 {
			t.Errorf("%d failures in an hour, want the 12 to 18 of the backoff", n)
		}
	})
}

// An outage of six hours, in which the receiver answers 429, gave up 20 of 20 jobs: at the end of each hold as many jobs as
// there are workers had a try that counted.
func TestRetryAfterIsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		start := time.Now()
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if time.Since(start) < 6*time.Hour {
				return busy("10").RoundTrip(r)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		for n := range 20 {
			j := job{"acme", fmt.Sprint("order-", n)}
			if err := s.save(j, 0, nil); err != nil {
				t.Fatal(err)
			}
			s.queue.Add(j)
		}
		ctx, stop := context.WithTimeout(t.Context(), 7*time.Hour)
		defer stop()
		if err := s.work(ctx); err != nil {
			t.Error(err)
		}
		stats := s.queue.Stats()
		if left, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil || len(left) != 1 || stats.Results[workqueue.OutcomeSucceeded] != 20 {
			t.Errorf("%d jobs are done, %q are left, %v", stats.Results[workqueue.OutcomeSucceeded], left, err)
		}
	})
}

// A job that waits as long as the receiver has asked for is tried now.
func TestRetryBeforeTheTimeOfTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		s.client.Transport = busy("3600")
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
		synctest.Wait()
		s.client.Transport = transport(func(*http.Request) int { return http.StatusOK })
		if code, _ := send(s.admin(http.NotFoundHandler(), "secret"), "POST", "/jobs/acme.order-7/retry", "", "secret"); code != 202 {
			t.Errorf("the answer is %d", code)
		}
		synctest.Wait()
		if _, err := os.Stat(s.path(job{"acme", "order-7"})); !os.IsNotExist(err) {
			t.Errorf("the job was not tried: %v", err)
		}
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	})
}

// Of 30 jobs, 29 called the receiver before the time that it had named to the first ones.
func TestRetryAfterHoldsForAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		var early atomic.Int64
		start := time.Now()
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if time.Since(start) < time.Minute {
				early.Add(1)
				return busy("60").RoundTrip(r)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		for i := range 30 {
			j := job{fmt.Sprint("tenant", i), "order"}
			if err := s.save(j, 0, nil); err != nil {
				t.Fatal(err)
			}
			s.queue.Add(j)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if err := s.work(ctx); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(s.dir, "*.job"))
		if n := early.Load(); err != nil || len(left) > 0 || n > 8 {
			t.Errorf("%d calls before the time, want at most one for each worker; %d jobs are left", n, len(left))
		}
	})
}

// A worker that had its job when the receiver named the time called all the same, and so did each start within the time.
func TestRetryAfterHoldsForAWorkerAndThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := job{"acme", "order-7"}
		s := newService(dir, "http://receiver/", prometheus.NewRegistry())
		if err := s.save(j, 0, nil); err != nil {
			t.Fatal(err)
		}
		s.notBefore(time.Now().Add(time.Minute))
		s.client.Transport = transport(func(*http.Request) int {
			t.Error("the receiver is called")
			return http.StatusOK
		})
		if v := workqueue.VerdictOf(s.do(t.Context(), j)); v.Outcome != workqueue.OutcomeDeferred || v.After != time.Minute || s.tries(j) != 0 {
			t.Errorf("got %+v after %d tries, want a wait of a minute and no try", v, s.tries(j))
		}
		s = newService(dir, "http://receiver/", prometheus.NewRegistry())
		if err := s.resume(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []rate.Limit{0, rate.Inf} {
			if got := s.pace.Limit(); got != want {
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
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		s.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(3 * time.Second):
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		for n := range 40 {
			j := job{fmt.Sprint("tenant", n), "order"}
			if err := s.save(j, 0, nil); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.triesPath(j), bytes.Repeat([]byte("."), maxAttempts-1), 0o600); err != nil {
				t.Fatal(err)
			}
			s.queue.Add(j)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := s.work(ctx); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(s.dir, "*.tries"))
		for _, file := range left {
			if text, _ := os.ReadFile(file); len(text) != maxAttempts-1 {
				t.Errorf("%s has %d tries", file, len(text))
			}
		}
		if err != nil || len(left) != 16 {
			t.Errorf("%d jobs are left, %v, want one for each worker, and 8 that have not begun", len(left), err)
		}
	})
}

// A job whose file could not be moved was neither in the queue nor among those that were given up.
func TestGiveUpThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		s.client.Transport = transport(func(*http.Request) int { return http.StatusGone })
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		sendKey(s.public(), "POST", "/jobs/acme", "payload", "", "order-7")
		time.Sleep(10*time.Minute + 30*time.Second) // The directory failed is missing.
		if info, _ := s.queue.Find(job{"acme", "order-7"}); info.State != workqueue.ItemWaiting {
			t.Errorf("%v, want an item that waits", info)
		}
		if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := <-worked; err != nil {
			t.Error(err)
		}
		if reason, err := os.ReadFile(s.reasonPath(job{"acme", "order-7"})); string(reason) != "410\n" {
			t.Errorf("the reason is %q, %v", reason, err)
		}
	})
}

// A hold that a power failure has emptied kept the service from starting.
func TestStartWithABrokenHold(t *testing.T) {
	dir := t.TempDir()
	for _, paused := range []bool{true, false} {
		s := newService(dir, "", prometheus.NewRegistry())
		if err := s.changeHold(func(h *hold) { h.Paused = true }); err != nil {
			t.Fatal(err)
		}
		if !paused {
			if err := os.WriteFile(s.holdPath(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		next := newService(dir, "", prometheus.NewRegistry())
		if err := next.resumeHold(); err != nil || next.hold.Paused != paused {
			t.Errorf("paused %v, %v, want %v", next.hold.Paused, err, paused)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "new-*")); len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// The client sends a request with an Idempotency-Key again when the connection breaks, and nobody counted these tries.
func TestOneTryIsOneRequest(t *testing.T) {
	for _, payload := range []string{"payload", ""} {
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
		s := newService(t.TempDir(), target.URL, prometheus.NewRegistry())
		for n, wantErr := range []bool{false, true} {
			if err := s.send(t.Context(), job{"acme", "order-7"}, []byte(payload)); err != nil != wantErr {
				t.Errorf("request %d ends with %v", n, err)
			}
		}
		if got := requests.Load(); got != 2 {
			t.Errorf("payload %q: two tries were %d requests", payload, got)
		}
	}
}

// The page says why a job waits for a retry, until the job is done.
func TestThePageHasTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		var code atomic.Int64
		code.Store(http.StatusInternalServerError)
		s.client.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: int(code.Load()), Status: "500 the disk is full", Body: http.NoBody}, nil
		})
		j := job{"acme", "order-7"}
		if err := s.save(j, 0, nil); err != nil {
			t.Fatal(err)
		}
		s.queue.Add(j)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.work(ctx) }()
		page := func() string {
			synctest.Wait()
			_, page := send(s.admin(http.NotFoundHandler(), "secret"), "GET", "/debug/workqueue/?queue=jobs&search=order-7", "", "secret")
			return page
		}
		if got := page(); !strings.Contains(got, "acme.order-7: 500 the disk is full") {
			t.Errorf("the page of a failed job lacks its error:\n%s", got)
		}
		code.Store(http.StatusOK)
		time.Sleep(2 * time.Second)
		if got := page(); strings.Contains(got, "disk") {
			t.Errorf("the page of a job that is done has its error:\n%s", got)
		}
		s.lastErrors.Range(func(j, err any) bool {
			t.Errorf("kept %v: %v", j, err)
			return true
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// busy is a receiver that names a time.
type busy string

func (b busy) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 429, Status: "429", Header: http.Header{"Retry-After": {string(b)}}, Body: http.NoBody}, nil
}

// Run waits for a handler that ignores its context. The pod would be killed without a word.
func TestEndWithAHandlerThatHangs(t *testing.T) {
	s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
	s.grace = 50 * time.Millisecond
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s.client.Transport = transport(func(*http.Request) int { close(arrived); <-release; return http.StatusOK })
	if err := s.save(job{"acme", "order-7"}, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-arrived; stop() }()
	err := s.serve(ctx, listen(t), listen(t), s.admin(http.NotFoundHandler(), ""), func() {}, func() {})
	if err == nil || !strings.Contains(err.Error(), "acme.order-7: in_flight") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.path(job{"acme", "order-7"})); err != nil {
		t.Error(err)
	}
}

// A tenant has four of the eight workers at most, and its urgent jobs come first.
func TestTenantsShareTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		var mu sync.Mutex
		var begun []string
		release := make(chan struct{})
		s.client.Transport = transport(func(r *http.Request) int {
			what, _ := io.ReadAll(r.Body)
			mu.Lock()
			begun = append(begun, string(what))
			mu.Unlock()
			<-release
			return http.StatusOK
		})
		for range 20 {
			send(s.public(), "POST", "/jobs/flood", "flood0", "")
		}
		send(s.public(), "POST", "/jobs/flood?priority=9", "flood9", "")
		send(s.public(), "POST", "/jobs/quiet", "quiet0", "")
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		synctest.Wait()
		count := map[string]int{}
		for _, what := range begun {
			count[what]++
		}
		if fmt.Sprint(count) != "map[flood0:3 flood9:1 quiet0:1]" {
			t.Errorf("at work: %v", count)
		}
		stop()
		close(release)
		if err := <-worked; err != nil || len(begun) != 22 {
			t.Errorf("%d jobs were done, %v", len(begun), err)
		}
	})
}

// Of 200 jobs that fail together, none waits for long: the limiter has no bucket for all of them.
func TestFailingJobsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t.TempDir(), "http://receiver/", prometheus.NewRegistry())
		var mu sync.Mutex
		attempts := map[string]int{}
		s.client.Transport = transport(func(r *http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			name := r.Header.Get("Idempotency-Key")
			if attempts[name]++; attempts[name] == 1 {
				return http.StatusBadGateway
			}
			return http.StatusOK
		})
		for n := range 200 {
			if err := os.WriteFile(s.path(job{"acme", strconv.Itoa(n)}), []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.resume(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- s.work(ctx) }()
		begin := time.Now()
		if err := s.queue.WaitEmpty(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 1500*time.Millisecond {
			t.Errorf("the last of the 200 retries took %v", took)
		}
		stop()
		<-worked
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
	s := newService(t.TempDir(), target.URL, registry)
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
		if _, text := get(t, admin+"/metrics"); !strings.Contains(text, `workqueue_results_total{name="jobs",result="succeeded"} 2`) {
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
	for !s.queue.ShuttingDown() { // The drain has begun.
		time.Sleep(time.Millisecond)
	}
	if code, err := post(jobs); err == nil {
		t.Errorf("during the drain: got %d", code)
	}
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, `workqueue_in_flight{name="jobs"} 2`) {
		t.Errorf("during the drain: the metrics are %s", text)
	}
	close(release)
	if err := <-served; err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*")); len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// A deploy in the middle of an incident called the receiver for each job that a pause had kept back.
func TestPauseHoldsThroughTheEndAndTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "failed"), 0o700); err != nil {
			t.Fatal(err)
		}
		for start, want := range []int64{0, 0, 20} {
			s := newService(dir, "http://receiver/", prometheus.NewRegistry())
			var calls atomic.Int64
			s.client.Transport = transport(func(*http.Request) int { calls.Add(1); return http.StatusOK })
			if err := s.resume(); err != nil {
				t.Fatal(err)
			}
			admin := s.admin(http.NotFoundHandler(), "secret")
			switch start {
			case 0:
				send(admin, "POST", "/pause?on=true", "", "secret")
				for i := range 20 {
					sendKey(s.public(), "POST", "/jobs/acme", "payload", "", fmt.Sprint("order-", i))
				}
			case 2:
				send(admin, "POST", "/pause?on=false", "", "secret")
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			if err := s.work(ctx); err != nil {
				t.Error(err)
			}
			stop()
			if got := calls.Load(); got != want {
				t.Errorf("start %d: %d calls, want %d", start, got, want)
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
	response, err := http.Post(url, "", strings.NewReader("payload"))
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
	s := newService(t.TempDir(), "", prometheus.NewRegistry())
	for path, body := range map[string]string{
		"/jobs/a.b":              "",
		"/jobs/..%2Fetc":         "",
		"/jobs/acme?priority=x":  "",
		"/jobs/acme?priority=10": "",
		"/jobs/acme":             strings.Repeat("x", 1<<20+1),
	} {
		if code, text := send(s.public(), "POST", path, body, ""); code != http.StatusBadRequest {
			t.Errorf("%s: got %d, %s", path, code, text)
		}
	}
	if files, err := os.ReadDir(s.dir); len(files) > 0 || s.queue.Len() > 0 {
		t.Errorf("%d files, %d items, %v", len(files), s.queue.Len(), err)
	}
	s.dir = filepath.Join(s.dir, "gone")
	if code, text := send(s.public(), "POST", "/jobs/acme", "", ""); code != http.StatusInternalServerError || s.queue.Len() > 0 {
		t.Errorf("without a directory: got %d, %s, and %d items", code, text, s.queue.Len())
	}
}

// A start adds what the last run has left, with its priority, and removes what was never accepted.
func TestStartAddsWhatIsThere(t *testing.T) {
	s := newService(t.TempDir(), "", prometheus.NewRegistry())
	if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"acme.b.job": "0\n", "acme.z.job": "0\n", "acme.a.job": "3\n", "acme.broken.job": "garbage", "new-123": "", "acme.a.tries": "", "acme.done.tries": "..",
		"acme.tried.job": "0\n", "acme.tried.tries": strings.Repeat(".", maxAttempts), "failed/acme.tried.error": "410\n", "README.md": ""} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, "acme.z.job"), long, long); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(); err != nil {
		t.Fatal(err)
	}
	if reason, err := os.ReadFile(s.reasonPath(job{"acme", "tried"})); string(reason) != "410\n" || err != nil {
		t.Errorf("the job whose give-up a kill has cut short has the reason %q, %v", reason, err)
	}
	for _, want := range []string{"acme.a", "acme.z", "acme.b"} { // By priority, and then the oldest first.
		if j, ok := s.queue.TryGet(); !ok || j.String() != want {
			t.Errorf("got %v %v, want %s", j, ok, want)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "new-123")); !errors.Is(err, os.ErrNotExist) || s.queue.Len() > 0 {
		t.Errorf("%v, %d items", err, s.queue.Len())
	}
	if _, err := os.Stat(filepath.Join(s.dir, "acme.done.tries")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tries of a job that was done: %v", err)
	}
	for _, path := range []string{"README.md", "acme.a.tries", "failed/acme.broken.job", "failed/acme.tried.job"} {
		if _, err := os.Stat(filepath.Join(s.dir, path)); err != nil {
			t.Error(err)
		}
	}
}

// A second process does not start beside the first one, also if both find the file of one that was killed. Two got in, when
// the lock was a socket that a killed process leaves.
func TestOneProcessUsesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var holders []io.Closer
		var mu sync.Mutex
		var starts sync.WaitGroup
		for range 4 {
			starts.Go(func() {
				if held, err := lock(dir); err == nil {
					mu.Lock()
					holders = append(holders, held)
					mu.Unlock()
				}
			})
		}
		starts.Wait()
		if len(holders) != 1 {
			t.Fatalf("%d processes use the directory, want 1", len(holders))
		}
		holders[0].Close()
	}
}

func TestAdminAsksForAPassword(t *testing.T) {
	s := newService(t.TempDir(), "", prometheus.NewRegistry())
	for given, want := range map[string]int{"": 401, "wrong": 401, "secret": 200} {
		if code, _ := send(s.admin(http.NotFoundHandler(), "secret"), "GET", "/debug/workqueue/", "", given); code != want {
			t.Errorf("with the password %q: got %d, want %d", given, code, want)
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "failed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/debug/pprof/goroutine?debug=2", "/debug/pprof/profile?seconds=1", "/failed", "POST /wake", "POST /pause"} {
		method, path, found := strings.Cut(path, " ")
		if !found {
			method, path = "GET", method
		}
		for given, want := range map[string]int{"wrong": 401, "secret": 200} {
			if code, _ := send(s.admin(http.NotFoundHandler(), "secret"), method, path, "", given); code != want {
				t.Errorf("%s with the password %q: got %d, want %d", path, given, code, want)
			}
		}
	}
	if code, _ := send(s.admin(http.NotFoundHandler(), ""), "GET", "/debug/workqueue/", "", ""); code != 401 {
		t.Errorf("without a password in the environment: got %d", code)
	}
}
