// Command monitoring checks the alert rules with promtool: the rules are valid, and their
// unit tests pass. Then it checks the tests: if any threshold of any alert is moved by a
// third, some test must fail.
//
//	go run ./monitoring ../monitoring
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
	"github.com/seed16c08ea7/workqueue/integration/internal/rulefile"
)

const (
	rulesFile = "rules.yaml"
	testsFile = "rules_test.yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: monitoring DIRECTORY")
		os.Exit(2)
	}
	if err := check(ctx, os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, out io.Writer, dir string) error {
	path, err := debian.Program(ctx, "prometheus", "promtool")
	if err != nil {
		return err
	}
	tool := promtool{path, dir}
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", testsFile}} {
		output, err := tool.run(ctx, args...)
		fmt.Fprintf(out, "promtool %s\n%s", strings.Join(args, " "), output)
		if err != nil {
			return err
		}
	}
	return tool.checkTests(ctx, out)
}

// promtool runs the program of that name in a directory.
type promtool struct{ path, dir string }

func (p promtool) run(ctx context.Context, args ...string) (output []byte, err error) {
	command := exec.CommandContext(ctx, p.path, args...)
	command.Dir = p.dir
	return command.CombinedOutput()
}

// checkTests runs the tests on each mutant of the rules.
func (p promtool) checkTests(ctx context.Context, out io.Writer) error {
	rules, err := os.ReadFile(filepath.Join(p.dir, rulesFile))
	if err != nil {
		return err
	}
	mutants := rulefile.Mutants(string(rules))
	alive := make([]bool, len(mutants))
	errs := make([]error, len(mutants))
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, m := range mutants {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			alive[i], errs[i] = p.passes(ctx, m)
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	noticed := len(mutants)
	for i, m := range mutants {
		if alive[i] {
			noticed--
			fmt.Fprintf(out, "no test fails for %s with %s\n", m.Alert, m.Change)
		}
	}
	fmt.Fprintf(out, "%d of %d moved thresholds fail a test\n", noticed, len(mutants))
	if noticed < len(mutants) || noticed == 0 {
		return errors.New("the tests of the rules do not notice a moved threshold")
	}
	return nil
}

// passes reports whether the tests pass on a mutant.
func (p promtool) passes(ctx context.Context, m rulefile.Mutant) (bool, error) {
	tests, err := os.ReadFile(filepath.Join(p.dir, testsFile))
	if err != nil {
		return false, err
	}
	p.dir, err = os.MkdirTemp("", "rules-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(p.dir)
	for name, contents := range map[string][]byte{rulesFile: []byte(m.Rules), testsFile: tests} {
		if err := os.WriteFile(filepath.Join(p.dir, name), contents, 0o600); err != nil {
			return false, err
		}
	}
	// A mutant with a syntax error would fail every test, and prove nothing.
	if output, err := p.run(ctx, "check", "rules", rulesFile); err != nil {
		return false, fmt.Errorf("%s with %s: %w\n%s", m.Alert, m.Change, err, output)
	}
	_, err = p.run(ctx, "test", "rules", testsFile)
	if failed := new(exec.ExitError); errors.As(err, &failed) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
