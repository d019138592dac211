package workqueue_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveLimiter is the model of the limiters that count failures: a map, and
// the formula from the comment.
type naiveLimiter struct {
	failures map[int]int
	wait     func(failures int) time.Duration
}

func newNaiveLimiter(wait func(failures int) time.Duration) *naiveLimiter {
	return &naiveLimiter{map[int]int{}, wait}
}

func (l *naiveLimiter) When(item int) time.Duration {
	l.failures[item]++
	return l.wait(l.failures[item] - 1)
}

func (l *naiveLimiter) Forget(item int)          { delete(l.failures, item) }
func (l *naiveLimiter) NumRequeues(item int) int { return l.failures[item] }

// power is base * factor^n, exact until it is cut off.
func power(base time.Duration, factor int64, n int, limit time.Duration) time.Duration {
	p := new(big.Int).Exp(big.NewInt(factor), big.NewInt(int64(n)), nil)
	p.Mul(p, big.NewInt(int64(base)))
	if p.Cmp(big.NewInt(int64(limit))) > 0 {
		return limit
	}
	return time.Duration(p.Int64())
}

// A naiveExpiring forgets each item when its time has come, and has no records
// of its own to get rid of.
type naiveExpiring struct {
	*naiveLimiter
	now     time.Duration
	idle    time.Duration
	expires map[int]time.Duration
}

func (l *naiveExpiring) step(d time.Duration) {
	l.now += d
	for item, at := range l.expires {
		if at <= l.now {
			l.Forget(item)
		}
	}
}

func (l *naiveExpiring) When(item int) time.Duration {
	wait := l.naiveLimiter.When(item)
	l.expires[item] = l.now + wait + l.idle
	return wait
}

func (l *naiveExpiring) Forget(item int) {
	l.naiveLimiter.Forget(item)
	delete(l.expires, item)
}

// TestModelLimiters and FuzzLimiters play random calls on all limiters that
// count failures and on their models.
func TestModelLimiters(t *testing.T) { playRandom(t, 200, inBubble(playLimiters)) }

func FuzzLimiters(f *testing.F) { f.Fuzz(inParallel(inBubble(playLimiters))) }

// inBubble plays on the clock of a bubble.
func inBubble(play func(t *testing.T, script []byte)) func(t *testing.T, script []byte) {
	return func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { play(t, script) })
	}
}

func playLimiters(t *testing.T, script []byte) {
	if len(script) < 6 {
		return
	}
	base, most := time.Duration(script[0])<<(script[1]%56), time.Duration(1+int(script[2]))<<(script[3]%55)
	if script[1]>>6 == 0 {
		base = 0 // So that items expire at a step of the clock, not between two steps.
	}
	attempts, idle := int(script[4]%5), time.Duration(1+int(script[5]))*time.Second
	exponential := func(n int) time.Duration { return power(base, 2, n, most) }
	fastSlow := func(n int) time.Duration {
		if n < attempts {
			return base
		}
		return most
	}
	expiring := &naiveExpiring{newNaiveLimiter(exponential), 0, idle, map[int]time.Duration{}}
	newExponential := func() workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[int](base, most)
	}
	newFastSlow := func() workqueue.TypedRateLimiter[int] {
		return workqueue.NewTypedItemFastSlowRateLimiter[int](base, most, attempts)
	}
	duels := []limiterDuel{
		{"exponential", newExponential(), newNaiveLimiter(exponential)},
		{"fast slow", newFastSlow(), newNaiveLimiter(fastSlow)},
		{"max of", workqueue.NewTypedMaxOfRateLimiter(newExponential(), newFastSlow()),
			newNaiveLimiter(func(n int) time.Duration { return max(exponential(n), fastSlow(n)) })},
		{"max wait", workqueue.NewTypedWithMaxWaitRateLimiter(newExponential(), most/3),
			newNaiveLimiter(func(n int) time.Duration { return min(exponential(n), most/3) })},
		{"expiring", workqueue.NewTypedExpiringRateLimiter(newExponential(), idle), expiring},
	}
	for i := 6; i+1 < len(script); i += opSize {
		if script[i]%8 == 7 {
			d := time.Duration(script[i+1]%8) * idle / 4
			time.Sleep(d)
			expiring.step(d)
			continue
		}
		for _, d := range duels {
			if err := d.step(script[i]%8, int(script[i+1]%16)); err != nil {
				t.Fatalf("step %d, base %v, most %v, %d attempts, idle %v: %s: %v", i/opSize, base, most, attempts, idle, d.name, err)
			}
			checkInvariants(t, i/opSize, d.limiter)
		}
	}
}

