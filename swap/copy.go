package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// swappedFile is the one file of the package that is swapped.
var swappedFile = filepath.Join("util", "workqueue", "workqueue.go")

//go:embed copy.txt
var readme string

// The notes are a file of each copy. A check compares the files with the sums. An undo needs the text
// of before or the changed lines, as go.mod does not say which versions the write has raised.
type notes struct {
	Version string // of client-go, as the program requires the module
	Source  string // of the files, see module.source
	// Changed are the lines of go.mod that a write has changed, see modFile.lines.
	Changed map[string][2]string `json:",omitempty"`
	// Raised are modules that a write has raised without a line in go.mod, by path. A tidy
	// gives them a line when the library is not built any more.
	Raised map[string]string `json:",omitempty"`
	Sums   map[string]string // of all files of the copy but the notes
	// Before are go.mod and go.sum without the swap. An undo brings both back if both are Known.
	Before modText
	// Known are the sums of go.mod and go.sum as the last write or undo found them, as it leaves
	// them, and of Before. A call that was killed leaves each of the two files as one of these.
	Known []string
	// Vendor is the kind of the vendor folder of before, or "none", while a write or an undo
	// changes the program. A call that was killed leaves the field, and may leave a part of the
	// folder and of the copy.
	Vendor string `json:",omitempty"`
}

const (
	notesFile = "swap.json"
	nextNotes = notesFile + next
)

// readNotes returns nil if a directory has no notes.
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
	return replaceFile(filepath.Join(dir, notesFile), append(data, '\n'))
}

// edited names a file in which a copy differs from the copy that swap made.
func (n *notes) edited(dir string) (why string, err error) {
	now, err := sums(dir)
	delete(now, notesFile)
	delete(now, nextNotes) // A call that was killed before the rename has changed nothing.
	differ := slices.Sorted(maps.Keys(changes(n.Sums, now)))
	if err != nil || len(differ) == 0 {
		return "", err
	}
	why = fmt.Sprintf("%s/%s was changed since swap made the copy", thirdParty, differ[0])
	if now[differ[0]] == "" {
		why = fmt.Sprintf("%s/%s is missing: does a .gitignore leave the file out?", thirdParty, differ[0])
	}
	return fmt.Sprintf("%s (%d files differ in all)", why, len(differ)), nil
}

// layout is a part of the name of a copy. It changes with copyModule and the notes.
const layout = "8"

// copyOf returns a swapped copy of the client-go that an environment builds. The copy is in
// the user's cache, under a name that follows from its content. Cleaners of caches may
// remove files: then copyOf makes a new copy.
func (c *call) copyOf(ctx context.Context, p *program, env []string) (n *notes, dir string, err error) {
	m, err := p.clientGo(ctx, env)
	if err != nil {
		return nil, "", err
	}
	if err := c.knows(m); err != nil {
		return nil, "", err
	}
	source, err := m.source()
	if err != nil {
		return nil, "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, "", err
	}
	cache = filepath.Join(cache, "workqueue-swap")
	sum := sumText([]byte(strings.Join([]string{layout, m.Version, source, c.library.version, aliases}, "\n")))
	dir = filepath.Join(cache, "client-go-"+m.Version+"-"+sum)
	if n, err := readNotes(dir); err == nil && n != nil {
		if why, err := n.edited(dir); err == nil && why == "" {
			_ = os.Chtimes(dir, time.Time{}, time.Now()) // for prune
			return n, dir, nil
		}
	}
	n = &notes{Version: m.Version, Source: source}
	if written, err := readNotes(m.Dir); err == nil && written != nil {
		n.Source = written.Source // a trial of a program that is swapped
	}
	if err := c.fill(ctx, p, m, n, dir); err != nil {
		return nil, "", err
	}
	return n, dir, prune(cache)
}

// prune removes all but the copies that were used last. A copy has 18 MB. Directories that
// a killed call has left count too.
func prune(cache string) error {
	const most = 8
	copies, err := os.ReadDir(cache)
	used := func(copied os.DirEntry) (at time.Time) {
		if info, err := copied.Info(); err == nil {
			at = info.ModTime()
		}
		return at
	}
	slices.SortFunc(copies, func(a, b os.DirEntry) int { return used(b).Compare(used(a)) })
	for _, old := range copies[min(most, len(copies)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(cache, old.Name())))
	}
	return err
}

// fill makes a copy in the cache. A rename completes the copy, as another call may look for
// the copy at the same time.
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
	if os.Rename(unfinished, dir) == nil {
		return nil
	}
	if why, unread := n.edited(dir); unread == nil && why == "" {
		return nil // Another call was faster, and uses its copy by now.
	}
	return cmp.Or(os.RemoveAll(dir), os.Rename(unfinished, dir))
}

