package workqueue_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What pages and comments name is mostly renamed by somebody who looks at something else.

var (
	pageLink  = regexp.MustCompile(`\]\(([\w./-]+)(?:#[\w-]*)?\)`)
	namedFile = regexp.MustCompile("`([\\w/]*[a-z]\\w*\\.go)`")
	namedTest = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz|Example)_?[A-Z]\w*`)
	madeThing = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][\\w-]*)")
	testFunc  = regexp.MustCompile(`^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
)

// A tree is what there is to be named.
type tree struct {
	files map[string]bool // with their paths, and by their names alone
	tests map[string]bool
	made  map[string]bool // targets of the Makefile
	pages map[string]string
}

// treeOf walks the tree once for all tests.
func treeOf(t *testing.T) tree {
	t.Helper()
	all, err := walkedTree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var walkedTree = sync.OnceValues(func() (tree, error) {
	all := tree{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return filepath.SkipDir
			}
			all.files[filepath.ToSlash(path)] = true
			return err
		}
		all.files[filepath.ToSlash(path)], all.files[entry.Name()] = true, true
		switch filepath.Ext(path) {
		case ".md":
			text, err := os.ReadFile(path)
			all.pages[path] = string(text)
			return err
		case ".go":
			return all.addTests(path)
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	makefile, err := os.ReadFile("Makefile")
	for _, match := range regexp.MustCompile(`(?m)^([\w-]+):`).FindAllSubmatch(makefile, -1) {
		all.made[string(match[1])] = true
	}
	return all, err
})

func (all tree) addTests(path string) error {
	text, err := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "func ") { // Under the race detector the pattern takes its time.
			continue
		}
		if match := testFunc.FindStringSubmatch(line); match != nil {
			all.tests[match[1]] = true
		}
	}
	return err
}

// missing returns what a page names and what is not there.
func (all tree) missing(path, page string) (names []string) {
	for _, match := range pageLink.FindAllStringSubmatch(page, -1) {
		if to := filepath.ToSlash(filepath.Join(filepath.Dir(path), match[1])); !all.files[to] {
			names = append(names, match[1])
		}
	}
	for _, match := range namedFile.FindAllStringSubmatch(page, -1) {
		if !all.files[match[1]] && match[1] != "_test.go" {
			names = append(names, match[1])
		}
	}
	for _, match := range madeThing.FindAllStringSubmatch(page, -1) {
		if !all.made[match[1]] {
			names = append(names, "make "+match[1])
		}
	}
	for _, name := range namedTest.FindAllString(page, -1) {
		if !all.tests[name] {
			names = append(names, name)
		}
	}
	return names
}

// TestQueuesAreSwapped is what the command swap writes into a program.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	for _, path := range slices.Sorted(maps.Keys(all.pages)) {
		for _, name := range all.missing(path, all.pages[path]) {
			if name != "TestQueuesAreSwapped" {
				t.Errorf("%s names %s, which is not there", path, name)
			}
		}
	}
	control := "[a](docs/testing.md) [b](gone.md#x) `queue.go` `old_queue.go` `make test` `make tests` TestPagesNameWhatIsThere TestOfThePast"
	if got := strings.Join(all.missing("README.md", control), ", "); got != "gone.md, old_queue.go, make tests, TestOfThePast" {
		t.Errorf("got %s of the control", got)
	}
}

// Comments name tests and files as reasons.
func TestCommentsNameTestsThatAreThere(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`https?://\S+`)
	file := regexp.MustCompile(`\b[a-z][\w/-]*\.(?:go|md)\b`)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil || strings.HasPrefix(source, "docs_") {
			continue
		}
		for line := range strings.Lines(string(text)) {
			_, line, found := strings.Cut(line, "//")
			if !found || !namesSomething(line) {
				continue
			}
			for _, name := range namedTest.FindAllString(line, -1) {
				if !all.tests[name] {
					t.Errorf("%s names %s, which is not there", source, name)
				}
			}
			for _, name := range file.FindAllString(address.ReplaceAllString(line, ""), -1) {
				if !all.files[name] {
					t.Errorf("%s names %s, which is not there", source, name)
				}
			}
		}
	}
}

// namesSomething is true of each line in which one of the patterns, which cost more, finds
// something.
func namesSomething(line string) bool {
	for _, part := range []string{".go", ".md", "Test", "Benchmark", "Fuzz", "Example"} {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}
