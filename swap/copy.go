package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// swappedFile is the one file of the package that is swapped.
var swappedFile = filepath.Join("util", "workqueue", "workqueue.go")

// The notes are a file of each copy. -check compares them with what is there now, and
// -undo needs the changes: nothing in go.mod tells a version that the write raised from
// one that the program has chosen.
type notes struct {
	Version string // of client-go, as the program requires it
	Source  string // what was copied, see module.source
	Copy    string // sum of all files of the copy but the notes
	Files   int    // how many these are
	// Changed are the lines of go.mod that a write has changed, see modFile.lines.
	Changed map[string][2]string `json:",omitempty"`
}

const notesFile = "swap.json"

// readNotes returns nil if there are none.
func readNotes(dir string) (*notes, error) {
	data, err := os.ReadFile(filepath.Join(dir, notesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := new(notes)
	if err := json.Unmarshal(data, n); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, notesFile), err)
	}
	return n, nil
}

func (n *notes) write(dir string) error {
	data, err := json.MarshalIndent(n, "", "\t")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, notesFile), append(data, '\n'))
}

// edited says in what a copy is not what swap wrote.
func (n *notes) edited(dir string) (why string, err error) {
	all, err := sums(dir)
	delete(all, notesFile)
	switch {
	case err != nil:
		return "", err
	case len(all) < n.Files:
		return fmt.Sprintf("%s has %d files, and swap wrote %d: does a .gitignore leave some out?", thirdParty, len(all), n.Files), nil
	case sumOfSums(all) != n.Copy:
		return thirdParty + " was changed since swap made it", nil
	}
	return "", nil
}

// layout is a part of the name of a copy. It changes with what copyModule does.
const layout = "2"

// copyOf returns a swapped copy of the client-go that an environment builds. The copy is
// in the user's cache, and its name follows from what it is made of. A copy that lacks
// files, as cleaners of caches leave it, is made anew.
func (c *call) copyOf(ctx context.Context, p *program, env []string) (n *notes, dir string, err error) {
	m, err := p.clientGo(ctx, env)
	if err != nil {
		return nil, "", err
	}
	if err := known(m); err != nil {
		return nil, "", err
	}
	source, err := m.source()
	if err != nil {
		return nil, "", err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return nil, "", err
	}
	sum := sumText([]byte(strings.Join([]string{layout, m.Version, source, c.library.version, aliases}, "\n")))
	dir = filepath.Join(caches, "workqueue-swap", "client-go-"+m.Version+"-"+sum[:16])
	if n, err := readNotes(dir); err == nil && n != nil {
		if why, err := n.edited(dir); err == nil && why == "" {
			return n, dir, nil
		}
	}
	n = &notes{Version: m.Version, Source: source}
	return n, dir, c.fill(ctx, p, m, n, dir)
}

// fill makes a copy in the cache. A rename completes the copy, as another call may look
// for it.
func (c *call) fill(ctx context.Context, p *program, m *module, n *notes, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	unfinished := filepath.Join(tmp, "client-go")
	if err := c.copyModule(ctx, p, m, n, unfinished); err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(tmp, "damaged")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = os.Rename(unfinished, dir)
	if _, there := os.Stat(dir); there == nil {
		return nil // Of two calls at once, the second finds the work done.
	}
	return err
}

// copyModule makes a copy of client-go in dst, which must not exist, with our package
// in the place of theirs. Tests and examples are left out, and licences are not.
//
// The copy is writable. The module cache is not, and a copy with the modes of the cache
// could not be written to the end.
func (c *call) copyModule(ctx context.Context, p *program, m *module, n *notes, dst string) error {
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
	readme := fmt.Sprintf(strings.ReplaceAll(readmeText, "'", "`"), n.Source)
	if err := writeFile(filepath.Join(dst, "SWAP.md"), []byte(readme)); err != nil {
		return err
	}
	if _, err := p.run(ctx, nil, "mod", "edit", "-module="+theirModule, "-require="+ourModule+"@"+c.library.version,
		filepath.Join(dst, "go.mod")); err != nil {
		return err
	}
	all, err := sums(dst)
	if err != nil {
		return err
	}
	n.Copy, n.Files = sumOfSums(all), len(all)
	return n.write(dst)
}

const readmeText = `# A copy of %s

Its package util/workqueue consists of names for github.com/seed16c08ea7/workqueue, so
that all dependencies of this program use that queue. Tests and examples are left out,
and nothing else is changed.

The command 'swap -w' of that module made the copy. Do not edit it. After an upgrade of
client-go, run 'swap -w' again: 'swap -check' says when. 'swap -undo' removes the copy. For
that, swap.json has the lines of go.mod that the write changed.
`

// copyTree copies what is not left out.
func copyTree(ctx context.Context, src, dst string) error {
	return fs.WalkDir(os.DirFS(src), ".", func(path string, entry fs.DirEntry, err error) error {
		rel := filepath.FromSlash(path)
		switch {
		case err != nil || ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		case entry.IsDir() && path != "." && leftOutDir(rel) && !embedded(filepath.Join(src, rel)):
			return fs.SkipDir
		case entry.IsDir() || leftOut(rel):
			return nil
		}
		return copyFile(filepath.Join(src, rel), filepath.Join(dst, rel))
	})
}

// leftOutDir reports whether nothing in a directory is copied.
func leftOutDir(rel string) bool {
	name := filepath.Base(rel)
	return rel == "examples" || rel == "vendor" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// embedded reports whether a package that is no test embeds a directory, as
// openapi/openapitest embeds its testdata.
func embedded(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, _ := os.ReadFile(file)
		return !strings.HasSuffix(file, "_test.go") && bytes.Contains(text, []byte("//go:embed "+filepath.Base(dir)))
	})
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

// sums returns the sum of each file in a directory, by its slash path.
func sums(dir string) (map[string]string, error) {
	all, tree := map[string]string{}, os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, path)
		all[path] = sumText(data)
		return err
	})
	return all, err
}

// sumOfSums is one sum of all files and their paths.
func sumOfSums(all map[string]string) string {
	var lines strings.Builder
	for _, path := range slices.Sorted(maps.Keys(all)) {
		lines.WriteString(all[path] + "  " + path + "\n")
	}
	return sumText([]byte(lines.String()))
}
