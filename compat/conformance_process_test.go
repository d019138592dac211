package compat_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Calls that end the process run in another process.

// childMark is in the environment of the other process.
const childMark = "COMPAT_TEST_CHILD"

// finished is the output of a child that has reached its end.
const finished = "finished in a process of its own"

// inChild runs the calling test again in another process, up to this call, and runs f there.
// inChild returns the output of the process, and whether f returned without a failure. In the child
// it does not return.
func inChild(t *testing.T, f func()) (output string, passed bool) {
	t.Helper()
	if os.Getenv(childMark) != "" {
		if f(); t.Failed() {
			t.FailNow()
		}
		t.Skip(finished)
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	child := exec.Command(os.Args[0], "-test.run="+pattern, "-test.v")
	child.Env = append(os.Environ(), childMark+"=1")
	all, err := child.CombinedOutput()
	return string(all), err == nil && strings.Contains(string(all), finished)
}

// An orphan is a panic on a goroutine of the packages, without a caller who could hear of the
// panic.
type orphan struct {
	name   string
	run    func(implementation)
	reason string // in the panic
	outcome[string]
}

const (
	ends    = "the program ends"
	returns = "the caller is told"
)

var orphans = []orphan{{
	// Only the owner of the item can know the fault of the item.
	name: "unhashable_item_with_a_delay",
	run: func(impl implementation) {
		q := impl.untyped()
		defer q.ShutDown()
		if recovered(func() { q.AddAfter([]int{1}, time.Second) }) == "" {
			time.Sleep(time.Minute)
		}
	},
	reason:  "hash of unhashable type",
	outcome: outcome[string]{returns, new(ends)},
}, {
	name: "inner_queue_fails_when_an_item_is_due",
	run: func(impl implementation) {
		q := impl.delaying(settings{queue: broken{impl.queue(settings{})}})
		defer q.ShutDown()
		q.AddAfter("a", time.Second)
		time.Sleep(time.Minute)
	},
	reason:  "no room for a",
	outcome: outcome[string]{want: ends},
}, {
	name: "piece_of_work_fails",
	run: func(impl implementation) {
		impl.parallelize(context.Background(), 2, 4, func(int) { panic("no room for work") }, 1)
	},
	reason:  "no room for work",
	outcome: outcome[string]{want: ends},
}}

// TestPanicWithoutCaller: if nobody hears of a panic, the program must end, and must not go on
// without a goroutine.
func TestPanicWithoutCaller(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, o := range orphans {
			t.Run(o.name, func(t *testing.T) {
				output, passed := inChild(t, func() {
					synctest.Test(t, func(*testing.T) { o.run(impl) })
				})
				got := ends
				if passed {
					got = returns
				} else if !strings.Contains(output, "panic: ") || !strings.Contains(output, o.reason) {
					t.Fatalf("it ended for another reason than %q: %s", o.reason, output)
				}
				o.check(t, impl, "after the panic", got)
			})
		}
	})
}

// broken is a queue that refuses every item.
type broken struct{ typedQueue[string] }

func (broken) Add(item string) { panic("no room for " + item) }
