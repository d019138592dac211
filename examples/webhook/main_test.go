package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/examples/internal/killed"
)

// SIGTERM at any time is an ordinary end: the exit status is 0, no delivery in flight is cut
// off, and each event that was accepted is delivered, given up, or left in the outbox for the
// next start.
func TestKilledUnderLoad(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "webhook")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	total := &account{}
	killed.Times(t, func(n int) string {
		a, problem := kill(binary, n)
		total.add(a)
		return problem
	})
	t.Logf("%d events accepted, %d delivered, %d given up, %d left in the outbox", total.accepted, total.delivered, total.gone, total.left)
	if total.delivered == 0 || total.gone == 0 {
		t.Error("that was no load")
	}
}

// An account counts the events of one run by their end.
type account struct {
	mu                              sync.Mutex
	accepted, delivered, gone, left int
}

func (a *account) add(other *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accepted += other.accepted
	a.delivered += other.delivered
	a.gone += other.gone
	a.left += other.left
}

// A receiver takes deliveries. It refuses some events once, and others always.
type receiver struct {
	mu        sync.Mutex
	attempts  map[string]int
	delivered map[string]bool
	cut       int // deliveries whose client went away
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	io.Copy(io.Discard, request.Body)
	id := request.Header.Get("Idempotency-Key")
	time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
	number, _ := strconv.Atoi(strings.TrimPrefix(id, "event-"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Context().Err() != nil {
		r.cut++
		return
	}
	r.attempts[id]++
	switch {
	case number%10 == 3:
		w.WriteHeader(http.StatusGone)
	case number%3 == 1 && r.attempts[id] < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		r.delivered[id] = true
	}
}

// kill runs the program under load for a random time, and then ends the program. The problem
// is empty if every accepted event is accounted for.
func kill(binary string, n int) (a *account, problem string) {
	a = &account{}
	r := &receiver{attempts: map[string]int{}, delivered: map[string]bool{}}
	target := httptest.NewServer(r)
	defer target.Close()
	command := exec.Command(binary, "-listen", "127.0.0.1:0")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return a, err.Error()
	}
	timer := time.AfterFunc(3*time.Minute, func() { command.Process.Kill() }) // If the program hangs.
	defer timer.Stop()
	out := bufio.NewReader(stdout)
	hello, _ := out.ReadString('\n')
	address, _, _ := strings.Cut(hello, " ")

	accepted := load(address+"?url="+url.QueryEscape(target.URL), func() {
		time.Sleep(5*time.Millisecond + time.Duration(n%10)*4*time.Millisecond + rand.N(10*time.Millisecond))
		command.Process.Signal(syscall.SIGTERM)
	})
	rest, _ := io.ReadAll(out)
	if err := command.Wait(); err != nil {
		return a, fmt.Sprintf("%v\n%s", err, stderr.String())
	}
	return a, a.settle(accepted, r, string(rest), stderr.String())
}

// load posts events until the server is gone, and returns the names of the accepted events.
// It calls stop after the start of the posts.
func load(address string, stop func()) (accepted map[string]bool) {
	var mu sync.Mutex
	accepted = map[string]bool{}
	var posting sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 3 {
		posting.Go(func() {
			for {
				response, err := client.Post(address, "application/json", strings.NewReader(`{"paid": true}`))
				if err != nil {
					return
				}
				id, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusAccepted {
					return
				}
				mu.Lock()
				accepted[strings.TrimSpace(string(id))] = true
				mu.Unlock()
			}
		})
	}
	stop()
	posting.Wait()
	return accepted
}

var (
	leftLine  = regexp.MustCompile(`left in the outbox: (\S+)`)
	givenLine = regexp.MustCompile(`given up event=(\S+)`)
)

// settle counts the accepted events by their end. The problem names lost events.
func (a *account) settle(accepted map[string]bool, r *receiver, out, log string) (problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, given := map[string]bool{}, map[string]bool{}
	for _, match := range leftLine.FindAllStringSubmatch(out, -1) {
		left[match[1]] = true
	}
	for _, match := range givenLine.FindAllStringSubmatch(log, -1) {
		given[match[1]] = true
	}
	a.accepted, a.gone, a.left = len(accepted), len(given), len(left)
	for id := range accepted {
		switch {
		case r.delivered[id]:
			a.delivered++
		case !left[id] && !given[id]:
			problem += fmt.Sprintf("%s is lost after %d attempts; ", id, r.attempts[id])
		}
	}
	if r.cut > 0 {
		problem += fmt.Sprintf("%d deliveries were cut off; ", r.cut)
	}
	return problem
}
