package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// A mutated operator becomes a call of function. The operands are the arguments, so
// each operand is evaluated once.
var operators = map[token.Token]struct{ function, instead, constraint string }{
	token.LSS: {"mutantLess", "<=", "cmp.Ordered"},
	token.LEQ: {"mutantLessEqual", "<", "cmp.Ordered"},
	token.GTR: {"mutantGreater", ">=", "cmp.Ordered"},
	token.GEQ: {"mutantGreaterEqual", ">", "cmp.Ordered"},
	token.ADD: {"mutantPlus", "-", "number"},
	token.SUB: {"mutantMinus", "+", "number"},
	token.MUL: {"mutantTimes", "/", "number"},
	token.QUO: {"mutantOver", "*", "number"},
}

// expression adds the mutants of an expression, and reports whether to visit its
// parts.
func (f *finder) expression(n ast.Expr, stack []ast.Node) bool {
	tv := f.info.Types[n]
	if tv.IsType() {
		return false
	}
	if tv.Value != nil {
		pair, ok := stack[len(stack)-1].(*ast.KeyValueExpr)
		if !ok || pair.Key != n { // An index of an array has to be constant.
			f.constant(n, tv)
		}
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.CallExpr:
		f.call(n)
	}
	return true
}

// constant negates a truth value, and changes a number by 1.
func (f *finder) constant(n ast.Expr, tv types.TypeAndValue) {
	text := f.text(n)
	context := text + " in " + strings.TrimSpace(f.line(n))
	switch {
	case text == "true":
		f.replace(n.Pos(), len(text), fmt.Sprintf("!mutant(%d)", f.add("flip", context, n)))
	case text == "false":
		f.replace(n.Pos(), len(text), fmt.Sprintf("mutant(%d)", f.add("flip", context, n)))
	case tv.Value.Kind() == constant.Int && isSpelledOut(n):
		name, ok := f.integer(tv.Type)
		if !ok {
			return
		}
		instead := text + "+1"
		if text == "1" {
			instead = "0"
		}
		id := f.add("number", context, n)
		f.replace(n.Pos(), len(text), fmt.Sprintf("mutantNumber[%s](%d, %s, %s)", name, id, text, instead))
	}
}

// isSpelledOut reports whether an expression contains a literal.
func isSpelledOut(n ast.Expr) (literal bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, ok := n.(*ast.BasicLit)
		literal = literal || ok
		return true
	})
	return literal
}

// integer returns the name of an integer type in the file, if the file can name the type.
func (f *finder) integer(t types.Type) (name string, ok bool) {
	basic, ok := t.Underlying().(*types.Basic)
	ok = ok && basic.Info()&types.IsInteger != 0 && basic.Info()&types.IsUntyped == 0
	name = types.TypeString(t, func(p *types.Package) string {
		if p.Path() == f.path {
			return ""
		}
		ok = ok && strings.Contains(f.source, strconv.Quote(p.Path())) // The file imports p.
		return p.Name()
	})
	return name, ok
}

func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND:
		f.operands(n, "(", " || mutant(%d))")
	case token.LOR:
		f.operands(n, "(", " && !mutant(%d))")
	}
	op, ok := operators[n.Op]
	basic, isBasic := f.info.TypeOf(n.X).Underlying().(*types.Basic)
	if !ok || !isBasic || basic.Info()&types.IsOrdered == 0 {
		return
	}
	if op.constraint == "number" && basic.Info()&types.IsNumeric == 0 {
		return
	}
	id := f.add("operator "+op.instead, f.text(n), n)
	f.wrap(n, fmt.Sprintf("%s(%d, ", op.function, id), ")")
	f.replace(n.OpPos, len(n.Op.String()), ",")
}

// operands drops each side of a && or a ||, in a mutant of its own.
func (f *finder) operands(n *ast.BinaryExpr, before, after string) {
	for _, operand := range []ast.Expr{n.X, n.Y} {
		if inner, ok := operand.(*ast.BinaryExpr); ok && inner.Op == n.Op {
			continue // The visit of inner drops its operands.
		}
		id := f.add("drop", f.text(operand)+" of "+f.text(n), operand)
		f.wrap(operand, before, fmt.Sprintf(after, id))
	}
}

// call exchanges min and max.
func (f *finder) call(n *ast.CallExpr) {
	name, ok := n.Fun.(*ast.Ident)
	if !ok || name.Name != "min" && name.Name != "max" {
		return
	}
	if _, ok := f.info.Uses[name].(*types.Builtin); ok {
		id := f.add("min and max", f.text(n), n)
		f.replace(name.Pos(), len(name.Name), map[string]string{"min": "mutantMin", "max": "mutantMax"}[name.Name])
		f.wrap(n.Args[0], fmt.Sprintf("%d, ", id), "")
	}
}
