// Package examples_test holds README.md to the programs of this module.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shown = regexp.MustCompile("(?s)```console\n\\$ go run -C examples \\./([\\w/]+)([^\n]*)\n(.*?)```")

// README.md starts each program with one command, and shows its output. The tests of servers,
// which do not end, and of quickstart, which depends on time, are in their directories.
func TestOutputsOfTheReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	outputs := make(map[string]string)
	for _, match := range shown.FindAllStringSubmatch(string(page), -1) {
		name, flags, want := match[1], match[2], match[3]
		outputs[name] = want
		if strings.Contains(flags, "-listen") || name == "quickstart" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := filepath.Join(t.TempDir(), filepath.Base(name))
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", binary, "./"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			command := exec.CommandContext(t.Context(), binary, strings.Fields(flags)...)
			command.Dir = t.TempDir()
			out, err := command.CombinedOutput()
			if err != nil || !prints(string(out), want) {
				t.Errorf("%v, printed\n%s\nthe page has\n%s", err, out, want)
			}
		})
	}
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) < 8 {
		t.Fatalf("%d programs, %v", len(mains), err)
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		if _, found := outputs[name]; !found && !strings.Contains(string(page), "]("+name+"/") {
			t.Errorf("the page does not have %s", name)
		}
	}
}

// prints reports whether an output is the wanted text, where a line "..." is any number of
// lines.
func prints(out, want string) bool {
	parts := strings.Split("\n"+want, "\n...\n")
	for i, part := range parts {
		before, after, found := strings.Cut("\n"+out, part)
		if !found || i == 0 && before != "" {
			return false
		}
		out = after
	}
	return strings.TrimSpace(out) == ""
}

func TestPrints(t *testing.T) {
	for want, ok := range map[string]bool{
		"a\nb\nc\n":           true,
		"a\n...\nc\n":         true,
		"...\nc\n":            true,
		"a\nc\n":              false,
		"b\nc\n":              false,
		"a\nb\n":              false,
		"c\n...\na\n":         false,
		"a\n...\nx\n...\nc\n": false,
	} {
		if got := prints("a\nb\nc\n", want); got != ok {
			t.Errorf("%q: got %v", want, got)
		}
	}
}
