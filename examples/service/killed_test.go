package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// SIGTERM at any time is an ordinary end, and SIGKILL is not. In both cases each job with a 202 is
// done, or it is in the database when the process has ended. The next start does what is there.
func TestKilledUnderLoad(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "service")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	times := 8
	if testing.Short() {
		times = 3
	}
	var accepted, left, delivered, failures int
	var mu sync.Mutex
	var lives sync.WaitGroup
	slots := make(chan struct{}, 8)
	for n := range times {
		slots <- struct{}{}
		lives.Go(func() {
			defer func() { <-slots }()
			l := &life{
				binary: binary, db: filepath.Join(t.TempDir(), "jobs.db"), most: 30,
				attempts: map[string]int{}, done: map[string]bool{}, gone: map[string]bool{},
			}
			if n%4 == 3 {
				l.countEach, l.most = true, 5 // Two refusals, two rests, and the job is done.
			}
			if err := l.play(n); err != nil {
				t.Errorf("kill %d: %v", n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			accepted, left, delivered, failures = accepted+len(l.accepted), left+l.first, delivered+len(l.done), failures+len(l.gone)
		})
	}
	lives.Wait()
	t.Logf("%d jobs were stored; %d were left at the first end; at last %d were done, and %d had failed", accepted, left, delivered, failures)
	if left == 0 || delivered == 0 || failures == 0 { // With as few as 18 accepted jobs, each kind is among them.
		t.Error("that was no load")
	}
}

// A life is a start under load, its end, and a second start with the same database. It also receives the
// payloads.
type life struct {
	binary, db string
	countEach  bool // and the receiver wants a rest of a second twice
	most       int  // attempts at a job

	enough   int // as many jobs are accepted before atEnough is called
	atEnough func()
	left     int // jobs at an end
	first    int // and at the first one

	mu       sync.Mutex
	refused  error    // of a job, before the end
	sick     bool     // the receiver takes nothing
	rested   int      // how often the receiver has asked for a rest
	accepted []string // with a 202
	attempts map[string]int
	done     map[string]bool
	gone     map[string]bool // refused for ever
}

// play returns what is wrong.
func (l *life) play(n int) error {
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
	l.mu.Lock()
	l.sick = false // A request of the killed process may still be at work.
	err = cmp.Or(l.refused, err)
	l.mu.Unlock()
	if l.refused != nil || end == syscall.SIGTERM && err != nil {
		return err
	}
	jobs, err := l.stored()
	if err != nil {
		return err
	}
	if err := l.compare(jobs); err != nil {
		return err
	}
	l.first = l.left
	l.accepted = slices.Collect(maps.Keys(jobs)) // The kill may have cost a stored job its 202.
	err = l.start(target.URL, func(_ string, process *os.Process) {
		for range 3000 {
			if l.isOver() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		process.Signal(syscall.SIGTERM)
	})
	if err != nil {
		return err
	}
	if jobs, err = l.stored(); err != nil {
		return err
	}
	for name, in := range jobs {
		if in == open {
			return fmt.Errorf("the second start has left %s", name)
		}
	}
	return l.compare(jobs)
}

// compare compares the accepted jobs with those that are stored, of a process that has ended.
func (l *life) compare(jobs map[string]state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
	for _, name := range l.accepted {
		in := jobs[name]
		if in == unknown || in == done && !l.done[name] || in == failed && !l.gone[name] {
			return fmt.Errorf("after %d attempts %s is stored as %q, done %v, refused for ever %v", l.attempts[name], name, in, l.done[name], l.gone[name])
		}
		if in == open {
			l.left++
		}
		if l.countEach && l.attempts[name] > l.most {
			return fmt.Errorf("%s was tried %d times, want %d at most", name, l.attempts[name], l.most)
		}
	}
	return nil
}

// isOver reports whether each accepted job is done, or refused for ever.
func (l *life) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.accepted {
		if !l.done[name] && !l.gone[name] {
			return false
		}
	}
	return true
}

// start starts the program, and returns when it has ended.
func (l *life) start(target string, during func(address string, process *os.Process)) error {
	command := exec.Command(l.binary, "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0",
		"-db", l.db, "-target", target, "-settle", "20ms", "-scrape", "20ms", "-paying", "tenant-1",
		"-backoff", "1s", "-attempts", strconv.Itoa(l.most), "-count-each="+strconv.FormatBool(l.countEach))
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

// payloadOf is what your clients would post.
func payloadOf(id string) string { return fmt.Sprintf(`{"id": %q}`, id) }

// post posts jobs until one is not accepted.
func (l *life) post(address string, poster int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d%04d", poster, i)
		request, err := http.NewRequest(http.MethodPost, address+"tenant-"+strconv.Itoa(i%3), strings.NewReader(payloadOf(id)))
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
		l.mu.Lock()
		switch response.StatusCode {
		case http.StatusAccepted:
		case http.StatusServiceUnavailable:
			l.mu.Unlock()
			return
		default:
			l.refused = fmt.Errorf("%s: %s", response.Status, name)
			l.atEnough()
			l.mu.Unlock()
			return
		}
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
	case err != nil, string(payload) != payloadOf(id), l.sick:
		w.WriteHeader(http.StatusInternalServerError)
	case l.countEach && len(l.done) > 5*l.rested && l.rested < 2:
		l.rested++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case number%10 == 3:
		l.gone[name] = true
		w.WriteHeader(http.StatusGone)
	case number%3 == 1 && l.attempts[name] < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		l.done[name] = true
	}
}

// stored returns the jobs in the database, of a process that has ended.
func (l *life) stored() (jobs map[string]state, err error) {
	db, err := openDB(l.db)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	jobs = map[string]state{}
	return jobs, db.View(func(tx *bbolt.Tx) error {
		for _, in := range states {
			err = tx.Bucket([]byte(in)).ForEach(func(key, _ []byte) error {
				jobs[string(key)] = in
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