// A limiterDuel is a limiter and its model.
type limiterDuel struct {
	name           string
	limiter, model workqueue.TypedRateLimiter[int]
}

func (d *limiterDuel) step(op byte, item int) error {
	switch op {
	case 0:
		d.limiter.Forget(item)
		d.model.Forget(item)
	case 1:
	default:
		if got, want := d.limiter.When(item), d.model.When(item); got != want {
			return fmt.Errorf("When(%d) is %v, want %v", item, got, want)
		}
	}
	if got, want := d.limiter.NumRequeues(item), d.model.NumRequeues(item); got != want {
		return fmt.Errorf("NumRequeues(%d) is %d, want %d", item, got, want)
	}
	return nil
}

// A naiveDedupBucket is the model of the dedup bucket. It plays event after event and counts
// billionths of tokens: a nanosecond at the limit n brings n billionths, so nothing is rounded.
type naiveDedupBucket struct {
	limit, burst int64
	level        int64 // in billionths; negative for what is promised
	spare        int64 // tokens that came back while something was promised
	now          time.Duration
	places       []time.Duration       // given back, in order
	due          map[int]time.Duration // when the item's token is there
}

const (
	oneToken = int64(1e9)
	never    = time.Duration(math.MaxInt64)
)

func newNaiveDedupBucket(limit, burst int64) *naiveDedupBucket {
	return &naiveDedupBucket{limit: limit, burst: burst, level: burst * oneToken, due: map[int]time.Duration{}}
}

// step goes on to the time at which the next token that was given back is
// there, at which the last promise is kept, or at which the step ends.
func (b *naiveDedupBucket) step(d time.Duration) {
	for end := b.now + d; ; {
		at := end
		if b.level < 0 && b.limit > 0 {
			at = min(at, b.now+time.Duration(-b.level/b.limit))
		}
		if len(b.places) > 0 {
			at = min(at, b.places[0])
		}
		b.add(b.limit * int64(at-b.now))
		b.now = at
		if b.level >= 0 {
			b.add(b.spare * oneToken)
			b.spare = 0
		}
		switch {
		case len(b.places) > 0 && b.places[0] == at:
			b.places = b.places[1:]
			b.giveBack()
		case at == end:
			return
		}
	}
}

func (b *naiveDedupBucket) add(billionths int64) {
	b.level = min(b.level+billionths, b.burst*oneToken)
}

func (b *naiveDedupBucket) giveBack() {
	if b.level >= 0 {
		b.add(oneToken)
	} else {
		b.spare = min(b.spare+1, b.burst)
	}
}

func (b *naiveDedupBucket) setBurst(burst int64) {
	b.burst = burst
	b.add(0)
	b.spare = min(b.spare, burst)
}

func (b *naiveDedupBucket) When(item int) time.Duration {
	if b.due[item] > b.now {
		return b.due[item] - b.now
	}
	delete(b.due, item)
	at := b.take()
	if at == never {
		return rate.InfDuration
	}
	if at > b.now {
		b.due[item] = at
	}
	return at - b.now
}

func (b *naiveDedupBucket) take() time.Duration {
	if b.spare > 0 {
		b.spare--
		return b.now
	}
	at := never
	switch {
	case b.burst < 1:
	case b.level >= oneToken:
		at = b.now
	case b.limit > 0:
		at = b.now + time.Duration((oneToken-b.level)/b.limit)
	}
	if len(b.places) > 0 && b.places[0] <= at {
		at = b.places[0]
		b.places = b.places[1:]
	} else if at < never {
		b.level -= oneToken
	}
	return at
}

func (b *naiveDedupBucket) Forget(item int) {
	if b.due[item] > b.now {
		b.places = append(b.places, b.due[item])
		slices.Sort(b.places)
	}
	delete(b.due, item)
}

// TestModelDedupBucket and FuzzDedupBucket play random calls, at any fraction of a
// token, on a dedup bucket and its model, which agree to the nanosecond. No span of time has more
// tokens than the limit and a burst of one more allow, whatever is given back.
func TestModelDedupBucket(t *testing.T) { playRandom(t, 150, inBubble(playDedupBucket)) }

func FuzzDedupBucket(f *testing.F) { f.Fuzz(inParallel(inBubble(playDedupBucket))) }

