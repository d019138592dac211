// Swap builds a whole program on the queue of github.com/seed16c08ea7/workqueue:
// its own code, and all of its dependencies that use client-go's queue.
//
//	go run github.com/seed16c08ea7/workqueue/swap@latest go test ./...
//	go run github.com/seed16c08ea7/workqueue/swap@latest -w
//	go run github.com/seed16c08ea7/workqueue/swap -check
//	go run github.com/seed16c08ea7/workqueue/swap -undo
//
// With a command, swap runs the command with the swap in force and leaves the tree as it
// is. Swap copies the client-go of the program to the user's cache, replaces the package
// util/workqueue of the copy by aliases of ours, and writes an alternate go.mod or
// go.work. The command sees these files by GOFLAGS and GOWORK. A vendor folder is not
// used. A command that sets -mod, -modfile or GOFLAGS itself is not swapped.
//
// With -w the swap stays: the copy is third_party/client-go, without tests and examples,
// and go.mod replaces the version that was copied. Swap tidies, and vendors anew where
// there is a vendor folder. After an upgrade of client-go the replace has no effect:
// -check fails, and -w renews the swap.
//
// Git takes a write back, also one that was interrupted. So -w refuses if go.mod, go.sum,
// vendor or third_party/client-go are not committed. It also refuses an edited copy, and a
// vendor folder that `go mod vendor` would make otherwise. -force overwrites all of these.
//
// With -undo, go.mod has the lines of before the write again, except those that somebody
// has changed since. Then swap tidies, vendors, and removes the copy.
//
// With -check the exit code is 0 if the build here is swapped and current, and 1 if not.
// A check changes nothing and needs no network. It uses the version of this module that
// go.mod names, so leave out @latest.
//
// Swap works in the main module of the current directory. It knows client-go v0.28 to
// v0.37. A fork that replaces client-go is copied in its place.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, terminate)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// A call is one call of the command.
type call struct {
	library library
	force   bool
	tmp     string // a directory that goes with the call
	say     func(format string, args ...any)
}

// run is main, and returns the exit code: that of the command that was tried, 1 for
// what is not as it should be, and 2 for a call that makes no sense.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("swap", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: swap command... | swap -w | swap -check | swap -undo")
		flags.PrintDefaults()
	}
	c := &call{say: func(format string, args ...any) { fmt.Fprintf(stderr, "swap: "+format+"\n", args...) }}
	write := flags.Bool("w", false, "swap for good: third_party/client-go, and a replace in go.mod")
	check := flags.Bool("check", false, "say whether what is built is swapped and current")
	undo := flags.Bool("undo", false, "take back -w")
	flags.BoolVar(&c.force, "force", false, "with -w and -undo: overwrite what git or swap cannot bring back")
	flags.StringVar(&c.library.named, "library", "", "`version or directory` of "+ourModule+"; by default that of this command")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var do func(context.Context, *program) error
	chosen := 0
	choose := func(is bool, command func(context.Context, *program) error) {
		if is {
			chosen, do = chosen+1, command
		}
	}
	choose(*write, c.write)
	choose(*check, c.check)
	choose(*undo, c.undo)
	choose(flags.NArg() > 0, func(ctx context.Context, p *program) error { return c.try(ctx, p, flags.Args()) })
	if chosen != 1 {
		flags.Usage()
		return 2
	}
	err := c.in(ctx, do)
	// The command that was tried has said itself what was wrong.
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && flags.NArg() > 0 {
		return max(1, failed.ExitCode())
	}
	if err != nil {
		c.say("%v", err)
		return 1
	}
	return 0
}

// in does something in the program of the current directory.
func (c *call) in(ctx context.Context, do func(context.Context, *program) error) error {
	p, err := open(ctx)
	if err != nil {
		return err
	}
	if c.tmp, err = os.MkdirTemp("", "swap-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.tmp)
	return do(ctx, p)
}
