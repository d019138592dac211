package swap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command line of the documentation, with a version in the place of latest.
func TestTrialByGoRun(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	if out, code := p.run("go", "test", "-vet=off", "./..."); code != 1 || !strings.Contains(out, "those of "+theirs) {
		t.Errorf("without the swap: exit code %d\n%s", code, out)
	}
	// Vet would look at all dependencies anew: its cache knows them by their directories.
	p.must("go", "run", ours+"/swap@"+version, "try", "--", "go", "test", "-vet=off", "./...")
	same(t, "after the trial", before, tree(t, p.top))
}

// A cache that is cleaned in part does no harm.
func TestTrialWithDamagedCache(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.trial()
	copies, err := filepath.Glob(filepath.Join(world.dir, "cache", "workqueue-swap", "client-go-v0.36.0-*"))
	if err != nil || len(copies) == 0 {
		t.Fatalf("no copy is in the cache, %v", err)
	}
	for _, dir := range copies {
		if err := os.RemoveAll(filepath.Join(dir, "util")); err != nil {
			t.Fatal(err)
		}
	}
	p.trial()
}

// trial tries a program, and compares its tree.
func (p *program) trial() {
	p.Helper()
	before := tree(p, p.top)
	p.must(world.swap, "try", "--", "go", "build", "-o", os.DevNull, ".") // The downloads of the first build are printed too.
	got := p.must(world.swap, "try", "--", "go", "run", ".")
	want := "is built on the queue of " + ours + "@" + version + "\n" + ours + "\n"
	if !strings.Contains(p.text("go.mod"), ours) {
		want += "swap: a build of the command used the queue of " + ours + "@" + version + "\n"
	}
	if !strings.HasSuffix(got, want) {
		p.Errorf("in a trial: got %s", got)
	}
	same(p, "after a trial", before, tree(p, p.top))
}

// cycle swaps a program for good, and takes the swap back.
func (p *program) cycle() {
	p.Helper()
	before := tree(p, p.top)
	p.fails("not swapped", "check")
	same(p, "after a check", before, tree(p, p.top))
	p.must(world.swap, "write")
	p.must(world.swap, "check")
	if got := p.built(); got != ours {
		p.Errorf("swapped: got %s", got)
	}
	swapped := tree(p, p.top)
	p.must(world.swap, "write")
	same(p, "swapped twice", swapped, tree(p, p.top))
	p.must(world.swap, "undo")
	same(p, "taken back", before, tree(p, p.top))
	p.fails("not swapped", "undo")
	same(p, "taken back twice", before, tree(p, p.top))
	if got := p.built(); got != theirs {
		p.Errorf("taken back: got %s", got)
	}
}

func TestModule(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.trial()
	p.cycle()
}

// The lowest client-go that is known, whose go line is below that of aliases with type
// parameters, in a program whose go line is lifted.
func TestOldLanguage(t *testing.T) {
	files := mainFiles("v0.28.9", "")
	files["go.mod"] = strings.Replace(files["go.mod"], "go 1.25", "go 1.21", 1)
	p := newProgram(t, files)
	p.trial()
	p.cycle()
}

func TestVendored(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must("go", "mod", "vendor")
	p.commit()
	p.trial()
	p.env = []string{"GOFLAGS=-trimpath -mod=vendor"}
	p.trial()
	p.cycle()
	if out := p.must(world.swap, "write"); !strings.Contains(out, "git add -f go.mod go.sum third_party/client-go vendor\n") {
		t.Errorf("got %s", out)
	}
	if entries, err := os.ReadDir(filepath.Join(p.dir, "vendor", theirs)); err != nil || len(entries) != 1 {
		t.Errorf("the vendor folder has %v, %v", entries, err)
	}
}

// A sibling of the workspace needs a module that is nowhere else.
func workspace(t *testing.T) *program {
	p := newProgram(t, nil)
	files := mainFiles("v0.36.0", "")
	for name, text := range map[string]string{
		"lib/go.mod":      "module example.com/lib\n\ngo 1.25\n",
		"lib/lib.go":      "package lib\n",
		"patched/go.mod":  "module example.com/patched\n\ngo 1.25\n",
		"patched/p.go":    "package patched\n",
		"program/uses.go": "package main\n\nimport (\n\t_ \"example.com/lib\"\n\t_ \"example.com/patched\"\n)\n",
		"program/go.mod":  files["go.mod"] + "\nrequire (\n\texample.com/lib v0.0.0\n\texample.com/patched v0.0.0\n)\n\nreplace (\n\texample.com/lib => ../lib\n\texample.com/patched => ../patched\n)\n",
		"program/main.go": files["main.go"],
		"go.work":         "go 1.25\n\nuse (\n\t./program\n\t./lib\n)\n\nreplace example.com/patched => ./patched\n",
	} {
		p.files(map[string]string{name: text})
	}
	p.dir = filepath.Join(p.top, "program")
	p.must("go", "mod", "tidy")
	p.must("go", "build", "-o", os.DevNull, ".")
	p.commit()
	return p
}

func TestWorkspace(t *testing.T) {
	p := workspace(t)
	p.trial()
	p.cycle()
	out := p.must(world.swap, "try", "-library", world.root, "--", "go", "list", "-m", "-f", "{{.Dir}}", ours)
	if !strings.HasSuffix(out, "\n"+world.root+"\n") {
		t.Errorf("got %s", out)
	}
}

