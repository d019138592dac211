package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A tap is a dedup bucket that is driven by words, in a bubble of synctest.
type tap struct {
	*workqueue.TypedDedupBucketRateLimiter[string]
}

func newTap(limit rate.Limit, burst int) tap {
	return tap{workqueue.NewTypedDedupBucketRateLimiter[string](limit, burst)}
}

// play runs a line like "a b +1s -a limit=5": When of a and of b, a second
// that passes, Forget of a, SetLimit. It returns the waits, in milliseconds.
func (p tap) play(line string) string {
	var waits []string
	for _, word := range strings.Fields(line) {
		name, number, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseFloat(number, 64)
		switch {
		case word[0] == '+':
			d, _ := time.ParseDuration(word[1:])
			time.Sleep(d)
		case word[0] == '-':
			p.Forget(word[1:])
		case name == "limit":
			p.SetLimit(rate.Limit(n))
		case name == "burst":
			p.SetBurst(int(n))
		default:
			switch d := p.When(word); {
			case d == rate.InfDuration:
				waits = append(waits, "never")
			case d > 0 && d < time.Millisecond:
				waits = append(waits, d.String())
			default:
				waits = append(waits, fmt.Sprint(d.Round(time.Millisecond).Milliseconds()))
			}
		}
	}
	return strings.Join(waits, " ")
}

func TestDedupBucketRateLimiter(t *testing.T) {
	for _, row := range []struct {
		name  string
		limit rate.Limit
		burst int
		steps []string // a line to play, and the waits, by turns
	}{
		{"a token for each item", 10, 2, []string{"a b c d", "0 0 100 200"}},
		{"a duplicate waits for its own and costs nothing", 10, 1, []string{
			"a b b b c", "0 100 100 100 200",
			"+50ms b b c", "50 50 150",
			"+50ms c b", "100 200", // The token of b is there: b takes the next token.
		}},
		{"a token that is there at once is used", 10, 3, []string{"a a a a", "0 0 0 100"}},
		{"the bucket fills up to the burst", 10, 2, []string{"a b c +10s a b c d", "0 0 100 0 0 100 200"}},
		{"a place given back goes to the next item", 1, 1, []string{
			"a b c d", "0 1000 2000 3000",
			"-b e f", "1000 4000",
			"-c -d d c", "2000 3000",
			"-d -c d c", "2000 3000", // The earliest first.
		}},
		{"an item that comes back gets its place", 1, 1, []string{"a b c -b b", "0 1000 2000 1000"}},
		{"a place whose time has come is had at once", 1, 1, []string{
			"a b c d -b +1500ms e f", "0 1000 2000 3000 0 2500",
		}},
		{"and kept up to the burst", 1, 2, []string{
			"a b c d e f g", "0 0 1000 2000 3000 4000 5000",
			"-c -d -e +3500ms h i j", "0 0 2500",
		}},
		{"and not beside a bucket that is full", 1, 2, []string{
			"a b c d -c -d +1h e f g", "0 0 1000 2000 0 0 1000",
		}},
		{"a token that is just there is used up", 10, 1, []string{
			"a b c d e f", "0 100 200 300 400 500",
			"+100ms b", "500",
		}},
		{"and not given back", 10, 1, []string{
			"a b c d e f", "0 100 200 300 400 500",
			"+100ms -b g", "500",
		}},
		{"a used token is not given back", 1, 1, []string{"a b +1s -b -a c", "0 1000 1000"}},
		{"Forget of a stranger", 1, 1, []string{"-x a b", "0 1000"}},
		{"Forget twice", 1, 1, []string{"a b -b -b c d", "0 1000 1000 2000"}},
		{"a new limit is for new tokens", 1, 1, []string{
			"a b c limit=10 d", "0 1000 2000 300",
			"b c d", "1000 2000 300",
		}},
		{"a place later than a new token waits", 1, 1, []string{
			"a b c limit=10 -c d e", "0 1000 2000 300 400",
		}},
		{"a place as late as a new token goes first", 1, 1, []string{
			"a b c limit=1.5 -c d limit=3 e", "0 1000 2000 2000 1000",
		}},
		{"a new burst", 1, 1, []string{"burst=3 +1h a b c d", "0 0 0 1000"}},
		{"no burst", 1, 0, []string{"a b", "never never", "burst=1 +1s a b", "0 1000"}},
		{"no limit", 0, 1, []string{
			"a b b c", "0 never never never",
			"limit=1 b c", "1000 2000", // A wait for ever costs nothing.
		}},
		{"no end of tokens", rate.Inf, 0, []string{"a a b c", "0 0 0 0"}},
		{"an end of tokens that had none", rate.Inf, 2, []string{"a b c d limit=1 e f g", "0 0 0 0 0 0 1000"}},
		// 0.2 of a token and 0.8 of a token that comes back are one.
		{"back before its time", 1, 1, []string{"a b c -b +1999ms d e", "0 1000 2000 0 1001"}}, // The token of c comes first.
		{"back at its time", 1, 1, []string{"a b c -b +2s d e", "0 1000 2000 0 1000"}},
		{"back beside a small part", 1, 1, []string{"a b c -b +2001ms d e", "0 1000 2000 0 1000"}},
		{"back beside a part", 1, 1, []string{"a b c -b +2200ms d e", "0 1000 2000 0 1000"}},
		{"back beside nearly all of a token", 1, 1, []string{"a b c -b +2999ms d e", "0 1000 2000 0 1000"}},
		{"back beside a token", 1, 1, []string{"a b c -b +3s d e", "0 1000 2000 0 1000"}},
		{"room that comes later is for later", 1, 1, []string{"a b c -b +2200ms burst=2 d e", "0 1000 2000 0 1000"}},
		{"back before a new limit", 1, 1, []string{"a b c -b +2200ms limit=2 d e", "0 1000 2000 0 500"}},
		{"hardly any", 1e-12, 1, []string{"a b c", "0 never never"}},
		{"one at the end of time", 1e9 / (1 << 63), 1, []string{"a b", "0 never"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTap(row.limit, row.burst)
				for i := 0; i < len(row.steps); i += 2 {
					if got, want := p.play(row.steps[i]), row.steps[i+1]; got != want {
						t.Errorf("%q: got %q, want %q", row.steps[i], got, want)
					}
					p.Tokens() // Brings the bucket up to date.
					checkInvariants(t, i, p.TypedDedupBucketRateLimiter)
				}
				if n := p.NumRequeues("a"); n != 0 {
					t.Errorf("%d failures, want 0", n)
				}
			})
		})
	}
}

