package workqueue_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

// The idle time of a minute begins when the wait of 10 s is over.
func TestExpiringRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStub(10 * time.Second)
		l := workqueue.NewTypedExpiringRateLimiter[string](inner, time.Minute)
		for i, row := range []struct {
			pass  time.Duration
			fails string
			a, b  int // failures known
		}{
			{0, "a", 1, 0},
			{0, "b", 1, 1},
			{69 * time.Second, "a", 2, 1},
			{time.Second, "", 2, 0},
			{68 * time.Second, "", 2, 0},
			{time.Second, "", 0, 0},
			{0, "a", 1, 0},
			{time.Hour, "b", 0, 1},
		} {
			time.Sleep(row.pass)
			if row.fails != "" {
				if d := l.When(row.fails); d != 10*time.Second {
					t.Errorf("row %d: got %v, want the limiter's 10s", i, d)
				}
			}
			if a, b := l.NumRequeues("a"), l.NumRequeues("b"); a != row.a || b != row.b {
				t.Errorf("row %d: %d and %d failures, want %d and %d", i, a, b, row.a, row.b)
			}
			checkInvariants(t, i, l)
		}
		if len(inner.failures) != 1 || l.Len() != 1 {
			t.Errorf("the limiter knows %v, with %d records; want 1 and 1", inner.failures, l.Len())
		}
		if l.Forget("b"); len(inner.failures) != 0 || l.Len() != 0 {
			t.Errorf("after Forget the limiter knows %v, with %d records", inner.failures, l.Len())
		}
	})
}

// An item expires at the end of its time, although its record is still there: each failure drops
// two other records.
func TestExpiringRateLimiterStartsAnItemOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStub(10 * time.Second)
		l := workqueue.NewTypedExpiringRateLimiter[string](inner, time.Minute)
		const items = "abcdefgh"
		for _, item := range items {
			l.When(string(item))
		}
		time.Sleep(70 * time.Second)
		l.When("h")
		if n := l.NumRequeues("h"); n != 1 || l.Len() != len(items)-2 || len(inner.failures) != l.Len() {
			t.Errorf("the item has %d failures, %d of %d are known to one and %d to the other, want 1 and %d",
				n, l.Len(), len(items), len(inner.failures), len(items)-2)
		}
	})
}

// 100,000 keys fail once each, one a millisecond, and nobody calls Forget, as
// in kubernetes/kubernetes#138743: no more stay than fail within three times
// the idle time of a second.
func TestExpiringRateLimiterBoundsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{Duration: time.Millisecond, Factor: 2})
		l := workqueue.NewTypedExpiringRateLimiter[int](inner, time.Second)
		most := 0
		for key := range rounds(100_000) {
			l.When(key)
			time.Sleep(time.Millisecond)
			most = max(most, l.Len(), inner.Len())
		}
		if most > 3000 {
			t.Errorf("up to %d keys remembered, want at most 3000", most)
		}
		checkInvariants(t, 0, l)
		checkInvariants(t, 0, inner)
	})
}

// The memory of a burst of many keys is given back while a few keys go on failing, old or fresh.
func TestExpiringRateLimiterGivesABurstBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fresh := range []bool{false, true} {
			inner := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{Duration: time.Millisecond})
			l := workqueue.NewTypedExpiringRateLimiter[int](inner, time.Second)
			before := heapInUse()
			for key := range rounds(10_000) {
				l.When(key)
			}
			full := heapInUse() - before
			time.Sleep(time.Minute)
			for n := range rounds(15_000) {
				key := n % 10
				if fresh {
					key = 200_000 + n
				}
				l.When(key)
				time.Sleep(10 * time.Millisecond)
			}
			if l.Len() > 300 || inner.Len() > 300 {
				t.Errorf("fresh %v: %d records left, the limiter knows %d", fresh, l.Len(), inner.Len())
			}
			if left := heapInUse() - before; !raceEnabled && left > full/8 {
				t.Errorf("fresh %v: %d of %d bytes left", fresh, left, full)
			}
			runtime.KeepAlive(l)
		}
	})
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// An item is not idle during its wait, or the wait after each failure would be the first wait.
func TestExpiringRateLimiterOutlastsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.NewTypedExpiringRateLimiter[string](workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, 100*time.Hour), time.Minute)
		for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100} {
			d := l.When("a")
			if d != want*time.Hour {
				t.Errorf("wait %d: got %v, want %v", n, d, want*time.Hour)
			}
			time.Sleep(d)
		}
		never := workqueue.NewTypedExpiringRateLimiter[string](newStub(rate.InfDuration), time.Minute)
		never.When("a")
		time.Sleep(100 * 365 * 24 * time.Hour)
		if n := never.NumRequeues("a"); n != 1 {
			t.Errorf("an item that waits for ever has %d failures, want 1", n)
		}
	})
}

