package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// A share says how many of the mutants of a file live: no test notices them.
type share struct{ mutants, living int }

func (s share) String() string {
	return fmt.Sprintf("%.1f %%", 100*float64(s.living)/float64(max(1, s.mutants)))
}

// exceeds reports whether more mutants live than before. One mutant of 200 may live by chance: a
// test that fails by a time limit may pass on a faster machine.
func (s share) exceeds(before share) bool {
	chance := 1 + s.mutants/200
	return (s.living-chance)*max(1, before.mutants) > before.living*max(1, s.mutants)
}

// Shares are the shares that may live, by package and file.
type shares map[string]share

const heading = `# How many mutants live, by file. A run fails if more of a file live than here: write a test, or show
# that the mutants do the same as the source, and run with -rewrite.
#
`

// readShares reads the file with the table.
func readShares(name string) (shares, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all := shares{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var file string
		var s share
		if n, _ := fmt.Sscan(line, &file, &s.mutants, &s.living); n < 3 || all[file] != (share{}) {
			return nil, fmt.Errorf("%s: cannot read %q", name, line)
		}
		all[file] = s
	}
	return all, nil
}

// table has a line for each file.
func (all shares) table() string {
	text := fmt.Sprintf("# %-42s %8s %8s %8s\n", "file", "mutants", "living", "share")
	for _, file := range slices.Sorted(maps.Keys(all)) {
		s := all[file]
		text += fmt.Sprintf("%-44s %8d %8d %8v\n", file, s.mutants, s.living, s)
	}
	return text
}

// sharesOf returns the shares of a package, as a run has found them.
func sharesOf(pkg string, results []result) shares {
	found := shares{}
	for _, r := range results {
		s := found[path.Join(pkg, r.file)]
		s.mutants++
		if r.verdict == lived || r.verdict == uncovered {
			s.living++
		}
		found[path.Join(pkg, r.file)] = s
	}
	return found
}

// judge prints the files of a package that differ from the table for the worse, and reports whether
// there are none.
func (all shares) judge(w io.Writer, pkg string, found shares, matches func(file string) bool) (ok bool) {
	ok = true
	for _, file := range slices.Sorted(maps.Keys(found)) {
		switch before, known := all[file]; {
		case !known:
			ok = false
			fmt.Fprintf(w, "%s: not in the table\n", file)
		case found[file].exceeds(before):
			ok = false
			fmt.Fprintf(w, "%s: %d of %d mutants live, %v; before it was %v\n", file, found[file].living, found[file].mutants, found[file], before)
		}
	}
	for _, file := range all.gone(pkg, found, matches) {
		ok = false
		fmt.Fprintf(w, "%s: in the table, and has no mutants\n", file)
	}
	return ok
}

// gone returns the files of a package that are in the table and have no mutants any more.
func (all shares) gone(pkg string, found shares, matches func(file string) bool) (files []string) {
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if _, ok := found[file]; !ok && path.Dir(file) == pkg && matches(path.Base(file)) {
			files = append(files, file)
		}
	}
	return files
}

// update replaces the shares of a package by those of a run.
func (all shares) update(pkg string, found shares, matches func(file string) bool) {
	for _, file := range all.gone(pkg, found, matches) {
		delete(all, file)
	}
	maps.Copy(all, found)
}
