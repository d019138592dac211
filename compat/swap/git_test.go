package swap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The output of a write can be copied to the shell, also in a directory below go.mod.
func TestPrintedCommandsOfSubdirectory(t *testing.T) {
	files := mainFiles("v0.36.0", "")
	files["sub/deep/deep.go"] = "package deep\n"
	p := newProgram(t, files)
	before := tree(t, p.top)
	p.dir = filepath.Join(p.top, "sub", "deep")
	out := p.must(world.swap, "write")
	p.must("sh", "-c", p.printed(out, "commit the write: "))
	p.must("git", "reset", "--quiet")
	p.must("sh", "-c", p.printed(out, "before the commit: "))
	same(t, "taken back", before, tree(t, p.top))
}

// Without a way back there is no write, unless somebody insists.
func TestNoGit(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	p.remove(".git")
	p.fails("not a git repository", "write")
	p.must("git", "init", "--quiet")
	p.files(map[string]string{".git/info/exclude": "*\n"})
	p.fails("go.mod is not in git", "write")
	same(t, "refused", before, tree(t, p.top))
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// After a checkout the copy is left, which git does not know. An undo removes it, and a
// write prints the remedy.
func TestCheckOutLeavesTheCopy(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	p.must(world.swap, "write")
	p.must("git", "checkout", "--quiet", ".")
	p.fails("?? third_party/", "write")
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.must("git", "checkout", "--quiet", ".")
	p.must(world.swap, "undo", "-force") // The vendor folder has new files that git does not know.
	p.checkOut()
	same(t, "taken back", before, tree(t, p.top))

	p = newProgram(t, mainFiles("v0.36.0", ""))
	before = tree(t, p.top)
	p.must(world.swap, "write")
	p.must("git", "checkout", "--quiet", ".")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// Swap removes only the copy.
func TestThirdPartyIsTheUsers(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	third := filepath.Join(p.dir, "third_party")
	for _, dir := range []string{third, filepath.Join(p.dir, ".swap-ends")} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	p.cycle()
	for _, dir := range []string{third, filepath.Join(p.dir, ".swap-ends")} {
		if err := os.Remove(dir); err != nil {
			t.Errorf("an empty directory: %v", err)
		}
	}
	if err := os.Symlink(t.TempDir(), third); err != nil {
		t.Skip(err)
	}
	p.commit()
	before := tree(t, p.top)
	p.fails("third_party is a link", "write")
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// Two modules may share a copy by a link. An undo in the second module does not remove the copy.
func TestUndoDoesNotRemoveTheCopyBehindALink(t *testing.T) {
	a, b := newProgram(t, mainFiles("v0.36.0", "")), newProgram(t, mainFiles("v0.36.0", ""))
	for _, p := range []*program{a, b} {
		p.must(world.swap, "write")
	}
	link := filepath.Join(b.dir, "third_party", "client-go")
	b.remove("third_party/client-go")
	if err := os.Symlink(filepath.Join(a.dir, "third_party", "client-go"), link); err != nil {
		t.Skip(err)
	}
	before := tree(t, b.top)
	b.fails("third_party/client-go is a link", "undo")
	same(t, "refused", before, tree(t, b.top))
	a.must(world.swap, "check")
	b.must(world.swap, "undo", "-force")
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is left")
	}
}

// Of four writes at once, a single write swaps the program, and the undo takes the write back.
func TestFourWritesAtOnce(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	var all sync.WaitGroup
	codes := make([]int, 4)
	for i := range codes {
		all.Go(func() { _, codes[i] = p.run(world.swap, "write") })
	}
	all.Wait()
	if !slices.Contains(codes, 0) {
		t.Errorf("all fail: %v", codes)
	}
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// A vendor folder that somebody has pruned or patched is named, and not made anew without
// a word.
func TestVendorOfTheUsers(t *testing.T) {
	p := vendored(t)
	patched := "vendor/" + dependency + "/dep.go"
	p.files(map[string]string{patched: p.text(patched) + "\n// Patched.\n"})
	p.remove("vendor/" + clientGo + "/LICENSE")
	p.commit()
	before := tree(t, p.top)
	p.fails("\n"+dependency+"/dep.go\n"+clientGo+"/LICENSE", "write")
	same(t, "refused", before, tree(t, p.top))
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.checkOut()
	same(t, "checked out", before, tree(t, p.top))
}

// A .gitignore may hide files of the copy, or all of it. The commands of the output remove them too, and
// makes a vendor folder that git does not know.
func TestWayBackWithIgnoredFiles(t *testing.T) {
	for _, ignored := range []string{"tools/\n", "third_party/\n", "vendor/\nthird_party/\n"} {
		files := mainFiles("v0.36.0", "")
		files[".gitignore"] = ignored
		p := newProgram(t, files)
		p.must("go", "mod", "vendor")
		p.commit()
		before := tree(t, p.top)
		p.must("sh", "-c", p.printed(p.must(world.swap, "write"), "take the write back before the commit: "))
		same(t, fmt.Sprintf("%q is ignored, and taken back", ignored), before, tree(t, p.top))
	}
}

// Go writes "\n", and git may write "\r\n" into go.mod and go.sum.
func TestEndsOfLinesComeBack(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	for _, name := range []string{"go.mod", "go.sum"} {
		p.files(map[string]string{name: strings.ReplaceAll(p.text(name), "\n", "\r\n")})
	}
	p.commit()
	p.cycle()
	p.must(world.swap, "write")
	for _, name := range []string{"go.mod", "go.sum"} {
		if text := p.text(name); strings.Count(text, "\n") != strings.Count(text, "\r\n") {
			t.Errorf("swapped: %s has lines with other ends: %q", name, text)
		}
	}
}

// Go does nothing under -mod=vendor without a vendor folder. A write says so before it changes the
// tree.
func TestWriteUnderModVendorWithoutTheFolder(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	p.env = []string{"GOFLAGS=-trimpath -mod=vendor"}
	p.fails("vendor", "write")
	same(t, "refused", before, tree(t, p.top))
	p.fails("vendor", "write", "-force")
	same(t, "refused", before, tree(t, p.top))
	p.must("go", "mod", "vendor")
	p.commit()
	p.cycle()
}

// A copy that git leaves out in part would break a clone.
func TestIgnoredFiles(t *testing.T) {
	files := mainFiles("v0.36.0", "")
	files[".gitignore"] = "tools/\n"
	p := newProgram(t, files)
	if out := p.must(world.swap, "write"); !strings.Contains(out, "git add -f go.mod go.sum third_party/client-go\n") {
		t.Errorf("got %s", out)
	}
	clone := &program{T: t, dir: filepath.Join(t.TempDir(), "clone")}
	cloned := func() {
		t.Helper()
		if err := os.RemoveAll(clone.dir); err != nil {
			t.Fatal(err)
		}
		p.commit()
		p.must("git", "clone", "--quiet", ".", clone.dir)
	}
	cloned()
	clone.fails("third_party/client-go/tools/watch/testdata/a is missing: does a .gitignore leave the file out?", "check")
	p.must("git", "add", "-f", "go.mod", "go.sum", "third_party/client-go")
	cloned()
	clone.must(world.swap, "check")
}
