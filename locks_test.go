package workqueue_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The section Locks of docs/architecture.md is compared with the code. The test reads the sources
// of the package in the order of their statements, and notes which lock is taken while another
// lock is held. A call counts as what the called function takes, if the function is in the
// package. Calls through interfaces and function values are not followed.

// An order is a pair of locks: a function took the second while the first was held.
type order struct{ held, taken string }

// A lockReader reads one package.
type lockReader struct {
	info   *types.Info
	locks  map[types.Object]string // fields and variables that are a mutex, such as "Typed.mu"
	bodies map[types.Object]*ast.FuncDecl
	takes  map[types.Object]map[string]bool // what a function takes, with the functions that it calls
	orders map[order]map[string]bool        // the functions that take locks in this order

	suffixes int             // calls of methods whose names end in Locked
	misused  map[string]bool // such methods that take the lock, and calls of them without the lock
}

// notImported stands for all other packages: their names stay unknown, and their locks too.
type notImported struct{}

func (notImported) Import(of string) (*types.Package, error) {
	p := types.NewPackage(of, path.Base(of))
	p.MarkComplete()
	return p, nil
}

func readLocks(t *testing.T, fset *token.FileSet, files []*ast.File) *lockReader {
	t.Helper()
	r := &lockReader{
		info: &types.Info{
			Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
		locks: map[types.Object]string{}, bodies: map[types.Object]*ast.FuncDecl{},
		takes: map[types.Object]map[string]bool{}, orders: map[order]map[string]bool{}, misused: map[string]bool{},
	}
	ignore := types.Config{Importer: notImported{}, Error: func(error) {}}
	ignore.Check("p", fset, files, r.info) //nolint:errcheck // Names of other packages are unknown.
	for _, file := range files {
		for _, decl := range file.Decls {
			r.declare(decl)
		}
	}
	for again := true; again; { // Until the callers of callers have what the last callee takes.
		again = false
		for f, decl := range r.bodies {
			before := len(r.takes[f])
			r.read(f, decl)
			again = again || len(r.takes[f]) > before
		}
	}
	return r
}

func (r *lockReader) declare(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if f := r.info.Defs[decl.Name]; f != nil && decl.Body != nil {
			r.bodies[f], r.takes[f] = decl, map[string]bool{}
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if s, is := spec.Type.(*ast.StructType); is {
					for _, field := range s.Fields.List {
						r.declareLocks(spec.Name.Name+".", field.Names, field.Type)
					}
				}
			case *ast.ValueSpec:
				r.declareLocks("", spec.Names, spec.Type)
			}
		}
	}
}

func (r *lockReader) declareLocks(of string, names []*ast.Ident, typ ast.Expr) {
	if s, is := typ.(*ast.SelectorExpr); is && strings.HasSuffix(s.Sel.Name, "Mutex") {
		for _, name := range names {
			r.locks[r.info.Defs[name]] = of + name.Name
		}
	}
}

// A holder is a function that is read: the locks that are held at a statement.
type holder struct {
	*lockReader
	f    types.Object
	held map[string]bool
}

func (r *lockReader) read(f types.Object, decl *ast.FuncDecl) {
	h := holder{r, f, map[string]bool{}}
	if r.isLocked(f) {
		for _, lock := range r.locksOf(f) {
			h.held[lock] = true
		}
	}
	h.read(decl.Body)
}

// isLocked reports whether the callers of a method hold the lock of its receiver.
func (r *lockReader) isLocked(f types.Object) bool {
	return r.bodies[f] != nil && r.bodies[f].Recv != nil && strings.HasSuffix(f.Name(), "Locked")
}

// locksOf returns the locks that the callers of a method hold whose name ends in Locked: the lock of the
// receiver, and with BothLocked also the lock of the Typed below.
func (r *lockReader) locksOf(f types.Object) []string {
	locks := []string{receiver(r.bodies[f].Recv.List[0].Type) + ".mu"}
	if strings.HasSuffix(f.Name(), "BothLocked") {
		locks = append(locks, "Typed.mu")
	}
	return locks
}

