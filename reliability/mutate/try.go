package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A bench runs the tests of a program, each of which has been timed and traced.
type bench struct {
	ctx               context.Context // whose end kills what runs
	program, dir, tmp string
	tests             []test           // the fastest first
	reached           map[string][]int // by the tests, as indices of tests
}

type test struct {
	name string
	took time.Duration // of the processors, since others may use them too
}

// A verdict is what the tests say of a mutant.
type verdict uint8

const (
	uncovered verdict = iota // no test reaches it
	lived
	killed
	hung   // and killed by that
	listed // and not tried
)

func (v verdict) String() string {
	return [...]string{"not covered", "lived", "killed", "killed by hang", "listed"}[v]
}

// A run may not take more than this: a mutant that allocates or computes for
// ever is to fail by itself and not to take the machine with it. One that waits
// for ever is mostly found by the runtime or by synctest, and the rest because it
// does nothing. None of that depends on what else the machine is at, as the time on
// the wall does: so that one is long.
const (
	memory  = 6 << 20         // of address space, in KiB
	compute = 2 * time.Second // beyond 10 times what the tests take without a mutant
	idle    = 3 * time.Second
	wall    = time.Minute // beyond 20 times what they take
)

var errHung = errors.New("hung")

// run runs some tests, which usually take some time, with a mutant.
func (b *bench) run(mutant int, trace string, usually time.Duration, names ...string) (output string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, wall+20*usually)
	defer cancel()
	limit := fmt.Sprintf(`ulimit -v %d; ulimit -t %.0f; exec "$0" "$@"`, memory, (compute + 10*usually).Seconds())
	cmd := exec.CommandContext(ctx, "sh", "-c", limit, b.program,
		"-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), fmt.Sprint("MUTANT=", mutant), "MUTANT_TRACE="+trace)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := b.watch(cmd)
	if cmd.ProcessState == nil { // It was not started, as the whole is ended.
		return "", 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		err = errHung
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// watch runs a command and kills it if it does nothing any more.
func (b *bench) watch(cmd *exec.Cmd) (output []byte, err error) {
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

// prepare runs each test alone, without a mutant, to learn how long it takes
// and which mutants it reaches. It fails if a test does: where the tests fail
// anyway, every mutant seems to be killed.
func (b *bench) prepare(skip, run string) error {
	out, err := exec.Command(b.program, "-test.list", "^(Test|Example|Fuzz)").Output()
	if err != nil {
		return err
	}
	reached := map[string][]string{} // by a test
	for _, name := range strings.Fields(string(out)) {
		if skip != "" && regexp.MustCompile(skip).MatchString(name) || !regexp.MustCompile(run).MatchString(name) {
			continue
		}
		took, ids, err := b.trace(name)
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w", name, err)
		}
		b.tests = append(b.tests, test{name, took})
		reached[name] = ids
	}
	b.sort(reached)
	return nil
}

// sort puts fast tests first, and notes which of them reach a mutant.
func (b *bench) sort(reached map[string][]string) {
	slices.SortFunc(b.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	b.reached = map[string][]int{}
	for i, t := range b.tests {
		for _, id := range reached[t.name] {
			b.reached[id] = append(b.reached[id], i)
		}
	}
}

// trace returns how long a test takes, and which mutants it reaches.
func (b *bench) trace(name string) (took time.Duration, ids []string, err error) {
	path := filepath.Join(b.tmp, "trace")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return 0, nil, err
	}
	out, took, err := b.run(0, path, 10*time.Second, name)
	if err != nil {
		return 0, nil, fmt.Errorf("%w\n%s", err, out)
	}
	trace, err := os.ReadFile(path)
	return took, strings.Fields(string(trace)), err
}

// try returns what the tests that reach a mutant say of it, and which of them
// has the last word. A mutant is tried by fast tests first, of which many share
// a process, and by a slow one only if it has survived them.
func (b *bench) try(id int, tests []int) (v verdict, by string) {
	if len(tests) == 0 {
		return uncovered, ""
	}
	for budget := 200 * time.Millisecond; len(tests) > 0; budget *= 3 {
		var took time.Duration
		var names []string
		for len(tests) > 0 && (len(names) == 0 || took < budget) {
			t := b.tests[tests[0]]
			names, tests, took = append(names, t.name), tests[1:], took+t.took
		}
		out, _, err := b.run(id, "", took, names...)
		switch {
		case err == errHung:
			return hung, running(out, names)
		case err != nil:
			return killed, running(out, names)
		}
	}
	return lived, ""
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// running returns the test that has failed, or what there is to know of it.
func running(output string, names []string) string {
	if m := failed.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return fmt.Sprintf("%s, or one of the %d after it", names[0], len(names)-1)
}

// control tries what is known: a suite that has no mutant must pass as often as
// it is run, one that panics must fail, and one that stands still must hang.
// Otherwise the figures would mean nothing.
func (b *bench) control(mutants int) error {
	var all []int
	for i := range b.tests {
		all = append(all, i)
	}
	reaching := all
	for _, tests := range b.reached {
		reaching = tests[:1]
	}
	for i, want := range []verdict{lived, killed, hung} {
		tests := reaching
		if want == lived {
			tests = all
		}
		if got, by := b.try(mutants+1+i, tests); got != want {
			return fmt.Errorf("control %d: %v by %s, want %v", i+1, got, by, want)
		}
	}
	return nil
}
