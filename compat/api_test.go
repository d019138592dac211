package compat_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

const (
	theirPath   = "k8s.io/client-go/util/workqueue"
	ourPath     = "github.com/seed16c08ea7/workqueue"
	waitPath    = "k8s.io/apimachinery/pkg/util/wait"
	ourWaitPath = ourPath + "/wait"
)

// TestAPI is the proof behind "change the import path, and your code compiles": apidiff finds
// no name of client-go that is absent here or has another form. For code that is handed
// to a package whose signatures name client-go's types, see assign_test.go.
func TestAPI(t *testing.T) {
	theirs, ours := loadAPIs(t)
	broken, _ := compareAPI(theirs, ours)
	if !slices.Equal(broken, incomparable) {
		t.Errorf("a program on client-go breaks here by:\n\t%s\nwant:\n\t%s", strings.Join(broken, "\n\t"), strings.Join(incomparable, "\n\t"))
	}
}

// incomparable are the types with an Order, and so with functions. A config is passed to a
// constructor; we know of no program that compares two configs. The lines also show that apidiff
// compares.
var incomparable = []string{
	"TypedDelayingQueueConfig: old is comparable, new is not",
	"TypedQueueConfig: old is comparable, new is not",
	"TypedRateLimitingQueueConfig: old is comparable, new is not",
}

// compareAPI returns the changes that break a program when it is built on ours, and the additions of ours.
func compareAPI(theirs, ours *types.Package) (broken, added []string) {
	for _, change := range apidiff.Changes(theirs, ours).Changes {
		if change.Compatible {
			added = append(added, change.Message)
		} else {
			broken = append(broken, change.Message)
		}
	}
	return append(broken, otherTypeParams(theirs, ours)...), added
}

// otherTypeParams compares the type parameters of functions, which apidiff leaves out.
func otherTypeParams(theirs, ours *types.Package) (differ []string) {
	written := func(o types.Object) (constraints string) {
		f, ok := o.(*types.Func)
		if !ok {
			return ""
		}
		for p := range f.Signature().TypeParams().TypeParams() {
			constraints += p.Constraint().String() + " "
		}
		return constraints
	}
	for _, name := range theirs.Scope().Names() {
		want, got := written(theirs.Scope().Lookup(name)), written(ours.Scope().Lookup(name))
		if token.IsExported(name) && want != got {
			differ = append(differ, fmt.Sprintf("%s: type parameters changed from %s to %s", name, want, got))
		}
	}
	return differ
}

// TestWaitAPI holds our package wait against apimachinery's: ours lacks the names that the package comment
// lists as absent and no other name, adds no name, and the other names are the same, deprecated or not.
func TestWaitAPI(t *testing.T) {
	theirs, ours := loadPair(t, waitPath, ourWaitPath, "Backoff")
	broken, added := compareAPI(theirs.Types, ours.Types)
	var want []string
	for _, name := range listedAsAbsent(t, ours) {
		want = append(want, name+": removed")
	}
	slices.Sort(want)
	if !slices.Equal(broken, want) || len(added) > 0 {
		t.Errorf("got %q, and added %q, want %q and none", broken, added, want)
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

// isDeprecated reports whether a function or a type is deprecated.
func isDeprecated(p *packages.Package, name string) bool {
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			var doc *ast.CommentGroup
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.Name == name {
					doc = decl.Doc
				}
			case *ast.GenDecl:
				if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok && spec.Name.Name == name {
					doc = decl.Doc
				}
			}
			if strings.Contains("\n"+doc.Text(), "\nDeprecated: ") {
				return true
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

// compared are the packages to compare, with their comments.
var compared = sync.OnceValues(func() (map[string]*packages.Package, error) {
	return load(packages.NeedSyntax, theirPath, ourPath, waitPath, ourWaitPath, aliasesPath)
})

// load loads packages in one call, so that their common imports (clock, rate, logr) are the same
// types and not look-alikes.
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

// buildFlags lets the go command use the packages of this test. Otherwise a test with the race
// detector would compile the packages once more, without the detector.
func buildFlags() []string {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}
