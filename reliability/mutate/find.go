package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"github.com/seed16c08ea7/workqueue/reliability/trial"
)

// A mutant is a small change to the source that the tests should notice. Its name
// has the changed text and no line, so that the list of survivors outlives edits
// elsewhere in the file. No mutant needs a build of its own: all mutants are
// compiled in, each behind a call of mutant with its number.
type mutant struct {
	id                         int
	file, function, kind, text string
	ordinal                    int // among mutants of equal file, function, kind and text
	line                       int
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s %s: %s: %s #%d", m.file, m.function, m.kind, m.text, m.ordinal)
}

// A finder edits the mutants into a file.
type finder struct {
	*edits
	fset     *token.FileSet
	info     *types.Info
	path     string // of the package
	file     string
	function string
	ordinals map[mutant]int
	first    int
	found    []*mutant
}

// add notes a mutant, and returns the number to put into the source.
func (f *finder) add(kind, text string, at ast.Node) int {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = text[:80]
	}
	m := mutant{file: f.file, function: f.function, kind: kind, text: text}
	f.ordinals[m]++
	m.ordinal = f.ordinals[m]
	m.id, m.line = f.first+len(f.found), f.fset.Position(at.Pos()).Line
	f.found = append(f.found, &m)
	return m.id
}

// visit adds the mutants of a node, and reports whether to visit its children.
func (f *finder) visit(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.FuncDecl:
		f.function = trial.NameOf(n)
	case ast.Stmt:
		f.statement(n, stack)
	case ast.Expr:
		return f.expression(n, stack)
	}
	return true
}

func (f *finder) statement(n ast.Stmt, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		f.deletions(n.List, stack)
	case *ast.CommClause:
		f.deletions(n.Body, stack)
	case *ast.CaseClause:
		f.deletions(n.Body, stack)
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.IfStmt:
		f.conditional(n)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.ReturnStmt:
		f.returns(n, stack)
	}
}

// results returns the results of the innermost function on the stack.
func results(stack []ast.Node) *ast.FieldList {
	for i := len(stack) - 1; ; i-- {
		switch fn := stack[i].(type) {
		case *ast.FuncDecl:
			return fn.Type.Results
		case *ast.FuncLit:
			return fn.Type.Results
		}
	}
}

func (f *finder) deletions(list []ast.Stmt, stack []ast.Node) {
	for i, stmt := range list {
		if f.deletable(stmt, i == len(list)-1, stack) {
			id := f.add("delete", f.text(stmt), stmt)
			f.wrap(stmt, fmt.Sprintf("if !mutant(%d) { ", id), " }")
		}
	}
}

// deletable reports whether a statement can be deleted, and the rest still compiles.
// A definition must stay, and in a function with results every return and a panic at
// the end of a list. An assignment to _ is not worth a mutant.
func (f *finder) deletable(stmt ast.Stmt, last bool, stack []ast.Node) bool {
	switch s := stmt.(type) {
	case *ast.ExprStmt:
		return !last || results(stack) == nil || !strings.HasPrefix(f.text(s), "panic(")
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && f.text(s.Lhs[0]) != "_"
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.ReturnStmt:
		return results(stack) == nil
	}
	return false
}

func (f *finder) negate(cond ast.Expr) {
	id := f.add("negate", f.text(cond), cond)
	f.wrap(cond, "(", fmt.Sprintf(") != mutant(%d)", id))
}

// cases negates the cases of a switch without a tag, which are conditions.
func (f *finder) cases(n *ast.SwitchStmt) {
	for _, c := range n.Body.List {
		for _, cond := range c.(*ast.CaseClause).List {
			if n.Tag == nil {
				f.negate(cond)
			}
		}
	}
}

// conditional negates the condition. A second mutant makes the condition false, unless
// the deletion of the only statement does the same.
func (f *finder) conditional(n *ast.IfStmt) {
	_, returns := n.Body.List[0].(*ast.ReturnStmt)
	if len(n.Body.List) > 1 || returns {
		id := f.add("never", f.text(n.Cond), n.Cond)
		f.wrap(n.Cond, "(", fmt.Sprintf(") && !mutant(%d)", id))
	}
	f.negate(n.Cond)
}

// isSimple reports whether an expression is a constant or a zero value.
func (f *finder) isSimple(e ast.Expr) bool {
	literal, ok := e.(*ast.CompositeLit)
	tv := f.info.Types[e]
	return tv.Value != nil || tv.IsNil() || ok && len(literal.Elts) == 0 || strings.HasPrefix(f.text(e), "*new(")
}

// returns replaces the results by zero values, or a single bool by its negation. Results
// that are all constants or zero values have no such mutant.
func (f *finder) returns(n *ast.ReturnStmt, stack []ast.Node) {
	zero := true
	for _, e := range n.Results {
		zero = zero && f.isSimple(e)
	}
	if zero {
		return
	}
	if len(n.Results) == 1 && types.Identical(types.Default(f.info.TypeOf(n.Results[0])), types.Typ[types.Bool]) {
		f.negate(n.Results[0])
		return
	}
	var zeros []string
	for _, field := range results(stack).List {
		for range max(1, len(field.Names)) {
			zeros = append(zeros, "*new("+f.text(field.Type)+")")
		}
	}
	id := f.add("zero", f.text(n), n)
	f.wrap(n, fmt.Sprintf("if mutant(%d) { return %s }; ", id, strings.Join(zeros, ", ")), "")
}
