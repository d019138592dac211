// Report measures workqueue against its peers and writes BENCHMARKS.md and
// docs/benchmarks.svg. Run it from the module compat:
//
//	go run ./bench/report
//
// A round runs all benchmarks; the slow benchmarks are in three tenths of the rounds.
// A benchmark runs with one implementation after the other, each in a process of its
// own. So other load of the machine disturbs all implementations alike, no
// implementation runs with the heap of another, and no median comes from a single
// stretch of time.
//
// With -scale the program measures how cost grows instead, and writes docs/scaling-one.svg and
// the tables of docs/scaling.md.
//
// With -run the tables go to the standard output, and with -smoke nowhere.
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
	only := flag.String("run", "", "measure only benchmarks like Cycle/keys=string that match the regular `expression`")
	flag.BoolVar(&o.scale, "scale", false, "measure how cost grows, for docs/scaling.md")
	flag.BoolVar(&o.smoke, "smoke", false, "only show that everything runs: one short round, tiny populations")
	flag.Parse()
	if err := run(o, *only); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	rounds    int
	benchtime string
	smoke     bool
	scale     bool
}

// command returns the command line for the same report.
func (o options) command() string {
	return fmt.Sprintf("go run ./bench/report -rounds %d -benchtime %s", o.rounds, o.benchtime)
}

func run(o options, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if o.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	if o.smoke {
		o.rounds, o.benchtime = 1, "1x"
	}
	root, err := moduleDir("github.com/seed16c08ea7/workqueue")
	if err != nil {
		return err
	}
	from, err := provenance(root, o) // before anything is measured: the tree may change
	if err != nil {
		return err
	}
	results, err := measureAll(matching(o.rows(), pattern), o)
	if err != nil {
		return err
	}
	switch {
	case o.smoke:
		log.Printf("all of %d rows measured; times of a smoke run mean nothing", len(results))
		return nil
	case o.scale && only != "":
		for _, a := range axes {
			fmt.Println(a.table(results))
		}
		return nil
	case o.scale:
		return writeScale(root, results, from)
	case only != "":
		_, err := os.Stdout.Write(markdown(results, from))
		return err
	default:
		return writeFiles(root, markdown(results, from), chart(results, from))
	}
}

// rows returns the rows to measure.
func (o options) rows() []scenario {
	switch {
	case o.smoke:
		return slices.Concat(scenarios, scaleRows())
	case o.scale:
		return scaleRows()
	}
	return scenarios
}

func measureAll(rows []scenario, o options) ([]result, error) {
	b, err := build()
	if err != nil {
		return nil, err
	}
	defer b.remove()
	if err := b.checkNames(slices.Concat(scenarios, scaleRows())); err != nil {
		return nil, err
	}
	return b.measure(rows, o)
}

func writeFiles(root string, page, image []byte) error {
	if err := os.WriteFile(filepath.Join(root, "BENCHMARKS.md"), page, 0o644); err != nil {
		return err
	}
	docs := filepath.Join(root, "docs")
	if err := os.MkdirAll(docs, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "benchmarks.svg"), image, 0o644)
}
