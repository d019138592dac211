package compat_test

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
)

// comparison answers one question about two packages: can a program written
// against theirs be compiled against ours? Every line in missed is a reason why
// it cannot; added lists what ours offers beyond theirs.
type comparison struct {
	theirs, ours  *types.Package
	missed, added []string
}

func compareAPI(theirs, ours *types.Package) (missed, added []string) {
	c := &comparison{theirs: theirs, ours: ours}
	for _, name := range theirs.Scope().Names() {
		if want := theirs.Scope().Lookup(name); want.Exported() {
			c.object(want, ours.Scope().Lookup(name))
		}
	}
	for _, name := range ours.Scope().Names() {
		if got := ours.Scope().Lookup(name); got.Exported() && theirs.Scope().Lookup(name) == nil {
			c.added = append(c.added, kind(got)+" "+name)
		}
	}
	return c.missed, c.added
}

func (c *comparison) miss(format string, args ...any) {
	c.missed = append(c.missed, fmt.Sprintf(format, args...))
}

func (c *comparison) object(want, got types.Object) {
	name := want.Name()
	switch {
	case got == nil:
		c.miss("%s: missing %s", name, kind(want))
	case kind(want) != kind(got):
		c.miss("%s: want %s, got %s", name, kind(want), kind(got))
	case kind(want) == "type":
		c.definedType(name, want.Type().(*types.Named), got.Type().(*types.Named))
	case c.typeParams(name, typeParams(want), typeParams(got)) && !c.same(want.Type(), got.Type()):
		c.miss("%s: want %s, got %s", name, show(types.Unalias(want.Type())), show(types.Unalias(got.Type())))
	case kind(want) == "const":
		w, g := want.(*types.Const).Val(), got.(*types.Const).Val()
		if constant.Compare(w, token.NEQ, g) {
			c.miss("%s: want value %s, got %s", name, w, g)
		}
	}
}

// kind tells an alias from a defined type: only an alias has its target's
// identity, so swapping one for the other breaks type switches and assignments.
func kind(o types.Object) string {
	switch o := o.(type) {
	case *types.Func:
		return "func"
	case *types.Var:
		return "var"
	case *types.Const:
		return "const"
	case *types.TypeName:
		if o.IsAlias() {
			return "alias"
		}
		return "type"
	}
	return fmt.Sprintf("%T", o)
}

func typeParams(o types.Object) *types.TypeParamList {
	switch t := o.Type().(type) {
	case *types.Signature:
		return t.TypeParams()
	case *types.Alias:
		return t.TypeParams()
	case *types.Named:
		return t.TypeParams()
	}
	return nil
}

// typeParams reports whether both lists take the same type arguments; if they do
// not, there is nothing to gain from comparing what stands behind them.
func (c *comparison) typeParams(name string, want, got *types.TypeParamList) bool {
	if want.Len() != got.Len() {
		c.miss("%s: want %d type parameters, got %d", name, want.Len(), got.Len())
		return false
	}
	for i := range want.Len() {
		w, g := want.At(i).Constraint(), got.At(i).Constraint()
		if !c.same(w, g) {
			c.miss("%s: want type parameter %d constrained by %s, got %s", name, i, show(w), show(g))
			return false
		}
	}
	return true
}

func (c *comparison) definedType(name string, want, got *types.Named) {
	if !c.typeParams(name, want.TypeParams(), got.TypeParams()) {
		return
	}
	switch w := want.Underlying().(type) {
	case *types.Struct:
		if g, ok := got.Underlying().(*types.Struct); ok {
			c.fields(name, w, g)
			c.methods(name, want, got)
			c.comparability(name, want, got)
			return
		}
	case *types.Interface:
		if g, ok := got.Underlying().(*types.Interface); ok {
			c.interfaceMethods(name, w, g)
			return
		}
	}
	if !c.same(want.Underlying(), got.Underlying()) {
		c.miss("%s: want underlying %s, got %s", name, show(want.Underlying()), show(got.Underlying()))
		return
	}
	c.methods(name, want, got)
}

