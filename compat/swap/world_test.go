package swap_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// The command swap on small programs, from a module proxy of files that has some
// versions of a small client-go, and this library with the files of the tree. All else
// comes from the module cache. The directories have a space in their names.

const (
	ours    = "github.com/seed16c08ea7/workqueue"
	theirs  = "k8s.io/client-go/util/workqueue"
	version = "v1.0.0" // that the proxy gives the library
	next    = "v1.1.0" // of the same files
)

// All tests share a world: the proxy, a module cache, the command as
// `go install` builds it, and the root of this repository.
var world struct{ dir, root, proxy, modcache, swap string }

func TestMain(m *testing.M) {
	if at := os.Getenv("SWAP_TEST_FAIL_AT"); at != "" {
		failingGo(at)
	}
	os.Exit(inWorld(m))
}

func inWorld(m *testing.M) int {
	dir, err := os.MkdirTemp("", "swap test ")
	if err != nil {
		panic(err)
	}
	// Go removes the module cache, because its files are read-only.
	world.dir, world.modcache = dir, filepath.Join(dir, "mod")
	world.proxy = filepath.Join(dir, "proxy")
	world.swap = filepath.Join(dir, "swap"+exe())
	defer os.RemoveAll(dir)
	defer func() { command("", "go", "clean", "-modcache").Run() }()
	if err := fill(); err != nil {
		panic(err)
	}
	install := command("", "go", "install", ours+"/swap@"+version)
	install.Env = append(install.Env, "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// command has an environment in which nothing of the machine's settings matters.
func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOENV=off", "GOFLAGS=-trimpath", "GOWORK=", "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GONOPROXY=", "GOPRIVATE=", "GOPROXY="+proxies(), "GOMODCACHE="+world.modcache,
		"GOCACHE="+machine()[2], "XDG_CACHE_HOME="+filepath.Join(world.dir, "cache"), "LocalAppData="+filepath.Join(world.dir, "cache"))
	return cmd
}

// machine are the settings of go on this machine: GOMODCACHE, GOPROXY and GOCACHE.
var machine = sync.OnceValue(func() []string {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY", "GOCACHE").Output()
	if err != nil {
		panic(err)
	}
	lines := strings.Split(string(out), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
})

// proxies are ours, the module cache of the machine, which is a proxy too, and last the
// proxy of the machine, for an empty cache.
func proxies() string {
	download := filepath.Join(machine()[0], "cache", "download")
	return fileURL(world.proxy) + "," + fileURL(download) + "," + machine()[1]
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + strings.ReplaceAll(path, " ", "%20")
}

// fill writes the proxy.
func fill() error {
	var err error
	if world.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	for _, version := range []string{version, next} {
		if err := publish(ours, version, world.root); err != nil {
			return err
		}
	}
	for _, m := range published {
		dir := filepath.Join(world.dir, "source")
		for name, text := range m.files {
			if err := write(filepath.Join(dir, name), text); err != nil {
				return err
			}
		}
		if err := publish(m.path, m.version, dir); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// publish puts a directory into the proxy as a version of a module.
func publish(path, version, dir string) error {
	at := filepath.Join(world.proxy, filepath.FromSlash(path), "@v")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(at, version+".mod"), string(mod)); err != nil {
		return err
	}
	if err := write(filepath.Join(at, version+".info"), fmt.Sprintf(`{"Version":%q}`, version)); err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(at, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer list.Close()
	fmt.Fprintln(list, version)
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	defer file.Close()
	checked, err := zip.CheckDir(dir)
	if err != nil {
		return err
	}
	var files []zip.File
	for _, path := range checked.Valid {
		name := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(path, dir)), "/")
		if name != ".git" { // a file, in a worktree
			files = append(files, fileOf{dir, name})
		}
	}
	return zip.Create(file, module.Version{Path: path, Version: version}, files)
}

// A fileOf a directory is a zip.File.
type fileOf struct{ dir, name string }

func (f fileOf) Path() string                 { return f.name }
func (f fileOf) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f fileOf) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o666)
}

