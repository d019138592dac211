package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// A binary is the program of the compiled benchmarks, in a directory of its own.
type binary struct {
	path string
	dir  string
}

func build() (*binary, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	b := &binary{path: filepath.Join(dir, "bench.test"), dir: dir}
	if out, err := exec.Command("go", "test", "-c", "-o", b.path, "./bench").CombinedOutput(); err != nil {
		b.remove()
		return nil, fmt.Errorf("building the benchmarks: %w\n%s", err, out)
	}
	return b, nil
}

func (b *binary) remove() {
	os.RemoveAll(b.dir)
}

// checkNames returns an error if no row shows a benchmark. A row without its
// benchmark fails later, when run finds no result.
func (b *binary) checkNames(rows []scenario) error {
	out, err := exec.Command(b.path, "-test.list", "^Benchmark").Output()
	if err != nil {
		return fmt.Errorf("listing the benchmarks: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		shown := func(s scenario) bool { return strings.HasPrefix("Benchmark"+s.bench, name+"/") }
		if !slices.ContainsFunc(rows, shown) {
			return fmt.Errorf("no row shows %s", name)
		}
	}
	return nil
}

// measure runs each benchmark once in every round.
func (b *binary) measure(rows []scenario, o options) ([]result, error) {
	results := make([]result, len(rows))
	for i, s := range rows {
		results[i] = result{s, make(map[string]series)}
	}
	for round := range o.rounds {
		log.Printf("round %d of %d", round+1, o.rounds)
		for _, rows := range byBenchmark(results) {
			if rows[0].rounds(o) <= round {
				continue
			}
			if err := b.compare(rows, round, o); err != nil {
				return nil, err
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

// rounds returns the number of rounds in which the row takes part.
func (s scenario) rounds(o options) int {
	if s.slow {
		return slowRounds(o.rounds)
	}
	return o.rounds
}

// slowRounds returns three tenths of the rounds, rounded up. Fewer rounds are enough
// for runs that take seconds or count bytes, because the results hardly vary.
func slowRounds(rounds int) int {
	return (rounds*3 + 9) / 10
}

// compare runs the implementations in turn. Each round begins with the next
// implementation, so that none of them always comes first.
func (b *binary) compare(rows []result, round int, o options) error {
	peers := rows[0].peers
	for i := range peers {
		impl := peers[(round+i)%len(peers)]
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

func parse(out []byte) (map[string]float64, error) {
	var results []map[string]float64
	reader := benchfmt.NewReader(bytes.NewReader(out), "output")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			results = append(results, byUnit(record.Values))
		}
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%d results instead of 1", len(results))
	}
	return results[0], reader.Err()
}

// byUnit returns the values as the benchmark printed them. The reader has converted
// nanoseconds to seconds, and renamed the units.
func byUnit(read []benchfmt.Value) map[string]float64 {
	values := make(map[string]float64)
	for _, v := range read {
		if v.OrigUnit != "" {
			values[v.OrigUnit] = v.OrigValue
		} else {
			values[v.Unit] = v.Value
		}
	}
	return values
}
