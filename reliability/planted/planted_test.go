package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each fault fits the sources. Whether a check notices the fault is what `make planted` shows.
func TestFaultsFitTheSources(t *testing.T) {
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) < 60 {
		t.Errorf("%d faults, want at least 60", len(faults))
	}
	for _, f := range faults {
		sources, err := f.apply("../..")
		if err != nil {
			t.Error(err)
		}
		if err == nil && len(sources) == 0 {
			t.Errorf("%s: %q changes no file", f.where, f.name)
		}
		for _, c := range f.checks {
			for test := range strings.SplitSeq(c.tests, "|") {
				if !slices.Contains(testsOf(t, c.pkg), test) {
					t.Errorf("%s: %q: %s has no %s", f.where, f.name, c.pkg, test)
				}
			}
		}
	}
}

var read = map[string][]string{}

// testsOf returns the names that the test files of a package have.
func testsOf(t *testing.T, pkg string) (names []string) {
	if names, ok := read[pkg]; ok {
		return names
	}
	paths, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names = append(names, nameOf(fn))
			}
		}
	}
	read[pkg] = names
	return names
}

const example = `fault: a
from: b
check: ./internal/fifo TestModel -tags=explore -- -long
in: ./internal/fifo FIFO.Idle
 one
-two
+three
`

func TestListsThatCannotBeRead(t *testing.T) {
	if faults, err := parseFaults("list", example); err != nil || len(faults) != 1 || len(faults[0].edits) != 1 {
		t.Fatalf("got %v, %v", faults, err)
	}
	for old, instead := range map[string]string{
		"fault: a":         "in: . b",
		"from: b\n":        "",
		"from":             "form",
		"TestModel ":       "",
		"-two\n+three\n":   "",
		" FIFO.Idle":       "",
		"in: ./internal/f": "on: ./internal/f",
	} {
		if text := strings.Replace(example, old, instead, 1); text == example || parses(text) {
			t.Errorf("read with %q in place of %q", instead, old)
		}
	}
}

func parses(text string) bool {
	faults, err := parseFaults("list", text)
	return err == nil && len(faults[0].checks[0].flags) == 1 && len(faults[0].checks[0].args) == 1
}

// The lines of an edit stand in their function once.
func TestEditOfAFunction(t *testing.T) {
	const text = "package p\n\nfunc f() {\n\tone()\n\ttwo()\n}\n\nfunc (t *T[K]) f() {\n\tone()\n\ttwo()\n}\n"
	for _, row := range []struct {
		function, line string
		places         int
	}{
		{"f", "one()", 1},
		{"T.f", "two()", 1},
		{"p.go", "one()", 2},
		{"f", "three()", 0},
		{"g", "one()", 0},
	} {
		e := edit{function: row.function, old: []string{row.line}}
		regions, err := e.regions("p.go", text)
		if err != nil {
			t.Fatal(err)
		}
		places := 0
		for _, r := range regions {
			places += len(find(strings.Split(text, "\n")[r.from:r.to], e.old))
		}
		if places != row.places {
			t.Errorf("%s: %d places with %q, want %d", row.function, places, row.line, row.places)
		}
	}
}

// The faults compile, all together and those that need a build of their own.
func TestFaultsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library several times")
	}
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	together := slices.DeleteFunc(slices.Clone(faults), func(f *fault) bool { return f.alone })
	builds := [][]*fault{together}
	for _, f := range faults {
		if f.alone {
			builds = append(builds, []*fault{f})
		}
	}
	for _, faults := range builds {
		name, err := overlay("../..", t.TempDir(), faults)
		if err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-overlay", name, ".", "./internal/...")
		build.Dir = "../.."
		if output, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s and others: %v\n%s", faults[0].name, err, output)
		}
	}
}
