// Package histogram counts durations, and writes the counts for Prometheus: as classic buckets
// and as a native histogram at once.
package histogram

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Counts are the counts of a histogram. A caller may convert Counts to a type of its own with
// the same fields.
type Counts struct {
	Count uint64
	Sum   float64 // seconds
	// Buckets[i] counts the durations up to bound i and above the bound before. The last
	// element counts the durations above all bounds.
	Buckets []uint64
	// Zero counts the durations of 0. Exponential[k] counts the durations up to 2^(k/8)
	// seconds and above 2^((k-1)/8).
	Zero        uint64
	Exponential map[int]uint64
}

// Add adds the counts of another histogram with the same bounds. Copies of c, and other, do not
// change.
func (c *Counts) Add(other Counts) {
	switch {
	case other.Count == 0:
		return
	case c.Count == 0:
		*c = other
		return
	}
	c.Count += other.Count
	c.Sum += other.Sum
	c.Zero += other.Zero
	c.Buckets, c.Exponential = slices.Clone(c.Buckets), maps.Clone(c.Exponential)
	for i, n := range other.Buckets {
		c.Buckets[i] += n
	}
	if c.Exponential == nil { // Counts of somebody else may have none.
		c.Exponential = make(map[int]uint64)
	}
	for key, n := range other.Exponential {
		c.Exponential[key] += n
	}
}

// A Histogram counts a duration in 9 ns, under a lock of its owner. A histogram of
// Prometheus takes 40 ns, for its atomic operations and its map.
//
// The exponential buckets are the buckets of a native histogram of Prometheus with
// schema 3. A duration can be in 513 of the buckets. A chunk of 64 buckets is allocated when
// its first bucket is needed.
type Histogram struct {
	bounds []time.Duration // in nanoseconds, rounded down
	counts []uint64        // one more than bounds
	sum    float64
	zero   uint64
	chunks [9]*[64]uint64
}

const (
	// schema is the binary logarithm of the number of buckets of a power of two.
	schema = 3

	// firstKey is the key of the bucket of a nanosecond.
	firstKey = -240 + 1
)

// fractions are the upper bounds of the buckets between 1/2 and 1, without 1.
var fractions = func() (bounds [1 << schema]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/(1<<schema) - 1)
	}
	return bounds
}()

// New returns a histogram with classic buckets up to bounds, which are in seconds and
// increasing.
func New(bounds []float64) Histogram {
	durations := make([]time.Duration, len(bounds))
	for i, bound := range bounds {
		durations[i] = longestWithin(bound)
	}
	return (&Histogram{bounds: durations}).Like()
}

// Like returns an empty histogram with the same bounds. Both share the memory of the bounds, which
// never change, so Like needs no lock of h.
func (h *Histogram) Like() Histogram {
	return Histogram{bounds: h.bounds, counts: make([]uint64, len(h.bounds)+1)}
}

// longestWithin returns the longest duration within a bound. Below 0 there is none, and -1 stands for that.
func longestWithin(bound float64) time.Duration {
	if bound < 0 {
		return -1
	}
	if bound >= time.Duration(math.MaxInt64).Seconds() {
		return math.MaxInt64
	}
	d := time.Duration(bound * float64(time.Second))
	for d.Seconds() > bound {
		d--
	}
	for (d + 1).Seconds() <= bound {
		d++
	}
	return d
}

// Observe counts a duration, which must not be negative.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i]++
	if d == 0 {
		h.zero++
		return
	}
	seconds := d.Seconds()
	h.sum += seconds
	at := bucketKey(seconds) - firstKey
	chunk := h.chunks[at/64]
	if chunk == nil {
		chunk = new([64]uint64)
		h.chunks[at/64] = chunk
	}
	chunk[at%64]++
}

// bucketKey returns the key of the bucket of a normal positive number. The bits of
// the fraction below the leading bit give the bucket, or a bucket up to two before, as the
// logarithm is never far above its chord.
func bucketKey(v float64) int {
	const fractionBits = 52
	bits := math.Float64bits(v)
	exponent := int(bits>>fractionBits) - 1023
	fraction := math.Float64frombits(bits&(1<<fractionBits-1) | 1022<<fractionBits)
	i := int(bits>>(fractionBits-schema)) & (1<<schema - 1)
	for i < len(fractions) && fractions[i] < fraction {
		i++
	}
	return exponent<<schema + i
}

// Read returns the counts.
func (h *Histogram) Read() Counts {
	c := Counts{
		Sum:         h.sum,
		Buckets:     append([]uint64(nil), h.counts...),
		Zero:        h.zero,
		Exponential: make(map[int]uint64),
	}
	for _, n := range h.counts {
		c.Count += n
	}
	for i, chunk := range h.chunks {
		if chunk == nil {
			continue
		}
		for j, n := range chunk {
			if n > 0 {
				c.Exponential[firstKey+64*i+j] = n
			}
		}
	}
	return c
}

// Locked is a histogram with a lock of its own.
type Locked struct {
	mu        sync.Mutex
	histogram Histogram // guarded by mu
}

// NewLocked returns a histogram with the bounds of another histogram, see Like.
func NewLocked(like *Histogram) *Locked { return &Locked{histogram: like.Like()} }

// Observe counts a duration, which must not be negative.
func (l *Locked) Observe(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.histogram.Observe(d)
}

// Read returns the counts.
func (l *Locked) Read() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.histogram.Read()
}