// read reads a node in the order of its parts. A block that leaves the function leaves the locks
// of the statements behind the block as they were before.
func (h holder) read(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt:
			return h.lockOf(n.Call) == "" // A deferred Unlock ends nothing here.
		case *ast.GoStmt:
			return false
		case *ast.BlockStmt:
			if last := len(n.List) - 1; last >= 0 {
				if _, leaves := n.List[last].(*ast.ReturnStmt); leaves {
					inner := holder{h.lockReader, h.f, maps.Clone(h.held)}
					for _, s := range n.List {
						inner.read(s)
					}
					return false
				}
			}
		case *ast.CallExpr:
			h.call(n)
		}
		return true
	})
}

func (h holder) call(call *ast.CallExpr) {
	if lock := h.lockOf(call); lock != "" {
		switch name := called(call).Name; {
		case strings.HasSuffix(name, "Unlock"):
			delete(h.held, lock)
		case name == "TryLock": // If TryLock fails, a call that waits for the lock follows.
		case strings.Contains(name, "Lock"): // Lock, LockSoon, LockAwake
			h.take(lock)
			h.held[lock] = true
		default: // The called function gets the lock, and gives the lock back.
			h.take(lock)
		}
	}
	name := called(call)
	if name == nil {
		return
	}
	f := h.info.Uses[name]
	if of, is := f.(*types.Func); is {
		f = of.Origin()
	}
	if h.isLocked(f) {
		h.suffixes++
		for _, lock := range h.locksOf(f) {
			if !h.held[lock] {
				h.misused[h.f.Name()+" calls "+f.Name()+" without "+lock] = true
			}
		}
	}
	for lock := range h.takes[f] {
		h.takes[h.f][lock] = true
		if !h.isLocked(f) { // Otherwise the method has noted the order itself.
			h.note(lock)
		}
	}
}

func (h holder) take(lock string) {
	if h.held[lock] && h.isLocked(h.f) {
		h.misused[h.f.Name()+" takes the lock"] = true
	}
	h.takes[h.f][lock] = true
	h.note(lock)
}

func (h holder) note(lock string) {
	for held := range h.held {
		if held == lock { // The called function gives the lock back, and takes it again.
			continue
		}
		o := order{held, lock}
		if h.orders[o] == nil {
			h.orders[o] = map[string]bool{}
		}
		h.orders[o][h.f.Name()] = true
	}
}

// lockOf returns the lock that a call locks, unlocks, or has as an argument.
func (h holder) lockOf(call *ast.CallExpr) string {
	if s, is := call.Fun.(*ast.SelectorExpr); is && strings.HasSuffix(s.Sel.Name, "ock") {
		if lock := h.named(s.X); lock != "" {
			return lock
		}
	}
	for _, arg := range call.Args {
		if address, is := arg.(*ast.UnaryExpr); is {
			if lock := h.named(address.X); lock != "" {
				return lock
			}
		}
	}
	return ""
}

// named returns the lock that an expression names.
func (h holder) named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if s := h.info.Selections[e]; s != nil {
			if field, is := s.Obj().(*types.Var); is {
				return h.locks[field.Origin()]
			}
		}
	case *ast.Ident:
		return h.locks[h.info.Uses[e]]
	}
	return ""
}

// called returns the name of the function that a call names.
func called(call *ast.CallExpr) *ast.Ident {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel
	case *ast.Ident:
		return f
	case *ast.IndexExpr:
		return called(&ast.CallExpr{Fun: f.X})
	}
	return nil
}

var quoted = regexp.MustCompile("`([\\w.]+)`")

