package swap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// direct are the files of a program that needs no dependency for its queue, and so may have
// any version of client-go.
func direct(version string) map[string]string {
	files := mainFiles(version, "")
	files["main.go"] = strings.NewReplacer(`"`+dependency+`"`, `dep "`+theirs+`"`, "dep.Queue()", `dep.NewNamed("")`).Replace(files["main.go"])
	return files
}

// The pseudo-version of a commit says nothing. Its exported names decide.
func TestPseudoVersion(t *testing.T) {
	p := newProgram(t, direct("v0.0.0-20260102030405-abcdefabcdef"))
	p.trial()
	p.cycle()
	if out := p.must(world.swap, "write"); !strings.Contains(out, clientGo+"@v0.0.0-20260102030405-abcdefabcdef is no release: its exported names are known") {
		t.Errorf("got %s", out)
	}
	p = newProgram(t, direct("v0.0.0-20270102030405-abcdefabcdef"))
	p.fails("exports names that ours lacks: func More", "write")
}

// For a pre-release swap says how much is known.
func TestPreRelease(t *testing.T) {
	p := newProgram(t, direct("v0.38.0-alpha.2"))
	p.trial()
	if out := p.must(world.swap, "write"); !strings.Contains(out, "v0.38.0-alpha.2 is a pre-release: its exported names are known, and its behaviour is not; swap has compared v0.38.0-alpha.2\n") {
		t.Errorf("got %s", out)
	}
}

// The module graph of a program may name a module that cannot be downloaded any more. The program
// builds all the same, as none of its packages needs the module, and a trial builds too.
func TestTrialWithAModuleThatIsGone(t *testing.T) {
	p := newProgram(t, nil)
	p.env = []string{"GOPROXY=" + fileURL(world.proxy) + "," + fileURL(filepath.Join(machine()[0], "cache", "download"))}
	files := mainFiles("v0.36.0", "\nrequire example.com/unpruned v1.0.0\n")
	files["unpruned.go"] = "package main\n\nimport _ \"example.com/unpruned\"\n"
	p.files(files)
	p.must("go", "build", "-mod=mod", "-o", os.DevNull, ".")
	if out, code := p.run("go", "list", "-m", "all"); code == 0 {
		t.Fatalf("the graph is complete: %s", out)
	}
	p.trial()
}

// A trial says which queue is built, and at the end whether a build has used the queue: a script
// may set GOFLAGS itself, and then pass without the swap.
func TestTrialSaysWhetherItSwapped(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	const before = "swap: " + clientGo + "@v0.36.0 is built on the queue of " + ours + "@" + version + "\n"
	for script, used := range map[string]bool{
		"go build -o /dev/null .":                                true,
		"GOFLAGS= go build -o /dev/null .":                       false,
		"go build -mod=readonly -o /dev/null . || true":          false,
		"GOFLAGS= go vet . ; cd / && go version":                 false,
		"go build -o /dev/null . && GOFLAGS= go test -run=No .":  true,
		"go test -vet=off -run=No . && go test -vet=off -run=No": true,
	} {
		if out := p.uses(script, used); !strings.HasPrefix(out, before) {
			t.Errorf("%s: got %s", script, out)
		}
	}
}

// uses tries a script, which must say whether a build has used the queue.
func (p *program) uses(script string, used bool) (out string) {
	p.Helper()
	out = p.must(world.swap, "try", "--", "sh", "-c", script)
	want := "\nswap: a build of the command used the queue of "
	if !used {
		want = "\nswap: no build of the command used the queue of "
	}
	if !strings.Contains(out, want) {
		p.Errorf("%s: used %v\n%s", script, used, out)
	}
	return out
}

func TestTrialReturnsTheExitCode(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	if out, code := p.run(world.swap, "try", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("got %d, want 7\n%s", code, out)
	}
}

