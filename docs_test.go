package workqueue_test

import (
	"go/ast"
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

// readsTexts skips a test under the race detector. A test that reads texts is one goroutine, so the
// race detector has nothing to find, and takes seconds longer.
func readsTexts(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("texts have no races")
	}
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

// exportedIn returns the exported functions and methods of a package, by file.
func exportedIn(t *testing.T, dir string) map[string][]*ast.FuncDecl {
	t.Helper()
	all := map[string][]*ast.FuncDecl{}
	for _, file := range sources(t, dir) {
		all[file] = nil
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range tree.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Name.IsExported() {
				all[file] = append(all[file], f)
			}
		}
	}
	return all
}

// Each row about a behaviour of client-go that this package does not have names a test, and so does each row about
// what looks wrong. The tests that show such a difference are all on the page.
func TestDifferencesHaveTests(t *testing.T) {
	t.Parallel()
	all := treeOf(t)
	page := all.pages["docs/differences.md"]
	for _, row := range append(rowsOf(page), rowsOf(section(all.pages["docs/semantics.md"], "Looks wrong, but is intended"))...) {
		if cells := cellsOf(row); !namedTest.MatchString(cells[len(cells)-1]) {
			t.Errorf("no test in the row %q", row)
		}
	}
	shown := namedTest.FindAllString(read(t, "upstream_differences_test.go"), -1)
	for name := range all.tests {
		if slices.Contains(shown, name) && !strings.Contains(page, name+"`") {
			t.Errorf("docs/differences.md does not have %s", name)
		}
	}
}

// Tools such as staticcheck look for a paragraph that begins with "Deprecated: ", and miss some
// deprecated names of client-go.
func TestDeprecatedNamesAreMarked(t *testing.T) {
	readsTexts(t)
	marked := 0
	for _, tree := range parseSources(t, token.NewFileSet()) {
		for _, comment := range tree.Comments {
			if text := comment.Text(); strings.HasPrefix(text, "Deprecated: use ") || strings.Contains(text, "\n\nDeprecated: use ") {
				marked++
			} else if strings.Contains(text, "eprecated") {
				t.Errorf("not marked such that tools see it: %q", text)
			}
		}
	}
	if marked != 32 {
		t.Errorf("%d names are marked, want 32", marked)
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
	for _, word := range strings.Fields(read(t, "compat/testdata/names.txt")) {
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
	"generateName", "NewClient", "EventRecorder", "LeaderElectionID", "LeaderElectionLabels", "LeaderElectionNamespace", "NewWithLabels", "UsePriorityQueue"}

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
