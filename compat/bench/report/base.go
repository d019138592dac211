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

// slower is the ratio from which a row can count as slower than at the base commit.
const slower = 1.05

// layouts is how often each program is linked, each time with its functions in another random order.
// Where the functions lie changes the time of a row by some percent, and a change of the source moves
// them all.
const layouts = 3

// compareWithBase runs our rows of the tree and of another commit by turns, and prints the least time of
// each, their ratio, and how far apart the layouts of the commit are. The least time of many short runs
// is the one that other load of the machine has disturbed the least. A row is marked if it is slower by
// more than the layouts differ, and by 5 %. That is for the reader to judge and no error.
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
	before, err := buildLayouts(filepath.Join(tree, "compat", "bench"))
	defer before.remove()
	if err != nil {
		return err
	}
	after, err := buildLayouts("bench")
	defer after.remove()
	if err != nil {
		return err
	}
	rows, err = before[0].shared(rows)
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
	return writePairs(out, commit, pairs)
}

// binaries are the layouts of one program.
type binaries []*binary

func buildLayouts(bench string) (all binaries, err error) {
	for i := range layouts {
		b, err := build(bench, fmt.Sprintf("-ldflags=-randlayout=%d", i+1))
		if err != nil {
			return all, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (all binaries) remove() {
	for _, b := range all {
		b.remove()
	}
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

// pairable returns the rows of ours that have times of short runs, or bytes.
func pairable(rows []scenario) []result {
	var some []result
	for _, s := range rows {
		if bytes := strings.HasPrefix(s.unit, "B/"); slices.Contains(s.peers, ours) && (bytes || strings.Contains(s.unit, "ns") && !s.slow) {
			some = append(some, result{s, nil})
		}
	}
	return some
}

// A pair has the least value of a row for each layout, at the base commit and in the tree.
type pair struct {
	title, unit   string
	before, after [layouts]float64
}

func newPair(s scenario) pair {
	p := pair{title: s.title, unit: s.unit}
	for i := range layouts {
		p.before[i], p.after[i] = math.Inf(1), math.Inf(1)
	}
	return p
}

func (p *pair) note(isAfter bool, layout int, value float64) {
	side := &p.before
	if isAfter {
		side = &p.after
	}
	side[layout] = min(side[layout], value)
}

// ratio compares the best layout of the tree with the best of the base commit.
func (p pair) ratio() float64 { return ratio(slices.Min(p.after[:]), slices.Min(p.before[:])) }

// spread compares the worst layout of the base commit with its best.
func (p pair) spread() float64 { return ratio(slices.Max(p.before[:]), slices.Min(p.before[:])) }

// ratio is 1 for two zeros, as rows of bytes have them.
func ratio(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}

func (p pair) slower() bool { return p.ratio() > max(slower, p.spread()) }

// measurePair runs a benchmark of both programs by turns. Each round has the next layout, and every
// other round begins with the tree.
func measurePair(before, after binaries, group []result, o options) ([]pair, error) {
	pairs := make([]pair, len(group))
	for i, r := range group {
		pairs[i] = newPair(r.scenario)
	}
	rounds := o.rounds
	if group[0].slow {
		rounds = layouts
	}
	for round := range rounds {
		for turn := range 2 {
			programs, isAfter := before, (round+turn)%2 == 1
			if isAfter {
				programs = after
			}
			layout := round % layouts
			values, err := programs[layout].run(group[0].bench, ours, o)
			switch {
			case err != nil && !isAfter:
				return nil, nil // The commit has the benchmark, and not this form of it.
			case err != nil:
				return nil, err
			}
			for i, r := range group {
				if value, ok := values[r.unit]; ok {
					pairs[i].note(isAfter, layout, value)
				}
			}
		}
	}
	return pairs, nil
}

func writePairs(out io.Writer, commit string, pairs []pair) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "row\tat the base\there\tratio\tlayouts of the base\t\n")
	count := 0
	for _, p := range pairs {
		mark := ""
		if p.slower() {
			count++
			mark = "▼"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%.2f\t%s\n", p.title, quantity(slices.Min(p.before[:]), p.unit),
			quantity(slices.Min(p.after[:]), p.unit), p.ratio(), p.spread(), mark)
	}
	fmt.Fprintf(w, "%d of %d rows are slower than at %s.\n", count, len(pairs), commit)
	return w.Flush()
}
