package workqueue_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Each program that uses the library gets the versions of its go.mod at least. So
// go.mod gives a reason for each, which names the version, and whoever raises one
// must write a new one. `make minimums` tries whether the code is content with them,
// and with the newest.

// requirement is a line of go.mod that requires a version, after its comments.
var requirement = regexp.MustCompile(`^(?:require )?(\S+)\s+(v\S+|[\d.]+)(?:\s+//(.*))?$`)

// unreasoned returns the requirements of a go.mod that no comment explains: one on
// the same line, or directly above, with the version and a colon before the reason.
func unreasoned(mod string) (found []string) {
	above := ""
	for line := range strings.Lines(mod) {
		line = strings.TrimSpace(line)
		if comment, is := strings.CutPrefix(line, "//"); is {
			above += comment
			continue
		}
		if match := requirement.FindStringSubmatch(line); match != nil {
			version := match[2]
			_, reason, named := strings.Cut(" "+above+" "+match[3], " "+version+": ")
			if !named || strings.TrimSpace(reason) == "" {
				found = append(found, match[1]+" "+version)
			}
		}
		above = ""
	}
	return found
}

// A version that is raised without a new reason fails here.
func TestRequirementsHaveReasons(t *testing.T) {
	for _, line := range unreasoned(read(t, "go.mod")) {
		t.Errorf("go.mod: %s has no reason that names this version: each program that uses the library is lifted to it", line)
	}
}

func TestRequirementsAreTold(t *testing.T) {
	const control = `module m

// 1.25: for x
go 1.26

// the lowest
// v1.2.3: for y
require a/b v1.2.3

require (
	// v1.2.3: for z
	c/d v1.2.4
	e/f v1.0.0
	g/h v1.0.0 // indirect
	i/j v1.0.0 // indirect; v1.0.0: by k
	l/m v1.0.0 // v1.0.0:
)
`
	if got, want := fmt.Sprint(unreasoned(control)), "[go 1.26 c/d v1.2.4 e/f v1.0.0 g/h v1.0.0 l/m v1.0.0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := len(strings.Split(read(t, "go.mod"), "\n")); got < 15 {
		t.Errorf("go.mod has %d lines", got)
	}
}

// The library is built into every program that imports it, so it requires little.
func TestRequirementsAreFew(t *testing.T) {
	want := []string{"github.com/go-logr/logr", "github.com/prometheus/client_golang",
		"github.com/prometheus/client_model", "golang.org/x/time", "k8s.io/utils"}
	var got []string
	for line := range strings.Lines(read(t, "go.mod")) {
		match := requirement.FindStringSubmatch(strings.TrimSpace(line))
		if match != nil && match[1] != "go" && !strings.Contains(match[3], "indirect") {
			got = append(got, match[1])
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("go.mod requires %q, want %q", got, want)
	}
}
