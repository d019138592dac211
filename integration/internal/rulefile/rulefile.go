// Package rulefile makes variants of a file of Prometheus rules. It edits the text of the
// file, so the tests run on the deployed file, with its comments and layout.
package rulefile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	// Ranges, offsets and the time for which a condition must hold.
	duration = regexp.MustCompile(`(\[|offset |for: )(\d+[smhd])\b`)
	// Numbers of seconds. The file marks each with a comment.
	seconds = regexp.MustCompile(`([\d.]+)( # seconds)`)
	// Numbers that decide whether an alert fires.
	threshold = regexp.MustCompile(`(?m)(> |^ *)(\d+(?:\.\d+)?)( # seconds| \*|\n|$)`)
)

// Faster returns rules with the same effect in a fraction of the time.
func Faster(rules string, times int) string {
	rules = duration.ReplaceAllStringFunc(rules, func(found string) string {
		parts := duration.FindStringSubmatch(found)
		return fmt.Sprintf("%s%dms", parts[1], parse(parts[2]).Milliseconds()/int64(times))
	})
	return seconds.ReplaceAllStringFunc(rules, func(found string) string {
		parts := seconds.FindStringSubmatch(found)
		return number(parts[1])(1/float64(times)) + parts[2]
	})
}

// A Mutant is a file of rules with a single change.
type Mutant struct {
	Alert  string
	Change string // a description for people
	Rules  string
}

// Mutants returns two mutants for each threshold of each alert, and two for each time in
// a "for": a third lower and a third higher.
func Mutants(rules string) []Mutant {
	var mutants []Mutant
	start := strings.Index(rules, "- alert: ")
	for start >= 0 {
		end := len(rules)
		if next := strings.Index(rules[start+1:], "- alert: "); next >= 0 {
			end = start + 1 + next
		}
		name, _, _ := strings.Cut(rules[start+len("- alert: "):end], "\n")
		for _, c := range changes(rules[start:end]) {
			mutants = append(mutants, Mutant{
				Alert:  name,
				Change: c.what,
				Rules:  rules[:start] + c.rule + rules[end:],
			})
		}
		if start = end; end == len(rules) {
			break
		}
	}
	return mutants
}

type change struct{ what, rule string }

// changes returns the changes of one alert.
func changes(rule string) []change {
	condition := strings.Index(rule, "labels:")
	var all []change
	replace := func(at []int, with string) {
		line := rule[strings.LastIndex(rule[:at[0]], "\n")+1:]
		line, _, _ = strings.Cut(line, "\n")
		all = append(all, change{
			fmt.Sprintf("%s: %s", strings.TrimSpace(line), with),
			rule[:at[0]] + with + rule[at[1]:],
		})
	}
	for _, found := range threshold.FindAllStringSubmatchIndex(rule[:condition], -1) {
		at := found[4:6]
		scaled := number(rule[at[0]:at[1]])
		replace(at, scaled(2./3))
		replace(at, scaled(4./3))
	}
	for _, found := range duration.FindAllStringSubmatchIndex(rule[:condition], -1) {
		if rule[found[2]:found[3]] == "for: " {
			at := found[4:6]
			held := parse(rule[at[0]:at[1]]).Milliseconds()
			replace(at, fmt.Sprintf("%dms", held*2/3))
			replace(at, fmt.Sprintf("%dms", held*4/3))
		}
	}
	return all
}

// number returns a function that writes a multiple of a number. The patterns find valid
// numbers only.
func number(text string) func(times float64) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return func(times float64) string { return strconv.FormatFloat(n*times, 'g', 6, 64) }
}

// parse reads a duration in the syntax of Prometheus. Go's own parser does not know days.
func parse(text string) time.Duration {
	n, err := strconv.Atoi(text[:len(text)-1])
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * map[byte]time.Duration{
		's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
	}[text[len(text)-1]]
}
