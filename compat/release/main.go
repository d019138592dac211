// Command release checks what a release needs, before its tags are pushed: the exported API against
// the last tag, the licences of all dependencies, builds for other systems, and whether a
// program can use the modules as a module proxy serves them. It changes nothing outside of
// temporary directories and the caches of the go command.
//
//	go run -C compat ./release [-only api,licences,builds,proxy] [-dir DIR]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const root = "github.com/seed16c08ea7/workqueue"

// modules are what users import, as directories of the repository.
var modules = []string{".", "ctrlqueue", "otel", "sharding"}

// A tree is the repository, or a copy.
type tree string

func (t tree) at(dir string) string { return filepath.Join(string(t), dir) }

// modulePath returns the path of the module in a directory.
func modulePath(dir string) string {
	if dir == "." {
		return root
	}
	return root + "/" + dir
}

func main() {
	only := flag.String("only", "api,licences,builds,proxy", "the checks to run")
	dir := flag.String("dir", "..", "the repository")
	flag.Parse()
	abs, err := filepath.Abs(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	wanted := strings.Split(*only, ",")
	failed := false
	for _, check := range []struct {
		name string
		run  func(tree) error
	}{{"api", checkAPI}, {"licences", checkLicences}, {"builds", checkBuilds}, {"proxy", checkProxy}} {
		if !slices.Contains(wanted, check.name) {
			continue
		}
		fmt.Printf("== %s\n", check.name)
		start := time.Now()
		if err := check.run(tree(abs)); err != nil {
			fmt.Printf("FAILED: %v\n", err)
			failed = true
		}
		fmt.Printf("   %.0f s\n", time.Since(start).Seconds())
	}
	if failed {
		os.Exit(1)
	}
}

// command runs a command in a directory and returns what it prints. The error has all output.
func command(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// targets are the systems and processors to build for.
func targets() (pairs [][2]string) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64", "386"} {
			if system != "darwin" || arch != "386" { // Go has no such port.
				pairs = append(pairs, [2]string{system, arch})
			}
		}
	}
	return pairs
}

// checkBuilds builds the root module and compiles its tests.
func checkBuilds(t tree) error {
	var errs []error
	for _, pair := range targets() {
		env := []string{"GOOS=" + pair[0], "GOARCH=" + pair[1], "CGO_ENABLED=0"}
		_, err := command(string(t), env, "go", "build", "./...")
		if err == nil {
			_, err = command(string(t), env, "go", "vet", "./...")
		}
		result := "built, tests vetted"
		if err != nil {
			result = "FAILED"
			errs = append(errs, fmt.Errorf("%s/%s: %w", pair[0], pair[1], err))
		}
		fmt.Printf("   %-8s %-6s %s\n", pair[0], pair[1], result)
	}
	return errors.Join(errs...)
}
