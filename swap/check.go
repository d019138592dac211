package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func (c *call) check(ctx context.Context, p *program) error {
	why, err := p.outdated(ctx)
	if err != nil || why != "" {
		c.sayMetrics(ctx, p)
		return cmp.Or(err, errors.New(why))
	}
	c.say("%s is swapped and current", p.root)
	return nil
}

// outdated says why a build is not swapped or not current, and "" if the build is both.
// The go command answers in the environment of the caller, with its vendor folder and
// workspace. In a workspace without a vendor folder, go would add lines to go.work.sum.
func (p *program) outdated(ctx context.Context) (why string, err error) {
	n, err := readNotes(p.copied())
	if err != nil || n == nil {
		return "not swapped: run swap write", err
	}
	env := p.asCalled()
	if n.Vendor != "" {
		return "a write or an undo did not come to its end: run swap undo", nil
	}
	if why, err := n.edited(p.copied()); err != nil || why != "" {
		return why, err
	}
	built, err := p.list(ctx, env)
	if err != nil {
		return "", err
	}
	if built.Version != n.Version {
		return fmt.Sprintf("not swapped: %s %s is built, and %s was swapped: run swap write", theirModule, built.Version, n.Version), nil
	}
	if why, err := p.otherFile(ctx, env); err != nil || why != "" {
		return why, err
	}
	return p.otherSource(ctx, n)
}

// asCalled is the environment in which go builds what the caller would build.
func (p *program) asCalled() []string {
	if p.work != "" && p.vendor != "work" {
		return p.unvendored
	}
	return nil
}

// sayMetrics names the packages that set a metrics provider for client-go's queues alone, in a
// program that has our queues too and sets no provider for them. Only a program that is not
// swapped has two kinds of queues.
func (c *call) sayMetrics(ctx context.Context, p *program) {
	const fields = "{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles `/`}}\t{{join .Imports ` `}}"
	out, err := p.run(ctx, append(p.asCalled(), "GOPROXY=off"), "list", "-C", p.root, "-e", "-deps", "-f", fields, "./...")
	if err != nil {
		return // The program does not build, and go has said why.
	}
	set := map[string][]string{} // packages that set a provider, by the package of the queue
	uses := false
	for line := range strings.Lines(string(out)) {
		f := strings.Split(line, "\t")
		for _, queue := range []string{ourModule, theirPackage} {
			if !slices.Contains(strings.Fields(f[3]), queue) {
				continue
			}
			uses = uses || queue == ourModule
			if slices.ContainsFunc(strings.Split(f[2], "/"), func(file string) bool { return setsProvider(filepath.Join(f[1], file), queue) }) {
				set[queue] = append(set[queue], f[0])
			}
		}
	}
	if uses && len(set[ourModule]) == 0 && len(set[theirPackage]) > 0 {
		c.say("%s set a metrics provider for client-go's queues alone, so queues of %s have no metrics. Call its SetProvider: docs/migrating.md, \"After the import line\"", strings.Join(set[theirPackage], ", "), ourModule)
	}
}

// setsProvider reports whether a file calls SetProvider of a package. The file is parsed, as it may import both packages,
// and its text does not say which package a call means.
func setsProvider(file, queue string) (sets bool) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return false // The program does not build, and go has said why.
	}
	name := ""
	for _, i := range parsed.Imports {
		switch {
		case i.Path.Value != strconv.Quote(queue):
		case i.Name != nil:
			name = i.Name.Name
		default:
			name = "workqueue"
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			sets = sets || name == "." && f.Name == "SetProvider"
		case *ast.SelectorExpr:
			of, ok := f.X.(*ast.Ident)
			sets = sets || ok && of.Name == name && f.Sel.Name == "SetProvider"
		}
		return true
	})
	return sets
}

// otherFile says how the package that an environment builds as client-go's differs from the
// aliases, and "" if the package is the aliases.
func (p *program) otherFile(ctx context.Context, env []string) (string, error) {
	out, err := p.run(ctx, env, "list", "-find", "-f", "{{.Dir}}", theirPackage)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(swappedFile)))
	// Git leaves the file in a vendor folder when git brings back the files of client-go.
	if files, _ := os.ReadDir(dir); err != nil || len(files) != 1 {
		return "not swapped: the build uses " + dir, nil
	}
	if sumText(text) != sumText([]byte(aliases)) {
		return "swapped, but by another version of swap: run swap write", nil
	}
	return "", nil
}

// otherSource says whether go.mod names another source for client-go than at the write. Go
// does not see the source behind the replace of the copy. If that replace took the place of
// another replace of the same version, go.mod names no source.
func (p *program) otherSource(ctx context.Context, n *notes) (string, error) {
	if n.Changed["-replace="+theirModule+"@"+n.Version+"="][0] != "" {
		return "", nil
	}
	now, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return "", err
	}
	named := &module{Path: theirModule, Version: n.Version}
	for _, r := range now.Replace {
		if r.Old.at() == theirModule {
			named.Replace, named.Dir = &r.New, absolute(p.root, r.New.Path)
		}
	}
	source, err := named.source()
	if err == nil && source != n.Source {
		return fmt.Sprintf("not current: go.mod names %s, and %s was copied: run swap write", source, n.Source), nil
	}
	return "", err
}