func TestVendoredWorkspace(t *testing.T) {
	p := workspace(t)
	p.must("go", "work", "vendor")
	p.commit()
	p.trial()
	p.cycle()
}

// A workspace does not read what a dependency of a dependency requires. The library is
// built with its required versions all the same.
func TestWorkspaceOfOldModules(t *testing.T) {
	p := newProgram(t, nil)
	for name, text := range direct("v0.29.9") {
		p.files(map[string]string{"program/" + name: text})
	}
	p.files(map[string]string{
		"program/go.mod":     "module example.com/program\n\ngo 1.25\n\nrequire (\n\t" + clientGo + " v0.29.9\n\tgithub.com/go-logr/logr v1.3.0 // indirect\n)\n",
		"program/logging.go": "package main\n\nimport _ \"" + clientGo + "/util/logging\"\n",
		"go.work":            "go 1.25\n\nuse ./program\n",
	})
	p.dir = filepath.Join(p.top, "program")
	p.must("go", "mod", "tidy")
	p.must("go", "build", "-o", os.DevNull, ".")
	p.commit()
	p.trial()
	p.cycle()
}

// Go builds nothing in a workspace whose go line is below the go line of a module, which a write
// may raise. So the write prints the remedy before any change.
func TestWorkspaceOfOldLanguage(t *testing.T) {
	p := newProgram(t, nil)
	for name, text := range direct("v0.36.0") {
		p.files(map[string]string{"program/" + name: text})
	}
	p.files(map[string]string{
		"program/go.mod": "module example.com/program\n\ngo 1.21\n\nrequire " + clientGo + " v0.28.9\n",
		"go.work":        "go 1.21\n\nuse ./program\n",
	})
	p.dir = filepath.Join(p.top, "program")
	p.must("go", "mod", "tidy")
	p.commit()
	p.trial()
	before := tree(t, p.top)
	const why = "the write raises the module to go 1.25, and the workspace has go 1.21: "
	out := p.fails(why, "write")
	same(t, "refused", before, tree(t, p.top))
	p.must("sh", "-c", p.printed(out, why))
	p.commit()
	p.cycle()
}

// Go writes go.work.sum, and no command of swap does: who does not commit the file has no
// change that the way back leaves.
func TestWorkspaceSumIsGos(t *testing.T) {
	p := workspace(t)
	p.files(map[string]string{
		"../lib/go.mod": "module example.com/lib\n\ngo 1.21\n\nrequire " + clientGo + " v0.28.9\n",
		"../lib/lib.go": "package lib\n\nimport _ \"" + theirs + "\"\n",
	})
	p.must("go", "-C", "../lib", "mod", "tidy")
	p.commit()
	sum := filepath.Join(p.top, "go.work.sum")
	for _, args := range [][]string{{"try", "--", "go", "list", "-test", "-deps", "./..."}, {"write"}, {"check"}, {"undo"}} {
		p.must(world.swap, args...)
		if text, err := os.ReadFile(sum); err == nil {
			t.Fatalf("swap %s has written go.work.sum:\n%s", args[0], text)
		}
	}
}

// A workspace may build another version than its swapped module.
func TestWorkspaceOfOtherVersion(t *testing.T) {
	p := workspace(t)
	p.files(map[string]string{
		"../lib/go.mod": "module example.com/lib\n\ngo 1.25\n\nrequire " + clientGo + " v0.37.0\n",
		"../lib/lib.go": "package lib\n\nimport _ \"" + theirs + "\"\n",
	})
	p.dir = filepath.Join(p.top, "lib")
	p.must("go", "mod", "tidy")
	p.dir = filepath.Join(p.top, "program")
	p.must("go", "build", "-o", os.DevNull, ".")
	p.trial()
	p.commit()
	before := tree(t, p.top)
	p.fails("the workspace builds", "write")
	same(t, "after it", before, tree(t, p.top))
}

func TestNoModule(t *testing.T) {
	p := newProgram(t, map[string]string{"a.txt": ""})
	p.fails("no go.mod", "try", "go", "version")
	p = newProgram(t, map[string]string{"go.mod": "module m\n\ngo 1.25\n", "m.go": "package m\n"})
	p.fails("has no "+clientGo, "write")
	p.fails("has no "+clientGo, "try", "go", "version")
}

// A call without sense prints the usage, and runs nothing. So do the flags of the past.
func TestWrongArguments(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	for _, args := range []string{"", "-w", "-check", "go test ./...", "test ./...", "try", "try --", "write undo", "check -force", "undo -library .", "try -force -- go version"} {
		if out, code := p.run(world.swap, strings.Fields(args)...); code != 2 || !strings.Contains(out, "usage: swap try") {
			t.Errorf("swap %s: exit code %d\n%s", args, code, out)
		}
	}
	for _, args := range []string{"help", "-h", "try -h"} {
		if out, code := p.run(world.swap, strings.Fields(args)...); code != 0 || !strings.Contains(out, "swap try [-library L] -- go test ./...") {
			t.Errorf("swap %s: exit code %d\n%s", args, code, out)
		}
	}
}
