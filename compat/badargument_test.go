package compat_test

//lint:file-ignore SA1019 the deprecated names are part of the drop-in

import (
	"context"
	"go/types"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue"
	ourwait "github.com/seed16c08ea7/workqueue/wait"
)

// A badArgument is a call with an invalid argument. The call returns a first use of the constructed
// value.
type badArgument struct {
	function, argument string
	theirs, ours       func() (use func())
	want               string // the panic of ours: at construction or at first use
}

// stage returns how far a call gets.
func stage(construct func() func()) (reached int, text string) {
	var use func()
	if text = recovered(func() { use = construct() }); text != "" {
		return 0, text
	}
	if text = recovered(use); text != "" {
		return 1, text
	}
	return 2, ""
}

var stages = []string{"panics at construction", "panics at first use", "never panics"}

// TestBadArgumentsAreAcceptedWhereClientGoAcceptsThem is the rule for all constructors and
// functions whose names client-go or util/wait has: ours never panic earlier, and a panic names the
// wrong argument.
func TestBadArgumentsAreAcceptedWhereClientGoAcceptsThem(t *testing.T) {
	for _, row := range badArguments() {
		synctest.Test(t, func(t *testing.T) {
			theirs, _ := stage(row.theirs)
			ours, text := stage(row.ours)
			name := row.function + " with " + row.argument
			t.Logf("%s: theirs %s, ours %s %s", name, stages[theirs], stages[ours], text)
			if ours < theirs {
				t.Errorf("%s: theirs %s, ours %s: %s", name, stages[theirs], stages[ours], text)
			}
			if text != row.want {
				t.Errorf("%s: got the panic %q, want %q", name, text, row.want)
			}
		})
	}
}

// Each function with an argument has a row.
func TestEachFunctionHasABadArgument(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range badArguments() {
		listed[row.function] = true
	}
	theirs, _ := loadAPIs(t)
	for _, name := range theirs.Scope().Names() {
		f, ok := theirs.Scope().Lookup(name).(*types.Func)
		if ok && f.Exported() && f.Signature().Params().Len() > 0 && !listed[name] {
			t.Errorf("%s has no row in badArguments", name)
		}
	}
}

func badArguments() (rows []badArgument) {
	rows = append(rows, badQueues()...)
	rows = append(rows, badLimiters()...)
	rows = append(rows, badWork()...)
	rows = append(rows, badBackoffs()...)
	rows = append(rows, badLoops()...)
	return rows
}

const (
	noQueueLimiter = "workqueue: the rate limiter of TypedRateLimiting is nil: give one to its constructor"
	noMaxOf        = "workqueue: the rate limiter of TypedMaxOfRateLimiter is nil: give one to its constructor"
	noMaxWait      = "workqueue: the rate limiter of TypedWithMaxWaitRateLimiter is nil: give one to its constructor"
	noClock        = "wait: clock is nil"
	noFunction     = "wait: function to run is nil"
	noManager      = "wait: backoff manager is nil"
)

// used adds an item by the call that uses most of the queue, and ends the queue.
func used[T comparable](q typedQueue[T]) func() {
	var item T
	return func() {
		defer q.ShutDown()
		q.Add(item)
		if d, ok := q.(delayingQueue[T]); ok {
			d.AddAfter(item, time.Second)
		}
		if r, ok := q.(rateLimitingQueue[T]); ok {
			r.AddRateLimited(item)
		}
	}
}

func asked[T comparable](l clientgo.TypedRateLimiter[T]) func() { return func() { l.When(*new(T)) } }

