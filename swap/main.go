// Swap builds a whole program on the queue of github.com/seed16c08ea7/workqueue:
// its own code, and all of its dependencies that use client-go's queue.
//
//	go run github.com/seed16c08ea7/workqueue/swap@latest go test ./...
//	go run github.com/seed16c08ea7/workqueue/swap@latest -w
//	go run github.com/seed16c08ea7/workqueue/swap -check
//	go run github.com/seed16c08ea7/workqueue/swap -undo
//
// With a command, swap runs it with the swap in force and leaves the tree as it is.
// It makes a copy of the client-go that the program uses, in the user's cache, with
// the package util/workqueue replaced by aliases of ours, and an alternate go.mod or
// go.work. The command sees these by GOFLAGS and GOWORK. A vendor folder is not
// used. A command that sets -mod, -modfile or GOFLAGS itself is not swapped.
//
// With -w the swap stays: the copy is third_party/client-go, without tests and
// examples, and go.mod has a replace of the version that was copied. Swap tidies, and
// vendors anew where there is a vendor folder. If that fails or is interrupted, all
// is as it was. After an upgrade of client-go the replace is without effect: -check
// says so, and -w renews it.
//
// With -check the exit code is 0 if what is built here is swapped and current, and 1
// if it is not. It changes nothing and needs no network. It asks for this module in
// the version that go.mod names, so leave out @latest.
//
// With -undo, go.mod and go.sum are as before, byte for byte if nobody has changed
// them since. Otherwise the lines of the swap are taken out, and the module tidied.
//
// Swap works in the main module of the current directory. The versions of client-go
// that it knows are v0.28 to v0.37. A fork that replaces client-go is copied in its
// place.
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
	dir     string // where it was called: "" for the current directory
	library library
	cached  string // the swapped copy that a trial uses
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
	write := flags.Bool("w", false, "swap for good: third_party/client-go, and a replace in go.mod")
	check := flags.Bool("check", false, "say whether what is built is swapped and current")
	undo := flags.Bool("undo", false, "take back -w")
	from := flags.String("library", "", "`version or directory` of "+ourModule+"; by default that of this command")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	chosen := 0
	for _, is := range []bool{*write, *check, *undo, flags.NArg() > 0} {
		if is {
			chosen++
		}
	}
	if chosen != 1 {
		flags.Usage()
		return 2
	}
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "swap: "+format+"\n", args...) }
	c := &call{library: library{named: *from}, say: say}
	err := c.do(ctx, *write, *check, *undo, flags.Args())
	// The command that was tried has said itself what was wrong.
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && flags.NArg() > 0 {
		return max(1, failed.ExitCode())
	}
	if err != nil {
		say("%v", err)
		return 1
	}
	return 0
}

func (c *call) do(ctx context.Context, write, check, undo bool, command []string) error {
	p, err := c.open(ctx)
	if err != nil {
		return err
	}
	switch {
	case write:
		return c.write(ctx, p)
	case check:
		return c.check(ctx, p)
	case undo:
		return c.undo(ctx, p)
	}
	return c.try(ctx, p, command)
}
