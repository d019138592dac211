package compat_test

import (
	"flag"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the list of our exported names")

const exportedList = "testdata/exported.txt"

// TestExportedNames holds the list of the exported names of all packages for users. Nobody
// changes a name unseen: docs/compatibility.md has our promises.
func TestExportedNames(t *testing.T) {
	got := exportedNames(t)
	if *rewrite {
		if err := os.WriteFile(exportedList, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(exportedList)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for line := range strings.Lines(got) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(want, line) {
			t.Errorf("new: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(strings.Split(got, "\n"), line) {
			t.Errorf("gone: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if the change is meant: go test -C compat -run '^TestExportedNames$' . -rewrite")
	}
}

// exportedNames returns a line for each name, sorted within its package. The modules of users
// are the root and its directories with a go.mod, without the modules for ourselves.
func exportedNames(t *testing.T) string {
	t.Helper()
	mods, err := filepath.Glob("../*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mods = slices.DeleteFunc(mods, func(mod string) bool {
		return slices.Contains([]string{"compat", "examples", "integration", "reliability"}, filepath.Base(filepath.Dir(mod)))
	})
	var text strings.Builder
	listed := 0
	for _, mod := range append([]string{"../go.mod"}, mods...) {
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedFiles, Dir: filepath.Dir(mod), BuildFlags: buildFlags(),
		}, "./...")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
		for _, p := range loaded {
			for _, e := range p.Errors {
				t.Fatalf("loading %s: %v", p.PkgPath, e)
			}
			if p.Name == "main" || len(p.GoFiles) == 0 || strings.Contains(p.PkgPath, "/internal") {
				continue
			}
			listed++
			fmt.Fprintf(&text, "# %s\n%s\n\n", p.PkgPath, strings.Join(exportedIn(p.Types), "\n"))
		}
	}
	if listed < 4 {
		t.Fatalf("%d packages are listed", listed)
	}
	return text.String()
}

// exportedIn returns the declarations of a package. Fields and methods have lines of their
// own, so a difference shows the method or field.
func exportedIn(p *types.Package) (lines []string) {
	name := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Path()
	}
	for _, n := range p.Scope().Names() {
		o := p.Scope().Lookup(n)
		if !o.Exported() {
			continue
		}
		if c, ok := o.(*types.Const); ok {
			lines = append(lines, fmt.Sprintf("%s = %s", types.ObjectString(o, name), c.Val()))
			continue
		}
		defined, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !isType || !ok || o.(*types.TypeName).IsAlias() {
			lines = append(lines, types.ObjectString(o, name))
			continue
		}
		lines = append(lines, partsOf(o, defined, name)...)
	}
	return lines
}

// partsOf returns the lines of a defined type. Methods of an embedded field are methods of the
// type.
func partsOf(o types.Object, defined *types.Named, name types.Qualifier) (lines []string) {
	head := "type " + types.TypeString(defined, name)
	var parts []string
	switch u := defined.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, head+" struct")
		for f := range u.Fields() {
			if f.Exported() {
				parts = append(parts, types.ObjectString(f, name))
			}
		}
	case *types.Interface:
		lines = append(lines, head+" interface")
		for m := range u.Methods() {
			if m.Exported() {
				parts = append(parts, "method "+m.Name()+strings.TrimPrefix(types.TypeString(m.Type(), name), "func"))
			} else {
				parts = append(parts, "method (unexported)")
			}
		}
	default:
		lines = append(lines, head+" "+types.TypeString(u, name))
	}
	if !types.IsInterface(defined) {
		values := types.NewMethodSet(defined)
		for s := range types.NewMethodSet(types.NewPointer(defined)).Methods() {
			if m := s.Obj(); m.Exported() {
				receiver := "method "
				if values.Lookup(m.Pkg(), m.Name()) == nil {
					receiver = "method of pointers "
				}
				parts = append(parts, receiver+m.Name()+strings.TrimPrefix(types.TypeString(m.Type(), name), "func"))
			}
		}
	}
	for _, part := range parts {
		lines = append(lines, o.Name()+": "+part)
	}
	return lines
}
