package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A life is that of a program of a kind: from the start over a trial, a write and an
// upgrade to an undo.
type life struct {
	*kind
	top, dir string // the repository, and the program in it
	swap     func(args ...string) (string, error)
}

func (k *kind) live(top, guard, swap, library string) error {
	defer os.RemoveAll(top)
	began := time.Now()
	l := &life{kind: k, top: top, dir: filepath.Join(top, "program")}
	l.swap = func(args ...string) (string, error) {
		if args[0] == "try" || args[0] == "write" {
			args = slices.Concat(args[:1], []string{"-library", library}, args[1:])
		}
		return run(l.dir, swap, args...)
	}
	if k.committed != "" {
		env, err := commitOfClientGo(k.committed, top+" modules")
		if err != nil {
			return err
		}
		settings = env
		defer func() { settings = nil }()
	}
	if err := l.begin(guard); err != nil {
		return err
	}
	start, err := sums(top)
	if err != nil {
		return err
	}
	base, err := again(func() (*outcomes, error) { return l.trial([]string{swap, "try", "-library", library, "--"}, start) })
	if err != nil {
		return fmt.Errorf("the trial: %w", err)
	}
	if err := l.writeAndUndo(start, base); err != nil {
		return fmt.Errorf("write and undo: %w", err)
	}
	if err := l.upgradeAndUndo(); err != nil {
		return fmt.Errorf("write, upgrade and undo: %w", err)
	}
	fmt.Printf("%s: %s %s: %d tests of its own have the same outcomes; an undo gives all %d files back; %.0f s\n",
		k.name, k.module, k.version, len(base.own), len(start), time.Since(began).Seconds())
	return nil
}