// So does a trial in a workspace, where a command may leave the workspace. The sums of a
// directory are nowhere, so of -library DIR the trial says nothing at its end.
func TestTrialOfWorkspaceSaysWhetherItSwapped(t *testing.T) {
	p := workspace(t)
	for script, used := range map[string]bool{
		"go build -o /dev/null .":            true,
		"go build -o /dev/null ../program":   true,
		"cd .. && go vet ./program":          true,
		"GOWORK=off go build -o /dev/null .": false,
		"go version":                         false,
		"go list -m all":                     false,
		"cd ../lib && go build ./...":        false,
	} {
		p.uses(script, used)
	}
	if out := p.must(world.swap, "try", "-library", world.root, "--", "go", "version"); strings.Count(out, "swap: ") != 1 {
		t.Errorf("of a directory: got %s", out)
	}
	p.must(world.swap, "write")
	if out := p.must(world.swap, "try", "--", "go", "version"); strings.Contains(out, " build of the command used") {
		t.Errorf("of a workspace that is swapped: got %s", out)
	}
}

// A trial of a swapped program, with another library, names the client-go that was copied
// and the library that is built, which go.mod may have newer.
func TestTrialOfSwappedProgram(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must(world.swap, "write")
	for _, tried := range []string{next, version} {
		out := p.must(world.swap, "try", "-library", tried, "--", "go", "run", ".")
		if want := "swap: " + clientGo + "@v0.36.0 is built on the queue of " + ours + "@" + tried + "\n" + ours + "\n"; out != want {
			t.Errorf("got %s, want %s", out, want)
		}
	}
	p.must("go", "get", ours+"@"+next)
	if out := p.must(world.swap, "try", "go", "version"); !strings.Contains(out, "queue of "+ours+"@"+next+"\n") {
		t.Errorf("go.mod has a newer library: got %s", out)
	}
}

// The queues that a program makes with this package alone have no metrics from a provider that a
// dependency sets for client-go's queues, and the check names the dependency.
func TestCheckNamesTheProviderOfClientGoAlone(t *testing.T) {
	const provider = "k8s.io/component-base/metrics/prometheus/workqueue"
	files := mainFiles("v0.36.0", "\nrequire (\n\tk8s.io/component-base v0.36.0\n\t"+ours+" v1.0.0\n)\n\nreplace k8s.io/component-base => ./component-base\n")
	files["component-base/go.mod"] = "module k8s.io/component-base\n\ngo 1.24\n\nrequire " + clientGo + " v0.36.0\n"
	files["component-base/metrics/prometheus/workqueue/metrics.go"] = "package workqueue\n\nimport \"" + theirs + "\"\n\nfunc init() { workqueue.SetProvider(nil) }\n"
	files["own.go"] = "package main\n\nimport (\n\t_ \"" + provider + "\"\n\n\t\"" + ours + "\"\n)\n\nvar _ = workqueue.NewTyped[string]()\n"
	p := newProgram(t, files)
	before := tree(t, p.top)
	const why = "swap: " + provider + " set a metrics provider for client-go's queues alone"
	p.fails(why, "check")
	p.files(map[string]string{"metrics.go": "package main\n\nimport \"" + ours + "\"\n\nfunc init() { workqueue.SetProvider(nil) }\n"})
	if out, code := p.run(world.swap, "check"); code != 1 || strings.Contains(out, "metrics") {
		t.Errorf("with a provider of its own: exit code %d\n%s", code, out)
	}
	p.remove("metrics.go")
	same(t, "after a check", before, tree(t, p.top))
	p.must(world.swap, "write")
	if out := p.must(world.swap, "check"); strings.Contains(out, "metrics") {
		t.Errorf("swapped, both queues are one: %s", out)
	}
	if out, _ := newProgram(t, mainFiles("v0.36.0", "")).run(world.swap, "check"); strings.Contains(out, "metrics") {
		t.Errorf("without our package: %s", out)
	}
}

