package workqueue_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// What limiters make of an outage. Everything that 10,000 keys depend on is
// down for 10 minutes, and then serves 500 calls a second and refuses the
// rest. A key that is refused is tried again after the limiter's wait.
//
// The peaks are calls in a second: in the first minute, when short waits are
// due whatever the limiter; in the rest of the outage; and after it, when they
// decide how many calls are refused, and so how long the recovery takes.
//
// Without jitter the keys stay in step, and 500 of them get through every 1000
// seconds. Jitter in the same backoff takes them apart. The bucket of the
// default limiter makes them wait in a line at 10 a second, and one of twice
// the length if each failure is reported twice, by the worker and by an event;
// the key bucket does not mind that. The last row is the set-up for many cheap
// keys, also with two reports of each failure.
func Example_outage() {
	exponential := func() workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[int](5*time.Millisecond, 1000*time.Second)
	}
	jittered := func(longest time.Duration) workqueue.TypedRateLimiter[int] {
		l := workqueue.NewTypedItemBackoffRateLimiter[int](workqueue.Backoff{
			Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longest,
		})
		l.Rand = rand.New(rand.NewPCG(1, 2)).Float64 // To see the same each time.
		return l
	}
	inDefault := func(c *testclock.FakePassiveClock) workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(), bucketOn(c, 10, 100))
	}
	ofKeys := func(c *testclock.FakePassiveClock) workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(),
			workqueue.NewTypedKeyBucketRateLimiterWithClock[int](10, 100, c))
	}

	fmt.Println("                          peak calls/s        recovered")
	fmt.Println("limiter               1st min  outage  after      after")
	plain := simulate("plain exponential", 1, func(*testclock.FakePassiveClock) workqueue.TypedRateLimiter[int] {
		return exponential()
	})
	jitter := simulate("with jitter", 1, func(*testclock.FakePassiveClock) workqueue.TypedRateLimiter[int] {
		return jittered(1000 * time.Second)
	})
	simulate("default", 1, inDefault)
	simulate("default, twice", 2, inDefault)
	simulate("key bucket", 1, ofKeys)
	simulate("key bucket, twice", 2, ofKeys)
	simulate("jitter, 200 keys/s", 2, func(c *testclock.FakePassiveClock) workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedMaxOfRateLimiter(jittered(2*time.Minute),
			workqueue.NewTypedKeyBucketRateLimiterWithClock[int](200, 200, c))
	})
	fmt.Printf("jitter flattens the peaks %d and %d times: at least 5 times is %v\n",
		plain.peaks[1]/jitter.peaks[1], plain.peaks[2]/jitter.peaks[2],
		plain.peaks[1] >= 5*jitter.peaks[1] && plain.peaks[2] >= 5*jitter.peaks[2])

	// Output:
	//                           peak calls/s        recovered
	// limiter               1st min  outage  after      after
	// plain exponential       80000   10000  10000   5h11m51s
	// with jitter             76479     528     47     10m46s
	// default                 10109      10     10     16m40s
	// default, twice          10055       5      5     33m20s
	// key bucket              10109      10     10     16m40s
	// key bucket, twice       10059      10     10     16m40s
	// jitter, 200 keys/s      10299     200    162      1m56s
	// jitter flattens the peaks 18 and 212 times: at least 5 times is true
}

const (
	keys     = 10_000
	downFor  = 10 * time.Minute
	capacity = 500 // calls a second
)

// A simulation is a queue with any number of workers and calls that take no
// time, on a clock that goes from one call to the next.
type simulation struct {
	clock   *testclock.FakePassiveClock
	limiter workqueue.TypedRateLimiter[int]
	reports int // of each failure
	calls   attempts

	second time.Duration // in which calls were last made
	made   int           // calls in it
	peaks  [3]int        // in the first minute, the rest of the outage, and after
}

func simulate(name string, reports int, limiter func(*testclock.FakePassiveClock) workqueue.TypedRateLimiter[int]) *simulation {
	c := testclock.NewFakePassiveClock(time.Unix(0, 0))
	s := &simulation{clock: c, limiter: limiter(c), reports: reports}
	for key := range keys {
		s.calls = append(s.calls, attempt{key: key})
	}
	var now time.Duration
	for len(s.calls) > 0 {
		call := &s.calls[0]
		now = call.at
		c.SetTime(time.Unix(0, int64(now)))
		if s.served(now) {
			s.limiter.Forget(call.key)
			heap.Pop(&s.calls)
		} else {
			call.at += s.failed(call.key)
			heap.Fix(&s.calls, 0)
		}
	}
	fmt.Printf("%-20s %8d %7d %6d %10v\n", name, s.peaks[0], s.peaks[1], s.peaks[2], (now - downFor).Round(time.Second))
	return s
}

// served makes a call.
func (s *simulation) served(now time.Duration) bool {
	if second := now.Truncate(time.Second); second != s.second {
		s.second, s.made = second, 0
	}
	s.made++
	phase := 0
	switch {
	case now >= downFor:
		phase = 2
	case now >= time.Minute:
		phase = 1
	}
	s.peaks[phase] = max(s.peaks[phase], s.made)
	return now >= downFor && s.made <= capacity
}

// failed reports a failure to the limiter as often as it comes in. In a queue
// the earliest due time counts.
func (s *simulation) failed(key int) time.Duration {
	wait := s.limiter.When(key)
	for range s.reports - 1 {
		wait = min(wait, s.limiter.When(key))
	}
	return wait
}

type attempt struct {
	at  time.Duration
	key int
}

type attempts []attempt

func (a attempts) Len() int { return len(a) }
func (a attempts) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].key < a[j].key
}
func (a attempts) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *attempts) Push(x any)   { *a = append(*a, x.(attempt)) }

func (a *attempts) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// bucketOn is a TypedBucketRateLimiter on a clock: that takes the time from
// the real one.
func bucketOn(c *testclock.FakePassiveClock, limit rate.Limit, burst int) workqueue.TypedRateLimiter[int] {
	return &clockedBucket{rate.NewLimiter(limit, burst), c}
}

type clockedBucket struct {
	bucket *rate.Limiter
	clock  *testclock.FakePassiveClock
}

func (b *clockedBucket) When(int) time.Duration {
	now := b.clock.Now()
	return b.bucket.ReserveN(now, 1).DelayFrom(now)
}
func (b *clockedBucket) Forget(int)          {}
func (b *clockedBucket) NumRequeues(int) int { return 0 }