// copyModule makes a copy of client-go in dst, which must not exist, with our package in the
// place of theirs. Tests and examples are left out, and licences are not. The copy is
// writable, unlike the module cache.
func (c *call) copyModule(ctx context.Context, p *program, m *module, n *notes, dst string) error {
	err := copyTree(ctx, m.Dir, dst)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dst, swappedFile), []byte(aliases)); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dst, "SWAP.md"), fmt.Appendf(nil, readme, n.Source)); err != nil {
		return err
	}
	mod := filepath.Join(dst, "go.mod")
	now, err := p.read(ctx, "mod", mod)
	if err != nil {
		return err
	}
	// A go.mod names the modules of all packages that are imported. For a module that is
	// missing, go would take the newest version in place of the version that we ask for. A
	// workspace reads no go.mod of a module that only a dependency requires, and would
	// build the library with older versions than the library asks for.
	edit := append([]string{"mod", "edit", "-module=" + theirModule}, c.library.requirements(now)...)
	if _, err := p.run(ctx, nil, append(edit, mod)...); err != nil {
		return err
	}
	if n.Sums, err = sums(dst); err != nil {
		return err
	}
	return n.write(dst)
}

// copyTree copies a tree without tests, examples, files for machines alone, and the package
// that is swapped. A package may embed its testdata, so testdata is copied.
func copyTree(ctx context.Context, src, dst string) error {
	return fs.WalkDir(os.DirFS(src), ".", func(path string, entry fs.DirEntry, err error) error {
		name, rel := entry.Name(), filepath.FromSlash(path)
		hidden := strings.HasPrefix(name, ".") && path != "."
		switch {
		case err != nil || ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		case entry.IsDir() && (hidden || path == "examples" || path == "vendor"):
			return fs.SkipDir
		case entry.IsDir() || hidden || name == "OWNERS" || strings.HasSuffix(name, "_test.go") || filepath.Dir(rel) == filepath.Dir(swappedFile):
			return nil
		}
		return copyFile(filepath.Join(src, rel), filepath.Join(dst, rel))
	})
}

// copyFile copies a file, also behind a link: the directory of a fork may have links.
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

func withoutReturns(data []byte) []byte {
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

// removeCopy removes the notes last. As long as there are notes, another undo can go on.
func removeCopy(dir string) error {
	err := removePackages(dir)
	for _, path := range []string{filepath.Join(dir, "go.mod"), dir} {
		if err == nil {
			err = os.RemoveAll(path)
		}
	}
	return err
}

// removePackages removes all of a copy but the notes and go.mod. Without a go.mod beside them, the
// packages that are still there would be packages of the program.
func removePackages(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.Name() != notesFile && entry.Name() != "go.mod" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// unnoted reports whether a directory is a copy that has no notes yet, or none any more.
func unnoted(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() != nextNotes })
}

// writeFile writes a file, and makes its directory.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o666)
}

// next is the end of the name of a file that is about to replace another file.
const next = ".next"

// replaceFile writes a file beside the old file, and renames it: a killed call leaves the old text or
// the new text. The next call renames what a killed call has left.
//
// The file keeps its mode and its ends of lines: git may write "\r\n", and go writes "\n" alone.
func replaceFile(path string, data []byte) error {
	if behind, err := filepath.EvalSymlinks(path); err == nil {
		path = behind
	}
	info, missing := os.Stat(path)
	if missing == nil {
		old, err := os.OpenFile(path, os.O_RDWR, 0) // The rename would replace a read-only file too.
		if err != nil {
			return err
		}
		text, err := io.ReadAll(old)
		if err = cmp.Or(err, old.Close()); err != nil {
			return err
		}
		if bytes.Contains(text, []byte("\r\n")) {
			data = bytes.ReplaceAll(withoutReturns(data), []byte("\n"), []byte("\r\n"))
		}
	}
	err := writeFile(path+next, data)
	if err == nil && missing == nil {
		err = os.Chmod(path+next, info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(path+next, path)
	}
	if err != nil {
		_ = os.Remove(path + next)
	}
	return err
}

// sumText is the hash of a text, with either end of lines that git may write.
func sumText(data []byte) string {
	sum := sha256.Sum256(withoutReturns(data))
	return fmt.Sprintf("%x", sum[:8])
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

// sumOfSums is one sum of all files and their paths. Package fmt sorts the keys of a map.
func sumOfSums(all map[string]string) string { return sumText(fmt.Append(nil, all)) }
