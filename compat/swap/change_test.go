package swap_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// After an upgrade, the replace of the old version has no effect: the program is built with the new
// client-go, and the check reports that the program is not swapped. An undo has the result of the
// upgrade alone.
func TestUpgradeOfClientGo(t *testing.T) {
	never := newProgram(t, mainFiles("v0.36.0", ""))
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must(world.swap, "write")
	p.commit()
	for _, p := range []*program{never, p} {
		p.must("go", "get", clientGo+"@v0.37.0")
		p.must("go", "mod", "tidy")
		if got := p.built(); got != theirs {
			t.Errorf("upgraded: got %s", got)
		}
	}
	p.fails(clientGo+" v0.37.0 is built, and v0.36.0 was swapped", "check")
	p.fails(" M go.mod", "write")
	p.commit()
	p.must(world.swap, "write")
	p.must(world.swap, "check")
	if got := p.built(); got != ours {
		t.Errorf("swapped anew: got %s", got)
	}
	p.must(world.swap, "undo")
	p.as(never)
}

// An upgrade of the library needs no write, and its undo leaves nothing.
func TestUpgradeOfTheLibrary(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	p.must(world.swap, "write")
	p.must("go", "get", ours+"@"+next)
	p.must("go", "mod", "tidy")
	if got := p.requirements()[ours]; got != next {
		t.Errorf("the library is required as %s", got)
	}
	p.must("go", "run", "-mod=mod", ours+"/swap", "check")
	if got := p.built(); got != ours {
		t.Errorf("got %s", got)
	}
	p.must("go", "run", "-mod=mod", ours+"/swap", "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// An upgrade of client-go may need a new module, and may need a module again that a write has
// removed. A tidy after the upgrade drops the library, and adds a line to go.mod for each module that the
// library has raised without a line. An undo leaves what the upgrade alone would.
func TestUndoOfWhatTheLibraryRaisedOrRemoved(t *testing.T) {
	files := direct("v0.29.9")
	files["logging.go"] = "package main\n\nimport _ \"" + clientGo + "/util/logging\"\n"
	for _, tidy := range []bool{true, false} {
		never, p := newProgram(t, files), newProgram(t, files)
		if out := p.must(world.swap, "write"); !strings.Contains(out, "swap: removed google.golang.org/appengine ") {
			t.Errorf("nothing is removed: %s", out)
		}
		for _, p := range []*program{never, p} {
			p.must("go", "get", clientGo+"@v0.30.9")
		}
		never.must("go", "mod", "tidy")
		if tidy {
			p.must("go", "mod", "tidy")
			if raised := p.requirements()["github.com/stretchr/testify"]; raised == "" || raised == "v1.8.4" {
				t.Errorf("nothing is raised: testify is %q", raised)
			}
		}
		p.commit()
		p.must(world.swap, "write")
		p.must(world.swap, "check")
		p.must(world.swap, "undo")
		p.as(never)
	}
}

// as compares the trees of two programs.
func (p *program) as(want *program) {
	p.Helper()
	got := map[string]string{}
	for path, content := range tree(p, p.top) {
		got[want.top+strings.TrimPrefix(path, p.top)] = content
	}
	same(p, "against a program that was never swapped", tree(p, want.top), got)
}

// Other changes of go.mod since the write stay after an undo, also changes of lines that the swap
// had raised.
func TestUndoAfterChanges(t *testing.T) {
	const lifted = "\nrequire k8s.io/utils v0.0.0-20250604170112-4c0f3b243397\n"
	files := mainFiles("v0.36.0", lifted)
	files["utils.go"] = "package main\n\nimport _ \"k8s.io/utils/clock\"\n"
	files["go.mod"] = strings.Replace(files["go.mod"], "go 1.25", "go 1.22", 1)
	never, p := newProgram(t, files), newProgram(t, files)
	p.must(world.swap, "write")
	if mod := p.text("go.mod"); strings.Contains(mod, "20250604170112") || !strings.Contains(mod, "go 1.25") {
		t.Errorf("the swap has lifted nothing:\n%s", mod)
	}
	for _, p := range []*program{never, p} {
		p.must("go", "mod", "edit", "-require=example.com/other@v1.0.0")
		p.files(map[string]string{"other.go": "package main\n\nimport _ \"example.com/other\"\n"})
		p.must("go", "mod", "tidy")
	}
	p.must(world.swap, "undo")
	p.as(never)
}

// A program that imports the library itself keeps the requirement.
func TestUndoKeepsWhatIsImported(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must(world.swap, "write")
	p.files(map[string]string{"own.go": "package main\n\nimport _ \"" + ours + "\"\n"})
	p.must("go", "mod", "tidy")
	p.must(world.swap, "undo")
	if got := p.built("-mod=readonly"); got != theirs {
		t.Errorf("got %s", got)
	}
}

// If go.mod replaces client-go by a fork, for all versions or for a single version, the fork is copied. An
// undo after other changes leaves the replace.
func TestForks(t *testing.T) {
	for _, replaced := range []string{clientGo, clientGo + " v0.36.0"} {
		replace := "replace " + replaced + " => example.com/fork v0.36.7"
		p := newProgram(t, mainFiles("v0.36.0", "\n"+replace+"\n"))
		p.trial()
		p.cycle()
		p.must(world.swap, "write")
		if !strings.Contains(p.text("third_party/client-go/forked/forked.go"), "package forked") {
			t.Error("the fork is not copied")
		}
		p.must("go", "mod", "edit", "-require=example.com/other@v1.0.0")
		p.files(map[string]string{"other.go": "package main\n\nimport _ \"example.com/other\"\n"})
		p.must("go", "mod", "tidy")
		p.must(world.swap, "undo")
		if mod := p.text("go.mod"); !strings.Contains(mod, replace) {
			t.Errorf("the fork is lost:\n%s", mod)
		}
		if replaced != clientGo {
			continue // The swap has its replace in the place of this one.
		}
		p.commit()
		p.must(world.swap, "write")
		p.edit("example.com/fork v0.36.7", "example.com/fork v0.36.8")
		p.fails("go.mod names example.com/fork@v0.36.8, and example.com/fork@v0.36.7 was copied", "check")
	}
}

// edit changes a text in go.mod. `go mod edit` would drop the replace of one version together with
// the replace of all versions.
func (p *program) edit(old, new string) {
	p.Helper()
	text := p.text("go.mod")
	if !strings.Contains(text, old) {
		p.Fatalf("go.mod has no %s", old)
	}
	p.files(map[string]string{"go.mod": strings.ReplaceAll(text, old, new)})
}

func TestForkInTheTree(t *testing.T) {
	files := mainFiles("v0.36.0", "\nreplace "+clientGo+" => ./our-client-go\n")
	for name, text := range clientGoFiles("1.25", "") {
		files["our-client-go/"+name] = text
	}
	p := newProgram(t, files)
	p.trial()
	p.cycle()
	p.must(world.swap, "write")
	p.files(map[string]string{"our-client-go/tools/watch/watch.go": "package watch\n\n// Changed.\n"})
	p.fails("not current: go.mod names ./our-client-go (", "check")
	p.commit()
	p.trial()
	p.must(world.swap, "write")
	p.must(world.swap, "check")
	p.files(map[string]string{"our-client-go/util/workqueue/more.go": "package workqueue\n\n// More is not in client-go.\nfunc More() {}\n"})
	p.commit()
	before := tree(t, p.top)
	p.fails("exports names that ours lacks: func More", "write")
	same(t, "refused", before, tree(t, p.top))
	p.must(world.swap, "undo")
	p.commit()
	before = tree(t, p.top)
	p.fails("exports names that ours lacks: func More", "write")
	p.fails("exports names that ours lacks: func More", "try", "go", "version")
	same(t, "refused", before, tree(t, p.top))
}

func TestUnknownVersions(t *testing.T) {
	for _, version := range []string{"v0.27.9", "v0.38.0"} {
		p := newProgram(t, direct(version))
		before := tree(t, p.top)
		want := version + " is not known: swap knows client-go v0.28 to v0.37"
		p.fails(want, "write")
		p.fails(want, "try", "go", "version")
		same(t, "refused", before, tree(t, p.top))
	}
}

// A copy that somebody has edited is neither overwritten nor removed.
func TestEditedCopy(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.files(map[string]string{"third_party/client-go/own.go": "package own\n"})
	p.commit()
	before := tree(t, p.top)
	p.fails("is there already, and not by swap", "write", "-force")
	same(t, "refused", before, tree(t, p.top))

	p = newProgram(t, mainFiles("v0.36.0", ""))
	before = tree(t, p.top)
	p.must(world.swap, "write")
	p.files(map[string]string{"third_party/client-go/tools/watch/watch.go": "package watch\n"})
	p.commit()
	edited := tree(t, p.top)
	const why = "third_party/client-go/tools/watch/watch.go was changed since swap made the copy"
	p.fails(why, "check")
	p.fails(why, "write")
	p.fails(why, "undo")
	same(t, "refused", edited, tree(t, p.top))
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.remove("third_party")
	p.fails("not swapped", "check")
	p.commit()
	p.must(world.swap, "write")
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// A tidy would upgrade client-go to find a package that the copy leaves out.
func TestProgramWithAnExampleOfClientGo(t *testing.T) {
	files := mainFiles("v0.36.0", "\ntool "+clientGo+"/examples\n")
	p := newProgram(t, files)
	before := tree(t, p.top)
	p.fails("needs a package of "+clientGo+" v0.36.0 that a copy has not", "write")
	same(t, "refused", before, tree(t, p.top))
}

// The files of the copy and their modes. Those of the module cache are read-only.
func TestCopy(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must("go", "mod", "download", clientGo)
	cached := tree(t, filepath.Join(world.modcache, clientGo+"@v0.36.0"))
	p.must(world.swap, "write") // The write downloads its modules.
	p.must(world.swap, "undo")
	p.env = []string{"GOPROXY=off"}
	p.must(world.swap, "write")
	same(t, "the module cache", cached, tree(t, filepath.Join(world.modcache, clientGo+"@v0.36.0")))
	var files []string
	root := filepath.Join(p.dir, "third_party", "client-go")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&0o200 == 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		if rel, _ := filepath.Rel(root, path); !entry.IsDir() {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	const want = "LICENSE README.md SWAP.md go.mod openapi/openapi.go openapi/testdata/a.json swap.json" +
		" third_party/fork/LICENSE tools/watch/testdata/a tools/watch/watch.go util/workqueue/workqueue.go"
	if got := strings.Join(files, " "); err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// Neither `go get` of the library nor the swap raises a requirement in a program that has the
// minimums.
func TestNothingIsLifted(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, minimums, _ := strings.Cut(string(text), "\nrequire (\n")
	files := mainFiles("v0.36.0", "\nrequire (\n"+minimums)
	files["minimums.go"] = `package main

import (
	_ "github.com/go-logr/logr"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_model/go"
	_ "golang.org/x/time/rate"
	_ "k8s.io/utils/clock"
)
`
	p := newProgram(t, files)
	before := p.requirements()
	if len(before) < 14 {
		t.Fatalf("the program requires %v", before)
	}
	p.must("go", "get", ours+"@"+version)
	p.lifts("go get", before)
	p.must("go", "get", ours+"@none")
	p.must("go", "mod", "tidy")
	p.must(world.swap, "write")
	p.lifts("the swap", before)
}

// requirements returns the versions of go.mod, and the go line.
func (p *program) requirements() map[string]string {
	p.Helper()
	return requirementsIn(p.text("go.mod"))
}

func requirementsIn(mod string) map[string]string {
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^(?:\t|require )?(\S+) (v\S+|[\d.]+)(?: //.*)?$`).FindAllStringSubmatch(mod, -1) {
		versions[match[1]] = match[2]
	}
	return versions
}

// lifts fails if a requirement is new, except the library's, or has another version.
func (p *program) lifts(what string, before map[string]string) {
	p.Helper()
	after := p.requirements()
	if after[ours] != version {
		p.Errorf("%s: the library is required as %q", what, after[ours])
	}
	for path, version := range after {
		if path != ours && before[path] != version {
			p.Errorf("%s: %s %s was %q before", what, path, version, before[path])
		}
	}
}
