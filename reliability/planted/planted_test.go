package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each fault fits the sources. Whether a check notices the fault is what `make planted` shows.
func TestFaultsFitTheSources(t *testing.T) {
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) < 60 {
		t.Errorf("%d faults, want at least 60", len(faults))
	}
	for _, f := range faults {
		sources, err := f.apply("../..")
		if err != nil {
			t.Error(err)
		}
		if err == nil && len(sources) == 0 {
			t.Errorf("%s: %q changes no file", f.where, f.name)
		}
		for _, c := range f.checks {
			for test := range strings.SplitSeq(c.tests, "|") {
				if !hasTest(t, c.pkg, test) {
					t.Errorf("%s: %q: %s has no %s", f.where, f.name, c.pkg, test)
				}
			}
		}
	}
}

var read = map[string]string{}

// hasTest reports whether the test files of a package have the function.
func hasTest(t *testing.T, pkg, name string) bool {
	if read[pkg] == "" {
		paths, _ := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			read[pkg] += string(text)
		}
	}
	return strings.Contains(read[pkg], "\nfunc "+name+"(")
}

// The faults compile, all together.
func TestFaultsCompile(t *testing.T) {
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	name, err := overlay("../..", t.TempDir(), faults)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", name, ".", "./internal/...")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
