// Package debian finds the programs of Debian packages that the integration
// tests run.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program returns the path of a program of a package: that of the machine if
// it is on the PATH, else one that is downloaded once for each user.
//
// The package is taken apart and not installed, for three reasons: it needs no
// root, it starts no service, and nothing of the machine changes. What the
// package depends on is therefore missing; for servers written in Go, which
// need libc alone, that does not matter.
func Program(ctx context.Context, pkg, name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	root, err := unpacked(ctx, pkg)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH and not to be had from the Debian package %s: %w", name, pkg, err)
	}
	return exec.LookPath(filepath.Join(root, "usr", "bin", name))
}

// unpacked returns the directory with the contents of a package.
func unpacked(ctx context.Context, pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil { // No home directory, as in some build services.
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "workqueue-integration", pkg)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), pkg+"-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	contents, err := download(ctx, work, pkg)
	if err != nil {
		return "", err
	}
	// Renamed when it is complete: whoever finds the directory, after a crash
	// or beside another run, finds all of it. If the other run was first, its
	// contents are as good.
	if err := os.Rename(contents, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// download fetches a package into the directory and takes it apart there. The
// lists of packages are fetched as well, into the same place: a new machine
// has none, an old one has stale ones, and those of the system are root's.
func download(ctx context.Context, dir, pkg string) (contents string, err error) {
	lists, archives := filepath.Join(dir, "lists"), filepath.Join(dir, "archives")
	for _, d := range []string{lists, archives} {
		if err := os.MkdirAll(filepath.Join(d, "partial"), 0o755); err != nil {
			return "", err
		}
	}
	apt := func(args ...string) error {
		// root would fetch as another user, who cannot write here.
		return run(ctx, dir, "apt-get", append([]string{
			"-q", "-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache=" + archives,
			"-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"}, args...)...)
	}
	if err := apt("update"); err != nil {
		return "", err
	}
	if err := apt("download", pkg); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("apt-get download left %d packages", len(found))
	}
	contents = filepath.Join(dir, "contents")
	return contents, run(ctx, dir, "dpkg-deb", "-x", found[0], contents)
}

// run runs a command, whose output appears only in its error.
func run(ctx context.Context, dir, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}
