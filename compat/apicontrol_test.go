package compat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// controlAPI has one declaration of every kind that client-go's workqueue exports, and some of
// other kinds, so each rule has something to break.
const controlAPI = `package workqueue

const Limit = 3

var Retries int

type Work func(piece int)

type options struct{ chunk int }

type Options func(*options)

func WithChunk(c int) func(*options) { return nil }

func Spread(workers int, work Work, opts ...Options) {}

func Make[T comparable](name string) *Typed[T] { return nil }

type Clock struct{}

func (Clock) Now() int { return 0 }

type Config[T comparable] struct {
	Name  string
	Clock *Clock
	Queue Queue[T]
}

type Bucket[T comparable] struct{ *Clock }

type Typed[T comparable] struct{ items []T }

func (q *Typed[T]) Add(item T) {}
func (q *Typed[T]) Get() (item T, done bool) { return }

type Type = Typed[any]

type Capped[T comparable] struct{}

func (c Capped[T]) When(item T) int { return 0 }

type Queue[T comparable] interface {
	Push(item T)
	Pop() (item T)
}

type Interface Queue[any]

type Number interface{ ~int | float64 }

type Key interface{ comparable }

type Shapes map[string][]chan [2]*Clock
`

// differences are edits of controlAPI that break some caller.
var differences = []struct{ situation, old, new, want string }{
	{"func missing", "func WithChunk(c int) func(*options) { return nil }", "", "WithChunk: missing func"},
	{"type missing", "type Number interface{ ~int | float64 }", "", "Number: missing type"},
	{"alias missing", "type Type = Typed[any]", "", "Type: missing alias"},
	{"const missing", "const Limit = 3", "", "Limit: missing const"},
	{"var missing", "var Retries int", "", "Retries: missing var"},
	{"var instead of func", "func WithChunk(c int) func(*options) { return nil }", "var WithChunk func(int) func(*options)", "WithChunk: want func, got var"},
	{"const instead of var", "var Retries int", "const Retries = 1", "Retries: want var, got const"},
	{"func instead of type", "type Number interface{ ~int | float64 }", "func Number() {}", "Number: want type, got func"},
	{"defined type instead of alias", "type Type = Typed[any]", "type Type Typed[any]", "Type: want alias, got type"},
	{"alias instead of defined type", "type Interface Queue[any]", "type Interface = Queue[any]", "Interface: want type, got alias"},
	{"alias of something else", "type Type = Typed[any]", "type Type = Typed[string]", "Type: want Typed[any], got Typed[string]"},
	{"const value", "Limit = 3", "Limit = 4", "Limit: want value 3, got 4"},
	{"const type", "Limit = 3", "Limit int = 3", "Limit: want untyped int, got int"},
	{"var type", "Retries int", "Retries int64", "Retries: want int, got int64"},
	{"parameter type", "(workers int,", "(workers int32,", "Spread: want func(workers int, work Work, opts ...Options), got func(workers int32, work Work, opts ...Options)"},
	{"parameter added", "WithChunk(c int)", "WithChunk(c, d int)", "WithChunk: want func(c int) func(*options), got func(c int, d int) func(*options)"},
	{"slice instead of variadic", "opts ...Options", "opts []Options", "Spread: want func(workers int, work Work, opts ...Options), got func(workers int, work Work, opts []Options)"},
	{"result type", "(name string) *Typed[T] { return nil }", "(name string) Queue[T] { return nil }", "Make: want func[T comparable](name string) *Typed[T], got func[T comparable](name string) Queue[T]"},
	{"result type argument", "(name string) *Typed[T]", "(name string) *Typed[int]", "Make: want func[T comparable](name string) *Typed[T], got func[T comparable](name string) *Typed[int]"},
	{"defined func type", "type Work func(piece int)", "type Work func(piece int) error", "Work: want underlying func(piece int), got func(piece int) error"},
	{"composite type", "[]chan [2]*Clock", "[]<-chan [2]*Clock", "Shapes: want underlying map[string][]chan [2]*Clock, got map[string][]<-chan [2]*Clock"},
	{"array length", "[]chan [2]*Clock", "[]chan [3]*Clock", "Shapes: want underlying map[string][]chan [2]*Clock, got map[string][]chan [3]*Clock"},
	{"struct instead of func", "type Work func(piece int)", "type Work struct{}", "Work: want underlying func(piece int), got struct{}"},
	{"type parameter added", "Make[T comparable]", "Make[T comparable, U any]", "Make: want 1 type parameters, got 2"},
	{"constraint of a func", "Make[T comparable](name string) *Typed[T]", "Make[T interface{ comparable; String() string }](name string) *Typed[T]", "Make: want type parameter 0 constrained by comparable, got interface{String() string; comparable}"},
	{"constraint of a type", "type Capped[T comparable] struct{}", "type Capped[T any] struct{}", "Capped: want type parameter 0 constrained by comparable, got any"},
	{"union", "~int | float64", "int | float64", "Number: want interface{~int | float64}, got interface{int | float64}"},
	{"field missing", "\tName  string\n", "", "Config: missing field Name"},
	{"field unexported", "\tName  string\n", "\tname  string\n", "Config: missing field Name"},
	{"field type", "Queue Queue[T]", "Queue Interface", "Config: field Queue: want Queue[T], got Interface"},
	{"field no longer a pointer", "Clock *Clock", "Clock Clock", "Config: field Clock: want *Clock, got Clock"},
	{"field no longer embedded", "struct{ *Clock }", "struct{ Clock *Clock }\n\nfunc (b Bucket[T]) Now() int { return 0 }", "Bucket: field Clock: want embedded true, got false"},
	{"values no longer comparable", "Queue Queue[T]\n}", "Queue Queue[T]\n\tskip []T\n}", "Config: values can be compared with ==, ours cannot"},
	{"method missing", "func (q *Typed[T]) Add(item T) {}", "", "Typed: missing method Add"},
	{"method unexported", "func (q *Typed[T]) Add(item T) {}", "func (q *Typed[T]) add(item T) {}", "Typed: missing method Add"},
	{"promoted method missing", "func (Clock) Now() int { return 0 }", "func (b Bucket[T]) Now() int { return 0 }", "Clock: missing method Now"},
	{"method signature", "Get() (item T, done bool) { return }", "Get() (item T, err error) { return }", "Typed: method Get: want func() (item T, done bool), got func() (item T, err error)"},
	{"pointer receiver instead of value", "func (c Capped[T]) When", "func (c *Capped[T]) When", "Capped: method When: want it on values, got it on pointers only"},
	{"interface method missing", "\tPop() (item T)\n", "", "Queue: missing method Pop"},
	{"interface method added", "\tPop() (item T)\n", "\tPop() (item T)\n\tPeek() T\n", "Queue: method Peek added to an interface"},
	{"unexported interface method added", "\tPop() (item T)\n", "\tPop() (item T)\n\tpeek()\n", "Queue: method peek added to an interface"},
	{"interface method signature", "\tPop() (item T)\n", "\tPop() (item *T)\n", "Queue: method Pop: want func() (item T), got func() (item *T)"},
	{"interface no longer comparable", "interface{ comparable }", "interface{ any }", "Key: want interface{comparable}, got interface{any}"},
}

