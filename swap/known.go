package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The releases of client-go that the aliases were compared with, by the second number
// of their version.
const oldest, newest = 28, 37

var release = regexp.MustCompile(`^v0\.(\d+)\.\d+`)

// known returns an error if the aliases may not do for a client-go.
//
// A directory, and a fork with versions of its own, says nothing by its number. There
// the names decide that its package exports.
func known(m *module) error {
	version := m.Version
	if m.Replace != nil {
		version = m.Replace.Version
	}
	match := release.FindStringSubmatch(version)
	switch {
	case match != nil && match[1] != "0":
		minor, err := strconv.Atoi(match[1])
		if err != nil || minor < oldest || minor > newest {
			return fmt.Errorf("%s is not known: swap knows client-go v0.%d to v0.%d. A newer swap may know more", m.source(), oldest, newest)
		}
	case m.Replace == nil:
		return fmt.Errorf("%s is not known: swap knows client-go v0.%d to v0.%d", m.source(), oldest, newest)
	}
	return knownNames(m)
}

// knownNames returns an error if a package exports what the aliases lack.
func knownNames(m *module) error {
	dir := filepath.Join(m.Dir, "util", "workqueue")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s has no package util/workqueue: %w", m.source(), err)
	}
	ours, err := exported("aliases.go", aliases)
	if err != nil {
		return err
	}
	var unknown []string
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		names, err := exported(filepath.Join(dir, entry.Name()), nil)
		if err != nil {
			return err
		}
		unknown = append(unknown, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(ours, name) })...)
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the package util/workqueue of %s exports what ours lacks: %s", m.source(), strings.Join(unknown, ", "))
	}
	return nil
}

// exported returns the exported names of a file's package scope.
func exported(file string, source any) (names []string, err error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range tree.Decls {
		for _, ident := range declared(decl) {
			if ident.IsExported() {
				names = append(names, ident.Name)
			}
		}
	}
	return names, nil
}

// declared returns what a declaration declares, other than methods.
func declared(decl ast.Decl) (idents []*ast.Ident) {
	if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
		return []*ast.Ident{f.Name}
	}
	if g, ok := decl.(*ast.GenDecl); ok {
		for _, spec := range g.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				idents = append(idents, spec.Name)
			case *ast.ValueSpec:
				idents = append(idents, spec.Names...)
			}
		}
	}
	return idents
}
