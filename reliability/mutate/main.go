// Mutate is a mutation tester: it makes small changes to the library, called
// mutants, and counts the mutants that live: no test of the library notices them.
//
// All mutants are compiled into a single test program, so a mutant costs no build.
// An environment variable activates a mutant. Only the tests that reach the mutant
// are run. With -also, the mutants are compiled into the tests of a package above too,
// and the mutants that the first tests do not notice are tried with these.
//
// The table living.txt has the share of the mutants that live, by file. The exit code is 1 if the
// share of a file is higher than in the table. With -rewrite, the command changes the table. A
// sample is printed and not judged.
//
// Mutate judges which tests can go: a test is of use if more mutants live without it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	c := config{table: "mutate/living.txt"}
	flag.StringVar(&c.dir, "dir", "..", "the `directory` of the package")
	flag.StringVar(&c.also, "also", "", "the `directory` of a package above, whose tests count too")
	flag.StringVar(&c.files, "files", "*.go", "mutate only what is in these `files`: patterns, separated by commas")
	flag.StringVar(&c.skip, "skip", "", "leave out the tests that match this `regexp`, to see what they are for")
	flag.StringVar(&c.run, "run", "", "use only the tests that match this `regexp`, such as new ones with -only")
	flag.StringVar(&c.only, "only", "", "try only the mutants whose names, as a run prints them, match this `regexp`")
	flag.IntVar(&c.sample, "sample", 1, "try one of so many mutants")
	flag.BoolVar(&c.rewrite, "rewrite", false, "write the shares of this run into the table")
	flag.BoolVar(&c.verbose, "v", false, "print each mutant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := c.mutate(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

type config struct {
	dir, also, table, files, skip, run, only string
	sample                                   int
	rewrite, verbose                         bool
}

// A result is the verdict on a mutant, and the test that killed the mutant.
type result struct {
	*mutant
	verdict verdict
	by      string
}

// mutate reports whether no more mutants live than the table says.
func (c config) mutate(ctx context.Context, w io.Writer) (ok bool, err error) {
	start := time.Now()
	before, err := readShares(c.table)
	if err != nil {
		return false, err
	}
	only, err := regexp.Compile(c.only)
	if err != nil {
		return false, err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	pkg, mutants, overlay, err := find(c.dir, tmp)
	if err != nil {
		return false, err
	}
	chosen := c.choose(mutants, only)
	var benches []*bench
	for i, dir := range []string{c.dir, c.also} {
		if dir == "" {
			continue
		}
		b := &bench{ctx: ctx, program: filepath.Join(tmp, fmt.Sprint("tests", i)), dir: dir, tmp: tmp}
		if err := b.prepare(overlay, len(mutants), c.skip, c.run); err != nil {
			return false, err
		}
		benches = append(benches, b)
		fmt.Fprintf(w, "%d mutants, %d tests of %s, %v to prepare\n", len(mutants), len(b.tests), dir, time.Since(start).Round(time.Second))
	}
	results := c.tryAll(ctx, w, benches, chosen)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	printLiving(w, results)
	found := sharesOf(path.Base(pkg), results)
	io.WriteString(w, found.table())
	fmt.Fprintf(w, "in %v\n", time.Since(start).Round(time.Second))
	switch {
	case c.sample > 1 || c.only != "":
		return true, nil
	case c.rewrite:
		before.update(path.Base(pkg), found, c.matches)
		return true, os.WriteFile(c.table, []byte(heading+before.table()), 0o666)
	}
	return before.judge(w, path.Base(pkg), found, c.matches), nil
}

// choose returns the mutants of a run, in their order.
func (c config) choose(mutants []*mutant, only *regexp.Regexp) (chosen []*mutant) {
	n := 0
	for _, m := range mutants {
		if c.matches(m.file) && only.MatchString(m.String()) {
			if n%c.sample == 0 {
				chosen = append(chosen, m)
			}
			n++
		}
	}
	return chosen
}

// matches reports whether the flag -files includes the file. A file check.go checks the invariants
// of its package, for the tests.
func (c config) matches(file string) bool {
	return file != "check.go" && slices.ContainsFunc(strings.Split(c.files, ","), func(pattern string) bool {
		ok, err := path.Match(pattern, file)
		return ok && err == nil
	})
}

// tryAll tries the mutants in their order, one at a time: two at a time make tests fail that measure.
func (c config) tryAll(ctx context.Context, w io.Writer, benches []*bench, mutants []*mutant) (results []result) {
	for _, m := range mutants {
		if ctx.Err() != nil {
			break
		}
		r := tryOne(benches, m)
		results = append(results, r)
		if c.verbose {
			fmt.Fprintf(w, "%v: %v %s\n", m, r.verdict, r.by)
		}
	}
	return results
}

func tryOne(benches []*bench, m *mutant) result {
	r := result{mutant: m, verdict: uncovered}
	for _, b := range benches {
		v, by := b.try(m.id, b.reached[strconv.Itoa(m.id)])
		r.verdict, r.by = max(r.verdict, v), by
		if v >= killed {
			break
		}
	}
	return r
}

// printLiving prints the mutants that live.
func printLiving(w io.Writer, results []result) {
	for _, r := range results {
		if r.verdict == lived || r.verdict == uncovered {
			fmt.Fprintf(w, "%s:%d: %v: %v\n", r.file, r.line, r.verdict, r.mutant)
		}
	}
}
