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

// Browser returns the path of Chromium, and the environment in which the program starts. A Chromium
// on the PATH comes first. Otherwise Browser downloads the package and the dependencies that the
// machine lacks, once for each user, and unpacks them side by side as Program does.
func Browser(ctx context.Context) (path string, env []string, err error) {
	if path, err := exec.LookPath("chromium"); err == nil {
		return path, nil, nil
	}
	root, err := cached(ctx, "chromium", downloadAll)
	if err != nil {
		return "", nil, fmt.Errorf("chromium is not on the PATH and not to be had from the Debian package chromium: %w", err)
	}
	// Libraries are in the directory of the architecture, and in directories below.
	var dirs []string
	for _, pattern := range []string{"lib/*-linux-gnu", "usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", nil, err
		}
		dirs = append(dirs, found...)
	}
	path, err = exec.LookPath(filepath.Join(root, "usr", "lib", "chromium", "chromium"))
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":")}, err
}

// unpacked returns the directory with the contents of a package.
func unpacked(ctx context.Context, pkg string) (string, error) {
	return cached(ctx, pkg, download)
}

// cached returns the directory with what download has unpacked, and calls download unless an
// earlier run has done so.
func cached(ctx context.Context, pkg string, download func(ctx context.Context, dir, pkg string) (string, error)) (string, error) {
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

// download downloads a package into dir, and unpacks the package there.
func download(ctx context.Context, dir, pkg string) (contents string, err error) {
	if err := get(ctx, dir, "download", pkg); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("apt-get download left %d packages", len(found))
	}
	return unpack(ctx, dir, found)
}

// downloadAll is download with the dependencies that the machine lacks. apt-get downloads what it
// would install, and does not install it.
func downloadAll(ctx context.Context, dir, pkg string) (contents string, err error) {
	if err := get(ctx, dir, "install", "--download-only", "--no-install-recommends", "-y", "-o", "Debug::NoLocking=1", pkg); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, "archives", "archives", "*.deb"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("apt-get install left no package: %v", err)
	}
	return unpack(ctx, dir, found)
}

func unpack(ctx context.Context, dir string, packages []string) (contents string, err error) {
	contents = filepath.Join(dir, "contents")
	for _, p := range packages {
		if err := run(ctx, dir, "dpkg-deb", "-x", p, contents); err != nil {
			return "", err
		}
	}
	return contents, nil
}

// get calls apt-get with lists of packages that get downloads into dir: a new machine has no lists,
// an old machine has stale lists, and only root may update the lists of the system.
func get(ctx context.Context, dir string, args ...string) error {
	lists, archives := filepath.Join(dir, "lists"), filepath.Join(dir, "archives")
	for _, d := range []string{lists, archives} {
		if err := os.MkdirAll(filepath.Join(d, "partial"), 0o755); err != nil {
			return err
		}
	}
	// apt-get puts what it would install into a directory of its own.
	if err := os.MkdirAll(filepath.Join(archives, "archives", "partial"), 0o755); err != nil {
		return err
	}
	apt := func(args ...string) error {
		// As root, apt-get would download as another user, who cannot write to dir.
		return run(ctx, dir, "apt-get", append([]string{
			"-q", "-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache=" + archives,
			"-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"}, args...)...)
	}
	if err := apt("update"); err != nil {
		return err
	}
	return apt(args...)
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