func badQueues() []badArgument {
	their, our := clientgo.DefaultControllerRateLimiter, workqueue.DefaultControllerRateLimiter
	return []badArgument{
		{"NewNamed", "no name", func() func() { return used[any](clientgo.NewNamed("")) }, func() func() { return used[any](workqueue.NewNamed("")) }, ""},
		{"NewWithConfig", "no config", func() func() { return used[any](clientgo.NewWithConfig(clientgo.QueueConfig{})) },
			func() func() { return used[any](workqueue.NewWithConfig(workqueue.QueueConfig{})) }, ""},
		{"NewTypedWithConfig", "no config", func() func() { return used[int](clientgo.NewTypedWithConfig(clientgo.TypedQueueConfig[int]{})) },
			func() func() { return used[int](workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{})) }, ""},
		{"NewNamedDelayingQueue", "no name", func() func() { return used[any](clientgo.NewNamedDelayingQueue("")) },
			func() func() { return used[any](workqueue.NewNamedDelayingQueue("")) }, ""},
		{"NewDelayingQueueWithConfig", "no config", func() func() {
			return used[any](clientgo.NewDelayingQueueWithConfig(clientgo.DelayingQueueConfig{}))
		}, func() func() {
			return used[any](workqueue.NewDelayingQueueWithConfig(workqueue.DelayingQueueConfig{}))
		}, ""},
		{"NewTypedDelayingQueueWithConfig", "no config", func() func() {
			return used[int](clientgo.NewTypedDelayingQueueWithConfig(clientgo.TypedDelayingQueueConfig[int]{}))
		}, func() func() {
			return used[int](workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[int]{}))
		}, ""},
		{"NewDelayingQueueWithCustomQueue", "no queue", func() func() { return used[any](clientgo.NewDelayingQueueWithCustomQueue(nil, "")) },
			func() func() { return used[any](workqueue.NewDelayingQueueWithCustomQueue(nil, "")) }, ""},
		{"NewDelayingQueueWithCustomClock", "no clock", func() func() { return used[any](clientgo.NewDelayingQueueWithCustomClock(nil, "")) },
			func() func() { return used[any](workqueue.NewDelayingQueueWithCustomClock(nil, "")) }, ""},
		{"NewRateLimitingQueueWithDelayingInterface", "no queue", func() func() {
			return used[any](clientgo.NewRateLimitingQueueWithDelayingInterface(nil, their()))
		}, func() func() {
			return used[any](workqueue.NewRateLimitingQueueWithDelayingInterface(nil, our()))
		}, ""},
		{"NewRateLimitingQueueWithDelayingInterface", "no limiter", func() func() {
			return used[any](clientgo.NewRateLimitingQueueWithDelayingInterface(clientgo.NewDelayingQueue(), nil))
		}, func() func() {
			return used[any](workqueue.NewRateLimitingQueueWithDelayingInterface(workqueue.NewDelayingQueue(), nil))
		}, noQueueLimiter},
		{"NewRateLimitingQueue", "no limiter", func() func() { return used[any](clientgo.NewRateLimitingQueue(nil)) },
			func() func() { return used[any](workqueue.NewRateLimitingQueue(nil)) }, noQueueLimiter},
		{"NewNamedRateLimitingQueue", "no limiter", func() func() { return used[any](clientgo.NewNamedRateLimitingQueue(nil, "")) },
			func() func() { return used[any](workqueue.NewNamedRateLimitingQueue(nil, "")) }, noQueueLimiter},
		{"NewRateLimitingQueueWithConfig", "no limiter", func() func() {
			return used[any](clientgo.NewRateLimitingQueueWithConfig(nil, clientgo.RateLimitingQueueConfig{}))
		}, func() func() {
			return used[any](workqueue.NewRateLimitingQueueWithConfig(nil, workqueue.RateLimitingQueueConfig{}))
		}, noQueueLimiter},
		{"NewTypedRateLimitingQueue", "no limiter", func() func() { return used[int](clientgo.NewTypedRateLimitingQueue[int](nil)) },
			func() func() { return used[int](workqueue.NewTypedRateLimitingQueue[int](nil)) }, noQueueLimiter},
		{"NewTypedRateLimitingQueueWithConfig", "no limiter", func() func() {
			return used[int](clientgo.NewTypedRateLimitingQueueWithConfig(nil, clientgo.TypedRateLimitingQueueConfig[int]{}))
		}, func() func() {
			return used[int](workqueue.NewTypedRateLimitingQueueWithConfig(nil, workqueue.TypedRateLimitingQueueConfig[int]{}))
		}, noQueueLimiter},
		{"SetProvider", "no provider", func() func() { return func() { clientgo.SetProvider(nil) } },
			func() func() { return func() { workqueue.SetProvider(nil) } }, ""},
	}
}