// Each call forgets two items whose tokens have come, and its own item if there is no wait.
func TestDedupBucketRateLimiterForgetsUsedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTap(1, 1)
		p.play("a b c d e f g h")
		for i, row := range []struct {
			play string
			want int // items that wait or have been forgotten to
		}{
			{"", 7},
			{"+5s x", 6},  // Not e and f, the last of which has just come.
			{"+10s b", 3}, // Nor c and d.
			{"+10s y", 1},
		} {
			if p.play(row.play); p.Len() != row.want {
				t.Errorf("row %d: %d items are known, want %d", i, p.Len(), row.want)
			}
		}
	})
}

// Given back one by one to a rate.Limiter, all but the last of these tokens
// would be lost: the next item would wait behind a line of nobody.
func TestDedupBucketRateLimiterForgetsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTap(10, 100)
		for key := range 10_000 {
			p.When(strconv.Itoa(key))
		}
		if d := p.When("late"); d.Round(time.Second) != 990*time.Second {
			t.Errorf("behind 10,000 keys: got %v, want 16m30s", d)
		}
		p.Forget("late")
		for key := range 10_000 {
			p.Forget(strconv.Itoa(key))
		}
		if d := p.When("next"); d != 100*time.Millisecond || p.Returned() != 9900 {
			t.Errorf("after they are forgotten: got %v and %d places, want 100ms and 9900", d, p.Returned())
		}
		time.Sleep(time.Hour)
		if got, n := p.play("x"), p.Returned(); got != "0" || n != 0 || p.Tokens() != 99 {
			t.Errorf("an hour later: got %q, %d places and %v tokens, want 0, 0 and 99", got, n, p.Tokens())
		}
	})
}

