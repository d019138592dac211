// Package wait repeats a function with a pause in between, and says how long the pauses
// are: the backoff part of k8s.io/apimachinery/pkg/util/wait, without its dependencies.
// Use this package for retries without a queue, such as a connection that is made again after
// a break. The retries of many items belong in a queue: workqueue.Run retries items, and
// workqueue.NewTypedItemBackoffRateLimiter takes a [Backoff] for each item.
//
// The names are those of apimachinery v0.37.2, with the same signatures, fields and
// methods: a program that uses no other name of util/wait compiles with the changed
// import path. Names that apimachinery deprecates are deprecated here. A [Backoff] and a
// [DelayFunc] convert to the types of the same names there, and a [BackoffManager] and a
// [Timer] can be assigned to the interfaces of the same names.
//
// # Loops
//
// [Until], [NonSlidingUntil], [JitterUntil], [BackoffUntil] and [Forever], and the variants with
// a context, run f again and again on the goroutine of the caller. [DelayFunc.Until] does
// the same until a condition is met.
//
// A loop looks for the stop before each run of f. If the stop came before a run began,
// the loop does not begin the run, and returns without waiting any further. A run that
// has begun is left to end. A loop that was stopped before its first run does not use its
// other arguments, and accepts any.
//
// # Differences
//
// A panic of f reaches the caller, and nothing is logged. Numbers that make an interval
// of apimachinery negative, or let it exceed a documented maximum, do not do so here.
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/differences.md lists each
// difference with its test.
//
// # What is absent
//
//   - Poll, PollImmediate, PollImmediateInfinite, PollImmediateInfiniteWithContext,
//     PollImmediateUntil, PollImmediateUntilWithContext, PollImmediateWithContext,
//     PollInfinite, PollInfiniteWithContext, PollUntil, PollUntilContextCancel,
//     PollUntilContextTimeout, PollUntilWithContext, PollWithContext: use
//     [DelayFunc.Until] of a [Backoff] that has only a Duration.
//   - ExponentialBackoff, ExponentialBackoffWithContext: use [DelayFunc.Until], and count
//     the tries in the condition.
//   - ConditionFunc: use [ConditionWithContextFunc].
//   - ErrWaitTimeout, ErrorInterrupted, Interrupted: nothing here returns such an error;
//     the error of a context is returned unchanged.
//   - Group: use [sync.WaitGroup].
//   - ContextForChannel, RealTimer, ForeverTestTimeout: nothing here needs these.
package wait
