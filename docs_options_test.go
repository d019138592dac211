package workqueue_test

import (
	"go/ast"
	"strings"
	"testing"
)

// Options were given in four ways. Those of ours are structs: no function returns an
// option, and no constructor is there for one option. What client-go has is its own.
func TestOptionsAreStructs(t *testing.T) {
	t.Parallel()
	clientGo := map[string]bool{
		"WithChunkSize": true, "NewDelayingQueueWithCustomClock": true, "NewDelayingQueueWithCustomQueue": true,
		"NewRateLimitingQueueWithDelayingInterface": true, "NewWithMaxWaitRateLimiter": true, "NewTypedWithMaxWaitRateLimiter": true,
	}
	seen := 0
	for _, f := range packageDoc(t).Funcs {
		checkOptionStyle(t, f.Decl, clientGo, &seen)
	}
	for _, typ := range packageDoc(t).Types {
		for _, f := range typ.Funcs {
			checkOptionStyle(t, f.Decl, clientGo, &seen)
		}
	}
	if seen < 30 {
		t.Errorf("looked at %d functions", seen)
	}
}

func checkOptionStyle(t *testing.T, f *ast.FuncDecl, exempt map[string]bool, seen *int) {
	*seen++
	name := f.Name.Name
	_, with, is := strings.Cut(name, "With")
	if is && !exempt[name] && with != "Config" && with != "Options" && with != "Context" {
		t.Errorf("%s is an option in a style of its own", name)
	}
}
