package workqueue_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Checks of the texts about the package: the rows of tables, the package comment, and the code,
// links and names on all pages.

const repository = "https://github.com/seed16c08ea7/workqueue/blob/main/"

// A suite has the names of all tests, and of the tests that a page has to name.
type suite struct {
	names map[string]bool // with "compat." or "wait." before the tests of these packages
	must  map[string]bool // tests of differences
	// oneOf has the tests of each file of compat that insists on the behaviour of client-go. The
	// page has to name one test of each file.
	oneOf map[string][]string
}

var (
	testName = regexp.MustCompile("`((?:(?:compat|adapted|wait)\\.)?(?:Test|Example)\\w+)`")
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

// section returns the text between a heading and the next heading.
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

// problems returns where a page of differences and the tests disagree.
func (s suite) problems(page string) (problems []string) {
	inRow := map[string]bool{}
	for _, row := range rowsOf(page) {
		cells := cellsOf(row)
		named := namesIn(cells[len(cells)-1])
		if len(named) == 0 {
			problems = append(problems, fmt.Sprintf("no test in the row %q", row))
		}
		for _, name := range named {
			inRow[name] = true
			if !s.names[name] {
				problems = append(problems, "there is no test "+name)
			}
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

// The control of the test above.
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

// Each test that is named after a report of a bug is in a row of the differences, or in the list of
// the bugs of other queues. Each test in that list exists.
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

// readsTexts skips a test under the race detector. A test that reads texts is one goroutine, so the
// race detector has nothing to find, and takes seconds longer.
func readsTexts(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("texts have no races")
	}
}

// parseSuite reads the tests once for all tests that ask.
func parseSuite(t *testing.T) suite {
	t.Helper()
	readsTexts(t)
	if _, err := os.Stat("compat"); err != nil {
		t.Skip("a module in the cache has no other module in it")
	}
	s, err := theSuite()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var theSuite = sync.OnceValues(func() (suite, error) {
	s := suite{names: map[string]bool{}, must: map[string]bool{}, oneOf: map[string][]string{}}
	for dir, prefix := range map[string]string{"*": "", "compat/*": "compat.", "compat/adapted/*/*": "adapted.", "wait/*": "wait."} {
		files, err := filepath.Glob(dir + "_test.go")
		if err != nil || len(files) < 3 {
			return s, fmt.Errorf("%d files in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			tree, err := parseFile(file)
			if err != nil {
				return s, err
			}
			s.addFile(file, tree, prefix)
		}
	}
	return s, nil
})

// addFile adds the tests of a file. A page has to name those of upstream_differences_test.go, and
// those of compat whose names end in Differences.
func (s suite) addFile(file string, tree *ast.File, prefix string) {
	var names []string
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		name := prefix + f.Name.Name
		names = append(names, name)
		s.names[name] = true
		if file == "upstream_differences_test.go" || prefix == "compat." && strings.HasSuffix(name, "Differences") {
			s.must[name] = true
		}
	}
	if len(names) > 0 && insists(tree) {
		s.oneOf[file] = names
	}
}

// insists reports whether a file of compat has a step with another outcome for client-go.
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

func parseFile(file string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// sources returns the files of a package without its tests.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// exportedIn returns the exported functions and methods of a package, by file.
func exportedIn(t *testing.T, dir string) map[string][]*ast.FuncDecl {
	t.Helper()
	all := map[string][]*ast.FuncDecl{}
	for _, file := range sources(t, dir) {
		all[file] = nil
		for _, decl := range parse(t, file).Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Name.IsExported() {
				all[file] = append(all[file], f)
			}
		}
	}
	return all
}

// The page says what works above a queue of another make, and each row about what looks wrong has a test.
func TestSemanticsAboveOtherQueues(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/semantics.md")
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
func TestChoosingHasEachLimiter(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, typ := range packageDoc(t).Types {
		if name := typ.Name; strings.HasPrefix(name, "Typed") && strings.HasSuffix(name, "RateLimiter") && name != "TypedRateLimiter" {
			want = append(want, name)
		}
	}
	name := regexp.MustCompile("^\\| `(\\w+)` ")
	for _, row := range rowsOf(section(read(t, "docs/choosing.md"), "Which limiter")) {
		if match := name.FindStringSubmatch(row); match != nil {
			got = append(got, match[1])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the page has %q, and the package %q", got, want)
	}
	typeOf := regexp.MustCompile(`workqueue\.(\w+)\[`)
	tested := map[string]bool{}
	for _, l := range allLimiters[int]() {
		tested[typeOf.FindStringSubmatch(fmt.Sprintf("%T", l))[1]] = true
	}
	if got := slices.Sorted(maps.Keys(tested)); !slices.Equal(got, want) {
		t.Errorf("allLimiters has %q, and the package %q", got, want)
	}
}

// The package comment is read in one sitting, and its links lead somewhere.
func TestPackageCommentIsShort(t *testing.T) {
	text := read(t, "doc.go")
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("it has %d lines, want at most 150", n)
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

// The page has the series that the provider exports.
func TestMetricsHasTheSeries(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
	defer q.ShutDown()
	if err := workqueue.Run(canceled(), q, replies(), runOptions{AtEnd: workqueue.EndKeep}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("got %d families, %v", len(families), err)
	}
	text := section(read(t, "docs/metrics.md"), "The series")
	for _, f := range families {
		if name := strings.TrimPrefix(f.GetName(), "workqueue_"); !strings.Contains(text, "\n| `"+name+"` |") {
			t.Errorf("it does not have %s", name)
		}
	}
	if n := strings.Count(text, "\n| `"); n != len(families)+3 { // depth_by_priority without a priority, and the two series of a Pace.
		t.Errorf("it has %d rows, want %d", n, len(families)+3)
	}
}

// The page has the lines that Run logs, and no others.
func TestOperatingHasTheLog(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`"((?:Run|Handler|Item|On[A-Z]\w+) [^"%:]+)"`)
	logged, told := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"run.go", "run_end.go", "run_outcome.go", "run_worker.go"} {
		for _, match := range line.FindAllStringSubmatch(read(t, file), -1) {
			logged[match[1]] = true
		}
	}
	for _, row := range rowsOf(section(read(t, "docs/operating.md"), "The log")) {
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cellsOf(row)[0], -1) {
			told[match[1]] = true
		}
	}
	if !maps.Equal(logged, told) || len(logged) < 9 {
		t.Errorf("Run logs %q, the page has %q", slices.Sorted(maps.Keys(logged)), slices.Sorted(maps.Keys(told)))
	}
}

// packageDoc returns what `go doc -all` prints. The package is read once for all tests, which must
// not change the result.
func packageDoc(t *testing.T) *doc.Package {
	t.Helper()
	readsTexts(t)
	thePackage.once.Do(func() {
		fset := token.NewFileSet()
		p, err := doc.NewFromFiles(fset, parseSources(t, fset), "github.com/seed16c08ea7/workqueue")
		if err != nil {
			t.Fatal(err)
		}
		thePackage.doc = p
	})
	if thePackage.doc == nil {
		t.Fatal("the package was not read, see the test that failed first")
	}
	return thePackage.doc
}

var thePackage struct {
	once sync.Once
	doc  *doc.Package
}

func parseSources(t *testing.T, fset *token.FileSet) (trees []*ast.File) {
	t.Helper()
	for _, file := range sources(t, ".") {
		tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	return trees
}

// A paragraph is a public text, with the name of what it is about.
type paragraph struct{ about, text string }

// texts returns all public texts.
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

// comments returns the comments within a declaration, which has only exported fields and names.
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

// unexported returns the names of types, functions, methods, fields, variables and constants that
// nobody outside can know. It leaves out the parameters of public functions, which their
// documentation names, and names in lower case, which look like other words.
func unexported(t *testing.T) map[string]bool {
	names := map[string]bool{}
	public := map[string]bool{}
	for _, file := range sources(t, ".") {
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

// privacies returns the names in a text that are of no use to its reader: hidden names, and members
// in lower case of a public type.
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

// Readers of the documentation have not read the code.
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

// Tools such as staticcheck look for a paragraph that begins with "Deprecated: ", and miss some
// deprecated names of client-go.
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

// Our options are structs: no function returns an option, and no constructor exists for one option.
// The functions of client-go are exempt.
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

// Go on a page stands between ```go and ```, and its lines stand together in a Go file of the tree,
// which a test of its module compiles. A line "..." leaves lines out. Nobody would check Go that is
// indented, or between other fences.
func TestPagesHaveCodeThatCompiles(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	var sources []string
	for path := range all.files {
		if strings.HasSuffix(path, ".go") && strings.Contains(path, "/") || strings.HasSuffix(path, "_test.go") {
			if text, err := os.ReadFile(path); err == nil {
				sources = append(sources, dedented(string(text)))
			}
		}
	}
	blocks := 0
	for _, path := range slices.Sorted(maps.Keys(all.pages)) {
		n, problems := codeProblems(all.pages[path], sources)
		blocks += n
		for _, problem := range problems {
			t.Errorf("%s: %s", path, problem)
		}
	}
	if n := strings.Count(all.pages["README.md"], "\n"); n > 120 {
		t.Errorf("README.md has %d lines, want 120 at most", n)
	}
	if blocks < 10 {
		t.Errorf("found %d blocks of Go", blocks)
	}
}

// The control of the test above.
func TestPagesWithCodeOfNobody(t *testing.T) {
	sources := []string{dedented("func f() {\n\ta()\n\tb()\n\tc()\n}\n")}
	for page, want := range map[string]string{
		"```go\na()\nb()\n```\n":          "[]",
		"```go\na()\n...\nc()\n```\n":     "[]",
		"```go\na()\nc()\n```\n":          "[no Go file has the lines that begin with a()]",
		"```go\nc()\n...\na()\n```\n":     "[no Go file has the lines that begin with c()]",
		"```\nx := y()\n```\n":            "[not between ```go and ```: x := y()]",
		"Text.\n\n    if x {\n":           "[not between ```go and ```: if x {]",
		"```console\n$ echo '{'\n```\n":   "[]",
		"Text with `x := 1` in a line.\n": "[]",
	} {
		if _, got := codeProblems(page, sources); fmt.Sprint(got) != want {
			t.Errorf("%q: got %q, want %s", page, got, want)
		}
	}
}

var looksLikeGo = regexp.MustCompile(`:= |\bfunc\b.*\{|^(?:if|for|return|type|var) .*\{$|\bworkqueue\.\w+[\[({]`)

// codeProblems returns the number of blocks of Go on a page, and what is wrong with them.
func codeProblems(page string, sources []string) (blocks int, problems []string) {
	fence, code := "", ""
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		switch opens := strings.HasPrefix(text, "```"); {
		case opens && fence == "":
			fence, code = text, ""
		case opens && fence == "```go":
			blocks++
			// The test in docs/migrating.md fails where nothing is swapped: compat compiles the test.
			guard := strings.HasPrefix(code, "func TestQueuesAreSwapped(")
			if !guard && !slices.ContainsFunc(sources, func(source string) bool { return hasInOrder(source, code) }) {
				first, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
				problems = append(problems, "no Go file has the lines that begin with "+first)
			}
			fence = ""
		case opens:
			fence = ""
		case fence == "```go":
			code += text + "\n"
		case (fence == "```" || fence == "" && strings.HasPrefix(line, "    ")) && looksLikeGo.MatchString(text):
			problems = append(problems, "not between ```go and ```: "+text)
		}
	}
	return blocks, problems
}

// hasInOrder reports whether a source has the parts of a code, which are separated by "...",
// one after the other.
func hasInOrder(source, code string) bool {
	for part := range strings.SplitSeq("\n"+code, "\n...") {
		_, rest, found := strings.Cut(source, strings.TrimRight(part, "\n")+"\n")
		if !found {
			return false
		}
		source = "\n" + rest
	}
	return true
}

// dedented returns a text without the space around its lines.
func dedented(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}

// withoutExample has the functions whose Example would show nothing.
var withoutExample = map[string]string{
	"PrometheusProvider.NewQueue": "queues call the method",
	"Page.ServeHTTP":              "ExampleAdd mounts the page",
	"HandleOn":                    "needs the queue of a test: docs/testing.md",
	"Queue.Calls":                 "needs a test: docs/testing.md",
	"Queue.Take":                  "needs a test: docs/testing.md",
	"Queue.CheckDone":             "needs a test: docs/testing.md",
}

// Each function and method of ours has an Example, for `go doc`. Methods with the names of
// client-go, and of standard interfaces, need none. A method of several layers needs one Example.
func TestFunctionsHaveExamples(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	theirs := map[string]bool{}
	for _, word := range strings.Fields(read(t, "compat/aliases/names.txt")) {
		theirs[word] = true
	}
	examples := map[string]bool{}
	for name := range all.tests {
		if name, is := strings.CutPrefix(name, "Example"); is {
			if of, method, dotted := strings.Cut(name, "_"); dotted {
				method, _, _ = strings.Cut(method, "_")
				examples["."+method], name = true, of
			}
			examples[name], examples["New"+name] = true, true // An Example of a type makes a value of the type.
		}
	}
	for _, dir := range []string{".", "workqueuetest", "debugpage"} {
		for _, name := range functionsIn(t, dir, theirs) {
			_, method, dotted := strings.Cut(name, ".")
			found := examples[name] || dotted && examples["."+method]
			if _, listed := withoutExample[name]; listed == found {
				t.Errorf("%s: has an Example: %v, listed as without one: %v", name, found, listed)
			}
		}
	}
}

// functionsIn returns the exported functions and methods of a package, without those of theirs.
func functionsIn(t *testing.T, dir string, theirs map[string]bool) (names []string) {
	t.Helper()
	known := regexp.MustCompile(`^(?:Add|Get|Done|Len|ShutDown|ShutDownWithDrain|ShuttingDown|AddAfter|AddRateLimited|Forget|NumRequeues|When|String|GoString|Error|Is|Unwrap|MarshalText|UnmarshalText|MarshalJSON|UnmarshalJSON|Touch|Push|Pop|New\w*Metric)$`)
	for _, functions := range exportedIn(t, dir) {
		for _, f := range functions {
			name := f.Name.Name
			if f.Recv == nil && !theirs[name] {
				names = append(names, name)
			} else if f.Recv != nil && !known.MatchString(name) {
				if of := receiver(f.Recv.List[0].Type); ast.IsExported(of) {
					names = append(names, of+"."+name)
				}
			}
		}
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each program that uses the library gets the versions of its go.mod at least. So go.mod gives a
// reason for each version, which names the version, and a higher version needs a new reason. `make
// minimums` tries the lowest and the newest versions.

// requirement is a line of go.mod that requires a version, after its comments.
var requirement = regexp.MustCompile(`^(?:require )?(\S+)\s+(v\S+|[\d.]+)(?:\s+//(.*))?$`)

// unreasoned returns the requirements of a go.mod without a reason: a comment on the same line, or
// directly above, with the version and a colon before the reason.
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

// Pages and comments name files, tests and functions, which are often renamed by somebody who looks
// at something else.

var (
	fenced    = regexp.MustCompile("(?ms)^```.*?^```")
	pageLink  = regexp.MustCompile(`\]\(([\w./-]*)(?:#([\w-]*))?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unspoken  = regexp.MustCompile(`[^\w\- ]`)
	namedFile = regexp.MustCompile("`([\\w/]*[a-z]\\w*\\.go)`")
	namedTest = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz|Example)_?[A-Z]\w*`)
	madeThing = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][\\w-]*)")
	word      = regexp.MustCompile(`\w+`)
	named     = regexp.MustCompile("`([A-Za-z_][\\w.]*)(?:\\(\\))?`")
)

// namesSomething reports whether a comment can match one of the patterns, which are slower.
func namesSomething(line string) bool {
	for _, part := range []string{".go", ".md", "Test", "Benchmark", "Fuzz", "Example"} {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// A tree has everything that a page or a comment can name.
type tree struct {
	files map[string]bool // with their paths, and by their names alone
	tests map[string]bool
	made  map[string]bool // targets of the Makefile
	words map[string]bool // identifiers of Go, and words of strings and of files that are no Go
	pages map[string]string

	comments map[string]string // of Go files and of go.mod files, where a part of the words names something
}

// treeOf walks the tree once for all tests.
func treeOf(t *testing.T) tree {
	t.Helper()
	readsTexts(t)
	if _, err := os.Stat("compat"); err != nil {
		t.Skip("a module in the cache has no other module in it")
	}
	all, err := walkedTree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var walkedTree = sync.OnceValues(func() (tree, error) {
	all := tree{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}, map[string]string{}}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return filepath.SkipDir
			}
			all.files[filepath.ToSlash(path)] = true
			return err
		}
		all.files[filepath.ToSlash(path)], all.files[entry.Name()] = true, true
		switch filepath.Ext(path) {
		case ".md":
			text, err := os.ReadFile(path)
			all.pages[path] = string(text)
			return err
		case ".go":
			return all.addGo(path)
		case ".png", ".svg", ".sum":
			return nil
		}
		text, err := os.ReadFile(path)
		all.addWords(string(text))
		if entry.Name() == "go.mod" {
			all.comments[path] = strings.Join(regexp.MustCompile("//.*").FindAllString(string(text), -1), "\n")
		}
		return err
	})
	if err != nil {
		return all, err
	}
	makefile, err := os.ReadFile("Makefile")
	for _, match := range regexp.MustCompile(`(?m)^([\w-]+):`).FindAllSubmatch(makefile, -1) {
		all.made[string(match[1])] = true
	}
	return all, err
})

// addGo adds the tests, words and comments of a file. Words of comments do not count: a comment can
// name a thing that is gone, as a page can.
func (all tree) addGo(path string) error {
	text, err := os.ReadFile(path)
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, scanner.ScanComments)
	var comments strings.Builder
	for last := token.EOF; ; {
		_, is, literal := s.Scan()
		switch {
		case is == token.EOF:
			all.comments[path] = comments.String()
			return err
		case is == token.COMMENT:
			if namesSomething(literal) && path != "docs_test.go" && !strings.HasPrefix(literal, "//go:") {
				comments.WriteString(literal + "\n")
			}
			continue
		case is == token.IDENT:
			all.words[literal] = true
			if last == token.FUNC && namedTest.FindString(literal) == literal {
				all.tests[literal] = true
			}
		case is == token.STRING && path != "docs_test.go":
			all.addWords(literal)
		}
		last = is
	}
}

func (all tree) addWords(text string) {
	for _, word := range word.FindAllString(text, -1) {
		all.words[word] = true
	}
}

// missing returns the names on a page that do not exist.
func (all tree) missing(path, page string) (names []string) {
	for _, match := range pageLink.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) { // A call of F[T](x) is no link.
		to := filepath.ToSlash(filepath.Join(filepath.Dir(path), match[1]))
		text := page // Of a link within the page.
		if match[1] != "" {
			text = all.pages[to]
		}
		if match[1] != "" && !all.files[to] {
			names = append(names, match[1])
		} else if match[2] != "" && !slices.Contains(anchorsOf(text), match[2]) {
			names = append(names, match[0][2:len(match[0])-1])
		}
	}
	for _, match := range namedFile.FindAllStringSubmatch(page, -1) {
		if !all.files[match[1]] && match[1] != "_test.go" {
			names = append(names, match[1])
		}
	}
	for _, match := range named.FindAllStringSubmatch(page, -1) {
		unknown := func(part string) bool { return part != "" && !all.words[part] }
		if !all.files[match[1]] && filepath.Ext(match[1]) != ".go" && slices.ContainsFunc(strings.Split(match[1], "."), unknown) {
			names = append(names, match[1])
		}
	}
	for _, match := range madeThing.FindAllStringSubmatch(page, -1) {
		if !all.made[match[1]] {
			names = append(names, "make "+match[1])
		}
	}
	for _, name := range namedTest.FindAllString(page, -1) {
		if !all.tests[name] {
			names = append(names, name)
		}
	}
	return names
}

// anchorsOf returns the anchors that GitHub gives to the headings of a page.
func anchorsOf(page string) (anchors []string) {
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		anchor := strings.ToLower(strings.ReplaceAll(unspoken.ReplaceAllString(match[1], ""), " ", "-"))
		anchors = append(anchors, anchor)
	}
	return anchors
}

// Names in other programs, and the test of a program that is swapped.
var elsewhere = []string{"TestQueuesAreSwapped", "SIGQUIT", "priorityQueueWrapper", "workqueue_name", "controller_runtime_terminal_reconcile_errors_total",
	"generateName", "NewClient", "EventRecorder", "LeaderElectionID", "LeaderElectionLabels", "LeaderElectionNamespace", "NewWithLabels"}

func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	for _, path := range slices.Sorted(maps.Keys(all.pages)) {
		for _, name := range all.missing(path, all.pages[path]) {
			if !slices.Contains(elsewhere, name) {
				t.Errorf("%s names %s, which is not there", path, name)
			}
		}
	}
	runbooks := regexp.MustCompile(`runbook_url: \S+/blob/main/(\S+)`).ReplaceAllString(read(t, "monitoring/rules.yaml"), "[runbook]($1)")
	if gone := all.missing("README.md", runbooks); len(gone) > 0 || strings.Count(runbooks, "[runbook]") < 14 {
		t.Errorf("the alerts lead to %q, which are not there, or have no runbook", gone)
	}
	control := "## A `b`: c?\n[a](docs/testing.md) [b](gone.md#x) [c](#a-b-c) [d](#d) [e](docs/testing.md#retries-and-delays) [f](docs/testing.md#f) `queue.go` `old_queue.go` `Typed.Add()` `Typed.subtract` `make test` `make tests` TestPagesNameWhatIsThere TestOfThePast"
	if got := strings.Join(all.missing("README.md", control), ", "); got != "gone.md, #d, docs/testing.md#f, old_queue.go, Typed.subtract, make tests, TestOfThePast" {
		t.Errorf("got %s of the control", got)
	}
}

