//go:build !race

// The simulations take 10 times as long under the race detector, which has nothing to
// look at: they share nothing. `make test` runs the suite without it as well.

package workqueue_test

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
	"golang.org/x/time/rate"
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
// the dedup bucket does not mind that. The last row is the set-up for many cheap
// keys, also with two reports of each failure.
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
	ofKeys := func() limiter {
		return workqueue.NewTypedMaxOfRateLimiter(exponential(),
			workqueue.NewTypedDedupBucketRateLimiter[int](10, 100))
	}
	forManyKeys := func() limiter {
		return workqueue.NewTypedMaxOfRateLimiter(jittered(2*time.Minute),
			workqueue.NewTypedDedupBucketRateLimiter[int](200, 200))
	}

	simulations := []*simulation{
		{name: "plain exponential", reports: 1, limiter: exponential},
		{name: "with jitter", reports: 1, limiter: withJitter},
		{name: "default", reports: 1, limiter: inDefault},
		{name: "default, twice", reports: 2, limiter: inDefault},
		{name: "dedup bucket", reports: 1, limiter: ofKeys},
		{name: "dedup bucket, twice", reports: 2, limiter: ofKeys},
		{name: "jitter, 200 keys/s", reports: 2, limiter: forManyKeys},
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
		"dedup bucket            10109      10     10     16m40s",
		"dedup bucket, twice     10059      10     10     16m40s",
		"jitter, 200 keys/s      10299     200    162      1m56s",
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

// A tenantJob is a job of a tenant. Tenants whose names begin with "paid" pay.
type tenantJob struct {
	tenant string
	n      int
}

func (j tenantJob) pays() bool { return strings.HasPrefix(j.tenant, "paid") }

// Four tenants pay, and add 120 jobs a second for half a minute, half more than 8 workers do in that time. Another
// does not pay, and adds 4 a second. A tenant has 3 jobs at work at most. docs/choosing.md has the figures.
func TestTenantsWhoPay(t *testing.T) {
	tenant := func(j tenantJob) string { return j.tenant }
	three := func(string) int { return 3 }
	byClass := func(j tenantJob) int {
		if j.pays() {
			return 1
		}
		return 0
	}
	weight := func(name string) int {
		if strings.HasPrefix(name, "paid") {
			return 4
		}
		return 1
	}
	for _, row := range []struct {
		name  string
		order workqueue.Order[tenantJob]
		own   int           // workers of a queue for those who do not pay; 0 is one queue for all
		free  [2]int        // jobs done of the tenant who does not pay: at least, and at most
		wait  time.Duration // the median of their waits at most
		paid  [2]int
	}{
		{"Priority", workqueue.Order[tenantJob]{Group: tenant, MaxInFlight: three, Priority: byClass}, 0, [2]int{0, 3}, time.Second, [2]int{2380, 2420}},
		{"Priority and OldestEvery", workqueue.Order[tenantJob]{Group: tenant, MaxInFlight: three, Priority: byClass, OldestEvery: 4}, 0,
			[2]int{60, 85}, 6 * time.Second, [2]int{2300, 2350}},
		{"Weight and GroupsFirst", workqueue.Order[tenantJob]{Group: tenant, MaxInFlight: three, Weight: weight, GroupsFirst: true}, 0,
			[2]int{111, 113}, 200 * time.Millisecond, [2]int{2270, 2310}},
		{"two queues", workqueue.Order[tenantJob]{Group: tenant, MaxInFlight: three}, 2, [2]int{112, 113}, 50 * time.Millisecond, [2]int{1790, 1810}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			waits := map[bool][]time.Duration{}
			added := map[tenantJob]time.Time{}
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			handle := func(_ context.Context, j tenantJob) error {
				mu.Lock()
				waits[j.pays()] = append(waits[j.pays()], time.Since(added[j]))
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				return nil
			}
			config := workqueue.TypedRateLimitingQueueConfig[tenantJob]{Order: row.order}
			paid := workqueue.NewTypedRateLimiting(nil, config)
			free := paid
			var wg sync.WaitGroup
			run := func(q *workqueue.TypedRateLimiting[tenantJob], workers int) {
				wg.Go(func() { workqueue.Run(ctx, q, handle, workqueue.RunOptions[tenantJob]{Workers: workers}) })
			}
			if row.own > 0 {
				free = workqueue.NewTypedRateLimiting(nil, config)
				run(free, row.own)
			}
			run(paid, 8-row.own)
			for n := range 30 * 30 {
				if ctx.Err() != nil {
					break
				}
				for k := range 4 {
					add(&mu, added, paid, tenantJob{fmt.Sprint("paid", k), n})
				}
				if n%8 == 0 {
					add(&mu, added, free, tenantJob{"free", n})
				}
				time.Sleep(time.Second / 30)
			}
			wg.Wait()
			free50, nFree, nPaid := median(waits[false]), len(waits[false]), len(waits[true])
			t.Logf("%s: %d of 113 jobs after %v, and %d of those who pay", row.name, nFree, free50, nPaid)
			if nFree < row.free[0] || nFree > row.free[1] || free50 > row.wait || nPaid < row.paid[0] || nPaid > row.paid[1] {
				t.Errorf("%s: want %v jobs after at most %v, and %v of those who pay", row.name, row.free, row.wait, row.paid)
			}
		})
	}
}

func add(mu *sync.Mutex, added map[tenantJob]time.Time, q *workqueue.TypedRateLimiting[tenantJob], j tenantJob) {
	mu.Lock()
	added[j] = time.Now()
	mu.Unlock()
	q.Add(j)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2].Round(10 * time.Millisecond)
}
