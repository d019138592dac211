package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// thirdParty is where the copy of -w is, as go.mod names it.
const thirdParty = "third_party/client-go"

// Beside client-go's files, the copy has three of our own: a state, and go.mod and
// go.sum as they were before. These have other names, as a go.mod would be taken for
// one. They are there for -undo, and belong into version control.
const (
	stateFile  = "swap.json"
	modBefore  = "swap.mod.before"
	sumBefore  = "swap.sum.before"
	readmeFile = "SWAP.md"
)

// A state says what -w did. All sums are such that the end of a line does not matter.
type state struct {
	Version   string // of client-go, as it is required
	Source    string // what was copied, see module.source
	SourceSum string `json:",omitempty"` // of a directory that was copied
	Library   string // the version that was built in
	Copy      string // sum of the copy, without our files
	ModAfter  string // sum of go.mod
	SumAfter  string // sum of go.sum
	Had       bool   `json:",omitempty"` // go.mod required the library before
	// Replaced is the replace of this very version that ours has taken the place of.
	Replaced string `json:",omitempty"`
	// Lifted has the versions that were lifted, before and after.
	Lifted map[string][2]string `json:",omitempty"`
}

// readState returns nil if there is none.
func readState(root string) (*state, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(thirdParty), stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", thirdParty, stateFile, err)
	}
	return s, nil
}

func (s *state) write(root string) error {
	data, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(root, filepath.FromSlash(thirdParty), stateFile), append(data, '\n'))
}

// sumCopy is the sum of the copy in a program, without what is ours.
func sumCopy(root string) (string, error) {
	return sumTree(filepath.Join(root, filepath.FromSlash(thirdParty)), stateFile, modBefore, sumBefore, readmeFile)
}

// sumFile is the sum of a file, and "" if there is none.
func sumFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return sumText(data), err
}

// untouched reports whether go.mod and go.sum are as -w has left them.
func (s *state) untouched(root string) bool {
	mod, err := sumFile(filepath.Join(root, "go.mod"))
	if err != nil || mod != s.ModAfter {
		return false
	}
	sum, err := sumFile(filepath.Join(root, "go.sum"))
	return err == nil && sum == s.SumAfter
}
