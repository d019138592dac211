// Swap builds a whole program on the queue of github.com/seed16c08ea7/workqueue: its own
// code, and every dependency that uses client-go's queue.
//
//	go run github.com/seed16c08ea7/workqueue/swap@latest try -- go test ./...
//	go run github.com/seed16c08ea7/workqueue/swap@latest write
//	go run github.com/seed16c08ea7/workqueue/swap check
//	go run github.com/seed16c08ea7/workqueue/swap undo
//	go run github.com/seed16c08ea7/workqueue/swap help
//
// Help describes the other commands. docs/migrating.md has the costs and the limits.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

//go:embed help.txt
var help string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A call is one call of the command.
type call struct {
	library library
	force   bool
	command []string // of a trial
	// tells reports whether a build has used the queue in a trial. It is nil if nothing tells.
	tells func() bool
	tmp   string // a directory that is removed when the call ends
	say   func(format string, args ...any)
}

// run is main, and returns the exit code: the code of the command that was tried, 1 for a
// failure, and 2 for wrong arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &call{say: func(format string, args ...any) { fmt.Fprintf(stderr, "swap: "+format+"\n", args...) }}
	name := append(args, "")[0]
	flags := flag.NewFlagSet("swap "+name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if name == "try" || name == "write" {
		flags.StringVar(&c.library.named, "library", "", "")
	}
	if name == "write" || name == "undo" {
		flags.BoolVar(&c.force, "force", false, "")
	}
	do := map[string]func(context.Context, *program) error{"try": c.try, "write": c.write, "check": c.check, "undo": c.undo}[name]
	var err error
	if do != nil {
		err = flags.Parse(args[1:])
		c.command = flags.Args()
	}
	switch {
	case slices.Contains([]string{"help", "-h", "-help", "--help"}, name), errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return 0
	case do == nil, err == nil && (name == "try") != (len(c.command) > 0):
		err = fmt.Errorf("%q makes no sense", args)
	}
	if err != nil {
		c.say("%v\nusage: swap try [-library L] -- command... | swap write [-library L] [-force] | swap check | swap undo [-force] | swap help", err)
		return 2
	}
	err = c.in(ctx, name, do)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return max(1, failed.ExitCode()) // The command has written its own message.
	}
	if err != nil {
		c.say("%v", err)
		return 1
	}
	return 0
}

func (c *call) in(ctx context.Context, name string, do func(context.Context, *program) error) error {
	p, err := open(ctx)
	if err != nil {
		return err
	}
	if p.root == "" && name != "try" {
		return fmt.Errorf("this is the root of a workspace, and swap %s needs a module: run swap in a directory that %s uses", name, p.work)
	}
	if c.tmp, err = os.MkdirTemp("", "swap-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.tmp)
	if err := p.setAside(ctx, c.tmp); err != nil {
		return err
	}
	p.vendor = p.findVendor()
	return do(ctx, p)
}
