package main

import (
	"bytes"
	"cmp"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// A result is a row with its measured values, by implementation. Times are in seconds.
type result struct {
	scenario
	values map[string][]float64
}

// sample returns the values of an implementation for the statistics of benchstat, which assume no
// distribution. It is nil if the implementation has no values.
func (r result) sample(impl string) *benchmath.Sample {
	if len(r.values[impl]) == 0 {
		return nil
	}
	return benchmath.NewSample(slices.Clone(r.values[impl]), &benchmath.DefaultThresholds)
}

// median returns NaN for an implementation without values.
func (r result) median(impl string) float64 {
	s := r.sample(impl)
	if s == nil {
		return math.NaN()
	}
	return benchmath.AssumeNothing.Summary(s, 0.95).Center
}

// A binary is the program of the compiled benchmarks, in a directory of its own.
type binary struct{ path, dir string }

// build compiles the benchmarks in a directory of the module compat.
func build(bench string, flags ...string) (*binary, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	b := &binary{path: filepath.Join(dir, "bench.test"), dir: dir}
	cmd := exec.Command("go", slices.Concat([]string{"test", "-c", "-o", b.path}, flags, []string{"."})...)
	cmd.Dir = bench
	if out, err := cmd.CombinedOutput(); err != nil {
		b.remove()
		return nil, fmt.Errorf("building the benchmarks: %w\n%s", err, out)
	}
	return b, nil
}

func (b *binary) remove() { os.RemoveAll(b.dir) }

// names lists the benchmarks.
func (b *binary) names() ([]string, error) {
	out, err := exec.Command(b.path, "-test.list", "^Benchmark").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the benchmarks: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// checkNames returns an error if no row shows a benchmark. A row without its
// benchmark fails later, when run finds no result.
func (b *binary) checkNames(rows []scenario) error {
	names, err := b.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(s scenario) bool { return strings.HasPrefix("Benchmark"+s.bench, name+"/") }) {
			return fmt.Errorf("no row shows %s", name)
		}
	}
	return nil
}

// measure runs each benchmark once in every round. Each round begins with the next
// implementation, so that none of them always comes first.
func (b *binary) measure(rows []scenario, o options) ([]result, error) {
	results := make([]result, len(rows))
	for i, s := range rows {
		results[i] = result{s, make(map[string][]float64)}
	}
	for round := range o.rounds {
		log.Printf("round %d of %d", round+1, o.rounds)
		for _, group := range byBenchmark(results) {
			if group[0].slow && round >= slowRounds(o.rounds) {
				continue
			}
			peers := group[0].peers
			for i := range peers {
				if err := b.note(group, peers[(round+i)%len(peers)], o); err != nil {
					return nil, err
				}
			}
		}
	}
	return results, nil
}

// byBenchmark groups neighbouring rows of the same benchmark. The rows differ in
// the unit, and get their values from the same runs.
func byBenchmark(results []result) [][]result {
	var groups [][]result
	for i, r := range results {
		if i > 0 && r.bench == results[i-1].bench {
			groups[len(groups)-1] = append(groups[len(groups)-1], r)
		} else {
			groups = append(groups, []result{r})
		}
	}
	return groups
}

// slowRounds returns three tenths of the rounds, rounded up. Fewer rounds are enough
// for runs that take seconds or count bytes, because the results hardly vary.
func slowRounds(rounds int) int { return (rounds*3 + 9) / 10 }

// note runs the benchmark of some rows, and adds what it reports to the values of each row.
func (b *binary) note(rows []result, impl string, o options) error {
	values, err := b.run(rows[0].bench, impl, o)
	if err != nil {
		return err
	}
	for _, row := range rows {
		value, ok := values[row.unit]
		if !ok {
			return fmt.Errorf("%s of %s reports no %s", row.bench, impl, row.unit)
		}
		row.values[impl] = append(row.values[impl], value)
	}
	return nil
}

// run runs a benchmark of an implementation, and returns the reported values by unit.
func (b *binary) run(bench, impl string, o options) (map[string]float64, error) {
	name, params, _ := strings.Cut(bench, "/")
	path := append([]string{"Benchmark" + name, "impl=" + impl}, strings.Split(params, "/")...)
	for i, part := range path {
		path[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	args := []string{
		"-test.run", "^$", "-test.bench", strings.Join(path, "/"), "-test.count", "1",
		"-test.benchtime", o.benchtime, "-test.timeout", "30m",
	}
	if o.smoke {
		args = append(args, "-test.short")
	}
	out, err := exec.Command(b.path, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s", bench, impl, err, out)
	}
	values, err := parse(out)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s", bench, impl, err, out)
	}
	return values, nil
}

// parse returns the values of the only result, by the unit that the benchmark printed. The reader
// has converted nanoseconds to seconds.
func parse(out []byte) (map[string]float64, error) {
	var results []*benchfmt.Result
	reader := benchfmt.NewReader(bytes.NewReader(out), "output")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			results = append(results, record.Clone())
		}
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%d results instead of 1", len(results))
	}
	values := make(map[string]float64)
	for _, v := range results[0].Values {
		values[cmp.Or(v.OrigUnit, v.Unit)] = v.Value
	}
	return values, reader.Err()
}
