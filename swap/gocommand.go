package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// run runs the go command in the directory of the program, with some variables on top
// of the environment, and returns what it prints.
func (p *program) run(ctx context.Context, env []string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		said := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return stdout.Bytes(), nil
}

// pass runs a command as if the caller had, with some variables on top.
func (p *program) pass(ctx context.Context, env, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The command has got the interrupt of a terminal itself, but not that of a
	// supervisor. It may take its time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(terminate) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}

// terminate is how supervisors end a program. Windows has it in name only.
const terminate = syscall.SIGTERM

// joinFlags returns flags as GOFLAGS takes them. A flag with a space in it, as in a
// path of Windows, is quoted as a whole. There is no escape within the quotes.
func joinFlags(flags []string) (string, error) {
	quoted := make([]string, len(flags))
	for i, flag := range flags {
		switch {
		case !strings.ContainsAny(flag, " \t\r\n'\""):
			quoted[i] = flag
		case !strings.Contains(flag, "'"):
			quoted[i] = "'" + flag + "'"
		case !strings.Contains(flag, `"`):
			quoted[i] = `"` + flag + `"`
		default:
			return "", fmt.Errorf("GOFLAGS cannot hold %s, which has both kinds of quotes", flag)
		}
	}
	return strings.Join(quoted, " "), nil
}

// splitFlags is the inverse of joinFlags.
func splitFlags(flags string) ([]string, error) {
	var split []string
	for rest := strings.TrimLeft(flags, " \t\r\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\r\n") {
		if quote := rest[0]; quote == '\'' || quote == '"' {
			flag, after, closed := strings.Cut(rest[1:], string(quote))
			if !closed {
				return nil, fmt.Errorf("a quote is not closed in %s", flags)
			}
			split, rest = append(split, flag), after
			continue
		}
		end := strings.IndexAny(rest, " \t\r\n")
		if end < 0 {
			end = len(rest)
		}
		split, rest = append(split, rest[:end]), rest[end:]
	}
	return split, nil
}
