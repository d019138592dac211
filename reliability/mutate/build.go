package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/seed16c08ea7/workqueue/reliability/trial"
)

// A listing has the fields of a package that go list prints.
type listing struct {
	Dir, Name, ImportPath, Export string
	GoFiles                       []string
}

// list returns the listing of the package in dir, and the files with the export
// data of its dependencies.
func list(dir string) (pkg listing, exports map[string]string, err error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=Dir,Name,ImportPath,Export,GoFiles", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil && d.More(); {
		pkg = listing{} // The package itself comes last.
		err = d.Decode(&pkg)
		exports[pkg.ImportPath] = pkg.Export
	}
	return pkg, exports, err
}

// find finds the mutants of the package in dir, and returns the path of the package and the name of
// an overlay for the compiler that has all mutants. The files are in tmp.
func find(dir, tmp string) (pkgPath string, mutants []*mutant, overlayName string, err error) {
	pkg, exports, err := list(dir)
	if err != nil {
		return "", nil, "", fmt.Errorf("go list: %w", err)
	}
	sources, mutants, err := edit(pkg, exports)
	if err != nil {
		return "", nil, "", err
	}
	sources[filepath.Join(pkg.Dir, "mutants.go")] = support(pkg.Name, len(mutants))
	overlayName, err = trial.WriteOverlay(tmp, sources)
	return pkg.ImportPath, mutants, overlayName, err
}

// edit returns the sources of a package with the mutants in them, by their paths. A mutant depends
// on the types of its operands, and a mutated number is written with its type.
func edit(pkg listing, exports map[string]string) (sources map[string]string, mutants []*mutant, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := config.Check(pkg.ImportPath, fset, files, info); err != nil {
		return nil, nil, err
	}
	sources = map[string]string{}
	for i, file := range files {
		name := pkg.GoFiles[i]
		source, err := os.ReadFile(filepath.Join(pkg.Dir, name))
		if err != nil {
			return nil, nil, err
		}
		f := &finder{
			edits: newEdits(file.FileStart, string(source)), fset: fset, info: info,
			path: pkg.ImportPath, file: name, ordinals: map[mutant]int{}, first: len(mutants) + 1,
		}
		ast.PreorderStack(file, nil, f.visit)
		sources[filepath.Join(pkg.Dir, name)] = f.String()
		mutants = append(mutants, f.found...)
	}
	return sources, mutants, nil
}

// support returns the functions that the mutants call. The number of the active
// mutant comes from the environment, because a test program has its own flags. The
// number is the initial value of a variable: the initial values of other variables
// may contain mutants, and an init function would run after them. Processes that a
// test starts append to the trace of the test.
//
// Higher numbers are the controls: the first changes nothing, the second panics in
// every mutant, the third loops for ever in every mutant.
func support(pkg string, mutants int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `package %s

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

const mutants = %d

var (
	mutantActive, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutantTrace, _  = os.OpenFile(os.Getenv("MUTANT_TRACE"), os.O_WRONLY|os.O_APPEND, 0)
	mutantWatch     = mutantTrace != nil || mutantActive > mutants+1
	mutantsSeen     [mutants + 1]atomic.Bool
)

func mutant(n int) bool {
	if mutantWatch {
		mutantReached(n)
	}
	return n == mutantActive
}

func mutantReached(n int) {
	switch {
	case mutantActive == mutants+2:
		panic("control")
	case mutantActive == mutants+3:
		for { // Anything that lets go of the processor could be seen as a deadlock.
		}
	case mutantTrace != nil && !mutantsSeen[n].Load() && !mutantsSeen[n].Swap(true):
		fmt.Fprintln(mutantTrace, n)
	}
}

type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantNumber[T any](n int, a, b T) T {
	if mutant(n) {
		return b
	}
	return a
}
`, pkg, mutants)
	for op, by := range operators {
		result := "T"
		if by.constraint == "cmp.Ordered" {
			result = "bool"
		}
		fmt.Fprintf(&b, "\nfunc %s[T %s](n int, a, b T) %s {\n\tif mutant(n) {\n\t\treturn a %s b\n\t}\n\treturn a %s b\n}\n",
			by.function, by.constraint, result, by.instead, op)
	}
	for name, builtin := range map[string][2]string{"mutantMin": {"min", "max"}, "mutantMax": {"max", "min"}} {
		fmt.Fprintf(&b, "\nfunc %s[T cmp.Ordered](n int, a T, more ...T) T {\n\tfor _, b := range more {\n\t\tif mutant(n) {\n\t\t\ta = %s(a, b)\n\t\t} else {\n\t\t\ta = %s(a, b)\n\t\t}\n\t}\n\treturn a\n}\n",
			name, builtin[1], builtin[0])
	}
	return b.String()
}
