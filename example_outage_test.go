//go:build !race

// The simulations take 10 times as long under the race detector, which has nothing to
// look at: they share nothing. `make test` runs the suite without it as well.

package workqueue_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
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
	exponential := func(*testclock.FakePassiveClock) limiter {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[int](5*time.Millisecond, 1000*time.Second)
	}
	jittered := func(longest time.Duration) limiter {
		l := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{
			Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longest,
		})
		l.Rand = rand.New(rand.NewPCG(1, 2)).Float64 // To see the same each time.
		return l
	}
	withJitter := func(*testclock.FakePassiveClock) limiter { return jittered(1000 * time.Second) }
	inDefault := func(c *testclock.FakePassiveClock) limiter {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(c), bucketOn(c, 10, 100))
	}
	ofKeys := func(c *testclock.FakePassiveClock) limiter {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(c),
			workqueue.NewTypedKeyBucketRateLimiterWithOptions[int](10, 100, workqueue.LimiterOptions{Clock: c}))
	}
	forManyKeys := func(c *testclock.FakePassiveClock) limiter {
		return workqueue.NewTypedMaxOfRateLimiter(jittered(2*time.Minute),
			workqueue.NewTypedKeyBucketRateLimiterWithOptions[int](200, 200, workqueue.LimiterOptions{Clock: c}))
	}

	simulations := []*simulation{
		{name: "plain exponential", reports: 1, limiter: exponential},
		{name: "with jitter", reports: 1, limiter: withJitter},
		{name: "default", reports: 1, limiter: inDefault},
		{name: "default, twice", reports: 2, limiter: inDefault},
		{name: "key bucket", reports: 1, limiter: ofKeys},
		{name: "key bucket, twice", reports: 2, limiter: ofKeys},
		{name: "jitter, 200 keys/s", reports: 2, limiter: forManyKeys},
	}
	var wg sync.WaitGroup
	for _, s := range simulations {
		wg.Go(s.run)
	}
	wg.Wait()

	fmt.Println("                          peak calls/s        recovered")
	fmt.Println("limiter               1st min  outage  after      after")
	for _, s := range simulations {
		fmt.Printf("%-20s %8d %7d %6d %10v\n", s.name, s.peaks[0], s.peaks[1], s.peaks[2], s.recovered.Round(time.Second))
	}
	plain, jitter := simulations[0], simulations[1]
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

type limiter = workqueue.TypedRateLimiter[int]

// A simulation is a queue with any number of workers and calls that take no
// time, on a clock that goes from one call to the next.
type simulation struct {
	name    string
	reports int // of each failure
	limiter func(*testclock.FakePassiveClock) limiter

	second    time.Duration // in which calls were last made
	made      int           // calls in it
	peaks     [3]int        // in the first minute, the rest of the outage, and after
	recovered time.Duration // after the outage
}

func (s *simulation) run() {
	c := testclock.NewFakePassiveClock(time.Unix(0, 0))
	l := s.limiter(c)
	var calls attempts
	for key := range keys {
		calls = append(calls, attempt{key: key})
	}
	for len(calls) > 0 {
		call := &calls[0]
		c.SetTime(time.Unix(0, int64(call.at)))
		s.recovered = call.at - downFor
		if s.served(call.at) {
			l.Forget(call.key)
			heap.Pop(&calls)
		} else {
			call.at += s.wait(l, call.key)
			heap.Fix(&calls, 0)
		}
	}
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

// wait reports a failure to the limiter as often as it comes in. In a queue
// the earliest due time counts.
func (s *simulation) wait(l limiter, key int) time.Duration {
	wait := l.When(key)
	for range s.reports - 1 {
		wait = min(wait, l.When(key))
	}
	return wait
}

type attempt struct {
	at  time.Duration
	key int
}

type attempts []attempt

func (a attempts) Len() int           { return len(a) }
func (a attempts) Less(i, j int) bool { return a[i].at < a[j].at }
func (a attempts) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *attempts) Push(x any)        { *a = append(*a, x.(attempt)) }

func (a *attempts) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// bucketOn is a TypedBucketRateLimiter on a clock: that takes the time from
// the real one.
func bucketOn(c *testclock.FakePassiveClock, limit rate.Limit, burst int) limiter {
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
