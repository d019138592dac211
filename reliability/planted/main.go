// Command planted plants known bugs in the library, one after the other, and fails if a bug goes
// unnoticed:
//
//	go run -C reliability ./planted
//
// The bugs are in faults, in lists that are read by people too. A fault has a name, a line on
// where it comes from, the checks that must notice it, mostly one, and one edit or two:
//
//	fault: A cancelled worker stays counted
//	from: the explorer's list
//	check: . TestGetContextThatHasEnded|TestHomes
//	in: . Typed.park
//	 	q.mu.Lock()
//	-	q.parked--
//	 	q.mu.Unlock()
//
// A check is a package, the names of tests, and flags of go test, such as -tags=explore. Flags of the
// tests follow --. An edit names a folder and a function, whose body it changes. The lines with a blank
// or - before them stand there once, in this order; blank and + are the lines with the bug. Indentation
// does not matter.
//
// Each fault is compiled with go test -overlay, so no file in the repository changes. Before the
// first fault each check has to pass. A fault that does not fit the sources, or does not compile,
// fails the command too: change its edit.
//
// To find the tests that notice a new fault, give its name and -whole:
//
//	go run -C reliability ./planted -run 'stays counted' -whole
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/reliability/trial"
)

var (
	root  = flag.String("root", "..", "the root of the repository")
	lists = flag.String("faults", "planted/faults", "the folder with the lists of faults")
	only  = flag.String("run", "", "plant only the faults whose names match this regular expression")
	whole = flag.Bool("whole", false, "run all tests of the package of the check, and name all that fail")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	all, err := readFaults(*lists)
	if err != nil {
		return err
	}
	var faults []*fault
	for _, f := range all {
		if match.MatchString(f.name) {
			faults = append(faults, f)
		}
	}
	tmp, err := os.MkdirTemp("", "planted")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := bench{root: dir, tmp: tmp, faults: faults, programs: map[string]string{}, took: map[string]time.Duration{}}
	if !*whole {
		if err := b.passAll(faults); err != nil {
			return err
		}
		fmt.Println("all checks pass without a fault")
	}
	return b.tryAll(faults)
}

// A bench compiles and runs checks.
type bench struct {
	root, tmp string
	faults    []*fault
	programs  map[string]string
	took      map[string]time.Duration // by checks without a fault
}

// program returns the compiled tests for a check, with all faults.
func (b *bench) program(c check) (program string, err error) {
	key := c.pkg + " " + strings.Join(c.flags, " ")
	if b.programs[key] == "" {
		tmp, err := os.MkdirTemp(b.tmp, "sources")
		if err != nil {
			return "", err
		}
		name, err := overlay(b.root, tmp, b.faults)
		if err != nil {
			return "", err
		}
		program := filepath.Join(tmp, "tests")
		if err := trial.Build(filepath.Join(b.root, c.pkg), name, program, c.flags...); err != nil {
			return "", err
		}
		b.programs[key] = program
	}
	return b.programs[key], nil
}

// passAll runs all checks without a fault.
func (b *bench) passAll(faults []*fault) error {
	for _, f := range faults {
		for _, c := range f.checks {
			if _, passed := b.took[c.String()]; passed {
				continue
			}
			if err := b.pass(f, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass runs a check without a fault.
func (b *bench) pass(f *fault, c check) error {
	program, err := b.program(c)
	if err != nil {
		return err
	}
	began := time.Now()
	output, err := b.runTests(c, program, 0, 10*time.Minute)
	b.took[c.String()] = time.Since(began)
	switch {
	case err != nil:
		return fmt.Errorf("%s fails without a fault: %w\n%s", c, err, output)
	case len(tests.FindAllString(output, -1)) < 1+strings.Count(c.tests, "|"):
		return fmt.Errorf("%s: %q: %s has not run all tests of the check:\n%s", f.where, f.name, c, output)
	}
	return nil
}

// tryAll plants the faults, prints the verdicts, and returns an error if a fault goes unnoticed.
func (b *bench) tryAll(faults []*fault) error {
	noticed := 0
	for _, f := range faults {
		began := time.Now()
		verdict, by := b.tryChecks(f)
		if verdict == "noticed" {
			noticed++
		}
		fmt.Printf("%-9s %5.1fs  %s  (%s)\n", verdict, time.Since(began).Seconds(), f.name, by)
	}
	fmt.Printf("%d of %d faults noticed\n", noticed, len(faults))
	if noticed < len(faults) {
		return errors.New("not all faults were noticed")
	}
	return nil
}

var tests = regexp.MustCompile(`(?m)^=== RUN   [^/\s]+$`)

// tryChecks plants a fault for each of its checks. by is what noticed the fault, or the first check
// that did not.
func (b *bench) tryChecks(f *fault) (verdict, by string) {
	var all []string
	for _, c := range f.checks {
		by, err := b.try(f, c)
		switch {
		case err != nil:
			return "BROKEN", err.Error()
		case by == "":
			return "UNNOTICED", c.String()
		}
		all = append(all, by)
	}
	return "noticed", strings.Join(all, "; ")
}

// try plants a fault, and returns the tests of a check that noticed the fault, "" for none.
func (b *bench) try(f *fault, c check) (by string, err error) {
	program, err := b.program(c)
	if err != nil {
		return "", err
	}
	// A fault that loses a wake-up may hang a test for ever.
	within := 10*time.Second + 10*b.took[c.String()]
	if *whole {
		within = 20 * time.Minute
	}
	output, err := b.runTests(c, program, 1+slices.Index(b.faults, f), within)
	failed := trial.Failed(output)
	switch {
	case err == nil:
		return "", nil
	case err == trial.ErrHung || strings.Contains(output, "panic: test timed out"):
		return "a hang", nil
	case failed == nil:
		return "a crash", nil
	}
	return strings.Join(failed, ", "), nil
}

// runTests runs the tests of a check, with a bound on their memory: a fault may never stop to
// allocate.
func (b *bench) runTests(c check, program string, number int, within time.Duration) (output string, err error) {
	t := trial.Run{
		Program: program, Dir: filepath.Join(b.root, c.pkg), Args: []string{"-test.v", "-test.timeout", within.String()},
		Env: []string{fmt.Sprint("PLANTED_FAULT=", number)}, Wall: within + 10*time.Second, Memory: 8 << 20,
	}
	if slices.Contains(c.flags, "-race") { // The race detector maps terabytes.
		t.Memory = 0
	}
	if !*whole {
		t.Args = append(t.Args, "-test.failfast", "-test.run", "^("+c.tests+")$")
	}
	t.Args = append(t.Args, c.args...)
	output, _, err = t.Do(context.Background())
	return output, err
}
