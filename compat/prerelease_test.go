package compat_test

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// preReleaseAdds are the names of the pre-release beyond the client-go of our go.mod. We have
// all of them.
var preReleaseAdds = []string{"TypedRateLimitingQueueConfig.Logger: added"}

// TestAPIOfThePreRelease is TestAPI with the newest pre-release in swap. The go command
// may be older than the pre-release asks for, so nothing is built: the test reads the source of
// the package, and takes the imports of today's client-go for its imports.
func TestAPIOfThePreRelease(t *testing.T) {
	theirs, ours := loadAPIs(t)
	early := preRelease(t, theirs, ours)
	missed, _ := compareAPI(early, ours)
	if !slices.Equal(missed, incomparable) {
		t.Errorf("a program on the pre-release misses here:\n\t%s\nwant:\n\t%s", strings.Join(missed, "\n\t"), strings.Join(incomparable, "\n\t"))
	}
	lost, added := compareAPI(theirs, early)
	if len(lost) > 0 || !slices.Equal(added, preReleaseAdds) {
		t.Errorf("the pre-release lacks %q and adds %q, want none and %q", lost, added, preReleaseAdds)
	}
}

// preRelease type-checks client-go's package in the version that swap names.
func preRelease(t *testing.T, theirs, ours *types.Package) *types.Package {
	t.Helper()
	known := map[string]*types.Package{}
	for _, p := range slices.Concat(theirs.Imports(), ours.Imports()) {
		known[p.Path()] = p
	}
	config := types.Config{Importer: importerFunc(func(path string) (*types.Package, error) {
		if p := known[path]; p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("the pre-release imports %s, which today's client-go does not: let this test load it", path)
	})}
	set := token.NewFileSet()
	p, err := config.Check(theirPath, set, sources(t, set), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

// sources parses the files of the package from the module's zip, which the go command
// downloads even if it then says that the module asks for a newer go.
func sources(t *testing.T, set *token.FileSet) (files []*ast.File) {
	t.Helper()
	text, err := os.ReadFile("../swap/library.go")
	named := regexp.MustCompile(`\bahead\s+= "(.+)"`).FindSubmatch(text)
	if err != nil || named == nil {
		t.Fatalf("swap names no pre-release, %v", err)
	}
	module := "k8s.io/client-go@" + string(named[1])
	out, _ := exec.Command("go", "mod", "download", "-json", module).Output()
	var fetched struct{ Zip, Error string }
	if err := json.Unmarshal(out, &fetched); err != nil || fetched.Zip == "" {
		t.Fatalf("%s: %s, %v", module, fetched.Error, err)
	}
	archive, err := zip.OpenReader(fetched.Zip)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, entry := range archive.File {
		if path.Dir(entry.Name) != module+"/util/workqueue" || strings.HasSuffix(entry.Name, "_test.go") || path.Ext(entry.Name) != ".go" {
			continue
		}
		content, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, entry.Name, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
