package compat_test

import (
	"go/types"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

const (
	theirPath = "k8s.io/client-go/util/workqueue"
	waitPath  = "k8s.io/apimachinery/pkg/util/wait"
	ourPath   = "github.com/seed16c08ea7/workqueue"
)

// TestAPI is the proof behind "change the import path, and your code compiles":
// whatever client-go exports must be here, in the same form. Code that is handed
// to a package whose signatures name client-go's types is another matter, see
// assign_test.go.
func TestAPI(t *testing.T) {
	theirs, ours := loadAPIs(t)
	report(t)(compareAPI(theirs, ours))
}

// mirrored are the names of util/wait that are here. All else there polls for a
// condition, which a queue is there to make unnecessary.
var mirrored = []string{
	"Backoff", "BackoffManager", "BackoffUntil", "BackoffUntilWithContext", "ConditionWithContextFunc", "DelayFunc",
	"Jitter", "JitterUntil", "JitterUntilWithContext", "NewExponentialBackoffManager", "NewJitteredBackoffManager",
	"Timer", "Until", "UntilWithContext",
}

// TestBackoffAPI is the same for what comes from util/wait: each of these names is
// there with all that it has there, and so is any other that both packages have.
func TestBackoffAPI(t *testing.T) {
	theirs, ours := loadPair(t, waitPath, "Backoff")
	names := slices.Clone(mirrored)
	for _, name := range theirs.Scope().Names() {
		if ours.Scope().Lookup(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	report(t)(compareNames(theirs, ours, names))
}

func report(t *testing.T) func(missed, added []string) {
	return func(missed, added []string) {
		t.Helper()
		for _, line := range missed {
			t.Error(line)
		}
		for _, line := range added {
			t.Log("added: " + line)
		}
	}
}

func loadAPIs(t *testing.T) (theirs, ours *types.Package) {
	t.Helper()
	return loadPair(t, theirPath, "TypedRateLimitingInterface")
}

// loadPair loads both packages in one call, so that what they both import (clock,
// rate, logr) is one set of types rather than two look-alikes.
func loadPair(t *testing.T, path, name string) (theirs, ours *types.Package) {
	t.Helper()
	config := &packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports}
	loaded, err := packages.Load(config, path, ourPath)
	if err != nil {
		t.Fatalf("loading the packages: %v", err)
	}
	byPath := make(map[string]*types.Package)
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Fatalf("loading %s: %v", p.PkgPath, e)
		}
		byPath[p.PkgPath] = p.Types
	}
	theirs, ours = byPath[path], byPath[ourPath]
	if theirs == nil || ours == nil {
		t.Fatalf("got packages %v, want %s and %s", byPath, path, ourPath)
	}
	// An empty scope would make every comparison pass.
	if theirs.Scope().Lookup(name) == nil {
		t.Fatalf("%s loaded without its declarations", path)
	}
	return theirs, ours
}
