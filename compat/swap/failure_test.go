package swap_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// failingGo is the go command of a test with a failure: this very program
// under the name of go. The call with the given number fails, or kills swap first, if
// the number has a k before it. All other calls are passed on.
func failingGo(at string) {
	log := os.Getenv("SWAP_TEST_CALLS")
	calls, _ := os.ReadFile(log)
	file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(file, os.Args[1:])
	file.Close()
	number, kill := strings.CutPrefix(at, "k")
	if half, found := strings.CutPrefix(at, "half "); found && slices.Contains(os.Args, "vendor") && !slices.Contains(os.Args, "-o") {
		halfVendored(half)
		parent, _ := os.FindProcess(os.Getppid())
		_ = parent.Kill()
		os.Exit(1)
	}
	if strconv.Itoa(strings.Count(string(calls), "\n")+1) == number {
		if kill {
			parent, _ := os.FindProcess(os.Getppid())
			_ = parent.Kill()
		}
		fmt.Fprintln(os.Stderr, "a failure in the middle")
		os.Exit(1)
	}
	cmd := exec.Command(os.Getenv("SWAP_TEST_GO"), os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// halfVendored leaves the rest of a killed `go mod vendor`: first go removes the folder,
// and go writes modules.txt last.
func halfVendored(half string) {
	if err := os.RemoveAll("vendor"); err != nil {
		panic(err)
	}
	if half == "some" {
		if err := write(filepath.Join("vendor", dependency, "dep.go"), "package dep\n"); err != nil {
			panic(err)
		}
	}
}

// sabotaged returns the environment in which the given call of go fails.
func sabotaged(t *testing.T, at string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "go"+exe())); err != nil {
		t.Skip(err)
	}
	return []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "SWAP_TEST_GO=" + real,
		"SWAP_TEST_CALLS=" + filepath.Join(dir, "calls"), "SWAP_TEST_FAIL_AT=" + at}
}

// sabotage runs swap, and returns how often swap has called go.
func (p *program) sabotage(at string, args ...string) (out string, code, calls int) {
	p.Helper()
	p.env = sabotaged(p.T, at)
	defer func() { p.env = nil }()
	out, code = p.run(world.swap, args...)
	log, err := os.ReadFile(strings.TrimPrefix(p.env[2], "SWAP_TEST_CALLS="))
	if err != nil {
		p.Fatal(err)
	}
	return out, code, strings.Count(string(log), "\n")
}

// vendored is a program whose swapped copy is in the cache: each call of swap makes the same
// calls of go.
func vendored(t *testing.T) *program {
	t.Helper()
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must("go", "mod", "vendor")
	p.commit()
	p.trial()
	return p
}

var all = flag.Bool("all", false, "kill swap at each call of go, and not at one of four")

// points are the calls of go at which a call of swap is killed: the last ones, which come
// when the program is being changed, and some before. Each takes seconds of go itself.
func points(calls int) (at []int) {
	for i := calls; i > 0; i-- {
		if *all || i > calls-5 || i%4 == 0 {
			at = append(at, i)
		}
	}
	return at
}

// Whenever a write is killed, git shows the changes of the write, and brings the old files
// back. The write leaves nothing else.
func TestKilledWrite(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	_, _, calls := p.sabotage("0", "write")
	p.checkOut()
	same(t, "checked out", before, tree(t, p.top))
	changed := 0
	for _, at := range points(calls) {
		p.sabotage("k"+strconv.Itoa(at), "write")
		if p.must("git", "status", "--short") == "" {
			same(t, fmt.Sprintf("killed at %d, with no change for git", at), before, tree(t, p.top))
			continue
		}
		changed++
		if _, code := p.run(world.swap, "check"); code != 0 { // else the write was complete
			p.fails("commit these first", "write")
		}
		p.checkOut()
		same(t, fmt.Sprintf("killed at %d, and checked out", at), before, tree(t, p.top))
	}
	if changed < 2 {
		t.Errorf("of %d kills, %d came in the middle of a change", calls, changed)
	}
}

