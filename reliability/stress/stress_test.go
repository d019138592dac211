package main

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

var patience = flag.Duration("patience", time.Minute, "how long nothing takes that is not stuck")

func short(duration time.Duration) *options {
	return &options{duration: duration, seed: rand.Uint64(), goroutines: 32, visitors: 5000, patience: *patience}
}

// Faults that this test must find are in reliability/planted/faults.
func TestStress(t *testing.T) {
	o := short(3 * time.Second)
	if found := stress(o); found.violations() > 0 {
		found.print(t.Output())
		t.Errorf("violations, with seed %d", o.seed)
	}
}

// A metric of an AddAfter ends the goroutine, and on the way out the order of the add panics: the item was
// not added, and nobody can repeat the call.
func TestAddOfAnEndingGoroutineThatAnOrderRefuses(t *testing.T) {
	r := newRound(short(0), newTally(), rand.New(rand.NewPCG(1, 1)))
	defer r.queue.ShutDown()
	for item, ends := range []func(){runtime.Goexit, func() {
		defer panic(fault(badOrder))
		runtime.Goexit()
	}} {
		alone(func() { r.add(item, func(int) { ends() }) })
		if accepted, want := r.accounts[item].accepted.Load() == 1, item == 0; accepted != want {
			t.Errorf("item %d: accepted is %t", item, accepted)
		}
	}
}

func TestGrowth(t *testing.T) {
	for name, tt := range map[string]struct {
		heap       func(i int) uint64
		goroutines func(i int) int
		n          int
		want       string
	}{
		"noise and a warm-up": {func(i int) uint64 { return min(5, uint64(i))<<20 + uint64(i*7%5)<<14 }, func(i int) int { return min(i, 3) }, 20, ""},
		"one outlier":         {func(i int) uint64 { return 1<<20 + uint64(i/19)<<24 }, func(int) int { return 9 }, 20, ""},
		"memory grows":        {func(i int) uint64 { return 1<<20 + uint64(i)<<15 }, func(int) int { return 9 }, 20, "memory"},
		"goroutines":          {func(int) uint64 { return 1 << 20 }, func(i int) int { return 9 + i/8 }, 20, "goroutines"},
		"too few to say":      {func(int) uint64 { return 1 << 20 }, func(int) int { return 9 }, 3, "too few"},
	} {
		var all []sample
		for i := range tt.n {
			all = append(all, sample{heap: tt.heap(i), goroutines: tt.goroutines(i)})
		}
		if err := growth(all); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// A short round with all features comes to rest, and its accounts are right.
func TestSoak(t *testing.T) {
	o := short(time.Second)
	found := soak(o, t.Output(), 2)
	delete(found.found, memory) // A short round has only a warm-up.
	if found.violations() > 0 {
		found.print(t.Output())
		t.Errorf("violations, with seed %d", o.seed)
	}
}
