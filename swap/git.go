package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// git runs git in the directory of go.mod, and returns the lines that it prints.
func (p *program) git(ctx context.Context, args ...string) ([]string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = p.root, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w, %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// committed returns an error unless git can bring back all that a write changes. A vendor
// folder that git ignores is no matter: go makes it.
func (p *program) committed(ctx context.Context) error {
	if info, err := os.Lstat(filepath.Dir(p.copied())); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return errors.New("third_party is a link, and git does not look behind it; -force writes all the same")
	}
	_, err := p.git(ctx, "ls-files", "--error-unmatch", "go.mod")
	if err != nil {
		return fmt.Errorf("go.mod is not in git; -force writes all the same: %w", err)
	}
	changed, err := p.git(ctx, append([]string{"status", "--short", "--"}, p.written()...)...)
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("commit these first, or take them back by git checkout or git clean; -force writes all the same:\n%s", firstLines(changed))
	}
	return err
}

// written are the paths that a write changes.
func (p *program) written() []string {
	paths := []string{"go.mod", "go.sum", thirdParty}
	if vendor, kind := p.vendor(); kind != "" {
		paths = append(paths, vendor)
	}
	return paths
}

// tracked are the paths of written that git has files of.
func (p *program) tracked(ctx context.Context) (paths []string) {
	for _, path := range p.written() {
		if files, err := p.git(ctx, "ls-files", "--", path); err == nil && len(files) > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// wayBack returns the commands that take back a write before it is committed.
func (p *program) wayBack(ctx context.Context) string {
	tracked := p.tracked(ctx)
	if len(tracked) == 0 {
		return "swap -undo -force"
	}
	return "git checkout " + strings.Join(tracked, " ") + " && git clean -fdq " + strings.Join(p.written()[2:], " ")
}

// commit returns the command that adds what was written. Without the files that a
// .gitignore hits, a clone fails; left is the first of them. A vendor folder that was not
// in git stays out.
func (p *program) commit(ctx context.Context) (command, left string) {
	paths := p.written()
	if len(paths) > 3 && !slices.Contains(p.tracked(ctx), paths[3]) {
		paths = paths[:3]
	}
	ignored, _ := p.git(ctx, append([]string{"ls-files", "--others", "--ignored", "--exclude-standard", "--"}, paths...)...)
	if len(ignored) > 0 {
		return "git add -f " + strings.Join(paths, " "), ignored[0]
	}
	return "git add " + strings.Join(paths, " "), ""
}

// firstLines cuts a long list.
func firstLines(lines []string) string {
	const most = 10
	if len(lines) > most {
		lines = append(lines[:most:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}
