//go:build !race

// The simulations take 10 times as long under the race detector, which has nothing to
// look at: they share nothing. `make test` runs the suite without it as well.

package workqueue_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

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
// the length if each failure is reported twice, by the worker and by an event.
// The last row is the set-up for many cheap keys: the Pace of the queue hands
// each key out once, however often its failure is reported.
func TestOutage(t *testing.T) {
	exponential := func() limiter {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[int](5*time.Millisecond, 1000*time.Second)
	}
	jittered := func(longest time.Duration) limiter {
		l := workqueue.NewTypedItemBackoffRateLimiter[int](wait.Backoff{
			Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longest,
		})
		l.Rand = rand.New(rand.NewPCG(1, 2)).Float64 // To see the same each time.
		return l
	}
	withJitter := func() limiter { return jittered(1000 * time.Second) }
	inDefault := func() limiter {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(), &workqueue.TypedBucketRateLimiter[int]{Limiter: rate.NewLimiter(10, 100)})
	}
	forManyKeys := func() limiter { return jittered(2 * time.Minute) }

	simulations := []*simulation{
		{name: "plain exponential", reports: 1, limiter: exponential},
		{name: "with jitter", reports: 1, limiter: withJitter},
		{name: "default", reports: 1, limiter: inDefault},
		{name: "default, twice", reports: 2, limiter: inDefault},
		{name: "jitter, 200 keys/s", reports: 2, limiter: forManyKeys, pace: rate.NewLimiter(200, 200)},
	}
	synctest.Test(t, func(*testing.T) {
		var all sync.WaitGroup
		for _, s := range simulations {
			all.Go(s.run)
		}
		all.Wait()
	})
	for i, want := range []string{ // As docs/choosing.md has it.
		"plain exponential       80000   10000  10000   5h11m51s",
		"with jitter             76479     528     47     10m46s",
		"default                 10109      10     10     16m40s",
		"default, twice          10055       5      5     33m20s",
		"jitter, 200 keys/s        399     209    154      1m57s",
	} {
		s := simulations[i]
		got := fmt.Sprintf("%-20s %8d %7d %6d %10v", s.name, s.peaks[0], s.peaks[1], s.peaks[2], s.recovered.Round(time.Second))
		if got != want {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
	}
}

const (
	keys     = 10_000
	downFor  = 10 * time.Minute
	capacity = 500 // calls a second
)

type limiter = workqueue.TypedRateLimiter[int]

// A simulation is a queue with any number of workers and calls that take no
// time.
type simulation struct {
	name    string
	reports int // of each failure
	limiter func() limiter
	pace    *rate.Limiter // nil for none

	second    time.Duration // in which calls were last made
	made      int           // calls in it
	peaks     [3]int        // in the first minute, the rest of the outage, and after
	recovered time.Duration // after the outage
}

func (s *simulation) run() {
	l, start := s.limiter(), time.Now()
	var calls attempts
	for key := range keys {
		calls = append(calls, attempt{key: key})
	}
	for len(calls) > 0 {
		call := &calls[0]
		time.Sleep(call.at - time.Since(start))
		s.recovered = call.at - downFor
		if wait := s.paced(call); wait > 0 {
			call.at += wait
			heap.Fix(&calls, 0)
		} else if s.served(call.at) {
			l.Forget(call.key)
			heap.Pop(&calls)
		} else {
			call.at += s.wait(l, call.key)
			heap.Fix(&calls, 0)
		}
	}
}

// paced returns how long a call waits for its token of the pace, which it takes when it comes.
func (s *simulation) paced(call *attempt) time.Duration {
	if s.pace == nil || call.token {
		call.token = false
		return 0
	}
	wait := s.pace.Reserve().Delay()
	call.token = wait > 0
	return wait
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
	at    time.Duration
	key   int
	token bool
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