func badLimiters() []badArgument {
	const s = time.Second
	return []badArgument{
		{"NewItemExponentialFailureRateLimiter", "negative delays", func() func() { return asked[any](clientgo.NewItemExponentialFailureRateLimiter(-s, -s)) },
			func() func() { return asked[any](workqueue.NewItemExponentialFailureRateLimiter(-s, -s)) }, ""},
		{"NewTypedItemExponentialFailureRateLimiter", "negative delays", func() func() { return asked(clientgo.NewTypedItemExponentialFailureRateLimiter[int](-s, -s)) },
			func() func() { return asked(workqueue.NewTypedItemExponentialFailureRateLimiter[int](-s, -s)) }, ""},
		{"NewItemFastSlowRateLimiter", "negative numbers", func() func() { return asked[any](clientgo.NewItemFastSlowRateLimiter(-s, -s, -1)) },
			func() func() { return asked[any](workqueue.NewItemFastSlowRateLimiter(-s, -s, -1)) }, ""},
		{"NewTypedItemFastSlowRateLimiter", "negative numbers", func() func() { return asked(clientgo.NewTypedItemFastSlowRateLimiter[int](-s, -s, -1)) },
			func() func() { return asked(workqueue.NewTypedItemFastSlowRateLimiter[int](-s, -s, -1)) }, ""},
		{"NewMaxOfRateLimiter", "no limiters", func() func() { return asked[any](clientgo.NewMaxOfRateLimiter()) },
			func() func() { return asked[any](workqueue.NewMaxOfRateLimiter()) }, ""},
		{"NewMaxOfRateLimiter", "a nil limiter", func() func() { return asked[any](clientgo.NewMaxOfRateLimiter(nil)) },
			func() func() { return asked[any](workqueue.NewMaxOfRateLimiter(nil)) }, noMaxOf},
		{"NewTypedMaxOfRateLimiter", "a nil limiter", func() func() { return asked(clientgo.NewTypedMaxOfRateLimiter[int](nil)) },
			func() func() { return asked(workqueue.NewTypedMaxOfRateLimiter[int](nil)) }, noMaxOf},
		{"NewWithMaxWaitRateLimiter", "no limiter", func() func() { return asked[any](clientgo.NewWithMaxWaitRateLimiter(nil, s)) },
			func() func() { return asked[any](workqueue.NewWithMaxWaitRateLimiter(nil, s)) }, noMaxWait},
		{"NewTypedWithMaxWaitRateLimiter", "no limiter", func() func() { return asked(clientgo.NewTypedWithMaxWaitRateLimiter[int](nil, s)) },
			func() func() { return asked(workqueue.NewTypedWithMaxWaitRateLimiter[int](nil, s)) }, noMaxWait},
		{"TypedWithMaxWaitRateLimiter", "no limiter", func() func() { return asked[int](clientgo.TypedWithMaxWaitRateLimiter[int]{}) },
			func() func() { return asked[int](workqueue.TypedWithMaxWaitRateLimiter[int]{}) }, noMaxWait},
		{"TypedBucketRateLimiter", "no bucket", func() func() { return asked[int](&clientgo.TypedBucketRateLimiter[int]{}) },
			func() func() { return asked[int](&workqueue.TypedBucketRateLimiter[int]{}) },
			"workqueue: the Limiter of TypedBucketRateLimiter is nil: set it to one from rate.NewLimiter"},
	}
}

