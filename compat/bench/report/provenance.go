package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// origin says where the numbers come from.
type origin struct {
	commit, command, date string
	golang, cpu           string
	peers                 string
	options               options
}

func provenance(root string, o options) (origin, error) {
	commit, err := commitOf(root)
	if err != nil {
		return origin{}, err
	}
	peers, err := exec.Command("go", "list", "-m", "k8s.io/client-go", "sigs.k8s.io/controller-runtime").Output()
	if err != nil {
		return origin{}, fmt.Errorf("listing the peers: %w", err)
	}
	return origin{
		commit:  commit,
		command: o.command(),
		date:    time.Now().UTC().Format(time.DateOnly),
		golang:  fmt.Sprintf("%s %s/%s, GOMAXPROCS %d", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)),
		cpu:     cpuModel(),
		peers:   strings.ReplaceAll(strings.TrimSpace(string(peers)), "\n", ", "),
		options: o,
	}, nil
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding %s (run this in the module compat): %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// commitOf also works where there is no commit or no git, as in CI.
func commitOf(root string) (string, error) {
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "none", nil
	}
	commit := strings.TrimSpace(string(out))
	changes, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	if len(changes) > 0 {
		commit += " with uncommitted changes"
	}
	return commit, nil
}

// cpuModel is what Linux says, or nothing more than the architecture.
func cpuModel() string {
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer info.Close()
	lines := bufio.NewScanner(info)
	for lines.Scan() {
		if name, model, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}