// Comments name tests and files as reasons, in each module.
func TestCommentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	address := regexp.MustCompile(`https?://\S+`)
	file := regexp.MustCompile(`\b[a-z][\w/-]*\.(?:go|md)\b`)
	for source, comments := range all.comments {
		for _, name := range namedTest.FindAllString(comments, -1) {
			if !all.tests[name] && !slices.Contains(elsewhere, name) {
				t.Errorf("%s names %s, which is not there", source, name)
			}
		}
		for _, name := range file.FindAllString(address.ReplaceAllString(comments, ""), -1) {
			if !all.files[name] {
				t.Errorf("%s names %s, which is not there", source, name)
			}
		}
	}
	if len(all.comments) < 300 {
		t.Errorf("found the comments of %d files", len(all.comments))
	}
}

// The public methods of a type are in one file, two at most, where a reader looks for them. The root
// shows the layers, and the rest is in internal. docs/architecture.md has a row for each file.
func TestHomes(t *testing.T) {
	t.Parallel()
	all := exportedIn(t, ".")
	homes := map[string]map[string]bool{}
	for file, functions := range all {
		for _, f := range functions {
			if f.Recv != nil {
				name := receiver(f.Recv.List[0].Type)
				if homes[name] == nil {
					homes[name] = map[string]bool{}
				}
				homes[name][file] = true
			}
		}
	}
	for name, in := range homes {
		if ast.IsExported(name) && len(in) > 2 {
			t.Errorf("the public methods of %s are in %d files: %v", name, len(in), slices.Sorted(maps.Keys(in)))
		}
	}
	var rows []string
	for _, row := range rowsOf(read(t, "docs/architecture.md")) {
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cellsOf(row)[0], -1) {
			rows = append(rows, match[1])
		}
	}
	packages, _ := filepath.Glob("internal/*")
	for _, name := range append(slices.Collect(maps.Keys(all)), packages...) {
		isOf := func(row string) bool {
			found, _ := filepath.Match(row, filepath.ToSlash(name))
			return found
		}
		if name != "doc.go" && !slices.ContainsFunc(rows, isOf) {
			t.Errorf("docs/architecture.md has no row for %s", name)
		}
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil || len(all) > 35 || len(tests) > 45 {
		t.Errorf("the root has %d source files and %d test files, want 35 and 45 at most: use a file of the same kind, or raise the bound; %v", len(all), len(tests), err)
	}
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
