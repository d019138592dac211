package compat_test

//lint:file-ignore SA1019 the deprecated names are part of the drop-in

import (
	"context"
	"go/types"
	"reflect"
	"slices"
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

// A badArgument is a call of a function of both packages with the same arguments. An argument that is nil or
// absent is the zero value of its type.
type badArgument struct {
	function, argument string
	theirs, ours       any
	args               []any
	want               string // the panic of ours, in the call or at first use
}

var stages = []string{"panics", "panics at first use", "never panics"}

// stage returns how far a call gets.
func (b badArgument) stage(function any) (reached int, text string) {
	var result []reflect.Value
	if text = recovered(func() { result = b.call(reflect.ValueOf(function)) }); text != "" {
		return 0, text
	}
	if text = recovered(func() { use(result) }); text != "" {
		return 1, text
	}
	return 2, ""
}

func (b badArgument) call(f reflect.Value) []reflect.Value {
	var in []reflect.Value
	for i := range max(f.Type().NumIn(), len(b.args)) {
		variadic := f.Type().IsVariadic() && i >= f.Type().NumIn()-1
		if variadic && i >= len(b.args) {
			break
		}
		param := f.Type().In(min(i, f.Type().NumIn()-1))
		if variadic {
			param = param.Elem()
		}
		if i >= len(b.args) || b.args[i] == nil {
			in = append(in, reflect.Zero(param))
		} else {
			in = append(in, reflect.ValueOf(b.args[i]).Convert(param))
		}
	}
	return f.Call(in)
}

// use makes the first use of what a constructor returns. The interfaces of the two packages have the
// same methods.
func use(result []reflect.Value) {
	if len(result) == 0 {
		return
	}
	switch v := result[0].Interface().(type) {
	case clientgo.RateLimiter:
		v.When("item")
	case clientgo.Interface:
		useQueue(v)
	case wait.BackoffManager:
		v.Backoff()
	case wait.Timer:
		v.C()
	default:
		if f := reflect.ValueOf(v); f.Kind() == reflect.Func {
			f.Call(nil) // A DelayFunc.
		}
	}
}

// useQueue adds an item by the call that uses most of the queue, and ends the queue.
func useQueue(q clientgo.Interface) {
	defer q.ShutDown()
	q.Add("item")
	if d, ok := q.(clientgo.DelayingInterface); ok {
		d.AddAfter("item", time.Second)
	}
	if r, ok := q.(clientgo.RateLimitingInterface); ok {
		r.AddRateLimited("item")
	}
}

// TestBadArgumentsAreAcceptedWhereClientGoAcceptsThem is the rule for all constructors and
// functions whose names client-go or util/wait has: ours never panic earlier, and a panic names the
// wrong argument.
func TestBadArgumentsAreAcceptedWhereClientGoAcceptsThem(t *testing.T) {
	handlers := utilruntime.PanicHandlers
	defer func() { utilruntime.PanicHandlers = handlers }()
	utilruntime.PanicHandlers = nil // Those of apimachinery log a panic of a loop.
	for _, row := range badArguments() {
		synctest.Test(t, func(t *testing.T) {
			theirs, _ := row.stage(row.theirs)
			ours, text := row.stage(row.ours)
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

func badArguments() []badArgument {
	return slices.Concat(badQueues(), badLimiters(), badWork(), badBackoffs(), badLoops())
}

const (
	noQueueLimiter = "workqueue: the rate limiter of TypedRateLimiting is nil: give one to its constructor"
	noMaxOf        = "workqueue: the rate limiter of TypedMaxOfRateLimiter is nil: give one to its constructor"
	noMaxWait      = "workqueue: the rate limiter of TypedWithMaxWaitRateLimiter is nil: give one to its constructor"
	noBucket       = "workqueue: the Limiter of TypedBucketRateLimiter is nil: set it to one from rate.NewLimiter"
	noClock        = "wait: clock is nil"
	noFunction     = "wait: function to run is nil"
	noManager      = "wait: backoff manager is nil"
	noCondition    = "wait: condition is nil"
	nilPointer     = "runtime error: invalid memory address or nil pointer dereference"
)

func badQueues() []badArgument {
	limiter := []any{nil, workqueue.DefaultControllerRateLimiter()}
	return []badArgument{
		{"NewNamed", "no name", clientgo.NewNamed, workqueue.NewNamed, nil, ""},
		{"NewWithConfig", "no config", clientgo.NewWithConfig, workqueue.NewWithConfig, nil, ""},
		{"NewTypedWithConfig", "no config", clientgo.NewTypedWithConfig[any], workqueue.NewTypedWithConfig[any], nil, ""},
		{"NewNamedDelayingQueue", "no name", clientgo.NewNamedDelayingQueue, workqueue.NewNamedDelayingQueue, nil, ""},
		{"NewDelayingQueueWithConfig", "no config", clientgo.NewDelayingQueueWithConfig, workqueue.NewDelayingQueueWithConfig, nil, ""},
		{"NewTypedDelayingQueueWithConfig", "no config", clientgo.NewTypedDelayingQueueWithConfig[any], workqueue.NewTypedDelayingQueueWithConfig[any], nil, ""},
		{"NewDelayingQueueWithCustomQueue", "no queue", clientgo.NewDelayingQueueWithCustomQueue, workqueue.NewDelayingQueueWithCustomQueue, nil, ""},
		{"NewDelayingQueueWithCustomClock", "no clock", clientgo.NewDelayingQueueWithCustomClock, workqueue.NewDelayingQueueWithCustomClock, nil, ""},
		{"NewRateLimitingQueueWithDelayingInterface", "no queue", clientgo.NewRateLimitingQueueWithDelayingInterface, workqueue.NewRateLimitingQueueWithDelayingInterface, limiter, ""},
		{"NewRateLimitingQueueWithDelayingInterface", "no limiter",
			func() any {
				return clientgo.NewRateLimitingQueueWithDelayingInterface(clientgo.NewDelayingQueue(), nil)
			},
			func() any {
				return workqueue.NewRateLimitingQueueWithDelayingInterface(workqueue.NewDelayingQueue(), nil)
			}, nil, noQueueLimiter},
		{"NewRateLimitingQueue", "no limiter", clientgo.NewRateLimitingQueue, workqueue.NewRateLimitingQueue, nil, noQueueLimiter},
		{"NewNamedRateLimitingQueue", "no limiter", clientgo.NewNamedRateLimitingQueue, workqueue.NewNamedRateLimitingQueue, nil, noQueueLimiter},
		{"NewRateLimitingQueueWithConfig", "no limiter", clientgo.NewRateLimitingQueueWithConfig, workqueue.NewRateLimitingQueueWithConfig, nil, noQueueLimiter},
		{"NewTypedRateLimitingQueue", "no limiter", clientgo.NewTypedRateLimitingQueue[any], workqueue.NewTypedRateLimitingQueue[any], nil, noQueueLimiter},
		{"NewTypedRateLimitingQueueWithConfig", "no limiter", clientgo.NewTypedRateLimitingQueueWithConfig[any], workqueue.NewTypedRateLimitingQueueWithConfig[any], nil, noQueueLimiter},
		{"SetProvider", "no provider", clientgo.SetProvider, workqueue.SetProvider, nil, ""},
	}
}

func badLimiters() []badArgument {
	negative, none := []any{-time.Second, -time.Second, -1}, []any{nil}
	return []badArgument{
		{"NewItemExponentialFailureRateLimiter", "negative delays", clientgo.NewItemExponentialFailureRateLimiter, workqueue.NewItemExponentialFailureRateLimiter, negative[:2], ""},
		{"NewTypedItemExponentialFailureRateLimiter", "negative delays", clientgo.NewTypedItemExponentialFailureRateLimiter[any], workqueue.NewTypedItemExponentialFailureRateLimiter[any], negative[:2], ""},
		{"NewItemFastSlowRateLimiter", "negative numbers", clientgo.NewItemFastSlowRateLimiter, workqueue.NewItemFastSlowRateLimiter, negative, ""},
		{"NewTypedItemFastSlowRateLimiter", "negative numbers", clientgo.NewTypedItemFastSlowRateLimiter[any], workqueue.NewTypedItemFastSlowRateLimiter[any], negative, ""},
		{"NewMaxOfRateLimiter", "no limiters", clientgo.NewMaxOfRateLimiter, workqueue.NewMaxOfRateLimiter, nil, ""},
		{"NewMaxOfRateLimiter", "a nil limiter", clientgo.NewMaxOfRateLimiter, workqueue.NewMaxOfRateLimiter, none, noMaxOf},
		{"NewTypedMaxOfRateLimiter", "a nil limiter", clientgo.NewTypedMaxOfRateLimiter[any], workqueue.NewTypedMaxOfRateLimiter[any], none, noMaxOf},
		{"NewWithMaxWaitRateLimiter", "no limiter", clientgo.NewWithMaxWaitRateLimiter, workqueue.NewWithMaxWaitRateLimiter, nil, noMaxWait},
		{"NewTypedWithMaxWaitRateLimiter", "no limiter", clientgo.NewTypedWithMaxWaitRateLimiter[any], workqueue.NewTypedWithMaxWaitRateLimiter[any], nil, noMaxWait},
		{"TypedWithMaxWaitRateLimiter", "no limiter", func() any { return clientgo.TypedWithMaxWaitRateLimiter[any]{} },
			func() any { return workqueue.TypedWithMaxWaitRateLimiter[any]{} }, nil, noMaxWait},
		{"TypedBucketRateLimiter", "no bucket", func() any { return &clientgo.TypedBucketRateLimiter[any]{} },
			func() any { return &workqueue.TypedBucketRateLimiter[any]{} }, nil, noBucket},
	}
}

func badWork() (rows []badArgument) {
	ctx, f := context.Background(), func(int) {}
	for _, row := range []struct {
		argument string
		args     []any
		want     string
	}{
		{"no context", []any{nil, 1, 1, f}, ""},
		{"-1 workers", []any{ctx, -1, 1, f}, "workqueue: negative number of workers -1"},
		{"-1 workers and no piece", []any{ctx, -1, 0, f}, ""},
		{"-1 pieces", []any{ctx, 1, -1, f}, ""},
		{"no work to do and no piece", []any{ctx, 1, 0, nil, nil}, ""},
		{"no work to do and no worker", []any{ctx, 0, 1, nil}, ""},
	} {
		rows = append(rows, badArgument{"ParallelizeUntil", row.argument, clientgo.ParallelizeUntil, workqueue.ParallelizeUntil, row.args, row.want})
	}
	return append(rows, badArgument{"WithChunkSize", "-1",
		func(size int) { clientgo.ParallelizeUntil(ctx, 1, 3, f, clientgo.WithChunkSize(size)) },
		func(size int) { workqueue.ParallelizeUntil(ctx, 1, 3, f, workqueue.WithChunkSize(size)) }, []any{-1}, ""})
}

func badBackoffs() (rows []badArgument) {
	const s = time.Second
	for _, row := range []struct {
		argument string
		backoff  wait.Backoff
		reset    time.Duration
		want     string
	}{
		{"no clock", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, s, noClock},
		{"no clock and no factor", wait.Backoff{Duration: s, Steps: 3, Jitter: 1}, s, ""},
		{"no clock and a negative factor", wait.Backoff{Duration: s, Factor: -2, Steps: 3}, s, ""},
		{"no clock and no interval", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, 0, ""},
		{"no clock and a negative interval", wait.Backoff{Duration: s, Factor: 2, Steps: 3}, -s, ""},
	} {
		rows = append(rows, badArgument{"DelayWithReset", row.argument, wait.Backoff.DelayWithReset, ourwait.Backoff.DelayWithReset,
			[]any{row.backoff, nil, row.reset}, row.want})
	}
	return append(rows, []badArgument{
		{"NewJitteredBackoffManager", "no clock", wait.NewJitteredBackoffManager, ourwait.NewJitteredBackoffManager, []any{s, 1}, noClock},
		{"NewExponentialBackoffManager", "no clock", wait.NewExponentialBackoffManager, ourwait.NewExponentialBackoffManager, []any{s, s, s, 2, 1}, noClock},
		{"Jitter", "negative numbers", wait.Jitter, ourwait.Jitter, []any{-s, -1}, ""},
		{"DelayFunc.Timer", "no clock", wait.DelayFunc.Timer, ourwait.DelayFunc.Timer, nil, noClock},
		{"DelayFunc.Timer", "no function", wait.DelayFunc.Timer, ourwait.DelayFunc.Timer, []any{nil, clock.RealClock{}}, nilPointer},
		{"DelayFunc.Until", "no condition", wait.DelayFunc.Until, ourwait.DelayFunc.Until,
			[]any{wait.Backoff{}.DelayFunc(), context.Background(), true, true}, noCondition},
		{"Concurrent", "no function", wait.DelayFunc.Concurrent, ourwait.DelayFunc.Concurrent, nil, nilPointer},
	}...)
}

// badLoops are called before and after their stop.
func badLoops() (rows []badArgument) {
	const s = time.Second
	manager := wait.NewJitteredBackoffManager(s, 0, clock.RealClock{})
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ctx := range []context.Context{context.Background(), stopped} {
		for _, row := range []badArgument{
			{"Until", "no function", wait.Until, ourwait.Until, []any{nil, s, ctx.Done()}, noFunction},
			{"UntilWithContext", "no function", wait.UntilWithContext, ourwait.UntilWithContext, []any{ctx, nil, s}, noFunction},
			{"JitterUntil", "no function", wait.JitterUntil, ourwait.JitterUntil, []any{nil, s, 0, true, ctx.Done()}, noFunction},
			{"JitterUntilWithContext", "no function", wait.JitterUntilWithContext, ourwait.JitterUntilWithContext, []any{ctx, nil, s, 0, true}, noFunction},
			{"BackoffUntil", "no function", wait.BackoffUntil, ourwait.BackoffUntil, []any{nil, manager, true, ctx.Done()}, noFunction},
			{"BackoffUntil", "no manager", wait.BackoffUntil, ourwait.BackoffUntil, []any{func() {}, nil, true, ctx.Done()}, noManager},
			{"BackoffUntilWithContext", "no manager", wait.BackoffUntilWithContext, ourwait.BackoffUntilWithContext, []any{ctx, func(context.Context) {}}, noManager},
		} {
			if ctx == stopped {
				row.argument, row.want = row.argument+" and told to stop", ""
			}
			rows = append(rows, row)
		}
	}
	return rows
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
