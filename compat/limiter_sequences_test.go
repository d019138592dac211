package compat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

// A limiterPair is the same limiter of both packages. The limiters of one package are
// assignable to the other's type.
type limiterPair struct {
	name         string
	theirs, ours clientgo.TypedRateLimiter[string]
}

// limiterPairs returns all limiters of client-go, with numbers of any order of
// magnitude, none of which is negative, and a base that is no power of two and
// that a float64 holds.
func limiterPairs(r *rand.Rand) []limiterPair {
	d := func() time.Duration { return time.Duration(r.Int64()>>r.IntN(63)) | 3 }
	base, limit, fast, slow, longest, attempts := d()>>11|3, d(), d(), d(), d(), r.IntN(8)
	perSecond, burst := rate.Limit(r.Float64()*100), r.IntN(5)

	exponential := limiterPair{
		fmt.Sprintf("exponential %d to %d", base, limit),
		clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, limit),
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit),
	}
	fastSlow := limiterPair{
		fmt.Sprintf("fast slow %d %d %d", fast, slow, attempts),
		clientgo.NewTypedItemFastSlowRateLimiter[string](fast, slow, attempts),
		workqueue.NewTypedItemFastSlowRateLimiter[string](fast, slow, attempts),
	}
	bucket := func() limiterPair {
		return limiterPair{
			fmt.Sprintf("bucket %v %v", perSecond, burst),
			&clientgo.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(perSecond, burst)},
			&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(perSecond, burst)},
		}
	}
	of, cut := bucket(), bucket()
	return []limiterPair{
		exponential, fastSlow, bucket(),
		{
			"max of " + exponential.name + " and " + of.name,
			clientgo.NewTypedMaxOfRateLimiter(exponential.theirs, of.theirs),
			workqueue.NewTypedMaxOfRateLimiter[string](exponential.ours, of.ours),
		},
		{
			fmt.Sprintf("%s up to %d", cut.name, longest),
			clientgo.NewTypedWithMaxWaitRateLimiter(cut.theirs, longest),
			workqueue.NewTypedWithMaxWaitRateLimiter[string](cut.ours, longest),
		},
		{"default", clientgo.DefaultTypedControllerRateLimiter[string](), workqueue.DefaultTypedControllerRateLimiter[string]()},
		{"default of items", clientgo.DefaultTypedItemBasedRateLimiter[string](), workqueue.DefaultTypedItemBasedRateLimiter[string]()},
	}
}

// The same calls at the same times return the same.
func TestLimiterSequences(t *testing.T) {
	r := generator(t)
	for range rounds(200) {
		synctest.Test(t, func(t *testing.T) {
			for _, pair := range limiterPairs(r) {
				for n := range 150 {
					playLimiters(t, r, pair, n)
				}
			}
		})
	}
}

func playLimiters(t *testing.T, r *rand.Rand, pair limiterPair, n int) {
	t.Helper()
	item := string(rune('a' + r.IntN(3)))
	switch r.IntN(10) {
	case 0:
		pair.theirs.Forget(item)
		pair.ours.Forget(item)
	case 1:
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	default:
		if want, got := pair.theirs.When(item), pair.ours.When(item); want != got {
			t.Fatalf("%s, call %d: When(%s): theirs %v, ours %v", pair.name, n, item, want, got)
		}
	}
	if want, got := pair.theirs.NumRequeues(item), pair.ours.NumRequeues(item); want != got {
		t.Fatalf("%s, call %d: NumRequeues(%s): theirs %v, ours %v", pair.name, n, item, want, got)
	}
}

// limiterDifferences are all differences between the limiters of both packages, except
// a difference that does not show: of an item that differs from itself, theirs
// remember each failure for ever.
func limiterDifferences() []difference {
	whens := func(l clientgo.TypedRateLimiter[string], skip int) func() string {
		return func() string {
			for range skip {
				l.When("a")
			}
			return printed(func() time.Duration { return l.When("a") }, 3)
		}
	}
	exponential := func(base, limit time.Duration, skip int) [2]func() string {
		return [2]func() string{
			whens(clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, limit), skip),
			whens(workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit), skip),
		}
	}
	row := func(what string, sides [2]func() string, theirs, ours string) difference {
		return difference{what, sides[0], sides[1], [2]string{theirs, ours}}
	}
	const s = time.Second
	const most, least = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	return []difference{
		row("exponential: a base of a power of two saturates (D8)", exponential(1<<20, most, 42),
			fmt.Sprint([]time.Duration{1 << 62, least, most}), fmt.Sprint([]time.Duration{1 << 62, most, most})),
		row("exponential: a base above 104 days is not rounded", exponential(1<<53+1, most, 0),
			fmt.Sprint([]time.Duration{1 << 53, 1 << 54, 1 << 55}),
			fmt.Sprint([]time.Duration{1<<53 + 1, 1<<54 + 2, 1<<55 + 4})),
		row("exponential: a negative base counts as zero", exponential(-s, 9*s, 0), "[-1s -2s -4s]", "[0s 0s 0s]"),
		row("exponential: a negative maximum counts as zero", exponential(s, -s, 0), "[-1s -1s -1s]", "[0s 0s 0s]"),
		row("fast slow: negative delays count as zero", [2]func() string{
			whens(clientgo.NewTypedItemFastSlowRateLimiter[string](-s, -2*s, 1), 0),
			whens(workqueue.NewTypedItemFastSlowRateLimiter[string](-s, -2*s, 1), 0),
		}, "[-1s -2s -2s]", "[0s 0s 0s]"),
		row("with maximum: a negative one counts as zero", [2]func() string{
			whens(clientgo.NewTypedWithMaxWaitRateLimiter(clientgo.NewTypedItemFastSlowRateLimiter[string](s, s, 1), -s), 0),
			whens(workqueue.NewTypedWithMaxWaitRateLimiter(workqueue.NewTypedItemFastSlowRateLimiter[string](s, s, 1), -s), 0),
		}, "[-1s -1s -1s]", "[0s 0s 0s]"),
		row("with maximum: so does a negative wait of the limiter", [2]func() string{
			whens(clientgo.NewTypedWithMaxWaitRateLimiter(clientgo.NewTypedItemFastSlowRateLimiter[string](-s, -s, 1), s), 0),
			whens(workqueue.NewTypedWithMaxWaitRateLimiter(clientgo.NewTypedItemFastSlowRateLimiter[string](-s, -s, 1), s), 0),
		}, "[-1s -1s -1s]", "[0s 0s 0s]"),
	}
}

func TestLimiterDifferences(t *testing.T) {
	for _, d := range limiterDifferences() {
		d.check(t)
	}
}

// The new limiters go where client-go's do, also behind its interface.
var (
	_ clientgo.TypedRateLimiter[string] = (*workqueue.TypedItemBackoffRateLimiter[string])(nil)
	_ clientgo.TypedRateLimiter[string] = (*workqueue.TypedExpiringRateLimiter[string])(nil)
)

// A backoff without jitter and steps to spare is client-go's exponential
// limiter, if its cap is not below its base.
func TestItemBackoffIsExponential(t *testing.T) {
	r := generator(t)
	for range 200 {
		base := time.Duration(1 + r.Int64N(int64(time.Minute)))
		limit := base + time.Duration(r.Int64N(int64(time.Hour)))
		theirs := clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, limit)
		ours := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: base, Factor: 2, Cap: limit})
		synctest.Test(t, func(t *testing.T) {
			for n := range 100 {
				playLimiters(t, r, limiterPair{fmt.Sprintf("%d to %d", base, limit), theirs, ours}, n)
			}
		})
	}
}
