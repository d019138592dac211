package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

// A stub is a limiter with a constant wait and without a String method.
type stub struct {
	wait     time.Duration
	failures map[string]int
}

func (s *stub) When(item string) time.Duration {
	s.failures[item]++
	return s.wait
}
func (s *stub) Forget(item string)          { delete(s.failures, item) }
func (s *stub) NumRequeues(item string) int { return s.failures[item] }

func newStub(wait time.Duration) *stub { return &stub{wait, map[string]int{}} }

const forever = time.Duration(math.MaxInt64)

// whens returns the waits of the next failures of an item.
func whens[T comparable](l workqueue.TypedRateLimiter[T], item T, n int) string {
	got := make([]string, n)
	for i := range got {
		got[i] = l.When(item).String()
	}
	return strings.Join(got, " ")
}

// Controllers rely on these numbers: 5 ms to 1000 s for an item, and 100 tokens and 10 a second
// for all.
func TestDefaultTypedControllerRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.DefaultTypedControllerRateLimiter[int]()
		for item := range 100 {
			if d := l.When(item); d != 5*time.Millisecond {
				t.Fatalf("item %d waits %v, want 5ms", item, d)
			}
		}
		if d := l.When(100); d != 100*time.Millisecond {
			t.Errorf("the first item without a token waits %v, want 100ms", d)
		}
		var last time.Duration
		for item := range 9_899 {
			last = l.When(101 + item)
		}
		if want := 990 * time.Second; last != want { // 16.5 minutes, kubernetes/kubernetes#104554.
			t.Errorf("the last of 10,000 items waits %v, want %v", last, want)
		}
		time.Sleep(time.Hour)
		for n := range 30 {
			want := min(5*time.Millisecond<<(n+1), 1000*time.Second)
			if d := l.When(0); d != want {
				t.Errorf("failure %d: waits %v, want %v", n+2, d, want)
			}
		}
	})
}

// client-go's returns the smallest int64 for failure 44 of this base.
func TestItemExponentialFailureRateLimiterAtAPowerOfTwo(t *testing.T) {
	l := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1<<20, math.MaxInt64)
	for n := range 60 {
		want := forever
		if n < 43 {
			want = 1 << (20 + n)
		}
		if d := l.When("a"); d != want {
			t.Errorf("failure %d: got %v, want %v", n+1, d, want)
		}
	}
}

// rising checks 10,000 waits: none is negative, above the limit, or below the wait before.
func rising(t *testing.T, name string, l workqueue.TypedRateLimiter[string], limit time.Duration) {
	t.Helper()
	last := time.Duration(0)
	for n := range 10_000 {
		d := l.When("a")
		if d < last || d > limit {
			t.Fatalf("%s: wait %d is %v, after %v and with a maximum of %v", name, n, d, last, limit)
		}
		last = d
	}
	if n := l.NumRequeues("a"); n != 10_000 {
		t.Fatalf("%s: %d failures, want 10000", name, n)
	}
}

// anyDuration returns a duration of any order of magnitude.
func anyDuration(r *rand.Rand) time.Duration { return time.Duration(r.Int64() >> r.IntN(63)) }

func TestLimitersSaturate(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	rounds := 100
	if raceEnabled {
		rounds = 10
	}
	for range rounds {
		base, limit := anyDuration(r), anyDuration(r)
		name := fmt.Sprintf("%d to %d", base, limit)
		rising(t, "exponential, "+name, workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit), limit)

		base, limit = min(base, limit), max(base, limit)
		b := wait.Backoff{Duration: base, Factor: 1 + r.ExpFloat64()*math.Pow(10, float64(r.IntN(30)-15)), Cap: limit}
		if r.IntN(2) == 0 {
			b.Steps = r.IntN(20_000)
		}
		if limit == 0 {
			limit = math.MaxInt64
		}
		rising(t, fmt.Sprintf("%+v", b), workqueue.NewTypedItemBackoffRateLimiter[string](b), limit)

		fast, slow := anyDuration(r), anyDuration(r)
		rising(t, name, workqueue.NewTypedItemFastSlowRateLimiter[string](min(fast, slow), max(fast, slow), r.IntN(10_000)), max(fast, slow))
	}
}

func TestBucketRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 2)}
		if got, want := whens(l, "a", 4), "0s 0s 100ms 200ms"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		l.Forget("a")
		if got := l.When("a"); got != 300*time.Millisecond {
			t.Errorf("after Forget: got %v, want 300ms: it gives nothing back", got)
		}
		time.Sleep(500 * time.Millisecond)
		l.SetLimit(1)
		l.SetBurst(1)
		if got, want := whens(l, "a", 2), "0s 1s"; got != want {
			t.Errorf("with a limit of 1: got %q, want %q", got, want)
		}
		l.SetBurst(0)
		if got := l.When("a"); got != rate.InfDuration {
			t.Errorf("without a burst: got %v", got)
		}
	})
}

