package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed16c08ea7/workqueue/reliability/trial"
)

// To compile the tests of the root takes a minute, and would take an hour for each fault by
// itself. So a function gets the bodies of all its faults, each behind a question for the number
// of the fault in the environment:
//
//	func (q *Typed[T]) settle() {
//		if plantedFault == 7 { body with the fault 7; return }
//		body
//	}
//
// A fault changes nothing but bodies.

// overlay writes the overlay for a build with the faults, and returns its name. A fault is chosen
// by its number, which is its index in faults plus 1.
func overlay(root, tmp string, faults []*fault) (name string, err error) {
	variants := map[string][]variant{} // by file
	replace := map[string]string{}
	for i, f := range faults {
		sources, err := f.apply(root)
		if err != nil {
			return "", err
		}
		for path, text := range sources {
			changed, err := changedBodies(path, text)
			if err != nil {
				return "", err
			}
			for _, v := range changed {
				v.number, v.where = i+1, f.where
				variants[path] = append(variants[path], v)
			}
		}
	}
	for path, vs := range variants {
		text, pkg, err := withVariants(path, vs)
		if err != nil {
			return "", err
		}
		replace[path] = text
		replace[filepath.Join(filepath.Dir(path), "planted_fault.go")] = fmt.Sprintf(support, pkg)
	}
	return trial.WriteOverlay(tmp, replace)
}

// support has the number of the fault, for a package with faults.
const support = `package %s

import (
	"os"
	"strconv"
)

var plantedFault, _ = strconv.Atoi(os.Getenv("PLANTED_FAULT"))
`

// A variant is a function with another body.
type variant struct {
	function, body string
	number         int
	where          string
}

// changedBodies returns the functions of a file whose bodies differ from the file on disk.
func changedBodies(path, text string) (changed []variant, err error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	was, err := bodies(path, string(before))
	if err != nil {
		return nil, err
	}
	is, err := bodies(path, text)
	for function, b := range is {
		if b.text != was[function].text {
			changed = append(changed, variant{function: function, body: b.text})
		}
	}
	return changed, err
}

// A body is the body of a function, without its braces.
type body struct {
	text     string
	at       int // offset in the file
	line     int
	from, to int // lines of the function, counted from 0
	results  bool
}

// bodies returns the bodies of the functions of a file.
func bodies(path, text string) (found map[string]body, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found = map[string]body{}
	line := func(pos token.Pos) int { return fset.Position(pos).Line }
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			from, to := int(fn.Body.Lbrace-file.FileStart)+1, int(fn.Body.Rbrace-file.FileStart)
			found[trial.NameOf(fn)] = body{
				text: text[from:to], at: from, line: line(fn.Body.Lbrace),
				from: line(fn.Pos()) - 1, to: line(fn.End()), results: fn.Type.Results != nil,
			}
		}
	}
	return found, nil
}

// withVariants returns a file with further bodies, and the name of its package. The compiler
// counts the lines of a variant from the place of the fault in its list.
func withVariants(path string, variants []variant) (text, pkg string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	text = string(source)
	found, err := bodies(path, text)
	if err != nil {
		return "", "", err
	}
	slices.SortStableFunc(variants, func(a, b variant) int { return found[b.function].at - found[a.function].at })
	for _, v := range variants {
		b := found[v.function]
		end := ""
		if !b.results {
			end = "\nreturn\n"
		}
		text = text[:b.at] + fmt.Sprintf("\nif plantedFault == %d {\n//line %s\n%s%s}\n//line %s:%d\n", v.number, v.where, v.body, end, path, b.line) + text[b.at:]
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly)
	if err != nil {
		return "", "", err
	}
	return strings.ReplaceAll(text, "\r", ""), file.Name.Name, nil
}
