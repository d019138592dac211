// Mutate is a mutation tester: it makes small changes to the library, called
// mutants, and reports the mutants that no test of the library notices.
//
// All mutants are compiled into a single test program, so a mutant costs no build.
// An environment variable activates a mutant. Only the tests that reach the mutant
// are run. With -also, the mutants are compiled into the tests of a package above too,
// and the mutants that the first tests do not notice are tried with these.
//
// The exit code is 1 if a living mutant is missing in the list of survivors, or if
// the list has a mutant that does not exist.
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	var c config
	flag.StringVar(&c.dir, "dir", "..", "the `directory` of the package")
	flag.StringVar(&c.also, "also", "", "the `directory` of a package above, whose tests count too")
	flag.StringVar(&c.list, "survivors", "mutate/survivors.txt", "the `file` that lists the mutants which may live")
	flag.StringVar(&c.files, "files", "*.go", "mutate only what is in these `files`: patterns, separated by commas")
	flag.StringVar(&c.skip, "skip", "", "leave out the tests that match this `regexp`, such as slow ones, at the price of survivors")
	flag.StringVar(&c.run, "run", "", "use only the tests that match this `regexp`, such as new ones with -only")
	flag.StringVar(&c.only, "only", "", "try only the mutants that were not killed in a run whose output is this `file`")
	flag.IntVar(&c.workers, "workers", 1, "how many mutants to try at a time; more than half the processors makes tests fail that measure")
	flag.BoolVar(&c.unlisted, "unlisted", false, "try only mutants that are not in the list, which takes less time")
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
	dir, also, list, files, skip, run, only string
	workers                                 int
	verbose, unlisted                       bool
}

// A result is the verdict on a mutant, and the test that killed the mutant.
type result struct {
	*mutant
	verdict verdict
	by      string
}

// mutate reports whether only listed mutants live.
func (c config) mutate(ctx context.Context, w io.Writer) (ok bool, err error) {
	start := time.Now()
	allowed, err := readSurvivors(c.list)
	if err != nil {
		return false, err
	}
	only, err := readLiving(c.only)
	if err != nil {
		return false, err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	mutants, overlay, err := find(c.dir, tmp)
	if err != nil {
		return false, err
	}
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
	results := c.tryAll(ctx, w, benches, mutants, allowed, only)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	table(w, results)
	fmt.Fprintf(w, "in %v\n", time.Since(start).Round(time.Second))
	return c.judge(w, results, allowed), nil
}

// matches reports whether the flag -files includes the file.
func (c config) matches(file string) bool {
	return slices.ContainsFunc(strings.Split(c.files, ","), func(pattern string) bool {
		ok, err := path.Match(pattern, file)
		return ok && err == nil
	})
}

// tryAll tries the mutants in their order, and so many at a time as there are workers.
func (c config) tryAll(ctx context.Context, w io.Writer, benches []*bench, mutants []*mutant, allowed survivors, only map[string]bool) []result {
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return !c.matches(m.file) || only != nil && !only[m.String()] })
	results := make([]result, len(mutants))
	next := make(chan int)
	var mu sync.Mutex // of w
	tryOne := func(i int) {
		results[i] = c.tryOne(benches, mutants[i], allowed)
		if c.verbose {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(w, "%v: %v %s\n", mutants[i], results[i].verdict, results[i].by)
		}
	}
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() {
			for i := range next {
				tryOne(i)
			}
		})
	}
	for i := 0; i < len(mutants) && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	return results
}

func (c config) tryOne(benches []*bench, m *mutant, allowed survivors) result {
	r := result{mutant: m, verdict: listed}
	if _, ok := allowed[m.String()]; ok && c.unlisted {
		return r
	}
	r.verdict = uncovered
	for _, b := range benches {
		v, by := b.try(m.id, b.reached[strconv.Itoa(m.id)])
		r.verdict, r.by = max(r.verdict, v), by
		if v >= killed {
			break
		}
	}
	return r
}

// judge prints living mutants that are not listed, which makes ok false, and listed mutants
// that were killed.
func (c config) judge(w io.Writer, results []result, allowed survivors) (ok bool) {
	ok = true
	known := map[string]bool{}
	for _, r := range results {
		_, may := allowed[r.String()]
		known[r.String()] = true
		switch dead := r.verdict == killed || r.verdict == hung; {
		case !dead && !may:
			ok = false
			fmt.Fprintf(w, "%s:%d: %v: %v\n", r.file, r.line, r.verdict, r.mutant)
		case dead && may:
			fmt.Fprintf(w, "%s:%d: listed, but %v by %s: %v\n", r.file, r.line, r.verdict, r.by, r.mutant)
		}
	}
	return c.judgeList(w, allowed, known) && ok
}

// judgeList reports whether all mutants in the list exist. A run with -only does not
// check the list.
func (c config) judgeList(w io.Writer, allowed survivors, known map[string]bool) (ok bool) {
	ok = true
	for name := range allowed {
		if file, _, _ := strings.Cut(name, " "); c.only == "" && c.matches(file) && !known[name] {
			ok = false
			fmt.Fprintf(w, "listed, but no more: %s\n", name)
		}
	}
	return ok
}

// table prints the number of mutants by verdict, for each file and in total.
func table(w io.Writer, results []result) {
	const format = "%-28s %8v %8v %8v %8v %12v %8v\n"
	fmt.Fprintf(w, format, "file", "mutants", "killed", "by hang", "lived", "not covered", "score")
	count := map[string]*[listed + 1]int{"total": {}}
	files := []string{}
	for _, r := range results {
		if count[r.file] == nil {
			count[r.file] = new([listed + 1]int)
			files = append(files, r.file)
		}
		count[r.file][r.verdict]++
		count["total"][r.verdict]++
	}
	for _, file := range append(files, "total") {
		n := count[file]
		n[lived] += n[listed]
		dead, all := n[killed]+n[hung], n[killed]+n[hung]+n[lived]
		score := fmt.Sprintf("%.1f %%", 100*float64(dead)/float64(max(1, all)))
		fmt.Fprintf(w, format, file, all+n[uncovered], dead, n[hung], n[lived], n[uncovered], score)
	}
}