// Two failures at once count twice, also if the item has expired just before and its record is
// still there.
func TestExpiringRateLimiterCountsAFailureBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &nesting{stub: newStub(0)}
		l := workqueue.NewTypedExpiringRateLimiter[string](inner, time.Minute)
		for _, item := range "abcdefgh" {
			l.When(string(item))
		}
		time.Sleep(time.Hour)
		inner.within = func() {
			inner.within = nil
			l.When("h")
		}
		l.When("h")
		if n := l.NumRequeues("h"); n != 2 {
			t.Errorf("%d failures, want 2", n)
		}
	})
}

// A nesting limiter counts a failure and then calls within.
type nesting struct {
	*stub
	within func()
}

func (n *nesting) When(item string) time.Duration {
	wait := n.stub.When(item)
	if n.within != nil {
		n.within()
	}
	return wait
}

func TestExpiringRateLimiterNegativeWaitIsNone(t *testing.T) {
	l := workqueue.NewTypedExpiringRateLimiter[string](newStub(-5), time.Minute)
	if d := l.When("a"); d != 0 {
		t.Errorf("got %v", d)
	}
}

type panicking struct{ *stub }

func (p panicking) When(item string) time.Duration {
	p.stub.When(item)
	panic("boom")
}

// A failure counted before a panic expires too.
func TestExpiringRateLimiterPanicInTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStub(0)
		l := workqueue.NewTypedExpiringRateLimiter[string](panicking{inner}, time.Minute)
		for i := range 3 {
			wantPanic(t, "boom", func() { l.When("a") })
			if n := inner.failures["a"]; n != 1 || l.Len() != 1 {
				t.Errorf("round %d: %d failures, %d records, want 1 and 1", i, n, l.Len())
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestExpiringRateLimiterBadInput(t *testing.T) {
	inner := newStub(0)
	for idle, want := range map[time.Duration]string{
		0:            "workqueue: idle time 0s is not positive",
		-time.Second: "workqueue: idle time -1s is not positive",
	} {
		wantPanic(t, want, func() { workqueue.NewTypedExpiringRateLimiter[string](inner, idle) })
	}
}

// The limiters of the package and those of callers, under -race.
func TestExpiringRateLimiterForgetsWhatItDropsConcurrently(t *testing.T) {
	t.Parallel()
	inner := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{})
	l := workqueue.NewTypedExpiringRateLimiter[int](inner, time.Nanosecond)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 5000 {
				l.When(n % 10)
			}
		})
	}
	wg.Wait()
	for key := range 10 {
		l.Forget(key)
	}
	if n := inner.Len(); n > 0 {
		t.Errorf("the limiter knows %d items that have no record", n)
	}
}

// docs/choosing.md says what these limiters do with an item that fails on and on: three retries come at
// once, and then one a minute, without a new count at the end of a minute. Only a Forget, or a minute
// without a failure, starts the count anew.
func TestFastSlowHasNoWindow(t *testing.T) {
	const first, slow = "[0 0 0 60 60 60]", "[60 60 60 60 60 60]"
	fastSlow := func() workqueue.TypedRateLimiter[string] {
		return workqueue.NewTypedItemFastSlowRateLimiter[string](0, time.Minute, 3)
	}
	for _, row := range []struct {
		limiter   func() workqueue.TypedRateLimiter[string]
		afterIdle string
	}{
		{fastSlow, slow},
		{func() workqueue.TypedRateLimiter[string] {
			return workqueue.NewTypedExpiringRateLimiter(fastSlow(), time.Minute)
		}, first},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := row.limiter()
			expect := func(when, want string) {
				t.Helper()
				var waits []int
				for range 6 {
					wait := l.When("a")
					waits = append(waits, int(wait/time.Second))
					time.Sleep(wait + time.Second)
				}
				if got := fmt.Sprint(waits); got != want {
					t.Errorf("%v %s: the waits are %s, want %s", l, when, got, want)
				}
			}
			expect("at first", first)
			expect("while the item fails on", slow)
			time.Sleep(time.Minute)
			expect("after a minute without a failure", row.afterIdle)
			l.Forget("a")
			expect("after a Forget", first)
		})
	}
}
