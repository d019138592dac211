// Package killed ends programs by SIGTERM at random moments, for their tests.
package killed

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Times is how often Busy kills a program. Under -short there are fewer kills.
func Times() int {
	if testing.Short() {
		return 3
	}
	return 50
}

// Busy runs a program as often as Times says, eight at a time. It sends SIGTERM at a
// random moment after the first output. It reports every exit status other than 0, and
// every problem that check finds in the output.
func Busy(t *testing.T, check func(out string) (problem string), program string, args ...string) {
	t.Helper()
	var all sync.WaitGroup
	turns := make(chan int, Times())
	for n := range Times() {
		turns <- n
	}
	close(turns)
	for range 8 {
		all.Go(func() {
			for n := range turns {
				out, err := once(exec.Command(program, args...))
				if err != nil {
					t.Errorf("kill %d: %v\n%s", n, err, out)
				} else if problem := check(out); problem != "" {
					t.Errorf("kill %d: %s\n%s", n, problem, out)
				}
			}
		})
	}
	all.Wait()
}

// once returns the standard output and the standard error together.
func once(command *exec.Cmd) (out string, err error) {
	first := &waiting{begun: make(chan struct{})}
	command.Stdout, command.Stderr = first, first
	if err := command.Start(); err != nil {
		return "", err
	}
	// A program that hangs is killed. The bound is long, because a busy machine needs
	// seconds.
	timer := time.AfterFunc(3*time.Minute, func() { command.Process.Kill() })
	defer timer.Stop()
	select {
	case <-first.begun:
	case <-time.After(2 * time.Minute):
		return "", fmt.Errorf("%s says nothing", command)
	}
	time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
	command.Process.Signal(syscall.SIGTERM)
	err = command.Wait()
	return first.String(), err
}

// waiting keeps the output, and closes begun at the first write.
type waiting struct {
	mu    sync.Mutex
	text  bytes.Buffer
	begun chan struct{}
}

var _ io.Writer = (*waiting)(nil)

func (w *waiting) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Len() == 0 {
		close(w.begun)
	}
	return w.text.Write(text)
}

func (w *waiting) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(w.text.String())
}
