package workqueue_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The prefixes of test files that are about no one source file.
var testPrefixes = []string{"budget", "contract", "docs", "example", "export", "helpers", "model", "upstream"}

// The map in docs/architecture.md has a line for each source file without a test file of
// its name, and for no other, and one for each test file without a source file or a known
// prefix. What it names is there.
func TestTestMapHasEachFile(t *testing.T) {
	t.Parallel()
	page := section(read(t, "docs/architecture.md"), "Tests")
	sources, rest, found := strings.Cut(page, "\nTests without a namesake:\n")
	tests, _, _ := strings.Cut(rest, "\nThe package ")
	if !found {
		t.Fatal("the map has no tests without a namesake")
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := filesIn(sources + tests)
	for _, problem := range gapsOfMap(files, named) {
		t.Error(problem)
	}
	for _, name := range named {
		if matches, _ := filepath.Glob(name); len(matches) == 0 && !strings.Contains(name, "/") {
			t.Errorf("the map names %s, which is not there", name)
		}
	}
	for _, row := range rowsOf(sources) {
		for _, name := range filesIn(cellsOf(row)[0]) {
			if test := strings.TrimSuffix(name, ".go") + "_test.go"; slices.Contains(files, test) {
				t.Errorf("the map has %s among those without a namesake, and there is %s", name, test)
			}
		}
	}
	control := []string{"a.go", "a_test.go", "b.go", "c_test.go", "model_c_test.go", "d.go", "e_test.go"}
	if got := strings.Join(gapsOfMap(control, []string{"d.go", "e_test.go"}), ", "); got != "b.go has no test, c_test.go has no source" {
		t.Errorf("got %s of the control", got)
	}
}

// filesIn returns the files that stand first in the rows of tables, and those beside them.
func filesIn(text string) (names []string) {
	for _, match := range regexp.MustCompile("`([\\w/*]+\\.go)`").FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

func gapsOfMap(files, named []string) (problems []string) {
	for _, file := range files {
		stem, isTest := strings.CutSuffix(file, "_test.go")
		switch prefix, _, _ := strings.Cut(stem, "_"); {
		case slices.Contains(named, file), isTest && slices.Contains(testPrefixes, prefix):
		case isTest && !slices.Contains(files, stem+".go"):
			problems = append(problems, file+" has no source")
		case !isTest && !slices.Contains(files, strings.TrimSuffix(file, ".go")+"_test.go"):
			problems = append(problems, file+" has no test")
		}
	}
	return problems
}
