package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

// A Run runs a test program with limits. The runtime or synctest finds most tests that wait for ever,
// and a limit on the time in which the processes do nothing finds the rest. Only Wall depends on other
// load of the machine.
type Run struct {
	Program, Dir  string
	Args, Env     []string
	Wall, Compute time.Duration // of a clock and of the processors; 0 is no limit for Compute
	Memory        int           // of address space, in KiB; 0 is no limit
}

// ErrHung is the error of a program that a limit has killed.
var ErrHung = errors.New("hung")

const idle = 3 * time.Second

// Do runs the program, and returns its output and the time that it has computed.
func (r Run) Do(ctx context.Context) (output string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Wall)
	defer cancel()
	limits := `exec "$0" "$@"`
	if r.Memory > 0 {
		limits = fmt.Sprintf("ulimit -v %d; %s", r.Memory, limits)
	}
	if r.Compute > 0 {
		limits = fmt.Sprintf("ulimit -t %.0f; %s", r.Compute.Seconds(), limits)
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limits, r.Program}, r.Args...)...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := watch(cmd)
	if cmd.ProcessState == nil { // The command was not started, usually because ctx has ended.
		return "", 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		err = ErrHung
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// watch runs a command, and kills the command when its processes are idle.
func watch(cmd *exec.Cmd) (output []byte, err error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if awaitIdle(cmd.Process.Pid, idle, ended) {
			cmd.Cancel()
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-watched
	return out.Bytes(), err
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// Failed returns the failed tests that an output names.
func Failed(output string) (names []string) {
	for _, m := range failed.FindAllStringSubmatch(output, -1) {
		names = append(names, m[1])
	}
	return names
}