// fields ignores the order of fields: it shows only in unkeyed literals, which
// go vet rejects for imported structs.
func (c *comparison) fields(name string, want, got *types.Struct) {
	present := make(map[string]*types.Var)
	for f := range got.Fields() {
		present[f.Name()] = f
	}
	for w := range want.Fields() {
		g := present[w.Name()]
		delete(present, w.Name())
		switch {
		case !w.Exported():
		case g == nil:
			c.miss("%s: missing field %s", name, w.Name())
		case w.Embedded() != g.Embedded():
			c.miss("%s: field %s: want embedded %t, got %t", name, w.Name(), w.Embedded(), g.Embedded())
		case !c.same(w.Type(), g.Type()):
			c.miss("%s: field %s: want %s, got %s", name, w.Name(), show(w.Type()), show(g.Type()))
		}
	}
	for f := range got.Fields() {
		if f.Exported() && present[f.Name()] != nil {
			c.added = append(c.added, fmt.Sprintf("field %s.%s", name, f.Name()))
		}
	}
}

// comparability catches what a private or additional field can still break: == on
// values and their use as map keys.
func (c *comparison) comparability(name string, want, got types.Type) {
	if types.Comparable(want) && !types.Comparable(got) {
		c.miss("%s: values can be compared with ==, ours cannot", name)
	}
}

// methods compares the method sets of *T, and asks of T only whether it still has
// what it had: a method which moved to a pointer receiver is missing there.
func (c *comparison) methods(name string, want, got *types.Named) {
	wantAll, gotAll := types.NewMethodSet(types.NewPointer(want)), types.NewMethodSet(types.NewPointer(got))
	wantValue, gotValue := types.NewMethodSet(want), types.NewMethodSet(got)
	for s := range wantAll.Methods() {
		method := s.Obj().Name()
		if !s.Obj().Exported() {
			continue
		}
		g := gotAll.Lookup(c.ours, method)
		switch {
		case g == nil:
			c.miss("%s: missing method %s", name, method)
		case !c.same(s.Obj().Type(), g.Obj().Type()):
			c.miss("%s: method %s: want %s, got %s", name, method, show(s.Obj().Type()), show(g.Obj().Type()))
		case wantValue.Lookup(c.theirs, method) != nil && gotValue.Lookup(c.ours, method) == nil:
			c.miss("%s: method %s: want it on values, got it on pointers only", name, method)
		}
	}
	for s := range gotAll.Methods() {
		if o := s.Obj(); o.Exported() && wantAll.Lookup(c.theirs, o.Name()) == nil {
			c.added = append(c.added, fmt.Sprintf("method %s.%s", name, o.Name()))
		}
	}
}

// interfaceMethods demands equality in both directions. An addition which is
// welcome on a concrete type would here lock out every implementation written
// for client-go, ours being assignable to theirs but no longer theirs to ours.
func (c *comparison) interfaceMethods(name string, want, got *types.Interface) {
	present := make(map[string]*types.Func)
	for m := range got.Methods() {
		present[m.Name()] = m
	}
	matched := true
	for w := range want.Methods() {
		g := present[w.Name()]
		delete(present, w.Name())
		if g == nil {
			c.miss("%s: missing method %s", name, w.Name())
			matched = false
		} else if !c.same(w.Type(), g.Type()) {
			c.miss("%s: method %s: want %s, got %s", name, w.Name(), show(w.Type()), show(g.Type()))
			matched = false
		}
	}
	for m := range got.Methods() {
		if present[m.Name()] != nil {
			c.miss("%s: method %s added to an interface", name, m.Name())
			matched = false
		}
	}
	// What remains is a type set: comparable, unions.
	if matched && !c.same(want, got) {
		c.miss("%s: want %s, got %s", name, show(want), show(got))
	}
}

// show leaves out the package paths, because they differ in every line and are
// never the difference.
func show(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p.Path() == theirPath || p.Path() == waitPath || p.Path() == ourPath || p.Path() == ourWaitPath {
			return ""
		}
		return p.Name()
	})
}