// A commit after a killed write stays.
func TestRequirementAfterKilledWrite(t *testing.T) {
	p := vendored(t)
	_, _, calls := p.sabotage("0", "write")
	p.checkOut()
	p.sabotage("k"+strconv.Itoa(calls-2), "write")
	p.must("go", "mod", "edit", "-require=example.com/other@v1.0.0")
	p.files(map[string]string{"other.go": "package main\n\nimport _ \"example.com/other\"\n"})
	p.must("go", "mod", "tidy")
	p.must("go", "mod", "vendor")
	p.commit()
	p.must(world.swap, "write", "-force")
	p.must(world.swap, "check")
	p.must(world.swap, "undo")
	if got := p.requirements()["example.com/other"]; got != "v1.0.0" {
		t.Errorf("the requirement is %q", got)
	}
}

// Another undo finishes an undo that was killed.
func TestKilledUndo(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	p.must(world.swap, "write")
	p.commit()
	_, _, calls := p.sabotage("0", "undo")
	same(t, "taken back", before, tree(t, p.top))
	for _, at := range points(calls) {
		p.checkOut()
		p.sabotage("k"+strconv.Itoa(at), "undo")
		p.must(world.swap, "undo")
		same(t, fmt.Sprintf("killed at %d, and taken back", at), before, tree(t, p.top))
	}
}

// An undo that was killed in `go mod vendor`, and a write, leave half a folder or none. The undo that
// follows makes the folder anew.
func TestUndoKilledInVendorLeavesHalfTheFolder(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	for _, killed := range []string{"undo", "write"} {
		for _, half := range []string{"some", "none"} {
			if killed == "undo" {
				p.must(world.swap, "write")
				p.commit()
			}
			p.sabotage("half "+half, killed)
			p.fails("did not come to its end: run swap undo", "check")
			p.must(world.swap, "undo")
			same(t, killed+" was killed with "+half+" of the folder, and taken back", before, tree(t, p.top))
			p.commit()
		}
	}
}

// An undo that was killed while it removed the copy leaves a part of the copy. The undo that follows
// does not take the missing files for an edit.
func TestUndoKilledWhileItRemovedTheCopy(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	copied := filepath.Join(p.dir, "third_party", "client-go")
	for _, kept := range []int{0, 5} {
		p.must(world.swap, "write")
		p.commit()
		p.sabotage("half none", "undo") // The next step would remove the copy.
		for _, path := range slices.Sorted(maps.Keys(tree(t, copied)))[kept:] {
			if filepath.Base(path) == "swap.json" {
				continue
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		p.must(world.swap, "undo")
		same(t, fmt.Sprintf("with %d files left, and taken back", kept), before, tree(t, p.top))
		p.commit()
	}
	if err := os.MkdirAll(copied, 0o777); err != nil {
		t.Fatal(err)
	}
	p.must(world.swap, "undo") // It was killed before it removed the directory.
	if _, err := os.Stat(copied); err == nil {
		t.Error("the directory is left")
	}
}

// A killed write has the notes before any other file of the copy, so an undo knows the copy.
func TestUndoKnowsTheCopyOfAKilledWrite(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must(world.swap, "try", "--", "go", "version")
	before := tree(t, p.top)
	copied := filepath.Join(p.dir, "third_party", "client-go")
	killed := 0
	begun := func() bool {
		entries, err := os.ReadDir(copied)
		return err == nil && len(entries) > 0
	}
	for range 5 {
		if p.killedWhen(begun, "write") {
			killed++
		}
		p.must(world.swap, "undo")
		same(t, "killed, and taken back", before, tree(t, p.top))
	}
	if killed == 0 {
		t.Error("no write was killed")
	}
}

// When a call of go fails, the tree is as before, or swap prints the command that brings the tree back.
func TestFailedWrite(t *testing.T) {
	p := vendored(t)
	before := tree(t, p.top)
	_, _, calls := p.sabotage("0", "write")
	p.checkOut()
	brought := 0
	for _, at := range points(calls) {
		out, code, _ := p.sabotage(strconv.Itoa(at), "write")
		if _, command, said := strings.Cut(out, "take it back: "); said {
			p.must("sh", "-c", command)
			brought++
		}
		if same(t, fmt.Sprintf("call %d failed", at), before, tree(t, p.top)); code == 0 || !strings.Contains(out, "a failure in the middle") {
			t.Errorf("call %d failed: exit code %d\n%s", at, code, out)
		}
	}
	if brought < 2 {
		t.Errorf("swap said %d times what brings the tree back", brought)
	}
}
