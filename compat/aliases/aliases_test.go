package main

import (
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The file is the output of `go run -C compat ./aliases`.
func TestAliasesAreCurrent(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../" + file)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not current: go run -C compat ./aliases (%v)", file, err)
	}
}

// Each name of client-go has one of ours: an alias of the type, or a function of the same form.
// TestAPI compares the names with client-go's.
func TestAliasesAreOurs(t *testing.T) {
	const path = ourPath + "/swap/internal/aliases"
	theirs, ours, swapped := loadThree(t, path)
	compared := 0
	for _, name := range theirs.Scope().Names() {
		if !theirs.Scope().Lookup(name).Exported() {
			continue
		}
		compared++
		want, got := ours.Scope().Lookup(name), swapped.Scope().Lookup(name)
		if got == nil {
			t.Errorf("%s is missing", name)
		} else if w, g := form(want), form(got); w != g {
			t.Errorf("%s is\n%s, and not\n%s", name, g, w)
		}
	}
	if compared < 70 || len(swapped.Scope().Names()) != compared {
		t.Errorf("client-go exports %d names, and the aliases %d", compared, len(swapped.Scope().Names()))
	}
}

// form writes an object as text. Objects of the same form have the same text. Only WithChunkSize
// may differ: its result has an unexported name.
func form(o types.Object) string {
	t := o.Type()
	if alias, ok := t.(*types.Alias); ok && alias.TypeArgs() == nil {
		t = types.Unalias(alias.Rhs())
	}
	if named, ok := t.(*types.Named); ok {
		return "type " + named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	text := types.TypeString(unaliased(t), nil)
	return strings.ReplaceAll(text, ourPath+".Options", "func(*"+ourPath+".options)")
}

// unaliased removes the names of aliases from a signature.
func unaliased(t types.Type) types.Type {
	sig, ok := t.(*types.Signature)
	if !ok {
		return t
	}
	tuple := func(vars *types.Tuple) *types.Tuple {
		var all []*types.Var
		for v := range vars.Variables() {
			all = append(all, types.NewVar(v.Pos(), nil, "", plain(v.Type())))
		}
		return types.NewTuple(all...)
	}
	return types.NewSignatureType(nil, nil, nil, tuple(sig.Params()), tuple(sig.Results()), sig.Variadic())
}

func plain(t types.Type) types.Type {
	switch t := types.Unalias(t).(type) {
	case *types.Slice:
		return types.NewSlice(plain(t.Elem()))
	case *types.Pointer:
		return types.NewPointer(plain(t.Elem()))
	default:
		return t
	}
}

func loadThree(t *testing.T, path string) (theirs, ours, swapped *types.Package) {
	t.Helper()
	config := &packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports}
	loaded, err := packages.Load(config, theirPath, ourPath, path)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*types.Package{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors)
		}
		byPath[p.PkgPath] = p.Types
	}
	return byPath[theirPath], byPath[ourPath], byPath[path]
}

// names.txt has the names that each release of client-go since v0.28 has added. No release has
// removed a name, so the aliases fit each release.
func TestAliasesHaveTheNamesOfAllReleases(t *testing.T) {
	text, err := os.ReadFile("names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			listed = append(listed, fields[1:]...)
		}
	}
	theirs, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	exported := slices.DeleteFunc(slices.Clone(theirs.Scope().Names()), func(name string) bool { return !theirs.Scope().Lookup(name).Exported() })
	slices.Sort(listed)
	if !slices.Equal(listed, exported) {
		t.Errorf("client-go exports %q, and listed are %q", exported, listed)
	}
}