// Constructors accept a nil limiter, as client-go does, and the result can be printed.
func TestNilLimitersPanicWhenTheyAreUsed(t *testing.T) {
	const of = "workqueue: the rate limiter of %s is nil: give one to its constructor"
	for _, row := range []struct {
		limiter           workqueue.TypedRateLimiter[string]
		constructed, text string
	}{
		{workqueue.NewTypedMaxOfRateLimiter[string](newStub(1), nil), "TypedMaxOfRateLimiter", "max of [*workqueue_test.stub, <nil>]"},
		{workqueue.NewTypedWithMaxWaitRateLimiter[string](nil, 1), "TypedWithMaxWaitRateLimiter", "<nil>, at most 1ns"},
		{workqueue.TypedWithMaxWaitRateLimiter[string]{}, "TypedWithMaxWaitRateLimiter", "<nil>, at most 0s"},
	} {
		want := fmt.Sprintf(of, row.constructed)
		wantPanic(t, want, func() { row.limiter.When("a") })
		wantPanic(t, want, func() { row.limiter.Forget("a") })
		wantPanic(t, want, func() { row.limiter.NumRequeues("a") })
		if got := fmt.Sprint(row.limiter); got != row.text {
			t.Errorf("got %s, want %s", got, row.text)
		}
	}
	wantPanic(t, "workqueue: the Limiter of TypedBucketRateLimiter is nil: set it to one from rate.NewLimiter",
		func() { new(workqueue.TypedBucketRateLimiter[string]).When("a") })
	wantPanic(t, "workqueue: rate limiter is nil", func() { workqueue.NewTypedExpiringRateLimiter[string](nil, 1) })
}

func TestZeroAndNegativeLimitersNeverDelay(t *testing.T) {
	for _, l := range []workqueue.TypedRateLimiter[string]{
		&workqueue.TypedItemExponentialFailureRateLimiter[string]{},
		&workqueue.TypedItemFastSlowRateLimiter[string]{},
		&workqueue.TypedItemBackoffRateLimiter[string]{},
		&workqueue.TypedMaxOfRateLimiter[string]{},
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](-time.Second, time.Second),
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, -time.Second),
		workqueue.NewTypedItemFastSlowRateLimiter[string](-5, -10, 1),
		workqueue.NewTypedWithMaxWaitRateLimiter[string](newStub(5), -10),
		workqueue.NewTypedWithMaxWaitRateLimiter[string](newStub(-5), 10),
		workqueue.NewTypedMaxOfRateLimiter[string](newStub(-5)),
	} {
		if got, want := whens(l, "a", 3), "0s 0s 0s"; got != want {
			t.Errorf("%T: got %q", l, got)
		}
		l.Forget("a")
	}
}

func TestDefaultItemBasedRateLimiter(t *testing.T) {
	l := workqueue.DefaultTypedItemBasedRateLimiter[string]()
	if got, want := whens(l, "a", 4), "1ms 2ms 4ms 8ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range 30 {
		l.When("a")
	}
	if got := l.When("a"); got != 1000*time.Second {
		t.Errorf("in the end: got %v", got)
	}
}

func TestLimitersPrintThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exponential := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
		exponential.When("a")
		bucket := &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)}
		bucket.When("a")
		backoff := func(b wait.Backoff) any { return workqueue.NewTypedItemBackoffRateLimiter[string](b) }
		for _, row := range []struct {
			limiter any
			want    string
		}{
			{exponential, "item exponential (1s * 2^n, at most 1m0s; 1 items)"},
			{workqueue.NewTypedItemFastSlowRateLimiter[string](1, 2, 3), "item fast slow (1ns for 3 attempts, then 2ns; 0 items)"},
			{bucket, "bucket (10/s, burst 100, 99.0 tokens)"},
			{&workqueue.TypedBucketRateLimiter[string]{}, "bucket (none)"},
			{backoff(wait.Backoff{Duration: time.Second}), "item backoff (1s; 0 items)"},
			{backoff(wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Cap: time.Hour, Steps: 5}),
				"item backoff (1s * 2^n for n up to 5, jitter 1, at most 1h0m0s; 0 items)"},
			{workqueue.NewTypedWithMaxWaitRateLimiter(exponential, time.Hour),
				"item exponential (1s * 2^n, at most 1m0s; 1 items), at most 1h0m0s"},
			{workqueue.NewTypedMaxOfRateLimiter[string](bucket, newStub(1)),
				"max of [bucket (10/s, burst 100, 99.0 tokens), *workqueue_test.stub]"},
			{workqueue.NewTypedExpiringRateLimiter[string](newStub(1), time.Hour),
				"*workqueue_test.stub, expiring when idle for 1h0m0s (0 items)"},
		} {
			if got := fmt.Sprint(row.limiter); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		}
	})
}

// After a burst of 20,000 failing items most memory is given back when most items are forgotten.
// The other items keep their counts.
func TestLimiterOfFailuresGivesABurstBack(t *testing.T) {
	l := new(workqueue.TypedItemExponentialFailureRateLimiter[int])
	const n, left = 20_000, 100
	for key := range n {
		for range 1 + key%3 {
			l.When(key)
		}
	}
	for key := range n - left {
		l.Forget(key)
	}
	if room := l.Room(); room > n/8 {
		t.Errorf("room for %d items is left around %d", room, left)
	}
	for key := n - left; key < n; key++ {
		if got, want := l.NumRequeues(key), 1+key%3; got != want {
			t.Errorf("key %d has %d failures, want %d", key, got, want)
		}
	}
}

// A count of failures stays within an int of 32 bits.
func TestCountOfFailuresSaturates(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 1, 1: 2, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: math.MaxInt32} {
		if got := workqueue.Counted(n); got != want {
			t.Errorf("%d after %d, want %d", got, n, want)
		}
	}
}

// The budget of a limiter for an item: 24 bytes of record for a string and 11 to 21 of index come
// on top.
func TestLimiterSizes(t *testing.T) {
	if streak, due := workqueue.LimiterSizes(); streak > 20 || due > 12 {
		t.Errorf("a streak takes %d bytes, a due time %d; want 20 and 12", streak, due)
	}
}
