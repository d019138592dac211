package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// swappedFile is the one file of the package that is swapped.
var swappedFile = filepath.Join("util", "workqueue", "workqueue.go")

// copyModule makes a copy of client-go in dst, which must not exist, with our package
// in the place of theirs. Tests and examples are left out, and licences are not.
//
// What the copy has is writable: files of the module cache are not, nor are its
// directories, and a copy of their modes could not be written to the end.
func (c *call) copyModule(ctx context.Context, p *program, m *module, dst string) error {
	src, err := filepath.EvalSymlinks(m.Dir)
	if err != nil {
		return err
	}
	if err := copyTree(ctx, src, dst); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dst, swappedFile), []byte(aliases)); err != nil {
		return err
	}
	_, err = p.run(ctx, nil, "mod", "edit", "-module="+theirModule, "-require="+ourModule+"@"+c.library.version,
		filepath.Join(dst, "go.mod"))
	return err
}

// copyTree copies what is not left out.
func copyTree(ctx context.Context, src, dst string) error {
	return filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && rel != "." && leftOutDir(rel) && !embedded(path):
			return fs.SkipDir
		case entry.IsDir() || leftOut(rel):
			return nil
		}
		return copyFile(path, filepath.Join(dst, rel))
	})
}

// leftOutDir reports whether nothing in a directory is copied.
func leftOutDir(rel string) bool {
	name := filepath.Base(rel)
	return rel == "examples" || rel == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// embedded reports whether a package that is no test has a directory in it, as
// openapi/openapitest has its testdata.
func embedded(dir string) bool {
	name := filepath.Base(dir)
	entries, _ := os.ReadDir(filepath.Dir(dir))
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), entry.Name()))
		if bytes.Contains(text, []byte("//go:embed "+name)) {
			return true
		}
	}
	return false
}

// leftOut reports whether a file is not copied: a test, a text that is no licence, or
// a file of the package that is swapped.
func leftOut(rel string) bool {
	dir, name := filepath.Split(rel)
	switch {
	case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "."):
		return true
	case filepath.Ext(name) == ".md", name == "OWNERS", name == "SECURITY_CONTACTS", name == "go.sum":
		return true
	}
	return filepath.Clean(dir) == filepath.Dir(swappedFile)
}

// copyFile copies what a path leads to: a fork in a tree of its own may have links.
func copyFile(src, dst string) error {
	info, err := os.Stat(src)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return writeFile(dst, data)
}

// writeFile writes a file, and makes its directory.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o666)
}

// sumText is the hash of a text, whichever way a checkout ends its lines.
func sumText(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))))
}

// sumTree is the hash of all files in a directory but those that skip names, by the
// slash path that they have in it.
func sumTree(dir string, skip ...string) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || slices.Contains(skip, filepath.ToSlash(rel)) {
			return err
		}
		data, err := os.ReadFile(path)
		lines = append(lines, sumText(data)+"  "+filepath.ToSlash(rel)+"\n")
		return err
	})
	slices.Sort(lines)
	return sumText([]byte(strings.Join(lines, ""))), err
}
