package attack

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

var (
	seed   = flag.Uint64("seed", 1, "of the first round; the others count up from there")
	rounds = flag.Int("rounds", 0, "how many rounds to play, instead of the short form")
	long   = flag.Duration("for", 0, "how long to play each attack, instead of the short form")
)

// play plays rounds and reports what they came to.
func play(t *testing.T, short int, round func(t *testing.T, rnd *rand.Rand) (calls int)) {
	t.Helper()
	if *rounds > 0 {
		short = *rounds
	}
	start, n, calls := time.Now(), 0, 0
	for ; n < short && *long == 0 || time.Since(start) < *long; n++ {
		s := *seed + uint64(n)
		calls += round(t, rand.New(rand.NewPCG(s, 0)))
		if t.Failed() {
			t.Fatalf("this was seed %d", s)
		}
	}
	t.Logf("%d rounds from seed %d on, %d calls, %v", n, *seed, calls, time.Since(start).Round(time.Millisecond))
}

// An end is how a call has ended.
type end struct {
	panicked any
	returned bool
}

// call makes a call on a goroutine of its own, which it may end. A call that does
// not come back within minutes is a deadlock, on a busy machine too.
func call(t *testing.T, what string, f func()) (e end) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { e.panicked = recover() }()
		f()
		e.returned = true
	}()
	select {
	case <-over:
	case <-time.After(3 * time.Minute):
		stacks := make([]byte, 1<<16)
		t.Fatalf("%s hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
	return e
}
