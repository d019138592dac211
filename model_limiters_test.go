package workqueue_test

import (
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

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