// begin makes the program, and commits it.
func (l *life) begin(guard string) error {
	if err := l.copy(l.dir, guard); err != nil {
		return err
	}
	if l.beside != nil {
		if err := l.beside.copy(filepath.Join(l.top, "beside"), guard); err != nil {
			return err
		}
		for _, path := range l.beside.packages { // They run with those of the program.
			l.packages = append(slices.Clip(l.packages), l.beside.module+strings.TrimPrefix(path, "."))
		}
		if _, err := run(l.top, "go", "work", "init", "./program", "./beside"); err != nil {
			return err
		}
	}
	if l.forked {
		if err := l.fork(); err != nil {
			return err
		}
	}
	if len(l.edit) > 0 {
		if _, err := run(l.dir, "go", append([]string{"mod", "edit"}, l.edit...)...); err != nil {
			return err
		}
		if _, err := run(l.dir, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	if err := l.vendor(); err != nil {
		return err
	}
	return commit(l.top)
}

// fork copies client-go into the program, and changes a file that few packages build on.
func (l *life) fork() error {
	out, err := run(l.dir, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go")
	if err != nil {
		return err
	}
	fork := filepath.Join(l.dir, "our-client-go")
	if err := os.CopyFS(fork, os.DirFS(strings.TrimSpace(out))); err != nil {
		return err
	}
	if err := writable(fork); err != nil {
		return err
	}
	changed := filepath.Join(fork, "util", "exec", "exec.go")
	text, err := os.ReadFile(changed)
	if err != nil {
		return err
	}
	l.edit = []string{"-replace=k8s.io/client-go=./our-client-go"}
	return os.WriteFile(changed, append(text, "\n// Forked is not in client-go.\nconst Forked = true\n"...), 0o666)
}

func commit(top string) error {
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all", "--force"}, {"commit", "--quiet", "--message=all"}} {
		if _, err := run(top, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// vendor makes the vendor folder, and prunes it as projects do.
func (l *life) vendor() error {
	if !l.vendored {
		return nil
	}
	if _, err := run(l.dir, "go", "mod", "vendor"); err != nil {
		return err
	}
	return l.prune()
}

func (l *life) prune() error {
	pruned := 0
	err := filepath.WalkDir(filepath.Join(l.dir, "vendor"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "OWNERS" && !slices.Contains([]string{".md", ".proto", ".sh"}, filepath.Ext(path)) {
			return err
		}
		pruned++
		return os.Remove(path)
	})
	if err == nil && pruned == 0 {
		err = errors.New("there was nothing to prune")
	}
	return err
}

// trial compares the tests before and under a trial, and the tree after it.
func (l *life) trial(try []string, start map[string]string) (*outcomes, error) {
	base, err := l.tests(l.dir, nil)
	if err != nil {
		return nil, err
	}
	tried, err := l.tests(l.dir, try)
	if err != nil {
		return nil, err
	}
	if err := base.same(tried); err != nil {
		return nil, err
	}
	return &base, l.is(start)
}

// again tries three times. Some tests of the programs have time limits, which a busy machine
// exceeds now and then. A test broken by the swap fails every time.
func again[T any](do func() (T, error)) (result T, err error) {
	for range 3 {
		if result, err = do(); err == nil {
			break
		}
	}
	return result, err
}

// refuses returns an error unless a write of a pruned vendor folder is refused.
func (l *life) refuses(start map[string]string) error {
	if !l.vendored {
		return nil
	}
	if _, err := l.swap("write"); err == nil || !strings.Contains(err.Error(), "files of the vendor folder differ") {
		return fmt.Errorf("a write of a pruned vendor folder: %w", err)
	}
	return l.is(start)
}

// write swaps, and prunes the vendor folder, which the write has made anew.
func (l *life) write() error { return l.force("write") }

func (l *life) undo() error { return l.force("undo") }

func (l *life) force(command string) error {
	if !l.vendored {
		_, err := l.swap(command)
		return err
	}
	_, err := l.swap(command, "-force")
	if err == nil {
		err = l.prune()
	}
	return err
}

func (l *life) writeAndUndo(start map[string]string, base *outcomes) error {
	if err := l.refuses(start); err != nil {
		return err
	}
	if err := l.write(); err != nil {
		return err
	}
	if _, err := l.swap("check"); err != nil {
		return err
	}
	if _, err := again(func() (any, error) {
		written, err := l.tests(l.dir, nil)
		if err == nil {
			err = base.same(written)
		}
		return nil, err
	}); err != nil {
		return err
	}
	if err := l.undo(); err != nil {
		return err
	}
	return l.is(start)
}

// upgradeAndUndo compares with a twin that is upgraded and was never swapped.
func (l *life) upgradeAndUndo() error {
	twin := *l
	twin.top = l.top + " twin"
	twin.dir = filepath.Join(twin.top, "program")
	if err := os.CopyFS(twin.top, os.DirFS(l.top)); err != nil {
		return err
	}
	if err := l.write(); err != nil {
		return err
	}
	if err := twin.lift(); err != nil {
		return err
	}
	if err := l.lift(); err != nil {
		return err
	}
	if _, err := l.swap("check"); err != nil {
		return err
	}
	if err := l.undo(); err != nil {
		return err
	}
	want, err := sums(twin.top)
	if err != nil {
		return err
	}
	return l.is(want)
}

// lift upgrades a program.
func (l *life) lift() error {
	if _, err := run(l.dir, "go", append([]string{"get"}, l.upgrade...)...); err != nil {
		return err
	}
	if _, err := run(l.dir, "go", "mod", "tidy"); err != nil {
		return err
	}
	return l.vendor()
}

// sums returns the hash and the mode of each file below a directory, but not those of git,
// and not go.work.sum: every call of go in a workspace may add lines, and none removes any.
func sums(dir string) (map[string]string, error) {
	all, tree := map[string]string{}, os.DirFS(dir)
	return all, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir(), entry.Name() == "go.work.sum":
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		all[path] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(text))
		return err
	})
}

// is returns an error if the tree differs from another.
func (l *life) is(want map[string]string) error {
	got, err := sums(l.top)
	if err != nil {
		return err
	}
	var differ []string
	for path := range maps.Keys(want) {
		if got[path] != want[path] {
			differ = append(differ, path+" has changed or is gone")
		}
	}
	for path := range maps.Keys(got) {
		if want[path] == "" {
			differ = append(differ, path+" is new")
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("%d files differ:\n%s", len(differ), strings.Join(differ[:min(10, len(differ))], "\n"))
}
