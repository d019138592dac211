package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A journal makes a change of several files one that happens as a whole or not at
// all. What was there is in its directory, .swap-before beside go.mod, from before the
// first change until the last one:
//
//	begin     notes what is there
//	set aside moves a directory into the journal, to make room for a new one
//	commit    ends the journal, by one rename
//	rollback  puts everything back, and ends the journal
//
// putBack rolls back a journal that was left by a call which was killed. It may also
// be that of a call which still runs: two at once on one program are not provided for.
type journal struct {
	root  string // the directory of go.mod
	Files []string
	Dirs  []string
	// Had says which of these were there. The others are removed by a rollback.
	Had map[string]bool
}

const (
	journalDir = ".swap-before"
	unfinished = ".swap-begins"
	finished   = ".swap-ends"
)

// begin notes files and directories, all relative to root, and keeps the files.
func begin(root string, files, dirs []string) (*journal, error) {
	j := &journal{root: root, Files: files, Dirs: dirs, Had: map[string]bool{}}
	for _, name := range slices.Concat(files, dirs) {
		_, err := os.Lstat(j.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		j.Had[name] = err == nil
	}
	begun := filepath.Join(root, unfinished)
	if err := j.open(begun); err != nil {
		return nil, errors.Join(err, os.RemoveAll(begun))
	}
	return j, nil
}

// open is the end of begin: from its rename on, the journal is in force.
func (j *journal) open(begun string) error {
	if err := j.keep(begun); err != nil {
		return err
	}
	return os.Rename(begun, j.path(journalDir))
}

// keep writes the files and the notes to a directory.
func (j *journal) keep(dir string) error {
	for i, name := range j.Files {
		if err := copyIfThere(j.path(name), filepath.Join(dir, saved(i))); err != nil {
			return err
		}
	}
	notes, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "notes.json"), notes)
}

// saved is the name of a file in the journal.
func saved(i int) string { return "file" + strconv.Itoa(i) }

// putBack rolls back what a call has left that was killed.
func putBack(root string, say func(string, ...any)) error {
	for _, rest := range []string{unfinished, finished} {
		if err := os.RemoveAll(filepath.Join(root, rest)); err != nil {
			return err
		}
	}
	notes, err := os.ReadFile(filepath.Join(root, journalDir, "notes.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j := &journal{root: root}
	if err == nil {
		err = json.Unmarshal(notes, j)
	}
	if err != nil {
		return fmt.Errorf("%s was left by an interrupted call, and cannot be read: %w", journalDir, err)
	}
	say("putting back what an interrupted call has changed")
	return j.rollback()
}

func (j *journal) path(name string) string { return filepath.Join(j.root, filepath.FromSlash(name)) }

// aside is where a directory is while the journal is open.
func (j *journal) aside(name string) string {
	return filepath.Join(j.root, journalDir, "dir-"+strings.NewReplacer("/", "-", "..", "up").Replace(name))
}

// setAside moves a directory out of the way.
func (j *journal) setAside(name string) error {
	if !j.Had[name] {
		return nil
	}
	return os.Rename(j.path(name), j.aside(name))
}

// commit makes the changes final.
func (j *journal) commit() error {
	if err := os.Rename(j.path(journalDir), j.path(finished)); err != nil {
		return err
	}
	return os.RemoveAll(j.path(finished))
}

// rollback takes the changes back. It may be interrupted and begun again.
func (j *journal) rollback() error {
	for _, name := range j.Dirs {
		if err := j.rollbackDir(name); err != nil {
			return err
		}
	}
	for i, name := range j.Files {
		if err := j.rollbackFile(name, filepath.Join(j.root, journalDir, saved(i))); err != nil {
			return err
		}
	}
	return j.commit()
}

func (j *journal) rollbackDir(name string) error {
	_, err := os.Lstat(j.aside(name))
	if errors.Is(err, fs.ErrNotExist) && j.Had[name] {
		return nil // It is where it was.
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(j.path(name)); err != nil {
		return err
	}
	if j.Had[name] {
		return os.Rename(j.aside(name), j.path(name))
	}
	removeEmpty(filepath.Dir(j.path(name)), j.root)
	return nil
}

// rollbackFile writes a file only if it has changed, so that its time remains.
func (j *journal) rollbackFile(name, saved string) error {
	if !j.Had[name] {
		err := os.Remove(j.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	before, err := os.ReadFile(saved)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(j.path(name))
	if err == nil && string(now) == string(before) {
		return nil
	}
	return os.WriteFile(j.path(name), before, 0o666)
}

// removeEmpty removes directories that have become empty, from dir up to root. What
// cannot be removed stays.
func removeEmpty(dir, root string) {
	for dir != root && strings.HasPrefix(dir, root) && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}
