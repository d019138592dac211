package compat_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// What docs/migrating.md says of code whose import path is changed: what compiles, what does
// not, and that the way out does. WORKQUEUE is the path that is changed.
var swapped = map[string]struct {
	code     string
	compiles bool // with our path
}{
	"an EventHandler": {`
		import (
			"context"
			"WORKQUEUE"
			"sigs.k8s.io/controller-runtime/pkg/event"
			"sigs.k8s.io/controller-runtime/pkg/handler"
			"sigs.k8s.io/controller-runtime/pkg/reconcile"
		)

		type own struct{ handler.EnqueueRequestForObject }

		func (own) Delete(context.Context, event.DeleteEvent, workqueue.TypedRateLimitingInterface[reconcile.Request]) {}

		var _ handler.EventHandler = &own{}`, false},
	"a NewQueue": {`
		import (
			"WORKQUEUE"
			"sigs.k8s.io/controller-runtime/pkg/controller"
			"sigs.k8s.io/controller-runtime/pkg/reconcile"
		)

		var options = controller.Options{
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
			},
		}`, false},
	"the way out of an EventHandler": {`
		import (
			"context"
			"WORKQUEUE"
			clientgo "k8s.io/client-go/util/workqueue"
			"sigs.k8s.io/controller-runtime/pkg/event"
			"sigs.k8s.io/controller-runtime/pkg/handler"
			"sigs.k8s.io/controller-runtime/pkg/reconcile"
		)

		type own struct{ handler.EnqueueRequestForObject }

		func (own) Delete(_ context.Context, _ event.DeleteEvent, q clientgo.TypedRateLimitingInterface[reconcile.Request]) {
			pass(q)
		}

		func pass(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {}

		var _ handler.EventHandler = &own{}`, true},
	"the way out of a NewQueue": {`
		import (
			"WORKQUEUE"
			clientgo "k8s.io/client-go/util/workqueue"
			"sigs.k8s.io/controller-runtime/pkg/controller"
			"sigs.k8s.io/controller-runtime/pkg/reconcile"
		)

		var options = controller.Options{
			NewQueue: func(name string, limiter clientgo.TypedRateLimiter[reconcile.Request]) clientgo.TypedRateLimitingInterface[reconcile.Request] {
				return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
			},
		}`, true},
}

// An imported is what a program may import.
type imported map[string]*packages.Package

func (i imported) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("%s is not loaded", path)
}

// importable are the packages that the programs import.
var importable = sync.OnceValues(func() (map[string]*packages.Package, error) {
	const runtime = "sigs.k8s.io/controller-runtime/pkg/"
	return load(0, theirPath, ourPath, "context", "reflect", "testing",
		runtime+"controller", runtime+"event", runtime+"handler", runtime+"reconcile")
})

func TestWhatTheReadmeSaysCompiles(t *testing.T) {
	for name, program := range swapped {
		for path, want := range map[string]bool{theirPath: true, ourPath: program.compiles} {
			err := compile(t, strings.ReplaceAll(program.code, "WORKQUEUE", path))
			if (err == nil) != want {
				t.Errorf("%s with %s: got %v, compiles should be %v", name, path, err, want)
			}
		}
	}
}

// The test that a reader copies from docs/migrating.md compiles. `make swap-programs` runs the test.
func TestGuardOfThePageCompiles(t *testing.T) {
	text, err := os.ReadFile("../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(text), "```go\nfunc TestQueuesAreSwapped(")
	code, _, _ = strings.Cut(code, "```")
	program := fmt.Sprintf("import (\n\"reflect\"\n\"testing\"\n%q\n)\nfunc TestQueuesAreSwapped(%s", theirPath, code)
	if err := compile(t, program); err != nil || !found {
		t.Errorf("found %v, %v", found, err)
	}
}

func compile(t *testing.T, code string) error {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "program.go", "package program\n"+code, 0)
	if err != nil {
		t.Fatal(err)
	}
	all, err := importable()
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: imported(all)}
	_, err = config.Check("program", set, []*ast.File{file}, nil)
	return err
}