// A write lists each requirement that it has changed, as go get does.
func TestWriteListsWhatItChanges(t *testing.T) {
	files := mainFiles("v0.36.0", "\nrequire k8s.io/utils v0.0.0-20250604170112-4c0f3b243397\n")
	files["utils.go"] = "package main\n\nimport _ \"k8s.io/utils/clock\"\n"
	files["go.mod"] = strings.Replace(files["go.mod"], "go 1.25", "go 1.22", 1)
	p := newProgram(t, files)
	before := p.requirements()
	out := p.must(world.swap, "write")
	listed := 0
	for path, after := range p.requirements() {
		line := fmt.Sprintf("swap: raised %s from %s to %s\n", path, before[path], after)
		if before[path] == "" {
			line = fmt.Sprintf("swap: added %s %s\n", path, after)
		}
		if before[path] == after {
			continue
		}
		if listed++; !strings.Contains(out, line) {
			t.Errorf("not listed: %s", line)
		}
	}
	if listed < 5 || strings.Count(out, "swap: raised ")+strings.Count(out, "swap: added ") != listed {
		t.Errorf("%d lines have changed, and listed are:\n%s", listed, out)
	}
}

// A directory is a path of this machine, which nobody should commit without knowing. A write with another
// library did nothing: the program was swapped and current, with the path of a machine in go.mod.
func TestWriteWithAnotherLibrary(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	if out := p.must(world.swap, "write", "-library", world.root); !strings.Contains(out, "go.mod names the library by the absolute path "+world.root+", which other machines lack") {
		t.Errorf("got %s", out)
	}
	p.commit()
	for _, library := range []string{version, next} {
		p.must(world.swap, "write", "-library", library)
		p.commit()
		if mod := p.text("go.mod"); strings.Contains(mod, world.root) || !strings.Contains(mod, ours+" "+library) {
			t.Errorf("with %s: go.mod is\n%s", library, mod)
		}
		if out := p.must(world.swap, "write", "-library", library); !strings.Contains(out, "is swapped and current") {
			t.Errorf("once more with %s: %s", library, out)
		}
	}
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// A wrong library ends in a single message, before anything else is done.
func TestWrongLibrary(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.env = []string{"GOPROXY=" + fileURL(world.proxy)}
	before := tree(t, p.top)
	for library, why := range map[string]string{
		"v9.9.9":    "-library v9.9.9: go has no such version of " + ours,
		"no-such":   "has no go.mod of " + ours,
		".":         "has no go.mod of " + ours,
		os.DevNull:  "has no go.mod of " + ours,
		"v1/no-dir": "has no go.mod of " + ours,
	} {
		for _, args := range [][]string{{"write", "-library", library}, {"try", "-library", library, "--", "go", "version"}} {
			p.fails(why, args...)
			if out, _ := p.run(world.swap, args...); strings.Count(out, "\n") != 1 {
				t.Errorf("swap %q has more than a message:\n%s", args, out)
			}
		}
	}
	same(t, "refused", before, tree(t, p.top))
}

// A workspace that has client-go builds its directory, whatever a module replaces.
func TestWorkspaceWithClientGo(t *testing.T) {
	p := workspace(t)
	for name, text := range clientGoFiles("1.25", "") {
		p.files(map[string]string{"../client-go/" + name: text})
	}
	p.must("go", "work", "use", "../client-go")
	p.commit()
	before := tree(t, p.top)
	const why = "builds " + clientGo + " from its own directory "
	p.fails(why, "write")
	p.fails(why, "try", "go", "version")
	same(t, "refused", before, tree(t, p.top))
	p.env = []string{"GOWORK=off"}
	p.must(world.swap, "write")
	p.env = nil
	p.fails(why, "check")
}

// The root of a workspace may be no module. A trial needs none.
func TestRootOfWorkspace(t *testing.T) {
	p := workspace(t)
	before := tree(t, p.top)
	p.dir = p.top
	if out := p.must(world.swap, "try", "--", "go", "run", "./program"); !strings.Contains(out, "\n"+ours+"\n") {
		t.Errorf("got %s", out)
	}
	for _, name := range []string{"write", "check", "undo"} {
		p.fails("this is the root of a workspace, and swap "+name+" needs a module", name)
	}
	same(t, "refused", before, tree(t, p.top))
}

// Go refuses two replaces of one version in a workspace, and go.work can decide.
func TestTwoModulesOfAWorkspace(t *testing.T) {
	p := workspace(t)
	p.files(map[string]string{
		"../lib/go.mod": "module example.com/lib\n\ngo 1.25\n\nrequire " + clientGo + " v0.36.0\n",
		"../lib/lib.go": "package lib\n\nimport _ \"" + theirs + "\"\n",
	})
	second := *p
	second.dir = filepath.Join(p.top, "lib")
	second.must("go", "mod", "tidy")
	p.commit()
	p.must(world.swap, "write")
	p.commit()
	before := tree(t, p.top)
	out := second.fails("Let go.work decide: ", "write")
	same(t, "refused", before, tree(t, p.top))
	second.must("sh", "-c", second.printed(out, "Let go.work decide: "))
	second.must(world.swap, "write")
	second.must(world.swap, "check")
	p.must(world.swap, "check")
	if got := p.built(); got != ours {
		t.Errorf("got %s", got)
	}
}

// Old copies leave the cache, and the copy in use stays.
func TestCacheOfCopiesIsBounded(t *testing.T) {
	cache := filepath.Join(world.dir, "cache", "workqueue-swap")
	for i := range 20 {
		old := filepath.Join(cache, fmt.Sprintf("client-go-v0.36.0-%016d", i))
		if err := os.MkdirAll(old, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	files := mainFiles("v0.36.0", "\nreplace "+clientGo+" => ./our-client-go\n")
	for name, text := range clientGoFiles("1.25", "package forked\n\n// Of this test.\n") {
		files["our-client-go/"+name] = text
	}
	p := newProgram(t, files)
	p.trial()
	if copies, err := os.ReadDir(cache); err != nil || len(copies) > 8 {
		t.Errorf("the cache has %d copies, %v", len(copies), err)
	}
	p.env = []string{"GOPROXY=off"}
	p.trial()
}

// The program gets the lowest versions that the library works with, and not the newest.
func TestVersionsAreTheMinimums(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minimums := requirementsIn(string(text))
	p := newProgram(t, mainFiles("v0.36.0", ""))
	const print = "go build -o /dev/null . && go list -m -f '{{.Path}} {{.Version}}' github.com/go-logr/logr github.com/prometheus/client_golang k8s.io/utils golang.org/x/sys"
	tried := p.must(world.swap, "try", "--", "sh", "-c", print)
	p.must(world.swap, "write")
	written := p.must("sh", "-c", print)
	if !strings.Contains(tried, "\n"+written) || strings.Count(written, "\n") != 4 {
		t.Errorf("the trial and the write have other versions:\n%s\n%s", tried, written)
	}
	if tried = workspace(t).must(world.swap, "try", "--", "sh", "-c", print); !strings.Contains(tried, "\n"+written) {
		t.Errorf("the trial of a workspace has other versions:\n%s\n%s", tried, written)
	}
	for path, version := range p.requirements() {
		if want := minimums[path]; want != "" && path != "go" && version != want {
			t.Errorf("%s is required as %s, and the library asks for %s", path, version, want)
		}
	}
}

// Several calls may make the same copy at once. None takes away the copy that another uses.
func TestTrialsAtOnceWithAnEmptyCache(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	for range 4 {
		p.env = []string{"XDG_CACHE_HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if out, code := p.run(world.swap, "try", "--", "go", "list", "-deps", "."); code != 0 || !strings.Contains(out, "\nswap: a build of the command used") {
					t.Errorf("exit code %d\n%s", code, out)
				}
			})
		}
		all.Wait()
	}
}
