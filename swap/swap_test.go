package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// The command as a whole is tried in compat/swap. Here are the parts that matter on
// systems which that does not run on.

func TestFlagsWithSpacesAndQuotes(t *testing.T) {
	for _, flags := range [][]string{
		nil,
		{"-mod=mod"},
		{"-mod=mod", `-modfile=C:\Users\Jane Doe\AppData\Local\Temp\swap-1\go.mod`, "-trimpath"},
		{`-modfile=/home/o'brien/go.mod`, `-modfile=/a "b"/go.mod`},
		{"-modfile=/tab\there"},
	} {
		joined, err := joinFlags(flags)
		if err != nil {
			t.Error(err)
		}
		if got, err := splitFlags("  " + joined + " "); err != nil || !reflect.DeepEqual(got, flags) {
			t.Errorf("%q became %s and then %q, %v", flags, joined, got, err)
		}
	}
	if got, err := joinFlags([]string{`-modfile=/o'brien/"b"/go.mod`}); err == nil {
		t.Errorf("got %s", got)
	}
	if got, err := splitFlags(`-a '-b c`); err == nil {
		t.Errorf("got %q", got)
	}
}

// What GOFLAGS says of -mod and -modfile gives way, and all else stays.
func TestFlagsThatGiveWay(t *testing.T) {
	root := t.TempDir()
	p := &program{root: root}
	if err := p.takeFlags(`-trimpath --mod=vendor "-modfile=other go.mod" -tags=a,b`); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "other go.mod"); p.mod != want {
		t.Errorf("got %s, want %s", p.mod, want)
	}
	env, err := p.settings("off", "-mod=mod")
	if want := []string{"GOWORK=off", "GOFLAGS=-trimpath -tags=a,b -mod=mod"}; err != nil || !reflect.DeepEqual(env, want) {
		t.Errorf("got %q, %v", env, err)
	}
}

