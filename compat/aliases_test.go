package compat_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"
)

const aliasesPath = ourPath + "/swap/internal/aliases"

// TestAliasesAreOurs holds the package by which the command swap replaces client-go's: for each exported
// name of client-go, and no other, it has an alias of our type or a function of the same form. A name
// is deprecated if ours is.
func TestAliasesAreOurs(t *testing.T) {
	theirs, ours := loadPair(t, theirPath, ourPath, "TypedRateLimitingInterface")
	_, swapped := loadPair(t, theirPath, aliasesPath, "TypedRateLimitingInterface")
	var exported []string
	for _, name := range theirs.Types.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		exported = append(exported, name)
		want, got := ours.Types.Scope().Lookup(name), swapped.Types.Scope().Lookup(name)
		if got == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		// The result of WithChunkSize has an unexported name in ours.
		if !sameOrAlias(want.Type(), got.Type()) && name != "WithChunkSize" {
			t.Errorf("%s is %v, want %v", name, got.Type(), want.Type())
		}
		if want, got := isDeprecated(ours, name), isDeprecated(swapped, name); want != got {
			t.Errorf("%s: deprecated: %v, and ours: %v", name, got, want)
		}
	}
	if got := swapped.Types.Scope().Names(); !slices.Equal(got, exported) {
		t.Errorf("the aliases have %q, want %q", got, exported)
	}
	if listed := namesOfAllReleases(t); !slices.Equal(listed, exported) {
		t.Errorf("client-go exports %q, and listed are %q", exported, listed)
	}
}

// sameOrAlias reports whether two types are identical, or the second is a generic alias of the first.
func sameOrAlias(of, t types.Type) bool {
	if alias, ok := t.(*types.Alias); ok && alias.TypeParams().Len() > 0 {
		named, ok := types.Unalias(t).(*types.Named)
		return ok && named.Origin() == of
	}
	return types.Identical(of, t)
}

// The list has the names that each release of client-go since v0.28 has added. No release has
// removed a name, so the aliases fit each release.
func namesOfAllReleases(t *testing.T) (names []string) {
	text, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			names = append(names, fields[1:]...)
		}
	}
	slices.Sort(names)
	return names
}

// A function of the aliases has a single statement: the call of our function with all arguments in their order.
func TestAliasesCallOurs(t *testing.T) {
	_, swapped := loadPair(t, theirPath, aliasesPath, "TypedRateLimitingInterface")
	for _, file := range swapped.Syntax {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			got := ""
			switch s := f.Body.List[0].(type) {
			case *ast.ReturnStmt:
				got = types.ExprString(s.Results[0])
			case *ast.ExprStmt:
				got = types.ExprString(s.X)
			}
			if want := callOfOurs(f); got != want || len(f.Body.List) != 1 {
				t.Errorf("%s calls %s, want %s", f.Name, got, want)
			}
		}
	}
}

func callOfOurs(f *ast.FuncDecl) string {
	names := func(list *ast.FieldList) string {
		var all []string
		if list != nil {
			for _, field := range list.List {
				for _, name := range field.Names {
					all = append(all, name.Name)
				}
			}
		}
		return strings.Join(all, ", ")
	}
	call, args := "ours."+f.Name.Name, names(f.Type.Params)
	if params := names(f.Type.TypeParams); params != "" {
		call += "[" + params + "]"
	}
	if fields := f.Type.Params.List; len(fields) > 0 {
		if _, variadic := fields[len(fields)-1].Type.(*ast.Ellipsis); variadic {
			args += "..."
		}
	}
	return call + "(" + args + ")"
}
