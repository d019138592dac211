package workqueue_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// What is written about the package, beside the code that it is about: the rows of
// docs/differences.md and docs/semantics.md, and the package comment.

const repository = "https://github.com/seed16c08ea7/workqueue/blob/main/"

// A suite is the tests that there are, and those that a page has to name.
type suite struct {
	names map[string]bool // those of compat with "compat." before them
	must  map[string]bool // tests of differences
	// oneOf has, for each file of compat that insists on what client-go does, its
	// tests. The page has to name one of them.
	oneOf map[string][]string
}

var (
	testName = regexp.MustCompile("`((?:compat\\.)?(?:Test|Example)\\w+)`")
	reported = regexp.MustCompile(`_(kubernetes|controllerruntime|tidb)?\d+$|_D\d+$`)
)

// rowsOf returns the rows of all tables of a page, without their heads.
func rowsOf(page string) (rows []string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|-")
		if strings.HasPrefix(line, "| ") && !head {
			rows = append(rows, line)
		}
	}
	return rows
}

// section returns what follows a heading, up to the next one.
func section(page, heading string) string {
	_, rest, _ := strings.Cut(page, "\n## "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func cellsOf(row string) (cells []string) {
	for _, cell := range strings.Split(strings.Trim(row, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func namesIn(text string) (names []string) {
	for _, match := range testName.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// missing says which tests a page names that there are not.
func (s suite) missing(page string) (problems []string) {
	for _, name := range namesIn(page) {
		if !s.names[name] {
			problems = append(problems, fmt.Sprintf("there is no test %s", name))
		}
	}
	return problems
}

// problems says where a page of differences and the tests disagree.
func (s suite) problems(page string) []string {
	problems := s.missing(page)
	inRow := map[string]bool{}
	for _, row := range rowsOf(page) {
		cells := cellsOf(row)
		named := namesIn(cells[len(cells)-1])
		if len(named) == 0 {
			problems = append(problems, fmt.Sprintf("no test in the row %q", row))
		}
		for _, name := range named {
			inRow[name] = true
		}
	}
	for name := range s.must {
		if !inRow[name] {
			problems = append(problems, fmt.Sprintf("no row has the test %s", name))
		}
	}
	for file, names := range s.oneOf {
		if !slices.ContainsFunc(names, func(name string) bool { return inRow[name] }) {
			problems = append(problems, fmt.Sprintf("no row has a test of %s", file))
		}
	}
	slices.Sort(problems)
	return problems
}

func TestDifferencesAreThoseOfTheTests(t *testing.T) {
	t.Parallel()
	for _, problem := range parseSuite(t).problems(read(t, "docs/differences.md")) {
		t.Error(problem)
	}
}

// The control of the test above: what it has to find.
func TestDifferencesThatAreNotThoseOfTheTests(t *testing.T) {
	s := suite{
		names: map[string]bool{"TestA": true, "TestB": true, "compat.TestA": true, "compat.TestC": true},
		must:  map[string]bool{"TestA": true},
		oneOf: map[string][]string{"compat/c_test.go": {"compat.TestA", "compat.TestC"}},
	}
	const head, whole = "| client-go | here | tests |\n|---|---|---|\n", "| x | y | `TestA`, `compat.TestA` |\n"
	for name, row := range map[string]struct {
		page string
		want string
	}{
		"nothing":              {head + whole, "[]"},
		"a missing test":       {head + whole + "| x | y | `TestZ` |\n", "[there is no test TestZ]"},
		"of another module":    {head + whole + "| x | y | `compat.TestB` |\n", "[there is no test compat.TestB]"},
		"a row without a test": {head + whole + "| x | y | |\n", "[no test in the row \"| x | y | |\"]"},
		"a test without a row": {head + "| x | y | `compat.TestC` |\n", "[no row has the test TestA]"},
		"named in another cell": {head + "| x | `TestA` | `compat.TestC` |\n",
			"[no row has the test TestA]"},
		"named outside of the table": {"`TestA`\n\n" + head + "| x | y | `compat.TestC` |\n", "[no row has the test TestA]"},
		"a file without a row":       {head + "| x | y | `TestA` |\n", "[no row has a test of compat/c_test.go]"},
	} {
		if got := fmt.Sprint(s.problems(row.page)); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
}

// Each test that is named after a report of a bug is in a row of the differences, or
// in the list of the bugs of other queues, whose tests there are.
func TestReportedBugsAreListed(t *testing.T) {
	t.Parallel()
	s := parseSuite(t)
	list, _, _ := strings.Cut(read(t, "upstream_bugs_test.go"), "\nfunc ")
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(list, -1) {
		listed[name] = true
		if !s.names[name] {
			t.Errorf("upstream_bugs_test.go: there is no test %s", name)
		}
	}
	for _, name := range namesIn(read(t, "docs/differences.md")) {
		listed[name] = true
	}
	for name := range s.names {
		if reported.MatchString(name) && !listed[name] {
			t.Errorf("%s is in no list", name)
		}
	}
}

// parseSuite reads the names of the tests, and which of them are about differences:
// those of upstream_differences_test.go, and those of compat that say so.
func parseSuite(t *testing.T) suite {
	t.Helper()
	if _, err := os.Stat("compat"); err != nil {
		t.Skip("a module in the cache has no other module in it")
	}
	theSuite.once.Do(func() { theSuite.suite = readSuite(t) })
	if theSuite.suite.names == nil {
		t.Fatal("the tests were not read, see the test that failed first")
	}
	return theSuite.suite
}

// The files are parsed once for all tests that ask: under the race detector it takes 0.2 s.
var theSuite struct {
	once  sync.Once
	suite suite
}

func readSuite(t *testing.T) suite {
	t.Helper()
	s := suite{names: map[string]bool{}, must: map[string]bool{}, oneOf: map[string][]string{}}
	for dir, prefix := range map[string]string{"*": "", "compat/*": "compat."} {
		files, err := filepath.Glob(dir + "_test.go")
		if err != nil || len(files) < 10 {
			t.Fatalf("got %d files, %v", len(files), err)
		}
		for _, file := range files {
			s.addFile(t, file, prefix)
		}
	}
	return s
}

func (s suite) addFile(t *testing.T, file, prefix string) {
	tree := parse(t, file)
	var names []string
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		name := prefix + f.Name.Name
		names = append(names, name)
		s.names[name] = true
		if file == "upstream_differences_test.go" || prefix != "" && strings.HasSuffix(name, "Differences") {
			s.must[name] = true
		}
	}
	if len(names) > 0 && insists(tree) {
		s.oneOf[file] = names
	}
}

// insists reports whether a file of compat has a step with another outcome for
// client-go.
func insists(tree *ast.File) (found bool) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			key, ok := pair.Key.(*ast.Ident)
			found = found || ok && key.Name == "upstream"
		}
		return true
	})
	return found
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// The table of calls and states has the rows and cells that are played.
func TestSemanticsOfCallsAndStates(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/semantics.md")
	for _, problem := range parseSuite(t).missing(page) {
		t.Error(problem)
	}
	var played []string
	for _, r := range interplay {
		played = append(played, fmt.Sprintf("| %s |", strings.Join([]string{r.call, r.idle, r.waiting, r.queued, r.inFlight, r.again, r.held}, " | ")))
	}
	written := rowsOf(section(page, "Taking back and putting off"))
	if !slices.Equal(written, played) {
		t.Errorf("the page has\n%s\nand the test\n%s", strings.Join(written, "\n"), strings.Join(played, "\n"))
	}
	var calls []string
	for _, call := range aboveBare {
		says := "works"
		if strings.HasPrefix(call.want, "panics") {
			says = call.want
		}
		calls = append(calls, call.call+": "+says)
	}
	for i, row := range rowsOf(section(page, "Above a queue of another make")) {
		cells := cellsOf(row)
		says, _, _ := strings.Cut(cells[2], ",")
		if got := cells[0] + ": " + says; i >= len(calls) || got != calls[i] {
			t.Errorf("row %d: the page has %s, and the test %q", i, got, calls)
		}
	}
	for _, row := range rowsOf(section(page, "Looks wrong, but is intended")) {
		if cells := cellsOf(row); len(namesIn(cells[len(cells)-1])) == 0 {
			t.Errorf("no test in the row %q", row)
		}
	}
}

// The table of limiters has each of them.
func TestSemanticsHasEachLimiter(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, typ := range packageDoc(t).Types {
		if name := typ.Name; strings.HasPrefix(name, "Typed") && strings.HasSuffix(name, "RateLimiter") && name != "TypedRateLimiter" {
			want = append(want, name)
		}
	}
	name := regexp.MustCompile("^\\| `(\\w+)` ")
	for _, row := range rowsOf(section(read(t, "docs/semantics.md"), "What is limited by what")) {
		if match := name.FindStringSubmatch(row); match != nil {
			got = append(got, match[1])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the page has %q, and the package %q", got, want)
	}
}

// The package comment is read in one sitting, and its links lead somewhere.
func TestPackageCommentIsShort(t *testing.T) {
	text := read(t, "doc.go")
	if n := strings.Count(text, "\n"); n > 250 {
		t.Errorf("it has %d lines, want at most 250", n)
	}
	links := regexp.MustCompile(`https?://[\w./#-]*\w`).FindAllString(text, -1)
	for _, link := range links {
		file, found := strings.CutPrefix(link, repository)
		if _, err := os.Stat(file); !found || err != nil {
			t.Errorf("%s leads nowhere: %v", link, err)
		}
	}
	if len(links) < 2 {
		t.Errorf("it has the links %q, want those to the two pages", links)
	}
}

// The package comment has the series that the provider exports.
func TestPackageCommentHasTheSeries(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
	defer q.ShutDown()
	if err := workqueue.Run(canceled(), q, replies(), runOptions{KeepQueue: true}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("got %d families, %v", len(families), err)
	}
	text := read(t, "doc.go")
	_, text, _ = strings.Cut(text, "# Metrics")
	text, _, _ = strings.Cut(text, "# Foreign code")
	for _, f := range families {
		if name := strings.TrimPrefix(f.GetName(), "workqueue_"); !strings.Contains(text, "//\t"+name+" ") {
			t.Errorf("it does not have %s", name)
		}
	}
	if n := strings.Count(text, "//\t"); n != len(families) {
		t.Errorf("it has %d series, want %d", n, len(families))
	}
}

// packageDoc is what `go doc -all` prints. It is read once for all tests, which must not
// change it.
func packageDoc(t *testing.T) *doc.Package {
	t.Helper()
	thePackage.once.Do(func() { thePackage.doc = readPackage(t) })
	if thePackage.doc == nil {
		t.Fatal("the package was not read, see the test that failed first")
	}
	return thePackage.doc
}

var thePackage struct {
	once sync.Once
	doc  *doc.Package
}

func readPackage(t *testing.T) *doc.Package {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var trees []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	p, err := doc.NewFromFiles(fset, trees, "github.com/seed16c08ea7/workqueue")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A paragraph is a public text, with the name of what it is about.
type paragraph struct{ about, text string }

// texts returns all of them.
func texts(p *doc.Package) []paragraph {
	all := []paragraph{{"the package", p.Doc}}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			all = append(all, paragraph{strings.Join(v.Names, ", "), v.Doc + comments(v.Decl)})
		}
	}
	functions := func(of string, fs []*doc.Func) {
		for _, f := range fs {
			all = append(all, paragraph{of + f.Name, f.Doc})
		}
	}
	values(slices.Concat(p.Consts, p.Vars))
	functions("", p.Funcs)
	for _, typ := range p.Types {
		all = append(all, paragraph{typ.Name, typ.Doc + comments(typ.Decl)})
		values(slices.Concat(typ.Consts, typ.Vars))
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
	}
	return all
}

// comments returns those within a declaration, which has no more than its exported
// fields and names.
func comments(decl *ast.GenDecl) string {
	var b strings.Builder
	ast.Inspect(decl, func(n ast.Node) bool {
		if group, ok := n.(*ast.CommentGroup); ok && group != decl.Doc {
			b.WriteString("\n" + group.Text())
		}
		return true
	})
	return b.String()
}

// unexported returns the names that nobody outside can know: those of types,
// functions, methods, fields, variables and constants. It leaves out the parameters
// of public functions, which their documentation names, and names in lower case
// alone, which cannot be told from other words.
func unexported(t *testing.T) map[string]bool {
	names := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	public := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, decl := range parse(t, file).Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					names[n.Name.Name] = true
					if n.Name.IsExported() {
						for _, fields := range []*ast.FieldList{n.Type.Params, n.Type.Results} {
							addFields(public, fields)
						}
					}
					return false
				case *ast.TypeSpec:
					names[n.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range n.Names {
						names[name.Name] = true
					}
				case *ast.StructType:
					addFields(names, n.Fields)
				}
				return true
			})
		}
	}
	for name := range names {
		if ast.IsExported(name) || public[name] || strings.ToLower(name) == name {
			delete(names, name)
		}
	}
	return names
}

