package workqueue_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The glossary says what the suffix Locked means: the caller holds the lock of the
// receiver. So such a method does not take it, and one that calls it on its own receiver
// takes it or has the suffix too.
func TestMethodsThatEndInLocked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			n, problems := lockedProblems(t, file, nil)
			calls += n
			for _, problem := range problems {
				t.Error(problem)
			}
		}
	}
	if calls < 20 {
		t.Errorf("found %d calls of such methods", calls)
	}
	const control = `package p
func (q *q) aLocked() { q.mu.Lock() }
func (q *q) b() { q.aLocked() }
func (q *q) c() { q.mu.Lock(); q.aLocked() }
func (q *q) dLocked() { q.other.mu.Lock(); q.aLocked() }`
	_, problems := lockedProblems(t, "control", control)
	if got := strings.Join(problems, ", "); got != "control: aLocked takes the lock, control: b calls aLocked without the lock" {
		t.Errorf("got %q of the control", got)
	}
}

func lockedProblems(t *testing.T, file string, text any) (calls int, problems []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 || f.Body == nil {
			continue
		}
		called, locks := usesOf(f.Body, f.Recv.List[0].Names[0].Name)
		calls += len(called)
		name := f.Name.Name
		switch is := strings.HasSuffix(name, "Locked"); {
		case is && locks:
			problems = append(problems, fmt.Sprintf("%s: %s takes the lock", file, name))
		case !is && !locks && len(called) > 0:
			problems = append(problems, fmt.Sprintf("%s: %s calls %s without the lock", file, name, called[0]))
		}
	}
	return calls, problems
}

// usesOf returns the methods with the suffix that a function calls on its receiver, and
// whether it names the lock of the receiver.
func usesOf(body ast.Node, receiver string) (called []string, locks bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == receiver {
			locks = locks || s.Sel.Name == "mu"
			if strings.HasSuffix(s.Sel.Name, "Locked") {
				called = append(called, s.Sel.Name)
			}
		}
		return true
	})
	return called, locks
}
