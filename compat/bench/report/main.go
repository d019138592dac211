// Report measures workqueue against its peers and fills the tables of BENCHMARKS.md. Run it from
// the module compat:
//
//	go run ./bench/report
//
// A round runs all benchmarks; the slow benchmarks are in three tenths of the rounds.
// A benchmark runs with one implementation after the other, each in a process of its
// own. So other load of the machine disturbs all implementations alike, no
// implementation runs with the heap of another, and no median comes from a single
// stretch of time.
//
// With -scale the program measures how cost grows instead, and fills the tables of
// docs/scaling.md. With -base it compares with another commit. With -run the tables go to the
// standard output, unless -page names the page; with -smoke they go nowhere.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("report: ")
	var o options
	flag.IntVar(&o.rounds, "rounds", 10, "how often to run each benchmark; the slow ones run three tenths of it")
	flag.StringVar(&o.benchtime, "benchtime", "200ms", "how long one run of a benchmark takes, as for go test")
	flag.StringVar(&o.only, "run", "", "measure only benchmarks like Cycle/keys=string that match the regular `expression`")
	flag.StringVar(&o.page, "page", "", "fill the tables of this `file`, not those of the page in the repository")
	flag.BoolVar(&o.scale, "scale", false, "measure how cost grows, for docs/scaling.md")
	flag.BoolVar(&o.smoke, "smoke", false, "only show that everything runs: one short round, tiny populations")
	flag.StringVar(&o.base, "base", "", "print the rows in which we are slower than at this `commit`, or at the commit that the file @NAME names")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	rounds                      int
	benchtime, only, page, base string
	smoke, scale                bool
}

func run(o options) error {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	if o.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	if o.smoke {
		o.rounds, o.benchtime = 1, "1x"
	}
	rows := slices.DeleteFunc(o.rows(), func(s scenario) bool { return !pattern.MatchString(s.bench) })
	root, err := moduleDir("github.com/seed16c08ea7/workqueue")
	if err != nil {
		return err
	}
	if o.base != "" {
		return compareWithBase(os.Stdout, root, rows, o)
	}
	from, err := originOf(root, o) // Before the rounds: the tree may change.
	if err != nil {
		return err
	}
	b, err := build("bench")
	if err != nil {
		return err
	}
	defer b.remove()
	if err := b.checkNames(options{smoke: true}.rows()); err != nil {
		return err
	}
	results, err := b.measure(rows, o)
	if err != nil {
		return err
	}
	return publish(root, results, from, o)
}

// publish writes the results where the options say. A table of a page is written only if all its rows
// were measured.
func publish(root string, results []result, from origin, o options) error {
	tables, page := pageTables(results, from), filepath.Join(root, "BENCHMARKS.md")
	if o.scale {
		tables, page = scaleTables(results), filepath.Join(root, "docs", "scaling.md")
		tables["origin"] = from.String()
	}
	switch {
	case o.smoke:
		log.Printf("all of %d rows measured; times of a smoke run mean nothing", len(results))
		return nil
	case o.only != "" && o.page == "":
		fmt.Println(table(results))
		fmt.Println(runTable(results))
		return nil
	case o.page != "":
		page = o.page
	}
	return fillFile(page, tables)
}

// pageTables returns the tables of BENCHMARKS.md that are complete, each with its origin.
func pageTables(results []result, from origin) map[string]string {
	tables := make(map[string]string)
	complete := func(rows []scenario) bool {
		return !slices.ContainsFunc(rows, func(s scenario) bool {
			return !slices.ContainsFunc(results, func(r result) bool { return r.bench == s.bench && r.unit == s.unit })
		})
	}
	if complete(scenarios) {
		tables["scenarios"], tables["origin"] = table(results), from.String()
	}
	if complete(runRows()) {
		tables["workers"], tables["origin of workers"] = runTable(results), from.String()
	}
	return tables
}

// rows returns the rows to measure.
func (o options) rows() []scenario {
	switch {
	case o.smoke:
		return slices.Concat(scenarios, looks, scaleRows(), runRows())
	case o.scale:
		return scaleRows()
	}
	return slices.Concat(scenarios, looks, runRows())
}
