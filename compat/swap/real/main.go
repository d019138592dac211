// Real swaps the queue under each release of client-go, and in programs of other
// projects. It runs the tests of each program before and after the swap, and adds the
// guard test of docs/migrating.md, which must fail before and pass after.
//
// Under each release, the swap is also written, checked and taken back. Vendor folders, workspaces,
// forks and upgrades are tried on the small programs of the tests in the directory above.
//
//	go run -C compat ./swap/real
//	go run -C compat ./swap/real -only cloud-provider
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const theirs = "k8s.io/client-go/util/workqueue"

// A program is a version of a module, with the packages whose tests run.
type program struct {
	module, version string
	packages        []string
	// into is the directory of the package that gets the guard test, and name is the name
	// of the package.
	into, name string
}

// programs are public modules whose tests need no cluster.
var programs = []program{
	{
		module: "k8s.io/cloud-provider", version: "v0.37.2",
		packages: []string{"./controllers/node", "./controllers/route", "./controllers/service"},
		into:     "controllers/service", name: "service",
	},
	{
		module: "github.com/fluxcd/pkg/runtime", version: "v0.90.0",
		packages: []string{"./controller", "./predicates", "./leaderelection"},
		into:     "controller", name: "controller_test",
	},
}

func main() {
	log.SetFlags(0)
	only := flag.String("only", "", "a `part` of the name of what is to be swapped; k8s.io/client-go has the releases")
	flag.Parse()
	dir, err := os.MkdirTemp("", "swapped programs ")
	if err != nil {
		log.Fatal(err)
	}
	library, err := filepath.Abs("..")
	if err == nil {
		err = all(dir, library, *only)
	}
	if removed := os.RemoveAll(dir); err == nil {
		err = removed
	}
	if err != nil {
		log.Fatal(err)
	}
}

func all(dir, library, only string) error {
	swap := filepath.Join(dir, "swap")
	if _, err := run(library, "go", "build", "-o", swap, "./swap"); err != nil {
		return err
	}
	guard, err := guardTest(filepath.Join(library, "docs", "migrating.md"))
	if err != nil {
		return err
	}
	if strings.Contains("k8s.io/client-go", only) {
		if err := allReleases(dir, swap, library); err != nil {
			return err
		}
	}
	for i, p := range programs {
		if !strings.Contains(p.module, only) {
			continue
		}
		if err := p.try(filepath.Join(dir, fmt.Sprint(i)), guard, swap, library); err != nil {
			return fmt.Errorf("%s %s: %w", p.module, p.version, err)
		}
	}
	return nil
}

func (p *program) try(dir, guard, swap, library string) error {
	defer os.RemoveAll(dir) // All programs together take gigabytes.
	if err := p.copy(dir, guard); err != nil {
		return err
	}
	// Some tests of the programs have time limits, which a busy machine exceeds now and then. A test
	// broken by the swap fails every time.
	var err error
	for range 3 {
		if err = p.compare(dir, []string{swap, "try", "-library", library, "--"}); err == nil {
			break
		}
	}
	return err
}

// guardTest returns the code of the documentation.
func guardTest(page string) (string, error) {
	text, err := os.ReadFile(page)
	_, code, _ := strings.Cut(string(text), "```go\nfunc TestQueuesAreSwapped")
	code, _, found := strings.Cut(code, "```")
	if err == nil && !found {
		err = fmt.Errorf("%s has no guard test", page)
	}
	return "func TestQueuesAreSwapped" + code, err
}

// copy fetches the program, and adds the guard test to a package. Replaces by
// directories, which a module has for its own repository, are dropped.
func (p *program) copy(dir, guard string) error {
	out, err := run("", "go", "mod", "download", "-json", p.module+"@"+p.version)
	if err != nil {
		return err
	}
	var fetched struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &fetched); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(fetched.Dir)); err != nil {
		return err
	}
	if err := writable(dir); err != nil {
		return err
	}
	if err := dropReplaces(dir); err != nil {
		return err
	}
	test := "package " + p.name + "\n\nimport (\n\t\"reflect\"\n\t\"testing\"\n\n\t\"" + theirs + "\"\n)\n\n" + guard
	return os.WriteFile(filepath.Join(dir, p.into, "guard_test.go"), []byte(test), 0o666)
}

// writable changes the modes of files from the module cache, which are read-only.
func writable(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
}

func dropReplaces(dir string) error {
	mod := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^.* => \.\.?/.*\n`).ReplaceAll(text, nil)
	if err := os.WriteFile(mod, text, 0o666); err != nil {
		return err
	}
	_, err = run(dir, "go", "mod", "tidy")
	return err
}

// compare runs the tests before and after.
func (p *program) compare(dir string, swap []string) error {
	before, err := p.tests(dir, nil)
	if err != nil {
		return err
	}
	after, err := p.tests(dir, swap)
	if err != nil {
		return err
	}
	if err := before.same(after); err != nil {
		return err
	}
	fmt.Printf("%s %s: %d tests of its own have the same outcomes, and the guard test passes\n", p.module, p.version, len(before.own))
	return nil
}

// same returns an error if a test but the guard test has another outcome after the swap.
func (o *outcomes) same(after outcomes) error {
	if o.guard != "fail" || after.guard != "pass" {
		return fmt.Errorf("the guard test: %q, and with the swap %q", o.guard, after.guard)
	}
	if !slices.Equal(o.own, after.own) || len(o.own) == 0 {
		return fmt.Errorf("tests before:\n%s\nand after:\n%s", strings.Join(o.own, "\n"), strings.Join(after.own, "\n"))
	}
	return nil
}

// outcomes are the results of the tests.
type outcomes struct {
	own   []string // each test or subtest, with its outcome
	guard string
}

// tests runs go test behind a prefix, and collects the results.
func (p *program) tests(dir string, prefix []string) (o outcomes, err error) {
	args := slices.Concat(prefix, []string{"go", "test", "-json", "-count=1", "-vet=off", "-ldflags=-w", "-timeout=1h"}, p.packages)
	out, _ := run(dir, args[0], args[1:]...) // The guard test fails without the swap.
	for line := range strings.Lines(out) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil {
			o.note(e)
		}
	}
	slices.Sort(o.own)
	if len(o.own) == 0 {
		err = fmt.Errorf("no test has run:\n%s", out)
	}
	return o, err
}

// An event is a line of go test -json.
type event struct{ Action, Package, Test string }

func (o *outcomes) note(e event) {
	if e.Test == "" || !slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
		return
	}
	if e.Test == "TestQueuesAreSwapped" {
		o.guard = e.Action
		return
	}
	o.own = append(o.own, e.Action+" "+e.Package+" "+e.Test)
}

// run returns the output of a command. An error contains the output too.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%s %q: %w\n%s%s", name, args, err, out, failed.Stderr)
	}
	return string(out), err
}
