// Package lines counts lines of code, for the tests that compare programs.
package lines

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// Of counts the lines of code of the named functions in a file, or of all its functions.
// Comments and blank lines do not count.
func Of(t *testing.T, name string, functions ...string) (n int) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			counted[f.Name.Name] = of(set, f)
		}
	}
	if len(functions) == 0 {
		for _, lines := range counted {
			n += lines
		}
		return n
	}
	for _, name := range functions {
		if counted[name] == 0 {
			t.Fatalf("there is no %s", name)
		}
		n += counted[name]
	}
	return n
}

func of(set *token.FileSet, f *ast.FuncDecl) int {
	seen := map[int]bool{}
	ast.Inspect(f, func(node ast.Node) bool {
		if _, ok := node.(*ast.CommentGroup); ok || node == nil {
			return false
		}
		seen[set.Position(node.Pos()).Line] = true
		seen[set.Position(node.End()-1).Line] = true
		return true
	})
	return len(seen)
}
