package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/reliability/trial"
)

// A bench runs the tests of a program. Each test has been timed and traced by prepare.
type bench struct {
	ctx               context.Context // its end kills the running tests
	program, dir, tmp string
	tests             []test           // the fastest first
	reached           map[string][]int // by the tests, as indices of tests
}

type test struct {
	name string
	took time.Duration // processor time, since other programs may use the processors too
}

// A verdict is the outcome of the tests of a mutant.
type verdict uint8

const (
	uncovered verdict = iota // no test reaches it
	lived
	killed
	hung // counts as killed
)

func (v verdict) String() string {
	return [...]string{"not covered", "lived", "killed", "killed by hang"}[v]
}

// compute is how long a mutant may compute, plus 10 times the time of the tests without a mutant.
var compute = 2 * time.Second

// run runs some tests with a mutant. The argument usually is their time without a mutant.
func (b *bench) run(mutant int, trace string, usually time.Duration, names ...string) (output string, took time.Duration, err error) {
	return trial.Run{
		Program: b.program, Dir: b.dir, Args: []string{"-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"},
		Env:  []string{fmt.Sprint("MUTANT=", mutant), "MUTANT_TRACE=" + trace},
		Wall: time.Minute + 20*usually, Compute: compute + 10*usually, Memory: 6 << 20,
	}.Do(b.ctx)
}

// prepare compiles the program, and runs each test alone, without a mutant, to learn the time
// of the test and the mutants that the test reaches. A failed test is an error: the test would
// seem to kill every mutant.
func (b *bench) prepare(overlay string, mutants int, skip, run string) error {
	if err := trial.Build(b.dir, overlay, b.program); err != nil {
		return err
	}
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
	return b.control(mutants)
}

// sort puts fast tests first, and notes the tests that reach each mutant.
func (b *bench) sort(reached map[string][]string) {
	slices.SortFunc(b.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	b.reached = map[string][]int{}
	for i, t := range b.tests {
		for _, id := range reached[t.name] {
			b.reached[id] = append(b.reached[id], i)
		}
	}
}

// trace returns the time of a test, and the mutants that the test reaches.
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

// try runs the tests that reach a mutant, and returns the verdict and the test that
// killed the mutant. Fast tests come first, and many of them share a process. Slow
// tests run only if the mutant survives the fast tests.
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
		case err == trial.ErrHung:
			return hung, running(out, names)
		case err != nil:
			return killed, running(out, names)
		}
	}
	return lived, ""
}

// running returns the name of the failed test or, if the output has none, the possible tests.
func running(output string, names []string) string {
	if failed := trial.Failed(output); failed != nil {
		return failed[0]
	}
	return fmt.Sprintf("%s, or one of the %d after it", names[0], len(names)-1)
}

// control tries the three controls of support: the tests must pass without a mutant,
// fail if the mutants panic, and hang if the mutants loop. Otherwise the verdicts
// would mean nothing.
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
