package swap_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// failingGo is the go command of a test that a failure is put into: this very program
// under the name of go. The call with the given number fails, or kills swap first, if
// the number has a k before it. All others are passed on.
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

var all = flag.Bool("all", false, "have each call of go fail, and not one of four")

// stride is how many calls of go there are for one that fails. Each failure takes seconds
// of go itself.
func stride() int {
	if *all {
		return 1
	}
	return 4
}

// eachFailure runs swap until no call of go is left to fail, and returns how many
// failures there were, or would be with all of them. The last run, which nothing happens to, succeeds. Another may
// too: -w need not know whether an old swap is current. Then it is undone by hand.
func (p *program) eachFailure(args []string, kill bool, afterwards func(when string)) (failures int) {
	p.Helper()
	saved := filepath.Join(p.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(p.top)); err != nil {
		p.Fatal(err)
	}
	for at := 1; at < 40; at += stride() {
		number := strconv.Itoa(at)
		if kill {
			number = "k" + number
		}
		out, code, calls := p.sabotage(number, args)
		switch {
		case code == 0 && calls < at:
			return failures * stride()
		case code == 0:
			p.restore(saved)
			continue
		case !kill && !strings.Contains(out, "a failure in the middle"):
			p.Fatalf("call %d: %s", at, out)
		}
		failures++
		afterwards(fmt.Sprintf("%q, call %d", args, at))
	}
	p.Fatal("it never came to an end")
	return 0
}

// sabotage runs swap, and returns how often that has called go.
func (p *program) sabotage(at string, args []string) (out string, code, calls int) {
	p.env = sabotaged(p.T, at)
	defer func() { p.env = nil }()
	out, code = p.run(world.swap, args...)
	log, err := os.ReadFile(strings.TrimPrefix(p.env[2], "SWAP_TEST_CALLS="))
	if err != nil {
		p.Fatal(err)
	}
	return out, code, strings.Count(string(log), "\n")
}

func (p *program) restore(saved string) {
	p.Helper()
	if err := os.RemoveAll(p.top); err != nil {
		p.Fatal(err)
	}
	if err := os.CopyFS(p.top, os.DirFS(saved)); err != nil {
		p.Fatal(err)
	}
}

// Whichever call of go fails, the tree is as it was.
func TestFailureInTheMiddle(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must("go", "mod", "vendor")
	before := tree(t, p.top)
	asBefore := func(when string) { same(t, when, before, tree(t, p.top)) }
	if calls := p.eachFailure([]string{"-w"}, false, asBefore); calls < 8 {
		t.Errorf("only %d calls of go could fail", calls)
	}
	p.must("go", "get", clientGo+"@v0.37.0")
	p.must("go", "mod", "vendor")
	before = tree(t, p.top)
	for _, args := range [][]string{{"-w"}, {"-undo"}} {
		if calls := p.eachFailure(args, false, asBefore); calls < 4 {
			t.Errorf("%q: only %d calls of go could fail", args, calls)
		}
		before = tree(t, p.top)
	}
}

// When swap itself is killed, the next call puts things back first, whatever it is for.
func TestKilledInTheMiddle(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must("go", "mod", "vendor")
	before := tree(t, p.top)
	interrupted := 0
	p.eachFailure([]string{"-w"}, true, func(when string) {
		if _, err := os.Stat(filepath.Join(p.dir, ".swap-before")); err == nil {
			interrupted++
			p.fails("was interrupted", "-check")
		}
		p.fails("not swapped", "-undo")
		same(t, when, before, tree(t, p.top))
	})
	if interrupted*stride() < 4 {
		t.Errorf("the change was interrupted %d times", interrupted)
	}
	p.must(world.swap, "-check")
	before = tree(t, p.top)
	p.eachFailure([]string{"-undo"}, true, func(when string) {
		p.must(world.swap, "-w") // It puts things back, and finds the swap current.
		same(t, when, before, tree(t, p.top))
	})
}

// The vendor folder of a workspace is outside of the module that is swapped.
func TestFailureInAWorkspace(t *testing.T) {
	p := workspace(t)
	p.must("go", "work", "vendor")
	before := tree(t, p.top)
	failures := 0
	p.eachFailure([]string{"-w"}, false, func(when string) {
		failures++
		same(t, when, before, tree(t, p.top))
	})
	if failures*stride() < 8 {
		t.Errorf("only %d calls of go could fail", failures)
	}
}
