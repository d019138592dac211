package compat_test

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// same reports whether two types are one after mapping the package paths onto
// each other. types.Identical cannot be asked: to it, types of two packages are
// never identical. So both are taken apart in step. Named types are leaves but
// for their arguments, since their declarations are compared by name elsewhere,
// which also ends the recursion.
func (c *comparison) same(want, got types.Type) bool {
	wantShape, wantParts := c.takeApart(want)
	gotShape, gotParts := c.takeApart(got)
	if wantShape != gotShape || len(wantParts) != len(gotParts) {
		return false
	}
	for i, w := range wantParts {
		if !c.same(w, gotParts[i]) {
			return false
		}
	}
	return true
}

// takeApart splits a type into what can be compared as text and the types below.
// The shape leaves out what a caller cannot see: names of parameters, letters of
// type parameters, whether a name is an alias (klog.Logger is logr.Logger).
func (c *comparison) takeApart(t types.Type) (shape string, parts []types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return fmt.Sprintf("basic %d", t.Kind()), nil
	case *types.TypeParam:
		return fmt.Sprintf("type parameter %d", t.Index()), nil
	case *types.Named:
		return c.mapped(t.Obj()), slices.Collect(t.TypeArgs().Types())
	case *types.Pointer:
		return "pointer", []types.Type{t.Elem()}
	case *types.Slice:
		return "slice", []types.Type{t.Elem()}
	case *types.Array:
		return fmt.Sprintf("array %d", t.Len()), []types.Type{t.Elem()}
	case *types.Chan:
		return fmt.Sprintf("chan %d", t.Dir()), []types.Type{t.Elem()}
	case *types.Map:
		return "map", []types.Type{t.Key(), t.Elem()}
	case *types.Signature:
		shape = fmt.Sprintf("func %d, variadic %t", t.Params().Len(), t.Variadic())
		return shape, append(variables(t.Params()), variables(t.Results())...)
	case *types.Struct:
		return takeApartStruct(t)
	case *types.Interface:
		return takeApartInterface(t)
	case *types.Union:
		return takeApartUnion(t)
	default:
		panic(fmt.Sprintf("no rule for %T", t))
	}
}

// mapped names a type so that the two packages agree. An unexported one has no
// name outside its package, so any stands for any: Options is a function of an
// unexported struct on both sides, and what that struct is called binds nobody.
func (c *comparison) mapped(o *types.TypeName) string {
	switch {
	case o.Pkg() == nil:
		return o.Name()
	case o.Pkg() != c.theirs && o.Pkg() != c.ours:
		return o.Pkg().Path() + "." + o.Name()
	case !o.Exported():
		return "workqueue's unexported"
	}
	return "workqueue's " + o.Name()
}

func takeApartStruct(t *types.Struct) (shape string, parts []types.Type) {
	var s strings.Builder
	for f := range t.Fields() {
		fmt.Fprintf(&s, "%s embedded %t; ", f.Name(), f.Embedded())
		parts = append(parts, f.Type())
	}
	return "struct " + s.String(), parts
}

func takeApartInterface(t *types.Interface) (shape string, parts []types.Type) {
	var s strings.Builder
	fmt.Fprintf(&s, "interface comparable %t; ", t.IsComparable())
	for m := range t.Methods() {
		fmt.Fprintf(&s, "%s; ", m.Name())
		parts = append(parts, m.Type())
	}
	// Embedded interfaces are in the method set already; the rest are unions.
	for e := range t.EmbeddedTypes() {
		if !types.IsInterface(e) {
			s.WriteString("union; ")
			parts = append(parts, e)
		}
	}
	return s.String(), parts
}

func takeApartUnion(t *types.Union) (shape string, parts []types.Type) {
	var s strings.Builder
	for term := range t.Terms() {
		fmt.Fprintf(&s, "tilde %t; ", term.Tilde())
		parts = append(parts, term.Type())
	}
	return "union " + s.String(), parts
}

func variables(t *types.Tuple) (all []types.Type) {
	for v := range t.Variables() {
		all = append(all, v.Type())
	}
	return all
}
