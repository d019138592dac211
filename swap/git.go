package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// git runs git in the directory of go.mod, and returns the lines of its output.
func (p *program) git(ctx context.Context, args ...string) ([]string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = p.root, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %v, %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// committed returns an error unless git can restore every file of a write. Git may ignore
// a vendor folder, because go can make the folder again.
func (p *program) committed(ctx context.Context) error {
	for _, path := range append(p.written(), filepath.Dir(thirdParty)) {
		if info, err := os.Lstat(absolute(p.root, path)); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link, and git does not follow links; -force writes all the same", path)
		}
	}
	if _, err := p.git(ctx, "ls-files", "--error-unmatch", "go.mod"); err != nil {
		return fmt.Errorf("go.mod is not in git; -force writes all the same: %w", err)
	}
	changed, err := p.git(ctx, append([]string{"status", "--short", "--"}, p.written()...)...)
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("commit these first, or take them back by git checkout or git clean; -force writes all the same:\n%s", firstLines(changed))
	}
	return err
}

func (p *program) written() []string {
	paths := []string{"go.mod", "go.sum", thirdParty}
	if p.vendor != "" {
		paths = append(paths, p.vendorDir())
	}
	return paths
}

func (p *program) tracked(ctx context.Context) (paths []string) {
	for _, path := range p.written() {
		if files, err := p.git(ctx, "ls-files", "--", path); err == nil && len(files) > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// wayBack returns the commands to undo a write before its commit.
func (p *program) wayBack(ctx context.Context) string {
	tracked := p.tracked(ctx)
	if len(tracked) == 0 {
		return "swap undo -force"
	}
	git := p.here("git")
	// All files of the copy go, also files that a .gitignore hides.
	commands := git + " checkout " + strings.Join(tracked, " ") + " && " + git + " clean -fdqx " + thirdParty
	switch vendor := p.vendorDir(); {
	case p.vendor != "" && slices.Contains(tracked, vendor):
		commands += " && " + git + " clean -fdq " + vendor
	case p.vendor != "":
		commands += " && " + p.here("go") + " " + p.vendor + " vendor"
	}
	return commands
}

// here is a command in the directory of go.mod, as the user calls it in the current directory.
func (p *program) here(command string) string {
	if here, err := os.Getwd(); err == nil {
		if up, err := filepath.Rel(here, p.root); err == nil && up != "." {
			return command + " -C " + filepath.ToSlash(up)
		}
	}
	return command
}

// add returns the command to add the files of a write, also files ignored by a
// .gitignore. A vendor folder outside of git stays out.
func (p *program) add(ctx context.Context) string {
	paths := p.written()
	if len(paths) > 3 && !slices.Contains(p.tracked(ctx), paths[3]) {
		paths = paths[:3]
	}
	return p.here("git") + " add -f " + strings.Join(paths, " ")
}

func firstLines(lines []string) string { return strings.Join(lines[:min(10, len(lines))], "\n") }