// go itself takes the flags apart as they were meant, and the paths of a go.work that has
// moved lead to where they did.
func TestPathsWithSpaces(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a program's root")
	write := func(name, text string) {
		t.Helper()
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n\ngo 1.25\n")
	write("m.go", "package m\n")
	write("go.work", "go 1.25\n\nuse (\n\t.\n\t./sub/lib\n)\n\nreplace (\n\tk8s.io/utils => ./our/utils\n\ta.b/c v1.0.0 => ./c\n\ta.b/d => a.b/e v1.0.0\n)\n")
	ctx := context.Background()
	p := &program{dir: root, root: root}
	alternate := filepath.Join(root, "elsewhere", "x y", "go.mod")
	if err := copyFile(filepath.Join(root, "go.mod"), alternate); err != nil {
		t.Fatal(err)
	}
	env, err := p.settings("off", "-modfile="+alternate)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(ctx, env, "list", "-f", "{{.ImportPath}}", "."); err != nil || strings.TrimSpace(string(out)) != "m" {
		t.Errorf("got %s, %v", out, err)
	}
	work, err := p.read(ctx, "work", filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-dropuse=.", "-use=" + root,
		"-dropuse=./sub/lib", "-use=" + filepath.Join(root, "sub", "lib"),
		"-replace=k8s.io/utils=" + filepath.Join(root, "our", "utils"),
		"-replace=a.b/c@v1.0.0=" + filepath.Join(root, "c"),
	}
	if got := moved(work, root); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// A copy is the same on all systems: with slashes in what is hashed, and whichever way
// git has written the ends of lines.
func TestSumsAreThoseOfOtherSystems(t *testing.T) {
	unix, windows := t.TempDir(), t.TempDir()
	for dir, text := range map[string]string{unix: "a\nb\n", windows: "a\r\nb\r\n"} {
		if err := writeFile(filepath.Join(dir, "sub", "file"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(filepath.Join(dir, "swap.json"), []byte(dir)); err != nil {
			t.Fatal(err)
		}
	}
	a, err1 := sumTree(unix, "swap.json")
	b, err2 := sumTree(windows, "swap.json")
	if a != b || err1 != nil || err2 != nil {
		t.Errorf("got %s and %s, %v, %v", a, b, err1, err2)
	}
	if c, _ := sumTree(unix); c == a {
		t.Error("a file was not added to the sum")
	}
}

func TestVersionsThatAreKnown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "util", "workqueue", "queue.go")
	if err := writeFile(file, []byte("package workqueue\n\ntype Type struct{}\n\nfunc New() *Type { return nil }\n\nconst hidden = 1\n\nfunc (Type) Own() {}\n")); err != nil {
		t.Fatal(err)
	}
	fork := func(version string) *module {
		return &module{Path: theirModule, Version: "v0.0.0", Dir: dir, Replace: &module{Path: "a.b/c", Version: version}}
	}
	for _, m := range []*module{
		{Path: theirModule, Version: "v0.28.0", Dir: dir}, {Path: theirModule, Version: "v0.37.2", Dir: dir},
		{Path: theirModule, Version: "v0.36.0-rc.1", Dir: dir}, fork(""), fork("v0.35.1-k3s1"), fork("v0.0.0-20260102030405-abcdefabcdef"), fork("v1.2.3"),
	} {
		if err := known(m); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, m := range []*module{
		{Path: theirModule, Version: "v0.27.16", Dir: dir}, {Path: theirModule, Version: "v0.38.0", Dir: dir},
		{Path: theirModule, Version: "v12.0.0+incompatible", Dir: dir}, {Path: theirModule, Version: "v0.0.0-20260102030405-abcdefabcdef", Dir: dir},
		fork("v0.27.1"), {Path: theirModule, Version: "v0.37.0", Dir: t.TempDir()},
	} {
		if err := known(m); err == nil {
			t.Errorf("%v is known", m)
		}
	}
	if err := writeFile(file, []byte("package workqueue\n\nvar Own, New = 1, 2\n")); err != nil {
		t.Fatal(err)
	}
	if err := known(fork("")); err == nil || !strings.HasSuffix(err.Error(), "exports what ours lacks: Own") {
		t.Errorf("got %v", err)
	}
}

// A journal that was not ended is rolled back by the next call, also when that is
// interrupted in turn.
func TestJournal(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "before")
	write("vendor/a", "before")
	begun := func() *journal {
		t.Helper()
		j, err := begin(root, []string{"go.mod", "go.sum"}, []string{"third_party/client-go", "vendor"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.setAside("vendor"); err != nil {
			t.Fatal(err)
		}
		if err := j.setAside("third_party/client-go"); err != nil {
			t.Fatal(err)
		}
		write("go.mod", "after")
		write("go.sum", "after")
		write("vendor/b", "after")
		write("third_party/client-go/c", "after")
		return j
	}
	files := func() (names []string) {
		if err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				text, _ := os.ReadFile(path)
				rel, _ := filepath.Rel(root, path)
				names = append(names, filepath.ToSlash(rel)+" "+string(text))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	want := []string{"go.mod before", "vendor/a before"}
	said := 0
	say := func(string, ...any) { said++ }

	begun()
	if err := putBack(root, say); err != nil || said != 1 || !reflect.DeepEqual(files(), want) {
		t.Errorf("got %q, said %d, %v", files(), said, err)
	}
	if _, err := os.Stat(filepath.Join(root, "third_party")); err == nil {
		t.Error("third_party is left")
	}
	// A rollback that has come half way.
	j := begun()
	if err := j.rollbackDir("vendor"); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(unfinished, "x"), "")
	write(filepath.Join(finished, "x"), "")
	if err := putBack(root, say); err != nil || said != 2 || !reflect.DeepEqual(files(), want) {
		t.Errorf("got %q, said %d, %v", files(), said, err)
	}
	if err := begun().commit(); err != nil {
		t.Fatal(err)
	}
	if err := putBack(root, say); err != nil || said != 2 {
		t.Errorf("said %d, %v", said, err)
	}
	want = []string{"go.mod after", "go.sum after", "third_party/client-go/c after", "vendor/b after"}
	if !reflect.DeepEqual(files(), want) {
		t.Errorf("got %q", files())
	}
}

// The copy can be written to, whatever the modes of what is copied.
func TestCopyIsWritable(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	file := filepath.Join(src, "sub", "a.go")
	if err := writeFile(file, []byte("package a\n")); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{file: 0o444, filepath.Dir(file): 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(path, 0o777)
	}
	if err := copyTree(context.Background(), src, dst); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"sub", filepath.Join("sub", "a.go")} {
		info, err := os.Stat(filepath.Join(dst, path))
		if err != nil || runtime.GOOS != "windows" && info.Mode()&0o200 == 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
