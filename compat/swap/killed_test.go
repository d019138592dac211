package swap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A call may be killed between any two of its changes. Most tests here make the rest of a killed call.

// unfinished adds the entry to the notes that a call makes before its first change. The end of the
// call removes the entry.
func (p *program) unfinished() {
	p.Helper()
	const notes = "third_party/client-go/swap.json"
	p.files(map[string]string{notes: strings.Replace(p.text(notes), "{\n", "{\n\t\"Vendor\": \"none\",\n", 1)})
	p.fails("did not come to its end: run swap undo", "check")
}

// killedWhen kills a call of swap as soon as a condition holds, and reports whether the call was not
// faster.
func (p *program) killedWhen(holds func() bool, args ...string) (killed bool) {
	p.Helper()
	cmd := command(p.dir, world.swap, args...)
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !holds() {
		select {
		case err := <-ended:
			return err != nil
		default:
		}
	}
	_ = cmd.Process.Kill()
	return <-ended != nil
}

// A call that writes into go.mod itself leaves an empty go.mod if it is killed, and then no command of
// swap works. So each call makes a new file, and gives it the name and the mode of the old file.
func TestKilledCallLeavesNoEmptyGoMod(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	names := []string{"go.mod", "go.sum"}
	for _, name := range names {
		if err := os.Chmod(filepath.Join(p.dir, name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, p.top)
	for _, call := range []string{"write", "undo"} {
		var old []os.FileInfo
		for _, name := range names {
			info, err := os.Stat(filepath.Join(p.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, info)
			p.files(map[string]string{name + ".next": "of a call that was killed before its rename"})
		}
		p.must(world.swap, call)
		for i, name := range names {
			info, err := os.Stat(filepath.Join(p.dir, name))
			if err != nil || os.SameFile(old[i], info) || info.Mode() != old[i].Mode() {
				t.Errorf("%s has written into the old %s, or has changed its mode: %v, %v", call, name, info.Mode(), err)
			}
		}
	}
	same(t, "taken back", before, tree(t, p.top))
}

func TestLinkToGoModStays(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	mod := filepath.Join(p.dir, "go.mod")
	if err := os.Rename(mod, filepath.Join(p.dir, "real.mod")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.mod", mod); err != nil {
		t.Skip(err)
	}
	before := tree(t, p.top)
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// A write after an upgrade of client-go takes back what the old write had raised. If the write was
// killed, an undo does so, wherever the kill came.
func TestUndoOfARewriteThatWasKilled(t *testing.T) {
	files := direct("v0.29.9")
	files["logging.go"] = "package main\n\nimport _ \"" + clientGo + "/util/logging\"\n"
	never, p := newProgram(t, files), newProgram(t, files)
	p.must(world.swap, "write")
	for _, p := range []*program{never, p} {
		p.must("go", "get", clientGo+"@v0.30.9")
	}
	never.must("go", "mod", "tidy")
	p.commit()
	license := filepath.Join(p.dir, "third_party", "client-go", "LICENSE")
	removing := func() bool {
		_, err := os.Stat(license)
		return err != nil
	}
	killed := 0
	for range 3 {
		if p.killedWhen(removing, "write") {
			killed++
		}
		p.must(world.swap, "undo")
		p.as(never)
		p.checkOut()
	}
	if killed == 0 {
		t.Error("no write was killed")
	}
	p.must(world.swap, "write")
	p.must("git", "checkout", "--quiet", "go.mod", "go.sum")
	p.unfinished() // The new copy is complete.
	p.must(world.swap, "undo")
	p.as(never)
}

// go.mod and go.sum are two files, and a kill may come between.
func TestUndoOfACallKilledBetweenGoSumAndGoMod(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	for _, old := range []string{"go.mod", "go.sum"} {
		p.must(world.swap, "write")
		p.must("git", "checkout", "--quiet", old)
		p.unfinished()
		p.must(world.swap, "undo")
		same(t, "with the old "+old+", and taken back", before, tree(t, p.top))
		p.checkOut()
	}
}

// Notes that had not yet got their name are no edit of the copy.
func TestUndoOfACallKilledBeforeTheRenameOfTheNotes(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	before := tree(t, p.top)
	p.must(world.swap, "write")
	p.files(map[string]string{"third_party/client-go/swap.json.next": "{"})
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}

// What `go mod edit` and a tidy would lose comes back: a block of direct and indirect requirements, and
// the comments of a requirement that the write removes. A tidy makes the block mixed by itself here.
func TestUndoBringsBackBlocksAndComments(t *testing.T) {
	files := direct("v0.29.9")
	files["logging.go"] = "package main\n\nimport _ \"" + clientGo + "/util/logging\"\n"
	p := newProgram(t, files)
	const removed = "google.golang.org/appengine v1.6.7 // indirect"
	p.edit(removed, "// Ticket 17.\n\t"+removed+"; ticket 18")
	p.must("go", "mod", "tidy")
	p.commit()
	before := tree(t, p.top)
	if out := p.must(world.swap, "write"); !strings.Contains(out, "swap: removed google.golang.org/appengine ") {
		t.Errorf("nothing is removed: %s", out)
	}
	p.must(world.swap, "undo")
	same(t, "taken back", before, tree(t, p.top))
}
