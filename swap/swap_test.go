package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// The command as a whole is tried in compat/swap. Here are the parts that matter on
// systems which that does not run on.

// What GOFLAGS says of -mod and -modfile gives way, and all else stays.
func TestFlagsThatGiveWay(t *testing.T) {
	root := filepath.Join(t.TempDir(), "o'brien's program")
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n", "other go.mod": "module other\n\ngo 1.25\n", "m.go": "package m\n", "tagged.go": "//go:build a\n\npackage m\n",
	} {
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	t.Setenv("GOWORK", "")
	t.Setenv("GOFLAGS", `-tags=a,b --mod=vendor "-modfile=other go.mod"`)
	p, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "other go.mod"); p.mod != want || p.work != "" {
		t.Errorf("got %+v, want %s", p, want)
	}
	env := p.settings("off", "-mod=mod", "-modfile="+filepath.Join(root, "go.mod"))
	out, err := p.run(t.Context(), env, "list", "-f", "{{.ImportPath}} {{.GoFiles}}", ".")
	if got := strings.TrimSpace(string(out)); err != nil || got != "m [m.go tagged.go]" {
		t.Errorf("got %s, %v", got, err)
	}
}

// The paths of a go.work that has moved lead to where they did.
func TestPathsOfAWorkspace(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a program's root")
	file := filepath.Join(root, "go.work")
	text := "go 1.25\n\nuse (\n\t.\n\t./sub/lib\n)\n\nreplace (\n\tk8s.io/utils => ./our/utils\n\ta.b/c v1.0.0 => ./c\n\ta.b/d => a.b/e v1.0.0\n)\n"
	if err := writeFile(file, []byte(text)); err != nil {
		t.Fatal(err)
	}
	work, err := new(program).read(t.Context(), "work", file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-dropuse=.", "-use=" + root,
		"-dropuse=./sub/lib", "-use=" + filepath.Join(root, "sub", "lib"),
		"-replace=k8s.io/utils=" + filepath.Join(root, "our", "utils"),
		"-replace=a.b/c@v1.0.0=" + filepath.Join(root, "c"),
	}
	if got := work.moved(root); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// An undo sets each line to what it was before the write, the replaces of the user's too,
// and leaves what somebody has changed since.
func TestTakeBack(t *testing.T) {
	const before = `module m

go 1.21

toolchain go1.21.5

require (
	a.b/changed v1.0.0
	a.b/raised v1.0.0
)

replace k8s.io/client-go v0.36.0 => a.b/fork v0.36.1

replace github.com/seed16c08ea7/workqueue => ../mine
`
	const after = `module m

go 1.25

require (
	a.b/added v1.0.0 // indirect
	a.b/changed v1.1.0
	a.b/imported v1.0.0 // indirect
	a.b/raised v1.1.0
	github.com/seed16c08ea7/workqueue v1.0.0 // indirect
)

replace k8s.io/client-go v0.36.0 => ./third_party/client-go

replace github.com/seed16c08ea7/workqueue => /checkout
`
	p, dir := new(program), t.TempDir()
	read := func(name, text string) *modFile {
		t.Helper()
		if err := writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
		m, err := p.read(t.Context(), "mod", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	n := &notes{Changed: changes(read("before.mod", before).lines(), read("after.mod", after).lines()), Raised: map[string]string{"a.b/raises": "v1.1.0"}}
	takenBack := func(name, text string) string {
		t.Helper()
		a := &alternate{p: p, mod: filepath.Join(dir, name)}
		if _, err := a.edit(t.Context(), read(name, text).takeBack(n)...); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(a.mod)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := takenBack("after.mod", after); !reflect.DeepEqual(read("got.mod", got).lines(), read("before.mod", before).lines()) {
		t.Errorf("got %s", got)
	}
	if got := takenBack("before.mod", before); got != before {
		t.Errorf("of a go.mod without the swap: got %s", got)
	}
	// Of these, a tidy has added the last one with a version that the write had raised.
	for line, stays := range map[string]bool{"a.b/raises v1.2.0 // indirect": true, "a.b/raises v1.1.0": true, "a.b/raises v1.1.0 // indirect": false} {
		if got := takenBack("tidied.mod", after+"\nrequire "+line+"\n"); strings.Contains(got, "a.b/raises") != stays {
			t.Errorf("%s: got %s", line, got)
		}
	}
	since := strings.NewReplacer("a.b/changed v1.1.0", "a.b/changed v1.2.0", "v1.0.0 // indirect\n\ta.b/raised", "v1.0.0\n\ta.b/raised").Replace(after)
	want := strings.NewReplacer("a.b/changed v1.0.0", "a.b/changed v1.2.0\n\ta.b/imported v1.0.0").Replace(before)
	if got := takenBack("since.mod", since); !reflect.DeepEqual(read("got.mod", got).lines(), read("want.mod", want).lines()) {
		t.Errorf("got %s", got)
	}
}

// Git would neither see changes behind a link, nor take a write to the file behind the link back.
func TestWriteBehindALinkIsRefused(t *testing.T) {
	for path, target := range map[string]string{"go.mod": "real.mod", "go.sum": "real.sum", "vendor": "deps", "third_party": "others", thirdParty: "other"} {
		p := &program{root: t.TempDir()}
		if err := writeFile(filepath.Join(p.root, "deps", "modules.txt"), []byte("# a.b/c v1.0.0\n")); err != nil {
			t.Fatal(err)
		}
		link := absolute(p.root, path)
		if err := os.MkdirAll(filepath.Dir(link), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err)
		}
		p.vendor = p.findVendor()
		if err := p.committed(t.Context()); err == nil || !strings.HasPrefix(err.Error(), path+" is a link") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// A replace that pins the module of a requirement ends in the same words as the requirement.
func TestCommentOfARequirementThatCameBack(t *testing.T) {
	const before = "module m\n\ngo 1.25\n\nrequire (\n\ta.b/c v1.0.0\n\tx/a.b/c v1.0.0\n)\n\nrequire a.b/d v1.0.0\n\nreplace (\n\ta.b/c => a.b/c v1.0.0\n\ta.b/d => a.b/d v1.0.0\n)\n"
	a := &alternate{mod: filepath.Join(t.TempDir(), "go.mod")}
	if err := writeFile(a.mod, []byte(before)); err != nil {
		t.Fatal(err)
	}
	if err := a.markIndirect(map[string][2]string{"-require=a.b/c@": {"v1.0.0", ""}, "-require=a.b/d@": {"v1.0.0", ""}}); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("\ta.b/c v1.0.0\n", "\ta.b/c v1.0.0 // indirect\n", "require a.b/d v1.0.0\n", "require a.b/d v1.0.0 // indirect\n").Replace(before)
	if got, err := os.ReadFile(a.mod); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// A copy is the same on all systems: with slashes in what is hashed, and whichever way
// git has written the ends of lines.
func TestSumsAreThoseOfOtherSystems(t *testing.T) {
	sum := func(text string) string {
		t.Helper()
		dir := t.TempDir()
		if err := writeFile(filepath.Join(dir, "sub", "file"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		all, err := sums(dir)
		if err != nil || len(all) != 1 || all["sub/file"] == "" {
			t.Errorf("got %v, %v", all, err)
		}
		return sumOfSums(all)
	}
	if sum("a\nb\n") != sum("a\r\nb\r\n") || sum("a\nb\n") == sum("a\nc\n") {
		t.Error("sums differ by the end of a line, or not by the text")
	}
}

func TestVersionsThatAreKnown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "util", "workqueue", "queue.go")
	if err := writeFile(file, []byte("package workqueue\n\ntype Type struct{}\n\nfunc New() *Type { return nil }\n\nconst hidden = 1\n\nfunc (Type) Own() {}\n")); err != nil {
		t.Fatal(err)
	}
	knows := (&call{say: t.Logf}).knows
	fork := func(version string) *module {
		return &module{Path: theirModule, Version: "v0.0.0", Dir: dir, Replace: &module{Path: "a.b/c", Version: version}}
	}
	for _, m := range []*module{
		{Path: theirModule, Version: "v0.28.0", Dir: dir}, {Path: theirModule, Version: "v0.37.2", Dir: dir},
		{Path: theirModule, Version: "v0.36.0-rc.1", Dir: dir}, fork(""), fork("v0.35.1-k3s1"), fork("v0.0.0-20260102030405-abcdefabcdef"), fork("v1.2.3"),
	} {
		if err := knows(m); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, m := range []*module{
		{Path: theirModule, Version: "v0.27.16", Dir: dir}, {Path: theirModule, Version: "v0.38.0", Dir: dir},
		{Path: theirModule, Version: "v12.0.0+incompatible", Dir: dir},
		fork("v0.27.1"), {Path: theirModule, Version: "v0.37.0", Dir: t.TempDir()},
	} {
		if err := knows(m); err == nil {
			t.Errorf("%v is known", m)
		}
	}
	if err := writeFile(file, []byte("package workqueue\n\nvar Own, New = 1, 2\n")); err != nil {
		t.Fatal(err)
	}
	if err := knows(fork("")); err == nil || !strings.HasSuffix(err.Error(), "exports names that ours lacks: var Own") {
		t.Errorf("got %v", err)
	}
}

// Versions are ordered as the go command orders them.
func TestOlderVersions(t *testing.T) {
	ordered := []string{
		"v0.0.0-20230406110748-d93618cff8a2", "v0.0.0-20251002143259-bc988d571ff4", "v0.0.0",
		"v0.9.0", "v0.10.0-alpha.2", "v0.10.0-alpha.10", "v0.10.0-beta.1", "v0.10.0-rc.0", "v0.10.0-rc.0.0.20260102030405-abcdefabcdef", "v0.10.0", "v0.10.1",
		"v1.3.0", "v1.4.2", "v1.36.8", "v12.0.0+incompatible",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := older(a, b); got != (i < j) {
				t.Errorf("%s is older than %s: %v", a, b, got)
			}
		}
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

// A part of a copy, which a killed call leaves, has a go.mod. Without it, the packages of the part would
// be packages of the program, and a tidy would require what they import.
func TestPartOfACopyHasAGoMod(t *testing.T) {
	cached, root := t.TempDir(), t.TempDir()
	a := &alternate{p: &program{root: root}}
	n := &notes{Sums: map[string]string{"go.mod": ""}}
	if err := writeFile(filepath.Join(cached, "go.mod"), []byte("module m\n")); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		n.Sums[fmt.Sprintf("missing%d/a.go", i)] = ""
	}
	if err := install(t.Context(), a, n, cached); err == nil {
		t.Error("a copy of missing files is complete")
	}
	dir := a.p.copied()
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Errorf("the copy began with another file: %v", err)
	}

	const packages = 300
	for i := range packages {
		if err := writeFile(filepath.Join(dir, fmt.Sprintf("package%d", i), "a.go"), nil); err != nil {
			t.Fatal(err)
		}
	}
	removed := make(chan error)
	go func() { removed <- removeCopy(dir) }()
	for {
		_, missing := os.Stat(filepath.Join(dir, "go.mod"))
		left, _ := filepath.Glob(filepath.Join(dir, "package*"))
		if missing != nil && len(left) > 0 {
			t.Errorf("go.mod was removed before %d packages", len(left))
			<-removed
			return
		}
		select {
		case err := <-removed:
			if _, there := os.Stat(dir); err != nil || there == nil {
				t.Errorf("the copy is left: %v", err)
			}
			return
		default:
		}
	}
}

// A rename asks for the right to the directory alone.
func TestReadOnlyFileIsNotReplaced(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("modes do not stop root")
	}
	path := filepath.Join(t.TempDir(), "go.mod")
	if err := os.WriteFile(path, []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, []byte("new")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("got %s, %v", text, err)
	}
}

// A file that imports both packages, a dot import and a comment were taken for the wrong one.
func TestSetsProvider(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	both := "package a\n\nimport (\n\t\"" + ourModule + "\"\n\tclientgo \"" + theirPackage + "\"\n)\n\n// workqueue.SetProvider(nil)\n"
	for text, want := range map[string][2]bool{
		both + "func init() { clientgo.SetProvider(nil) }\n":  {false, true},
		both + "func init() { workqueue.SetProvider(nil) }\n": {true, false},
		both: {false, false},
		"package a\n\nimport . \"" + theirPackage + "\"\n\nfunc init() { SetProvider(nil) }\n": {false, true},
		"package a\n\nfunc init() { SetProvider(nil) }\n":                                      {false, false},
		"package": {false, false},
	} {
		if err := writeFile(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{setsProvider(file, ourModule), setsProvider(file, theirPackage)}; got != want {
			t.Errorf("got %v, want %v of\n%s", got, want, text)
		}
	}
}
