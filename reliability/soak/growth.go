package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A sample is what was measured at the end of an interval, with the queue at rest.
type sample struct {
	heap           uint64 // bytes in use after a garbage collection
	goroutines     int
	throughput     float64 // hand-outs in a second of the interval
	late50, late99 time.Duration
	terms          int // queues that came and went in the interval
}

// slack is by how much the memory at rest may differ: what the runtime, the limiters and the
// buffers of the scrapes keep depends on what came last.
const slack = 256 << 10

// growth returns an error if memory or goroutines grow. The second quarter of the samples is
// compared with the last: the first quarter is the warm-up. Medians, because a collection may come
// early or late.
func growth(all []sample) error {
	quarter := len(all) / 4
	if quarter == 0 {
		return fmt.Errorf("%d samples are too few to tell", len(all))
	}
	early, late := all[quarter:2*quarter], all[len(all)-quarter:]
	heap := func(s sample) uint64 { return s.heap }
	goroutines := func(s sample) uint64 { return uint64(s.goroutines) }
	var memory, running error
	if from, to := median(early, heap), median(late, heap); to > from+from/20+slack {
		memory = fmt.Errorf("the memory has grown from %d to %d bytes", from, to)
	}
	if from, to := median(early, goroutines), median(late, goroutines); to > from {
		running = fmt.Errorf("the goroutines have grown from %d to %d", from, to)
	}
	return errors.Join(memory, running)
}

func median(all []sample, of func(sample) uint64) uint64 {
	var values []uint64
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
