package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func TestGrowth(t *testing.T) {
	for name, tt := range map[string]struct {
		heap       func(i int) uint64
		goroutines func(i int) int
		n          int
		want       string
	}{
		"flat":           {func(int) uint64 { return 1 << 20 }, func(int) int { return 9 }, 20, ""},
		"a warm-up":      {func(i int) uint64 { return min(5, uint64(i)) << 20 }, func(i int) int { return min(i, 3) }, 20, ""},
		"noise":          {func(i int) uint64 { return 1<<20 + uint64(i*7%5)<<14 }, func(int) int { return 9 }, 20, ""},
		"one outlier":    {func(i int) uint64 { return 1<<20 + uint64(i/19)<<24 }, func(int) int { return 9 }, 20, ""},
		"memory grows":   {func(i int) uint64 { return 1<<20 + uint64(i)<<15 }, func(int) int { return 9 }, 20, "memory"},
		"goroutines":     {func(int) uint64 { return 1 << 20 }, func(i int) int { return 9 + i/8 }, 20, "goroutines"},
		"too few to say": {func(int) uint64 { return 1 << 20 }, func(int) int { return 9 }, 3, "too few"},
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

// Only what came since the last interval counts.
func TestLateness(t *testing.T) {
	before := workqueue.DurationStats{Count: 100, Zero: 10, Exponential: map[int]uint64{0: 90}}
	after := workqueue.DurationStats{Count: 200, Zero: 40, Exponential: map[int]uint64{-80: 68, 0: 90, 8: 2}}
	late50, late99 := lateness(before, after)
	if late50 != 977*time.Microsecond || late99 != 2*time.Second {
		t.Errorf("half are late by up to %v, 99 of 100 by up to %v", late50, late99)
	}
	if late50, late99 = lateness(after, after); late50+late99 != 0 {
		t.Errorf("nothing was late, and the result is %v, %v", late50, late99)
	}
}

// A short run of all features: what is called returns, and the queue comes to rest.
func TestLoad(t *testing.T) {
	l := newLoad(1000)
	for range 2 {
		s, err := l.interval(t.Context(), 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if s.throughput == 0 || s.heap == 0 || s.goroutines == 0 {
			t.Errorf("%+v", s)
		}
	}
	if err := l.end(); err != nil {
		t.Error(err)
	}
}
