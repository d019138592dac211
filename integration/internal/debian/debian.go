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

// Program returns the path of a program from a Debian package. A program on the PATH
// comes first. Otherwise Program downloads the package, once for each user.
//
// The package is unpacked and not installed. Unpacking needs no root, starts no service,
// and changes nothing on the machine. The dependencies of the package are missing, but a
// server written in Go needs only libc.
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
	// The rename comes last, so a directory of the final name is always complete, also
	// after a crash or with another run at the same time. If another run was first, its
	// contents are as good.
	if err := os.Rename(contents, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// download downloads a package into dir, and unpacks the package there. The lists of
// packages are downloaded into dir as well: a new machine has no lists, an old machine
// has stale lists, and only root may update the lists of the system.
func download(ctx context.Context, dir, pkg string) (contents string, err error) {
	lists, archives := filepath.Join(dir, "lists"), filepath.Join(dir, "archives")
	for _, d := range []string{lists, archives} {
		if err := os.MkdirAll(filepath.Join(d, "partial"), 0o755); err != nil {
			return "", err
		}
	}
	apt := func(args ...string) error {
		// As root, apt-get would download as another user, who cannot write to dir.
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

// run runs a command. Its output appears only in the error.
func run(ctx context.Context, dir, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}
