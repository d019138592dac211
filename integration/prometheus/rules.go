package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

const (
	rulesFile = "rules.yaml"
	testsFile = "rules_test.yaml"
)

// checkRules runs promtool over the rules and their tests, and then over the tests with each
// mutant of the rules. It edits the text of the rules, so that the tests run on the deployed
// file.
func checkRules(ctx context.Context, out io.Writer, root string) error {
	path, err := debian.Program(ctx, "prometheus", "promtool")
	if err != nil {
		return err
	}
	tool := promtool{path, filepath.Join(root, "monitoring")}
	for _, args := range [][]string{
		{"check", "rules", rulesFile}, {"check", "rules", "../examples/service/rules.yaml"}, {"test", "rules", testsFile},
	} {
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
	all := mutants(string(rules))
	alive := make([]bool, len(all))
	errs := make([]error, len(all))
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, m := range all {
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
	noticed := len(all)
	for i, m := range all {
		if alive[i] {
			noticed--
			fmt.Fprintf(out, "no test fails for %s with %s\n", m.alert, m.change)
		}
	}
	fmt.Fprintf(out, "%d of %d moved thresholds fail a test\n", noticed, len(all))
	if noticed < len(all) || noticed == 0 {
		return errors.New("the tests of the rules do not notice a moved threshold")
	}
	return nil
}

// passes reports whether the tests pass on a mutant. Only groups of tests with the alert of the mutant
// can tell, and no group sees the series of another.
func (p promtool) passes(ctx context.Context, m mutant) (bool, error) {
	tests, err := os.ReadFile(filepath.Join(p.dir, testsFile))
	if err != nil {
		return false, err
	}
	p.dir, err = os.MkdirTemp("", "rules-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(p.dir)
	if err := writeFiles(p.dir, map[string]string{rulesFile: m.rules, testsFile: groupsOf(string(tests), m.alert)}); err != nil {
		return false, err
	}
	// A mutant with a syntax error would fail every test, and prove nothing.
	if output, err := p.run(ctx, "check", "rules", rulesFile); err != nil {
		return false, fmt.Errorf("%s with %s: %w\n%s", m.alert, m.change, err, output)
	}
	_, err = p.run(ctx, "test", "rules", testsFile)
	if failed := new(exec.ExitError); errors.As(err, &failed) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// groupsOf returns the tests without the groups that do not name the alert.
func groupsOf(tests, alert string) string {
	const group = "\n  - name: "
	head, rest, _ := strings.Cut(tests, group)
	groups := slices.DeleteFunc(strings.Split(rest, group), func(g string) bool { return !strings.Contains(g, "alertname: "+alert) })
	return strings.Join(append([]string{head}, groups...), group)
}

var (
	// Ranges, offsets and the time for which a condition must hold.
	duration = regexp.MustCompile(`(\[|offset |for: )(\d+[smhd])\b`)
	// Numbers of seconds. The file marks each with a comment.
	seconds = regexp.MustCompile(`([\d.]+)( # seconds)`)
	// Numbers that decide whether an alert fires.
	threshold = regexp.MustCompile(`(?m)([<>] |^ *)(\d+(?:\.\d+)?)( # seconds| \*|\n|$)`)
)

// faster returns rules with the same effect in a fraction of the time.
func faster(rules string, times int) string {
	rules = duration.ReplaceAllStringFunc(rules, func(found string) string {
		parts := duration.FindStringSubmatch(found)
		return fmt.Sprintf("%s%dms", parts[1], parse(parts[2]).Milliseconds()/int64(times))
	})
	return seconds.ReplaceAllStringFunc(rules, func(found string) string {
		parts := seconds.FindStringSubmatch(found)
		return multiples(parts[1])(1/float64(times)) + parts[2]
	})
}

// A mutant is a file of rules with a single change.
type mutant struct {
	alert  string
	change string // a description for people
	rules  string
}

// mutants returns two mutants for each threshold of each alert, and two for each time in
// a "for": a third lower and a third higher.
func mutants(rules string) []mutant {
	var all []mutant
	start := strings.Index(rules, "- alert: ")
	for start >= 0 {
		end := len(rules)
		if next := strings.Index(rules[start+1:], "- alert: "); next >= 0 {
			end = start + 1 + next
		}
		name, _, _ := strings.Cut(rules[start+len("- alert: "):end], "\n")
		for _, c := range changes(rules[start:end]) {
			all = append(all, mutant{
				alert:  name,
				change: c.what,
				rules:  rules[:start] + c.rule + rules[end:],
			})
		}
		if start = end; end == len(rules) {
			break
		}
	}
	return all
}

type change struct{ what, rule string }

// changes returns the changes of one alert.
func changes(rule string) []change {
	condition := strings.Index(rule, "labels:")
	var all []change
	replace := func(at []int, with string) {
		line := rule[strings.LastIndex(rule[:at[0]], "\n")+1:]
		line, _, _ = strings.Cut(line, "\n")
		all = append(all, change{
			fmt.Sprintf("%s: %s", strings.TrimSpace(line), with),
			rule[:at[0]] + with + rule[at[1]:],
		})
	}
	for _, found := range threshold.FindAllStringSubmatchIndex(rule[:condition], -1) {
		at := found[4:6]
		scaled := multiples(rule[at[0]:at[1]])
		replace(at, scaled(2./3))
		replace(at, scaled(4./3))
	}
	for _, found := range duration.FindAllStringSubmatchIndex(rule[:condition], -1) {
		if rule[found[2]:found[3]] == "for: " {
			at := found[4:6]
			held := parse(rule[at[0]:at[1]]).Milliseconds()
			replace(at, fmt.Sprintf("%dms", held*2/3))
			replace(at, fmt.Sprintf("%dms", held*4/3))
		}
	}
	return all
}

// multiples returns a function that writes a multiple of a number. The patterns find valid
// numbers only.
func multiples(text string) func(times float64) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return func(times float64) string { return strconv.FormatFloat(n*times, 'g', 6, 64) }
}

// parse reads a duration in the syntax of Prometheus. Go's own parser does not know days.
func parse(text string) time.Duration {
	n, err := strconv.Atoi(text[:len(text)-1])
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * map[byte]time.Duration{
		's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
	}[text[len(text)-1]]
}