func addFields(names map[string]bool, fields *ast.FieldList) {
	if fields == nil {
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			names[name.Name] = true
		}
	}
}

// privacies returns the names in a text that are of no use to its reader: those
// that are hidden, and members in lower case of one of the public types.
func privacies(text string, hidden, types map[string]bool) (found []string) {
	for _, word := range regexp.MustCompile(`[A-Za-z_][\w.]*`).FindAllString(text, -1) {
		word = strings.TrimRight(word, ".")
		owner, member, dotted := strings.Cut(word, ".")
		if hidden[word] || dotted && types[owner] && member != "" && !ast.IsExported(member) {
			found = append(found, word)
		}
	}
	return found
}

// Whoever reads the documentation has not read the code.
func TestPublicTextsNameNothingPrivate(t *testing.T) {
	t.Parallel()
	p := packageDoc(t)
	hidden, types := unexported(t), map[string]bool{}
	for _, typ := range p.Types {
		types[typ.Name] = true
	}
	for _, text := range texts(p) {
		for _, word := range privacies(text.text, hidden, types) {
			t.Errorf("%s: the text names %s", text.about, word)
		}
	}
	const control = "See waitingLoop, and the comment on Typed.wake. Typed.Add and stopCh are known. Typed. It"
	if got := fmt.Sprint(privacies(control, hidden, types)); got != "[waitingLoop Typed.wake]" {
		t.Errorf("got %s of the control", got)
	}
}

// In client-go, tools such as staticcheck do not see all of them. They look for a
// paragraph that begins with "Deprecated: ".
func TestDeprecatedNamesAreMarked(t *testing.T) {
	t.Parallel()
	marked := 0
	for _, text := range texts(packageDoc(t)) {
		if strings.HasPrefix(text.text, "Deprecated: use ") || strings.Contains(text.text, "\n\nDeprecated: use ") {
			marked++
		} else if strings.Contains(strings.ToLower(text.text), "deprecated") {
			t.Errorf("%s is not marked such that tools see it: %q", text.about, text.text)
		}
	}
	if marked != 32 {
		t.Errorf("%d names are marked, want 32", marked)
	}
}

// In client-go, only the first ShutDown of a delaying queue gets to the queue below,
// and the drain hangs until the last Done.
func TestSecondShutDownEndsADrain(t *testing.T) {
	timeline(t, newDelaying,
		step{"add a", ""}, step{"get", "a"}, step{"shutdown", ""}, step{"d: drain", "blocks"},
		step{"shutdown", ""}, step{"d: returns", ""}, step{"done a", ""})
}