func badWork() []badArgument {
	var none context.Context
	ctx, f := context.Background(), func(int) {}
	row := func(argument string, theirs, ours func(), want string) badArgument {
		// The call is its own first use.
		return badArgument{"ParallelizeUntil", argument, func() func() { return theirs }, func() func() { return ours }, want}
	}
	return []badArgument{
		row("no context", func() { clientgo.ParallelizeUntil(none, 1, 1, f) }, func() { workqueue.ParallelizeUntil(none, 1, 1, f) }, ""),
		row("-1 workers", func() { clientgo.ParallelizeUntil(ctx, -1, 1, f) }, func() { workqueue.ParallelizeUntil(ctx, -1, 1, f) },
			"workqueue: negative number of workers -1"),
		row("-1 workers and no piece", func() { clientgo.ParallelizeUntil(ctx, -1, 0, f) }, func() { workqueue.ParallelizeUntil(ctx, -1, 0, f) }, ""),
		row("-1 pieces", func() { clientgo.ParallelizeUntil(ctx, 1, -1, f) }, func() { workqueue.ParallelizeUntil(ctx, 1, -1, f) }, ""),
		row("no work to do and no piece", func() { clientgo.ParallelizeUntil(ctx, 1, 0, nil, nil) }, func() { workqueue.ParallelizeUntil(ctx, 1, 0, nil, nil) }, ""),
		row("no work to do and no worker", func() { clientgo.ParallelizeUntil(ctx, 0, 1, nil) }, func() { workqueue.ParallelizeUntil(ctx, 0, 1, nil) }, ""),
		{"WithChunkSize", "-1", func() func() {
			chunk := clientgo.WithChunkSize(-1)
			return func() { clientgo.ParallelizeUntil(ctx, 1, 3, f, chunk) }
		}, func() func() {
			chunk := workqueue.WithChunkSize(-1)
			return func() { workqueue.ParallelizeUntil(ctx, 1, 3, f, chunk) }
		}, ""},
	}
}

func badBackoffs() []badArgument {
	const s = time.Second
	calls := func(next func() time.Duration) func() { return func() { next() } }
	resets := func(what string, b wait.Backoff, reset time.Duration, c clock.Clock, want string) badArgument {
		return badArgument{"DelayWithReset", what, func() func() { return calls(b.DelayWithReset(c, reset)) },
			func() func() { return calls(ourwait.Backoff(b).DelayWithReset(c, reset)) }, want}
	}
	return []badArgument{
		resets("no clock", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, s, nil, noClock),
		resets("no clock and no factor", wait.Backoff{Duration: s, Steps: 3, Jitter: 1}, s, nil, ""),
		resets("no clock and a negative factor", wait.Backoff{Duration: s, Factor: -2, Steps: 3}, s, nil, ""),
		resets("no clock and no interval", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, 0, nil, ""),
		resets("no clock and a negative interval", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, -s, nil, ""),
		{"NewJitteredBackoffManager", "no clock", func() func() {
			m := wait.NewJitteredBackoffManager(s, 1, nil)
			return func() { m.Backoff() }
		}, func() func() {
			m := ourwait.NewJitteredBackoffManager(s, 1, nil)
			return func() { m.Backoff() }
		}, noClock},
		{"NewExponentialBackoffManager", "no clock", func() func() {
			m := wait.NewExponentialBackoffManager(s, s, s, 2, 1, nil)
			return func() { m.Backoff() }
		}, func() func() {
			m := ourwait.NewExponentialBackoffManager(s, s, s, 2, 1, nil)
			return func() { m.Backoff() }
		}, noClock},
		{"Jitter", "negative numbers", func() func() { return func() { wait.Jitter(-s, -1) } },
			func() func() { return func() { ourwait.Jitter(-s, -1) } }, ""},
		{"DelayFunc.Timer", "no clock", func() func() { wait.DelayFunc(nil).Timer(nil); return func() {} },
			func() func() { ourwait.DelayFunc(nil).Timer(nil); return func() {} }, noClock},
		{"DelayFunc.Timer", "no function", func() func() {
			timer := wait.DelayFunc(nil).Timer(clock.RealClock{})
			return func() { timer.C() }
		}, func() func() {
			timer := ourwait.DelayFunc(nil).Timer(clock.RealClock{})
			return func() { timer.C() }
		}, nilPointer},
		{"DelayFunc.Until", "no condition", func() func() {
			return silently(func() { wait.Backoff{}.DelayFunc().Until(context.Background(), true, true, nil) })
		}, func() func() {
			return func() { ourwait.Backoff{}.DelayFunc().Until(context.Background(), true, true, nil) }
		}, "wait: condition is nil"},
		{"Concurrent", "no function", func() func() { return calls(wait.DelayFunc(nil).Concurrent()) },
			func() func() { return calls(ourwait.DelayFunc(nil).Concurrent()) }, nilPointer},
	}
}

