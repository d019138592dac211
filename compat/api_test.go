package compat_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

const (
	theirPath   = "k8s.io/client-go/util/workqueue"
	ourPath     = "github.com/seed16c08ea7/workqueue"
	waitPath    = "k8s.io/apimachinery/pkg/util/wait"
	ourWaitPath = ourPath + "/wait"
)

// TestAPI is the proof behind "change the import path, and your code compiles":
// whatever client-go exports must be here, in the same form. Code that is handed
// to a package whose signatures name client-go's types is another matter, see
// assign_test.go.
func TestAPI(t *testing.T) {
	theirs, ours := loadAPIs(t)
	missed, added := compareAPI(theirs, ours)
	for _, line := range incomparable {
		if !slices.Contains(missed, line) {
			t.Errorf("no longer true: %s", line)
		}
	}
	for _, line := range missed {
		if !slices.Contains(incomparable, line) {
			t.Error(line)
		}
	}
	for _, line := range added {
		t.Log("added: " + line)
	}
}

// incomparable are the types that have an Order, and so functions. A config is passed to a
// constructor; we know of no program that compares two of them.
var incomparable = []string{
	"TypedDelayingQueueConfig: values can be compared with ==, ours cannot",
	"TypedQueueConfig: values can be compared with ==, ours cannot",
	"TypedRateLimitingQueueConfig: values can be compared with ==, ours cannot",
}

// TestWaitAPI holds our package wait against apimachinery's: the names that the package
// comment lists as absent are all that ours lacks, ours adds nothing, and each of the other
// names is the same, deprecated or not.
func TestWaitAPI(t *testing.T) {
	theirs, ours := loadPair(t, waitPath, ourWaitPath, "Backoff")
	missed, added := compareAPI(theirs.Types, ours.Types)
	for _, name := range listedAsAbsent(t, ours) {
		n := len(missed)
		if missed = withoutPrefix(missed, name+": missing "); len(missed) != n-1 {
			t.Errorf("%s is listed as absent, and is not", name)
		}
	}
	for _, line := range slices.Concat(missed, added) {
		t.Error(line)
	}
	for _, name := range ours.Types.Scope().Names() {
		if want, got := isDeprecated(theirs, name), isDeprecated(ours, name); want != got {
			t.Errorf("%s: deprecated there: %v, here: %v", name, want, got)
		}
	}
	if !isDeprecated(theirs, "NewJitteredBackoffManager") || isDeprecated(theirs, "Jitter") {
		t.Error("the control of what is deprecated fails")
	}
}

// listedAsAbsent returns the names before the colons of the last list in the comment of
// a package.
func listedAsAbsent(t *testing.T, p *packages.Package) (names []string) {
	t.Helper()
	for _, file := range p.Syntax {
		_, list, _ := strings.Cut(file.Doc.Text(), "# What is absent\n")
		for _, item := range strings.Split(list, "\n  - ")[1:] {
			before, _, _ := strings.Cut(item, ":")
			names = append(names, regexp.MustCompile(`\w+`).FindAllString(before, -1)...)
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s lists nothing as absent", p.PkgPath)
	}
	return names
}

// isDeprecated reports whether a function is deprecated. No type of ours is.
func isDeprecated(p *packages.Package, name string) bool {
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return strings.Contains(f.Doc.Text(), "\nDeprecated: ")
			}
		}
	}
	return false
}

func loadAPIs(t *testing.T) (theirs, ours *types.Package) {
	t.Helper()
	p, q := loadPair(t, theirPath, ourPath, "TypedRateLimitingInterface")
	return p.Types, q.Types
}

func loadPair(t *testing.T, theirPath, ourPath, name string) (theirs, ours *packages.Package) {
	t.Helper()
	all, err := compared()
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours = all[theirPath], all[ourPath]
	// An empty scope would make every comparison pass.
	if theirs.Types.Scope().Lookup(name) == nil {
		t.Fatalf("%s loaded without its declarations", theirPath)
	}
	return theirs, ours
}

// compared are the packages that the tests compare, with their comments.
var compared = sync.OnceValues(func() (map[string]*packages.Package, error) {
	return load(packages.NeedSyntax, theirPath, ourPath, waitPath, ourWaitPath)
})

// load loads packages in one call, so that what they all import (clock, rate, logr) is one set of
// types rather than look-alikes.
func load(more packages.LoadMode, paths ...string) (map[string]*packages.Package, error) {
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | more, BuildFlags: buildFlags(),
	}, paths...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*packages.Package)
	for _, p := range found {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("loading %s: %w", p.PkgPath, e)
		}
		all[p.PkgPath] = p
	}
	if len(all) != len(paths) {
		return nil, fmt.Errorf("got the packages %v, want %v", slices.Collect(maps.Keys(all)), paths)
	}
	return all, nil
}

// buildFlags lets the go command use what it has compiled for this test: with the race detector, the
// packages would be compiled once more without.
func buildFlags() []string {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}
