package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Survivors are the mutants that may live. The value is the reason.
type survivors map[string]string

// readSurvivors reads a list of paragraphs. A paragraph has a line for each mutant
// and then, indented, the common reason. A paragraph that begins with a # is a
// comment.
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

// At the end of its output, a run prints the mutants that were not killed, with their lines.
// With -v a run also prints each mutant when it was tried, with the verdict behind the name.
var (
	living = regexp.MustCompile(`(?m)^\S+:\d+: (?:lived|not covered): (.+)$`)
	lives  = regexp.MustCompile(`(?m)^(.+ #\d+): (?:lived|not covered) $`)
)

// readLiving returns the mutants that were not killed, from the file with the output of a
// run, or nil if path is empty. The output of an interrupted run is useful only with -v.
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