// TestAPIComparisonReportsEachDifference is the control of TestAPI: a comparison that never fails
// would pass TestAPI too. Each row plants one difference, and names the one line of the report.
func TestAPIComparisonReportsEachDifference(t *testing.T) {
	for _, tt := range differences {
		t.Run(tt.situation, func(t *testing.T) {
			missed, _ := compareAPI(check(t, theirPath, controlAPI), check(t, ourPath, plant(t, tt.old, tt.new)))
			// Queue declares Interface, so a difference there shows twice.
			if strings.HasPrefix(tt.want, "Queue: ") {
				missed = withoutPrefix(missed, "Interface: ")
			}
			if len(missed) != 1 || missed[0] != tt.want {
				t.Errorf("got %d lines:\n\t%s\nwant one:\n\t%s", len(missed), strings.Join(missed, "\n\t"), tt.want)
			}
		})
	}
}

// TestAPIComparisonAcceptsWhatCallersCannotSee is the other half: rows without a report, with the
// additions that must be listed.
func TestAPIComparisonAcceptsWhatCallersCannotSee(t *testing.T) {
	tests := []struct{ situation, old, new, added string }{
		{"the same", "", "", ""},
		{"parameter names", "Spread(workers int, work Work, opts ...Options)", "Spread(n int, f Work, o ...Options)", ""},
		{"unnamed results", "Get() (item T, done bool) { return }", "Get() (T, bool) { panic(0) }", ""},
		{"letters of type parameters", "func Make[T comparable](name string) *Typed[T]", "func Make[Key comparable](name string) *Typed[Key]", ""},
		{"letters in a receiver", "func (q *Typed[T]) Add(item T) {}", "func (q *Typed[Key]) Add(item Key) {}", ""},
		{"alias of a named type", "Clock *Clock\n\tQueue Queue[T]\n}", "Clock *clock\n\tQueue Queue[T]\n}\n\ntype clock = Clock", ""},
		{"any and interface{}", "type Type = Typed[any]", "type Type = Typed[interface{}]", ""},
		{"unexported fields", "items []T", "records map[T]int", ""},
		{"order of fields", "Name  string\n\tClock *Clock\n", "Clock *Clock\n\tName  string\n", ""},
		{"order of methods", "\tPush(item T)\n\tPop() (item T)\n", "\tPop() (item T)\n\tPush(item T)\n", ""},
		{"value receiver instead of pointer", "func (q *Typed[T]) Add", "func (q Typed[T]) Add", ""},
		{"new name", "const Limit = 3", "const Limit = 3\n\nfunc Run() {}", "func Run"},
		{"new field", "Name  string\n", "Name  string\n\tCancel bool\n", "field Config.Cancel"},
		{"new method", "func (q *Typed[T]) Add(item T) {}", "func (q *Typed[T]) Add(item T) {}\nfunc (q *Typed[T]) AddAll(items ...T) {}", "method Typed.AddAll"},
	}
	for _, tt := range tests {
		t.Run(tt.situation, func(t *testing.T) {
			missed, added := compareAPI(check(t, theirPath, controlAPI), check(t, ourPath, plant(t, tt.old, tt.new)))
			if len(missed) != 0 {
				t.Errorf("got differences:\n\t%s\nwant none", strings.Join(missed, "\n\t"))
			}
			if got := strings.Join(added, ", "); got != tt.added {
				t.Errorf("got additions %q, want %q", got, tt.added)
			}
		})
	}
}

// plant insists that the edit changes controlAPI: otherwise a row would compare controlAPI with
// itself.
func plant(t *testing.T, old, new string) string {
	t.Helper()
	if old != "" && strings.Count(controlAPI, old) != 1 {
		t.Fatalf("controlAPI has %d times %q, want 1", strings.Count(controlAPI, old), old)
	}
	return strings.Replace(controlAPI, old, new, 1)
}

func check(t *testing.T, path, source string) *types.Package {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "api.go", source, 0)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	pkg, err := new(types.Config).Check(path, files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return pkg
}

func withoutPrefix(lines []string, prefix string) (kept []string) {
	for _, line := range lines {
		if !strings.HasPrefix(line, prefix) {
			kept = append(kept, line)
		}
	}
	return kept
}