// A program is a main module, in a directory of its own.
type program struct {
	*testing.T
	dir string   // where commands run
	top string   // the tree to compare
	env []string // on top
}

// newProgram writes files, tidies, and commits.
func newProgram(t *testing.T, files map[string]string) *program {
	t.Helper()
	p := &program{T: t, dir: filepath.Join(t.TempDir(), "a program")}
	p.top = p.dir
	p.files(files)
	if _, err := os.Stat(filepath.Join(p.dir, "go.mod")); err == nil {
		p.must("go", "mod", "tidy")
		p.commit()
	}
	return p
}

// commit commits all that git does not ignore. The repository is p.top.
func (p *program) commit() {
	p.Helper()
	p.must("git", "-C", p.top, "init", "--quiet")
	p.must("git", "-C", p.top, "add", "--all")
	p.must("git", "-C", p.top, "commit", "--quiet", "--allow-empty", "--message=all")
}

// checkOut brings the commit back, as the documentation says.
func (p *program) checkOut() {
	p.Helper()
	p.must("git", "-C", p.top, "checkout", "--quiet", ".")
	p.must("git", "-C", p.top, "clean", "-fd", "--quiet")
}

// text returns a file of the program.
func (p *program) text(name string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

func (p *program) files(files map[string]string) {
	p.Helper()
	for name, text := range files {
		if err := write(filepath.Join(p.dir, filepath.FromSlash(name)), text); err != nil {
			p.Fatal(err)
		}
	}
}

// run returns the output of a command, and its exit code.
func (p *program) run(name string, args ...string) (string, int) {
	p.Helper()
	cmd := command(p.dir, name, args...)
	cmd.Env = append(cmd.Env, p.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		p.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// remove removes a file or a directory of the program.
func (p *program) remove(name string) {
	p.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, filepath.FromSlash(name))); err != nil {
		p.Fatal(err)
	}
}

func (p *program) must(name string, args ...string) string {
	p.Helper()
	out, code := p.run(name, args...)
	if code != 0 {
		p.Fatalf("%s %q: exit code %d\n%s", filepath.Base(name), args, code, out)
	}
	return out
}

// fails runs swap, which must fail and say why.
func (p *program) fails(why string, args ...string) (out string) {
	p.Helper()
	out, code := p.run(world.swap, args...)
	if code != 1 || !strings.Contains(out, why) {
		p.Errorf("swap %q: exit code %d, want 1 and %q\n%s", args, code, why, out)
	}
	return out
}

// printed returns the command that swap has printed behind some words.
func (p *program) printed(out, words string) string {
	p.Helper()
	_, command, found := strings.Cut(out, words)
	command, _, _ = strings.Cut(command, "\n")
	if !found {
		p.Fatalf("got %s", out)
	}
	return command
}

// built returns the package of the queue that a dependency makes.
func (p *program) built(args ...string) string {
	p.Helper()
	out := p.must("go", append([]string{"run"}, append(args, ".")...)...)
	return strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
}

// tree returns the hash of each file, by its path. The .git directory and
// directories as such are left out, as git does.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil || entry.IsDir() {
			return err
		}
		if link, err := os.Readlink(path); err == nil {
			files[path] = "link to " + link
			return nil
		}
		data, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same fails the test if a tree has changed, and says where.
func same(t testing.TB, when string, before, after map[string]string) {
	t.Helper()
	var differ []string
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if before[path] == "" {
			differ = append(differ, path+" is new")
		} else if before[path] != after[path] {
			differ = append(differ, path+" has changed")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if after[path] == "" {
			differ = append(differ, path+" is gone")
		}
	}
	if len(differ) > 0 {
		t.Errorf("%s: %d files differ\n%s", when, len(differ), strings.Join(differ[:min(10, len(differ))], "\n"))
	}
}