const nilPointer = "runtime error: invalid memory address or nil pointer dereference"

// badLoops are called before and after their stop.
func badLoops() (rows []badArgument) {
	manager := wait.NewJitteredBackoffManager(time.Second, 0, clock.RealClock{})
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ctx := range []context.Context{context.Background(), stopped} {
		row := func(function, argument, want string, theirs, ours func()) {
			if ctx == stopped {
				argument, want = argument+" and told to stop", ""
			}
			// Those of apimachinery log their panics on the way.
			rows = append(rows, badArgument{function, argument, func() func() { return silently(theirs) }, func() func() { return ours }, want})
		}
		row("Until", "no function", noFunction,
			func() { wait.Until(nil, time.Second, ctx.Done()) }, func() { ourwait.Until(nil, time.Second, ctx.Done()) })
		row("UntilWithContext", "no function", noFunction,
			func() { wait.UntilWithContext(ctx, nil, time.Second) }, func() { ourwait.UntilWithContext(ctx, nil, time.Second) })
		row("JitterUntil", "no function", noFunction,
			func() { wait.JitterUntil(nil, time.Second, 0, true, ctx.Done()) },
			func() { ourwait.JitterUntil(nil, time.Second, 0, true, ctx.Done()) })
		row("JitterUntilWithContext", "no function", noFunction,
			func() { wait.JitterUntilWithContext(ctx, nil, time.Second, 0, true) },
			func() { ourwait.JitterUntilWithContext(ctx, nil, time.Second, 0, true) })
		row("BackoffUntil", "no function", noFunction,
			func() { wait.BackoffUntil(nil, manager, true, ctx.Done()) }, func() { ourwait.BackoffUntil(nil, manager, true, ctx.Done()) })
		row("BackoffUntil", "no manager", noManager,
			func() { wait.BackoffUntil(func() {}, nil, true, ctx.Done()) }, func() { ourwait.BackoffUntil(func() {}, nil, true, ctx.Done()) })
		row("BackoffUntilWithContext", "no manager", noManager,
			func() { wait.BackoffUntilWithContext(ctx, func(context.Context) {}, nil, false) },
			func() { ourwait.BackoffUntilWithContext(ctx, func(context.Context) {}, nil, false) })
	}
	return rows
}

// silently is f without the logs that apimachinery writes of a panic.
func silently(f func()) func() {
	return func() {
		handlers := utilruntime.PanicHandlers
		defer func() { utilruntime.PanicHandlers = handlers }()
		utilruntime.PanicHandlers = nil
		f()
	}
}

// controller-runtime's own test of UsePriorityQueue: false makes a queue with a nil limiter, and
// looks only at the type.
func TestControllerRuntimeMakesAQueueWithoutALimiter(t *testing.T) {
	q := controllerOptions.NewQueue("controller", nil)
	q.Add(request{})
	item, _ := q.Get()
	q.Done(item)
	if text := recovered(func() { q.Forget(item) }); !strings.HasPrefix(text, "workqueue: ") {
		t.Errorf("Forget: got the panic %q, want one that says what is wrong", text)
	}
	q.ShutDownWithDrain()
}
