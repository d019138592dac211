package compat_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"
)

// The fuzzer mutates scripts, and the corpus holds scripts. A script is in
// letters, so people can read and type a corpus file:
//
//	+a   Add(a)              g   Get, if that cannot block
//	>aC  AddAfter(a, C)      da  Done(a), held or not
//	^a   AddRateLimited(a)   tC  step the clock by C
//	-a   Forget(a)           !   ShutDown
//	                         ~   ShutDownWithDrain
//
// Items are a to e; the capital letters index delays and steps. Spaces separate.
// Any other byte stands for an operation too, so no mutation is wasted.
type op struct {
	verb byte
	item string
	d    time.Duration
}

const (
	spelled = "+>^-gdt!~"
	// weights decode the bytes outside of spelled. Shutdown is rare,
	// since little can happen afterwards.
	weights = "+++++++>>>>>>>>>>^^^^^^-ggggggggggggdddddddddddtttttttttt!~"

	maxScript = 400
)

var items = []string{"a", "b", "c", "d", "e"}

// delays are neighbours of the places where behaviour changes: zero, the steps
// below, the 10 s heartbeat, and the ends of the type.
var delays = []time.Duration{
	math.MinInt64, -time.Second, -1, 0, // A to D
	1, 2, time.Microsecond, time.Millisecond - 1, // E to H
	time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond, // I to L
	10 * time.Millisecond, time.Second - 1, time.Second, 10*time.Second - 1, // M to P
	10 * time.Second, 10*time.Second + 1, time.Hour, math.MaxInt64 - 1, math.MaxInt64, // Q to U
}

var steps = []time.Duration{
	0, 1, time.Microsecond, time.Millisecond, // A to D
	2 * time.Millisecond, 5 * time.Millisecond, time.Second, 10*time.Second - 1, // E to H
	10 * time.Second, time.Minute, // I, J
}

func decode(script []byte) (ops []op) {
	script = script[:min(len(script), maxScript)]
	next := func() (b byte) {
		if len(script) > 0 {
			b, script = script[0], script[1:]
		}
		return b
	}
	for len(script) > 0 {
		o := op{verb: next()}
		if o.verb == ' ' {
			continue
		}
		if bytes.IndexByte([]byte(spelled), o.verb) < 0 {
			o.verb = weights[int(o.verb)%len(weights)]
		}
		switch o.verb {
		case '+', '^', '-', 'd':
			o.item = pick(items, next()-'a')
		case '>':
			o.item, o.d = pick(items, next()-'a'), pick(delays, next()-'A')
		case 't':
			o.d = pick(steps, next()-'A')
		}
		ops = append(ops, o)
	}
	return ops
}

func pick[T any](from []T, b byte) T { return from[int(b)%len(from)] }

// String writes an operation as a script has it.
func (o op) String() string {
	switch o.verb {
	case '>':
		return fmt.Sprintf(">%s%c", o.item, 'A'+slices.Index(delays, o.d))
	case 't':
		return fmt.Sprintf("t%c", 'A'+slices.Index(steps, o.d))
	}
	return string(o.verb) + o.item
}

// shrink leaves out operations as long as the others still fail, so a
// failure reads as a reproduction.
func shrink(ops []op, fails func([]op) bool) []op {
	for size := len(ops) / 2; size > 0; {
		removed := false
		for at := 0; at+size <= len(ops); {
			shorter := slices.Delete(slices.Clone(ops), at, at+size)
			if fails(shorter) {
				ops, removed = shorter, true
			} else {
				at += size
			}
		}
		if !removed {
			size /= 2
		}
	}
	return ops
}
