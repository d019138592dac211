// Pictures draws the plots of the pages from what the pages say. Run it from the module compat:
//
//	go run ./pictures                  docs/benchmarks.svg, docs/scaling-one.svg, examples/fairness/fairness.svg
//	go run ./pictures -samples FILE    docs/scaling.svg, of the samples that TestSimulation of sharding writes
//
// The first two come from the tables of BENCHMARKS.md and docs/scaling.md, the third from what the
// example writes. Nothing is measured.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("pictures: ")
	root := flag.String("dir", "..", "the repository")
	samples := flag.String("samples", "", "draw only docs/scaling.svg, of this `file`")
	flag.Parse()
	if err := run(*root, *samples); err != nil {
		log.Fatal(err)
	}
}

func run(root, samples string) error {
	if samples != "" {
		text, err := os.ReadFile(samples)
		if err != nil {
			return err
		}
		return save(root, "docs/scaling.svg", text, drawReplicas)
	}
	for _, p := range []struct {
		page, picture string
		draw          func([]byte) ([]byte, error)
	}{
		{"BENCHMARKS.md", "docs/benchmarks.svg", drawBenchmarks},
		{"docs/scaling.md", "docs/scaling-one.svg", drawScaling},
	} {
		text, err := os.ReadFile(filepath.Join(root, p.page))
		if err != nil {
			return err
		}
		if err := save(root, p.picture, text, p.draw); err != nil {
			return fmt.Errorf("%s: %w", p.page, err)
		}
	}
	waits, err := fairnessWaits(root)
	if err != nil {
		return err
	}
	return save(root, "examples/fairness/fairness.svg", waits, drawFairness)
}

func save(root, picture string, text []byte, draw func([]byte) ([]byte, error)) error {
	svg, err := draw(text)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, picture), svg, 0o644)
}

// fairnessWaits returns what the example writes with -csv.
func fairnessWaits(root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "waits.csv")
	cmd := exec.Command("go", "run", "./fairness", "-csv", file)
	cmd.Dir = filepath.Join(root, "examples")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running the example: %w\n%s", err, &stderr)
	}
	return os.ReadFile(file)
}
