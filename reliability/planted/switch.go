package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// A fault that changes more than bodies is compiled alone, and so is a fault that says so.

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
			if f.alone {
				replace[path] = text
				continue
			}
			changed, err := changedBodies(path, text)
			if err != nil {
				return "", fmt.Errorf("%s: %q: %w", f.where, f.name, err)
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
	return writeOverlay(tmp, replace)
}

// support has the number of the fault, for a package with faults.
const support = `package %s

import (
	"os"
	"strconv"
)

var plantedFault, _ = strconv.Atoi(os.Getenv("PLANTED_FAULT"))
`

func writeOverlay(tmp string, sources map[string]string) (name string, err error) {
	replace := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(sources)) {
		replace[path] = filepath.Join(tmp, fmt.Sprintf("%d_%s", i, filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(sources[path]), 0o666); err != nil {
			return "", err
		}
	}
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	name = filepath.Join(tmp, "overlay.json")
	return name, os.WriteFile(name, text, 0o666)
}

// A variant is a function with another body.
type variant struct {
	function, body string
	number         int
	where          string
}

// changedBodies returns the functions of a file whose bodies differ from the file on disk. All
// else must be the same.
func changedBodies(path, text string) (changed []variant, err error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	was, _, err := bodies(path, string(before))
	if err != nil {
		return nil, err
	}
	is, rest, err := bodies(path, text)
	if err != nil {
		return nil, err
	}
	if _, other, _ := bodies(path, string(before)); other != rest {
		return nil, fmt.Errorf("the edit of %s is not within a function: add the line alone", filepath.Base(path))
	}
	for function, b := range is {
		if b.text != was[function].text {
			changed = append(changed, variant{function: function, body: b.text})
		}
	}
	return changed, nil
}

// A body is the body of a function, without its braces.
type body struct {
	text    string
	at      int // offset in the file
	line    int
	results bool
}

// bodies returns the bodies of the functions of a file, and the file without them.
func bodies(path, text string) (found map[string]body, rest string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	found = map[string]body{}
	end := 0
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		from, to := int(fn.Body.Lbrace-file.FileStart)+1, int(fn.Body.Rbrace-file.FileStart)
		found[nameOf(fn)] = body{
			text: text[from:to], at: from, line: fset.Position(fn.Body.Lbrace).Line, results: fn.Type.Results != nil,
		}
		rest += text[end:from]
		end = to
	}
	return found, rest + text[end:], nil
}

// withVariants returns a file with further bodies, and the name of its package. The compiler
// counts the lines of a variant from the place of the fault in its list.
func withVariants(path string, variants []variant) (text, pkg string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	text = string(source)
	found, _, err := bodies(path, text)
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
