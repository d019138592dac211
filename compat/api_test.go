package compat_test

import (
	"go/types"
	"testing"

	"golang.org/x/tools/go/packages"
)

const (
	theirPath = "k8s.io/client-go/util/workqueue"
	ourPath   = "github.com/seed16c08ea7/workqueue"
)

// TestAPI is the proof behind "change the import path and the program
// compiles": whatever client-go exports must be here, in the same form.
func TestAPI(t *testing.T) {
	theirs, ours := loadAPIs(t)
	missed, added := compareAPI(theirs, ours)
	for _, line := range missed {
		t.Error(line)
	}
	for _, line := range added {
		t.Log("added: " + line)
	}
}

// loadAPIs loads both packages in one call, so that what they both import (clock,
// rate, logr) is one set of types rather than two look-alikes.
func loadAPIs(t *testing.T) (theirs, ours *types.Package) {
	t.Helper()
	config := &packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports}
	loaded, err := packages.Load(config, theirPath, ourPath)
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
	theirs, ours = byPath[theirPath], byPath[ourPath]
	if theirs == nil || ours == nil {
		t.Fatalf("got packages %v, want %s and %s", byPath, theirPath, ourPath)
	}
	// An empty scope would make every comparison pass.
	if theirs.Scope().Lookup("TypedRateLimitingInterface") == nil {
		t.Fatalf("%s loaded without its declarations", theirPath)
	}
	return theirs, ours
}