// problems says where the section and the code disagree: a lock that the section does not have,
// locks that are taken in another order, and the functions that hold both locks of the layers.
func (r *lockReader) problems(section string) (problems []string) {
	listed, both := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(section) {
		ordered := regexp.MustCompile(`^\d+\. `).MatchString(line)
		head, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, match := range quoted.FindAllStringSubmatch(head, -1) {
			if ordered && listed[match[1]] == 0 {
				listed[match[1]] = len(listed) + 1
				break
			} else if strings.HasPrefix(line, "| `") {
				listed[match[1]] = 1000 // A leaf is taken last.
			} else if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "  ") {
				both[match[1]] = true
			}
		}
	}
	for _, lock := range r.locks {
		if listed[lock] == 0 {
			problems = append(problems, "no "+lock)
		}
	}
	for o, functions := range r.orders {
		if listed[o.held] >= listed[o.taken] {
			problems = append(problems, fmt.Sprintf("%v under %v by %v", o.taken, o.held, slices.Sorted(maps.Keys(functions))))
		}
	}
	got, want := slices.Sorted(maps.Keys(both)), slices.Sorted(maps.Keys(r.orders[order{"TypedDelaying.mu", "Typed.mu"}]))
	if !slices.Equal(got, want) {
		problems = append(problems, fmt.Sprintf("both locks: the section has %v, the code %v", got, want))
	}
	slices.SortFunc(problems, cmp.Compare)
	return problems
}

func TestArchitectureHasTheLocks(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	r := readLocks(t, fset, parseSources(t, fset))
	for _, problem := range r.problems(section(read(t, "docs/architecture.md"), "Locks")) {
		t.Error(problem)
	}
	// The suffix Locked of a method: the caller holds the lock of the receiver, or both locks.
	for problem := range r.misused {
		t.Error(problem)
	}
	if r.suffixes < 20 {
		t.Errorf("found %d calls of methods that end in Locked", r.suffixes)
	}
}

// The control of the test above.
func TestArchitectureWithOtherLocks(t *testing.T) {
	const code = `package p
import "sync"
type Typed struct { mu sync.Mutex }
type TypedDelaying struct { mu sync.Mutex; typed *Typed }
var leaf sync.Mutex
func (q *Typed) add() { q.mu.Lock(); defer q.mu.Unlock() }
func (q *TypedDelaying) direct() { q.mu.Lock(); t := q.typed; gate.LockSoon(&t.mu) }
func (q *TypedDelaying) called() { q.mu.Lock(); defer q.mu.Unlock(); q.typed.add() }
func (q *TypedDelaying) suffixLocked() { q.typed.add() }
func (q *TypedDelaying) callsSuffix() { q.mu.Lock(); q.suffixLocked() }
func (q *TypedDelaying) before() { q.mu.Lock(); q.mu.Unlock(); q.typed.add() }
func (q *TypedDelaying) left() { q.mu.Lock(); if q == nil { q.mu.Unlock(); return }; walk(&q.typed.mu) }
func (q *TypedDelaying) outside() { if q == nil { q.mu.Lock(); return }; q.suffixLocked() }
func (q *Typed) otherLocked() { q.mu.Lock() }
func (q *TypedDelaying) wholeBothLocked() { }
func (q *TypedDelaying) half() { q.mu.Lock(); q.wholeBothLocked() }
func lastLeaf(q *TypedDelaying) { leaf.Lock(); defer leaf.Unlock(); q.mu.Lock() }
func walk(mu *sync.Mutex) {}
`
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "p.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := readLocks(t, fset, []*ast.File{tree})
	if got := fmt.Sprint(slices.Sorted(maps.Keys(r.misused))); got != "[half calls wholeBothLocked without Typed.mu otherLocked takes the lock outside calls suffixLocked without TypedDelaying.mu]" {
		t.Errorf("got %s", got)
	}
	const order, both = "1. `TypedDelaying.mu`\n2. `Typed.mu` of `b`\n", "- `called`,\n  `direct`, `left`, `suffixLocked`\n"
	for text, want := range map[string]string{
		"1. `leaf`\n2. `TypedDelaying.mu`\n3. `Typed.mu`\n" + both: "[]",
		order + both + "| `leaf` | x |\n":                          "[TypedDelaying.mu under leaf by [lastLeaf]]",
		"1. `leaf`\n" + order + "- `called`\n":                     "[both locks: the section has [called], the code [called direct left suffixLocked]]",
		"1. `leaf`\n2. `Typed.mu`\n3. `TypedDelaying.mu`\n" + both: "[Typed.mu under TypedDelaying.mu by [called direct left suffixLocked]]",
		"1. `TypedDelaying.mu`\n2. `Typed.mu`\n" + both:            "[no leaf]",
	} {
		if got := fmt.Sprint(r.problems(text)); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
