package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// releases has a release of every minor version that swap supports.
var releases = []string{"v0.28.0", "v0.29.0", "v0.30.0", "v0.31.0", "v0.32.0", "v0.33.0", "v0.34.0", "v0.35.0", "v0.36.0", "v0.37.2"}

func allReleases(dir, swap, library string) error {
	for _, version := range releases {
		at := filepath.Join(dir, version)
		err := release(at, version, library, func(args ...string) error {
			_, err := run(at, swap, args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("client-go %s: %w", version, err)
		}
	}
	return nil
}

// release builds a program with every exported name of a client-go release, first under
// swap try and then after swap write. An undo brings its go.mod and go.sum back.
func release(dir, version, library string, swap func(args ...string) error) error {
	defer os.RemoveAll(dir)
	uses, err := usesOf(dir, version)
	if err != nil {
		return err
	}
	text := "package main\n\nimport \"" + theirs + "\"\n\nvar (\n" + strings.Join(uses, "") + ")\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o666); err != nil {
		return err
	}
	if _, err := run(dir, "go", "mod", "tidy"); err != nil {
		return err
	}
	before, err := files(dir)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"try", "-library", library, "--", "go", "build", "-o", os.DevNull, "."}, {"write", "-library", library, "-force"}, {"check"},
	} {
		if err := swap(args...); err != nil {
			return err
		}
	}
	if _, err := run(dir, "go", "build", "-o", os.DevNull, "."); err != nil {
		return err
	}
	if err := swap("undo", "-force"); err != nil {
		return err
	}
	after, err := files(dir)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("an undo leaves the files\n%q\nand before were\n%q", after, before)
	}
	fmt.Printf("client-go %s: a program with all %d names builds, and an undo gives all %d files back\n", version, len(uses), len(before))
	return nil
}

// files returns the texts of the files below a directory.
func files(dir string) (map[string]string, error) {
	texts, tree := map[string]string{}, os.DirFS(dir)
	return texts, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		texts[path] = string(text)
		return err
	})
}

// usesOf writes the go.mod of the program, and returns the declarations for its main.go.
func usesOf(dir, version string) ([]string, error) {
	mod := "module program\n\ngo 1.21\n\nrequire k8s.io/client-go " + version + "\n"
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		return nil, err
	}
	if _, err := run(dir, "go", "mod", "download", "k8s.io/client-go"); err != nil {
		return nil, err
	}
	out, err := run(dir, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go")
	if err != nil {
		return nil, err
	}
	return uses(filepath.Join(strings.TrimSpace(out), "util", "workqueue"))
}

// uses returns a declaration with each exported name of a package.
func uses(dir string) (lines []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		lines = append(lines, usesIn(tree)...)
	}
	return lines, nil
}

func usesIn(tree *ast.File) (lines []string) {
	for _, decl := range tree.Decls {
		if line := use(decl); line != "" {
			lines = append(lines, "\t"+line+"\n")
		}
	}
	return lines
}

func use(decl ast.Decl) string {
	of := func(params *ast.FieldList) string {
		if params.NumFields() > 0 {
			return "[string]"
		}
		return ""
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil && decl.Name.IsExported() {
			return "_ = workqueue." + decl.Name.Name + of(decl.Type.TypeParams)
		}
	case *ast.GenDecl:
		if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok && spec.Name.IsExported() {
			return "_ *workqueue." + spec.Name.Name + of(spec.TypeParams)
		}
	}
	return ""
}
