package compat_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// The suite uses the five interfaces below. They have the method sets of both packages, so queues,
// limiters and storages of either package are assignable to them, and back.

type typedQueue[T comparable] interface {
	Add(item T)
	Len() int
	Get() (item T, shutdown bool)
	Done(item T)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

type delayingQueue[T comparable] interface {
	typedQueue[T]
	AddAfter(item T, duration time.Duration)
}

type rateLimitingQueue[T comparable] interface {
	delayingQueue[T]
	AddRateLimited(item T)
	Forget(item T)
	NumRequeues(item T) int
}

type rateLimiter[T comparable] interface {
	When(item T) time.Duration
	Forget(item T)
	NumRequeues(item T) int
}

type itemStorage[T comparable] interface {
	Touch(item T)
	Push(item T)
	Len() int
	Pop() (item T)
}

// settings are the configs of all layers in one; each constructor takes the fields of its layer.
type settings struct {
	name  string
	meter *meter // nil for no provider in the config
	clock clock.WithTicker

	storage  itemStorage[string]   // below queue
	queue    typedQueue[string]    // below delaying
	delaying delayingQueue[string] // below rateLimiting
}

// An implementation has the constructors of one of the two packages. The typed constructors behave
// alike for all item types, so strings are enough.
type implementation struct {
	name string

	queue        func(settings) typedQueue[string]
	delaying     func(settings) delayingQueue[string]
	rateLimiting func(rateLimiter[string], settings) rateLimitingQueue[string]
	storage      func() itemStorage[string]

	// plain are the constructors of the layers that take no config.
	plain struct {
		queue        func() typedQueue[string]
		delaying     func() delayingQueue[string]
		rateLimiting func(rateLimiter[string]) rateLimitingQueue[string]
	}

	exponential       func(base, limit time.Duration) rateLimiter[string]
	fastSlow          func(fast, slow time.Duration, fastAttempts int) rateLimiter[string]
	bucket            func(qps rate.Limit, burst int) rateLimiter[string]
	maxOf             func(...rateLimiter[string]) rateLimiter[string]
	maxWait           func(rateLimiter[string], time.Duration) rateLimiter[string]
	controllerDefault func() rateLimiter[string]
	itemDefault       func() rateLimiter[string]

	// chunk == nil is a call without options.
	parallelize func(ctx context.Context, workers, pieces int, work func(int), chunk *int)

	untyped untypedConstructors
}

var implementations = []implementation{clientGo(), ours()}

// onEach runs f as one subtest per implementation.
func onEach(t *testing.T, f func(*testing.T, implementation)) {
	t.Helper()
	for _, impl := range implementations {
		t.Run("impl="+impl.name, func(t *testing.T) { f(t, impl) })
	}
}

// An outcome is the documented effect of a step or a call. If client-go does something else,
// upstream has that effect, and the test insists on upstream: if client-go is repaired, the
// difference is gone and somebody has to hear of it.
type outcome[T comparable] struct {
	want     T
	upstream *T
}

func (o outcome[T]) check(t *testing.T, impl implementation, what string, got T) {
	t.Helper()
	want, hint := o.want, ""
	if o.upstream != nil && impl.name == clientGoName {
		want = *o.upstream
		if got == o.want {
			hint = "; client-go now does as documented: strike it from docs/differences.md and from this table"
		}
	}
	if got != want {
		t.Errorf("%s: got %v, want %v%s", what, got, want, hint)
	}
}

// convert turns the suite's limiters into limiters of a package: a slice of one interface type is
// not a slice of another.
func convert[L any](limiters []rateLimiter[string]) []L {
	converted := make([]L, len(limiters))
	for i, l := range limiters {
		if l != nil {
			converted[i] = l.(L)
		}
	}
	return converted
}
