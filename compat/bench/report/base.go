package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// slower is the ratio from which a row counts as slower than at the base commit.
const slower = 1.05

// compareWithBase runs our rows of the tree and of another commit by turns, and prints the rows in
// which the least time of the tree is more than 5 % above the least time of the commit. The least
// time of many short runs is the one that other load of the machine has disturbed the least.
// A slower row is for the reader to judge and no error: a row can differ by more on a busy machine.
// Rows that the commit does not have are left out.
func compareWithBase(out io.Writer, root string, rows []scenario, o options) error {
	commit, err := baseCommit(o.base)
	if err != nil {
		return err
	}
	tree, err := os.MkdirTemp("", "base")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if text, err := exec.Command("git", "-C", root, "worktree", "add", "--detach", "--force", tree, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("checking out %s: %w\n%s", commit, err, text)
	}
	defer exec.Command("git", "-C", root, "worktree", "remove", "--force", tree).Run()
	before, err := build(filepath.Join(tree, "compat", "bench"))
	if err != nil {
		return err
	}
	defer before.remove()
	after, err := build("bench")
	if err != nil {
		return err
	}
	defer after.remove()
	rows, err = before.shared(rows)
	if err != nil {
		return err
	}
	var pairs []pair
	for _, group := range byBenchmark(pairable(rows)) {
		p, err := measurePair(before, after, group, o)
		if err != nil {
			return err
		}
		pairs = append(pairs, p...)
	}
	return writeSlower(out, commit, pairs)
}

// baseCommit returns a commit, or what the file behind an @ has.
func baseCommit(base string) (string, error) {
	name, isFile := strings.CutPrefix(base, "@")
	if !isFile {
		return base, nil
	}
	text, err := os.ReadFile(name)
	return strings.TrimSpace(string(text)), err
}

// shared returns the rows whose benchmark the program has, too.
func (b *binary) shared(rows []scenario) ([]scenario, error) {
	names, err := b.names()
	return slices.DeleteFunc(slices.Clone(rows), func(s scenario) bool {
		name, _, _ := strings.Cut(s.bench, "/")
		return !slices.Contains(names, "Benchmark"+name)
	}), err
}

// pairable returns the rows of ours that are times of short runs.
func pairable(rows []scenario) []result {
	var some []result
	for _, s := range rows {
		if !s.slow && slices.Contains(s.peers, ours) && strings.Contains(s.unit, "ns") {
			some = append(some, result{s, nil})
		}
	}
	return some
}

// A pair has the least time of a row at the base commit, and in the tree.
type pair struct {
	title         string
	before, after float64
}

func (p *pair) note(before bool, value float64) {
	if before {
		p.before = min(p.before, value)
	} else {
		p.after = min(p.after, value)
	}
}

// measurePair runs a benchmark of both programs by turns. Every other round begins with the tree.
func measurePair(before, after *binary, group []result, o options) ([]pair, error) {
	pairs := make([]pair, len(group))
	for i, r := range group {
		pairs[i] = pair{r.title, math.Inf(1), math.Inf(1)}
	}
	for round := range o.rounds {
		for turn := range 2 {
			b := before
			if isAfter := (round+turn)%2 == 1; isAfter {
				b = after
			}
			values, err := b.run(group[0].bench, ours, o)
			switch {
			case err != nil && b == before:
				return nil, nil // The commit has the benchmark, and not this form of it.
			case err != nil:
				return nil, err
			}
			for i, r := range group {
				if value, ok := values[r.unit]; ok {
					pairs[i].note(b == before, value)
				}
			}
		}
	}
	return pairs, nil
}

func writeSlower(out io.Writer, commit string, pairs []pair) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	count := 0
	for _, p := range pairs {
		if p.after > p.before*slower {
			count++
			fmt.Fprintf(w, "%s\t%s\t%s\t%+.0f %%\n", p.title, quantity(p.before, "ns"), quantity(p.after, "ns"), 100*(p.after/p.before-1))
		}
	}
	fmt.Fprintf(w, "%d of %d rows are slower by 5 %% or more than at %s.\n", count, len(pairs), commit)
	return w.Flush()
}
