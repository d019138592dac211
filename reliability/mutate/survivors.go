package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Survivors are the mutants that may live, each with a reason.
type survivors map[string]string

// readSurvivors reads a list: paragraphs of mutants, one a line, and below them
// the reason that they have in common, indented. Lines that begin with a # are
// comments.
func readSurvivors(path string) (survivors, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := survivors{}
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		paragraph = strings.Trim(paragraph, "\n")
		if paragraph == "" || paragraph[0] == '#' {
			continue
		}
		if err := s.read(paragraph); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

func (s survivors) read(paragraph string) error {
	mutants, reason, found := strings.Cut(paragraph, "\n\t")
	if !found {
		return fmt.Errorf("no reason for %s", mutants)
	}
	for m := range strings.SplitSeq(mutants, "\n") {
		if s[m] != "" {
			return fmt.Errorf("listed twice: %s", m)
		}
		s[m] = strings.Join(strings.Fields(reason), " ")
	}
	return nil
}

// A mutant that was not killed stands at the end of the output of a run, with its line, and
// with -v where it was tried, with its verdict behind it.
var (
	living = regexp.MustCompile(`(?m)^\S+:\d+: (?:lived|not covered): (.+)$`)
	lives  = regexp.MustCompile(`(?m)^(.+ #\d+): (?:lived|not covered) $`)
)

// readLiving returns the mutants that were not killed, from the output of a run, which may
// have been ended early if it was one with -v, or nil if there is no such file.
func readLiving(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	only := map[string]bool{}
	for _, form := range []*regexp.Regexp{living, lives} {
		for _, m := range form.FindAllStringSubmatch(string(text), -1) {
			only[m[1]] = true
		}
	}
	return only, nil
}
