package swap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A user who may not write to the module cache, as in a container image, with all that
// is needed in it. Modes do not stop root, so root becomes somebody else.
func TestReadOnlyModuleCache(t *testing.T) {
	p := newProgram(t, mainFiles("v0.36.0", ""))
	p.must(world.swap, "write") // It downloads.
	p.must("go", "mod", "vendor")
	p.must(world.swap, "undo")
	p.commit()
	dir, err := os.MkdirTemp("", "swap of somebody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	home := filepath.Join(dir, "a program")
	if err := os.CopyFS(home, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	for _, open := range []string{dir, world.dir} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if out, err := exec.Command("chown", "-R", "65534:65534", dir).CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	} else if err := exec.Command("chmod", "-R", "a-w", world.modcache).Run(); err != nil {
		t.Fatal(err)
	}
	defer exec.Command("chmod", "-R", "u+w", world.modcache).Run()
	run := func(args ...string) {
		t.Helper()
		cmd := command(home, world.swap, args...)
		cmd.SysProcAttr = as
		cmd.Env = append(cmd.Env, "GOPROXY=off", "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "GOCACHE="+filepath.Join(dir, "gocache"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("swap %q: %v\n%s", args, err, out)
		}
	}
	probe := command(home, "touch", filepath.Join(world.modcache, "probe"))
	probe.SysProcAttr = as
	if probe.Run() == nil {
		t.Fatal("the module cache can be written to")
	}
	before := tree(t, home)
	run("try", "go", "list", "-deps", ".")
	same(t, "after a trial", before, tree(t, home))
	run("write")
	run("check")
	run("undo")
	same(t, "taken back", before, tree(t, home))
}