// Whatever is taken and given back, the tokens used conform to a bucket of
// the limit and a burst of one more: a place whose time has come is kept as a token beside the
// part of a token in the bucket.
func TestDedupBucketRateLimiterConforms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRand(t)
		for range rounds(100) {
			limit, burst := 1+r.Float64()*20, 1+r.IntN(5)
			p := newTap(rate.Limit(limit), burst)
			start := time.Now()
			held := map[string]time.Duration{}
			var used []time.Duration
			for n := range 2000 {
				key := strconv.Itoa(r.IntN(30))
				now := time.Since(start)
				switch r.IntN(5) {
				case 0:
					time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second) / limit))
				case 1:
					if due, ok := held[key]; ok && due > now {
						delete(held, key)
					}
					p.Forget(key)
				default:
					due := now + p.When(key)
					if last, ok := held[key]; ok && last > now && last != due {
						t.Fatalf("%s waited until %v and now until %v", key, last, due)
					} else if ok && last <= now {
						used = append(used, last)
					}
					held[key] = due
				}
				if n%100 == 0 {
					checkInvariants(t, n, p.TypedDedupBucketRateLimiter)
				}
			}
			for _, due := range held {
				used = append(used, due)
			}
			slices.Sort(used)
			conforms(t, used, limit, float64(burst+1))
		}
	})
}

func conforms(t *testing.T, used []time.Duration, limit, burst float64) {
	t.Helper()
	tokens, last := burst, time.Duration(0)
	for i, at := range used {
		tokens = math.Min(burst, tokens+(at-last).Seconds()*limit) - 1
		if last = at; tokens < -0.001 {
			t.Fatalf("limit %v, burst %v: token %d, used at %v, is one too many (%v)", limit, burst, i, at, tokens)
		}
	}
}

func TestDedupBucketRateLimiterBoundsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTap(100, 1)
		most := 0
		for key := range rounds(100_000) { // At the limit, some 100 of them wait at a time.
			p.When(strconv.Itoa(key))
			if key > 100 {
				time.Sleep(10 * time.Millisecond)
			}
			if key%3 == 0 {
				p.Forget(strconv.Itoa(key))
			}
			most = max(most, p.Len()+p.Returned())
		}
		if most > 303 {
			t.Errorf("up to %d records, want at most 303", most)
		}
		checkInvariants(t, 0, p.TypedDedupBucketRateLimiter)
	})
}

func TestDedupBucketRateLimiterTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTap(1, 2)
		for i, row := range []struct {
			play string
			want float64
		}{
			{"", 2},
			{"a", 1},
			{"b c d", -2},
			{"-c", -2}, // A promise to nobody in particular.
			{"+1s", 0}, // The place of c is a token now; another token is promised to d.
			{"+1h", 2},
		} {
			p.play(row.play)
			if got := p.Tokens(); math.Abs(got-row.want) > 1e-6 {
				t.Errorf("row %d, %q: got %v tokens, want %v", i, row.play, got, row.want)
			}
		}
		if p.Limit() != 1 || p.Burst() != 2 {
			t.Errorf("limit %v, burst %v", p.Limit(), p.Burst())
		}
	})
}

func TestDedupBucketRateLimiterBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const noLimit, noBurst = "workqueue: limit %v is not a number of at least 0", "workqueue: burst -1 is negative"
		p := newTap(1, 1)
		for _, limit := range []rate.Limit{-1, rate.Limit(math.NaN())} {
			want := fmt.Sprintf(noLimit, float64(limit))
			wantPanic(t, want, func() { workqueue.NewTypedDedupBucketRateLimiter[string](limit, 1) })
			wantPanic(t, want, func() { p.SetLimit(limit) })
		}
		wantPanic(t, noBurst, func() { workqueue.NewTypedDedupBucketRateLimiter[string](1, -1) })
		wantPanic(t, noBurst, func() { p.SetBurst(-1) })
		if got, want := p.play("a b"), "0 1000"; got != want {
			t.Errorf("after the panics: got %q, want %q", got, want)
		}
	})
}

// A second report of a failure costs no token. Key a takes the token in the bucket and then a
// token to come, key b a token to come.
func TestRateLimitingQueueWithADedupBucket(t *testing.T) {
	l := workqueue.NewTypedDedupBucketRateLimiter[string](1, 1)
	queue := workqueue.NewTypedRateLimitingQueue[string](l)
	defer queue.ShutDown()
	for range 50 {
		queue.AddRateLimited("a")
		queue.AddRateLimited("b")
	}
	if tokens := l.Tokens(); tokens < -2 {
		t.Errorf("%v tokens: the duplicates were charged", tokens)
	}
}