// dedupBucketLimits divide 1000, so that a token comes at a whole nanosecond if
// all calls come at whole microseconds, whatever the limit was before.
var dedupBucketLimits = []int64{1, 2, 4, 5, 8, 10, 20, 25, 40, 50}

// A dedupBucketDuel is a dedup bucket and its model.
type dedupBucketDuel struct {
	*workqueue.TypedDedupBucketRateLimiter[int]
	model   *naiveDedupBucket
	waiting map[int]time.Duration // when the item's token is there
	used    []time.Duration       // tokens whose time has come
	most    int64                 // the highest burst
	limited bool                  // by one limit from the beginning to the end
}

func playDedupBucket(t *testing.T, script []byte) {
	if len(script) < 2 {
		return
	}
	limit, burst := dedupBucketLimits[int(script[0])%len(dedupBucketLimits)], int64(script[1]%10)
	d := &dedupBucketDuel{
		workqueue.NewTypedDedupBucketRateLimiter[int](rate.Limit(limit), int(burst)), newNaiveDedupBucket(limit, burst), map[int]time.Duration{}, nil, burst, true,
	}
	for i := 2; i+1 < len(script); i += opSize {
		if err := d.step(script[i], script[i+1]); err != nil {
			t.Fatalf("step %d at %v, limit %d, burst %d: %v", i/opSize, d.model.now, d.model.limit, d.model.burst, err)
		}
		checkInvariants(t, i/opSize, d.TypedDedupBucketRateLimiter)
	}
	for _, due := range d.waiting {
		d.used = append(d.used, due)
	}
	if d.limited {
		checkTokens(t, d.used, rate.Limit(limit), int(d.most))
	}
}

func (d *dedupBucketDuel) step(op, arg byte) error {
	switch item := int(arg % 32); {
	case op%32 == 30:
		d.limited = false
		d.model.limit = append(dedupBucketLimits, 0)[int(arg)%(len(dedupBucketLimits)+1)]
		d.SetLimit(rate.Limit(d.model.limit))
	case op%32 == 31:
		d.model.setBurst(int64(arg % 10))
		d.most = max(d.most, d.model.burst)
		d.SetBurst(int(d.model.burst))
	case op%8 == 0:
		// From nothing to four tokens, and mostly a fraction.
		pause := time.Duration(arg) * time.Second / 64 / time.Duration(d.model.limit+1)
		d.pass(pause.Truncate(time.Microsecond))
		return nil // The limiter learns of the pause by the next call.
	case op%8 < 3:
		d.Forget(item)
		d.model.Forget(item)
		delete(d.waiting, item)
	default:
		return d.when(item)
	}
	if got, want := d.Tokens(), float64(d.model.level)/float64(oneToken)+float64(d.model.spare); math.Abs(got-want) > 1e-9 {
		return fmt.Errorf("%v tokens, want %v", got, want)
	}
	return nil
}

func (d *dedupBucketDuel) pass(pause time.Duration) {
	time.Sleep(pause)
	d.model.step(pause)
	d.used = append(d.used, arrived(d.waiting, d.model.now)...)
}

func (d *dedupBucketDuel) when(item int) error {
	got, want := d.When(item), d.model.When(item)
	if got != want {
		return fmt.Errorf("When(%d) is %v, want %v", item, got, want)
	}
	if got == rate.InfDuration {
		return nil
	}
	due := d.model.now + got
	if d.waiting[item] = due; got == 0 {
		d.used = append(d.used, arrived(d.waiting, d.model.now)...)
	}
	return nil
}

// arrived removes the items whose tokens are there.
func arrived(waiting map[int]time.Duration, now time.Duration) (used []time.Duration) {
	for item, due := range waiting {
		if due <= now {
			used = append(used, due)
			delete(waiting, item)
		}
	}
	return used
}

func checkTokens(t *testing.T, used []time.Duration, limit rate.Limit, burst int) {
	t.Helper()
	slices.Sort(used)
	for i := range used {
		for j := i; j < len(used); j++ {
			span := used[j] - used[i]
			// The times are cut off to nanoseconds.
			if n, most := float64(j-i+1), float64(burst+1)+float64(limit)*(span+time.Microsecond).Seconds(); n > most {
				t.Fatalf("limit %v, burst %d: %v tokens in %v, at most %v are allowed", limit, burst, n, span, most)
			}
		}
	}
}
