package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A fault is a bug that somebody could put into the library, with the checks that have to notice
// the bug.
type fault struct {
	name, from string
	checks     []check
	edits      []edit
	where      string // file and line of the list
}

// A check is some tests of a package.
type check struct {
	pkg   string   // the folder, from the root of the repository
	tests string   // names of tests with | between them
	flags []string // of go test
	args  []string // of the tests, behind "--" in the list
}

func (c check) String() string {
	words := append([]string{c.pkg, c.tests}, c.flags...)
	if c.args != nil {
		words = append(append(words, "--"), c.args...)
	}
	return strings.Join(words, " ")
}

// An edit replaces lines of a function. The lines have no numbers and no indentation, so that
// the edit survives changes elsewhere in the function, and a move of the function.
type edit struct {
	dir, function string
	old, new      []string
}

// readFaults returns the faults of all lists in a folder.
func readFaults(dir string) (faults []*fault, err error) {
	lists, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		read, err := parseFaults(filepath.Base(list), string(text))
		if err != nil {
			return nil, err
		}
		for _, f := range read {
			if known[f.name] {
				return nil, fmt.Errorf("%s: a second fault with the name %q", f.where, f.name)
			}
			known[f.name] = true
		}
		faults = append(faults, read...)
	}
	return faults, nil
}

// parseFaults reads a list, see the package comment.
func parseFaults(name, text string) (faults []*fault, err error) {
	var f *fault
	n := 0
	for line := range strings.Lines(text) {
		n++
		where := fmt.Sprintf("%s:%d", name, n)
		line = strings.TrimRight(line, "\n")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" || line[0] == '#':
		case key == "fault":
			f = &fault{name: value, where: where}
			faults = append(faults, f)
		case f == nil:
			return nil, fmt.Errorf("%s: %q stands before the first fault", where, line)
		case !f.read(key, value, line):
			return nil, fmt.Errorf("%s: cannot read %q", where, line)
		}
	}
	for _, f := range faults {
		if err := f.isComplete(); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.where, f.name, err)
		}
	}
	return faults, nil
}

// read reads a line of a fault, and reports whether the line has a known form.
func (f *fault) read(key, value, line string) bool {
	words := strings.Fields(value)
	switch {
	case key == "from":
		f.from = value
	case key == "check" && len(words) > 1:
		c := check{pkg: words[0], tests: words[1], flags: words[2:]}
		if at := slices.Index(c.flags, "--"); at >= 0 {
			c.flags, c.args = c.flags[:at], c.flags[at+1:]
		}
		f.checks = append(f.checks, c)
	case key == "in" && len(words) == 2:
		f.edits = append(f.edits, edit{dir: words[0], function: words[1]})
	case len(f.edits) > 0 && (line[0] == ' ' || line[0] == '-' || line[0] == '+'):
		e := &f.edits[len(f.edits)-1]
		text := strings.TrimSpace(line[1:])
		if line[0] != '+' {
			e.old = append(e.old, text)
		}
		if line[0] != '-' {
			e.new = append(e.new, text)
		}
	default:
		return false
	}
	return true
}

func (f *fault) isComplete() error {
	switch {
	case f.from == "":
		return errors.New("no line from")
	case f.checks == nil:
		return errors.New("no line check")
	case len(f.edits) == 0:
		return errors.New("no edit")
	}
	for _, e := range f.edits {
		if len(e.old) == 0 || slices.Equal(e.old, e.new) {
			return fmt.Errorf("the edit of %s changes nothing", e.function)
		}
	}
	return nil
}

// apply returns the sources with the fault, by their names.
func (f *fault) apply(root string) (sources map[string]string, err error) {
	sources = map[string]string{}
	for _, e := range f.edits {
		if err := e.apply(filepath.Join(root, e.dir), sources); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.where, f.name, err)
		}
	}
	return sources, nil
}

// apply edits the one place in a folder that the edit fits. Sources that were edited before are
// read from the map.
func (e edit) apply(dir string, sources map[string]string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	places := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, ok := sources[name]
		if !ok {
			read, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(read)
		}
		if !strings.Contains(text, e.old[0]) {
			continue // Spares the parser.
		}
		found, err := bodies(name, text)
		if err != nil {
			return err
		}
		b, ok := found[e.function]
		if !ok {
			continue
		}
		lines := strings.Split(text, "\n")
		for _, at := range find(lines[b.from:b.to], e.old) {
			places++
			sources[name] = strings.Join(slices.Replace(lines, b.from+at, b.from+at+len(e.old), e.new...), "\n")
		}
	}
	if places != 1 {
		return fmt.Errorf("%s %s has the lines of the edit %d times, and has to have them once:\n\t%s",
			e.dir, e.function, places, strings.Join(e.old, "\n\t"))
	}
	return nil
}

// find returns where lines has the lines of old, whatever their indentation.
func find(lines, old []string) (at []int) {
	for i := 0; i+len(old) <= len(lines); i++ {
		if slices.EqualFunc(lines[i:i+len(old)], old, func(line, old string) bool { return strings.TrimSpace(line) == old }) {
			at = append(at, i)
		}
	}
	return at
}
