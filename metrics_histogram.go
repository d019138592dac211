package workqueue

import (
	"math"
	"time"
)

// Histogram says how many durations of each length were observed.
type Histogram struct {
	Count uint64
	Sum   float64 // seconds
	// Buckets[i] counts the durations up to bound i of QueueMetrics and above the
	// bound before it. One more element counts those above all bounds.
	Buckets []uint64
	// Zero counts the durations that were 0, and Exponential[k] those up to
	// 2^(k/8) seconds and above 2^((k-1)/8).
	Zero        uint64
	Exponential map[int]int64
}

// add adds what another histogram of the same bounds has counted.
func (h *Histogram) add(other Histogram) {
	if other.Count == 0 {
		return
	}
	if h.Count == 0 {
		h.Buckets = make([]uint64, len(other.Buckets))
		h.Exponential = make(map[int]int64)
	}
	h.Count += other.Count
	h.Sum += other.Sum
	h.Zero += other.Zero
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
	for key, n := range other.Exponential {
		h.Exponential[key] += n
	}
}

// A histogram counts durations under the lock of a queue, in 9 ns. One of Prometheus
// takes 40 ns, with its atomic operations and its map. A cycle of Add, Get and Done
// makes two observations, and would take a third longer.
//
// The exponential buckets are those of a native histogram of Prometheus with
// schema 3. A duration can be in 513 of them. They are allocated in chunks of 64,
// when the first of a chunk is needed.
type histogram struct {
	bounds []time.Duration // in nanoseconds, rounded down
	counts []uint64        // one more than bounds
	sum    float64
	zero   uint64
	chunks [9]*[64]uint64
}

const (
	// histogramSchema is the binary logarithm of the number of buckets that a power of
	// two is divided into.
	histogramSchema = 3

	// firstKey is the key of the bucket of a nanosecond.
	firstKey = -240 + 1
)

// histogramFractions are the upper bounds of the buckets between 1/2 and 1, without 1.
var histogramFractions = func() (bounds [1 << histogramSchema]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/(1<<histogramSchema) - 1)
	}
	return bounds
}()

// newHistogram takes bounds in seconds.
func newHistogram(bounds []float64) histogram {
	h := histogram{
		bounds: make([]time.Duration, len(bounds)),
		counts: make([]uint64, len(bounds)+1),
	}
	for i, bound := range bounds {
		h.bounds[i] = longestWithin(bound)
	}
	return h
}

// longestWithin returns the longest duration within a bound.
func longestWithin(bound float64) time.Duration {
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

// observe counts a duration that is not negative.
func (h *histogram) observe(d time.Duration) {
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
// the fraction below the leading one give the bucket, or one of the two before
// it, as the logarithm is never far above its chord.
func bucketKey(v float64) int {
	const fractionBits = 52
	bits := math.Float64bits(v)
	exponent := int(bits>>fractionBits) - 1023
	fraction := math.Float64frombits(bits&(1<<fractionBits-1) | 1022<<fractionBits)
	i := int(bits>>(fractionBits-histogramSchema)) & (1<<histogramSchema - 1)
	for i < len(histogramFractions) && histogramFractions[i] < fraction {
		i++
	}
	return exponent<<histogramSchema + i
}

// read returns what has been counted.
func (h *histogram) read() Histogram {
	r := Histogram{
		Sum:         h.sum,
		Buckets:     append([]uint64(nil), h.counts...),
		Zero:        h.zero,
		Exponential: make(map[int]int64),
	}
	for _, n := range h.counts {
		r.Count += n
	}
	for i, chunk := range h.chunks {
		if chunk == nil {
			continue
		}
		for j, n := range chunk {
			if n > 0 {
				r.Exponential[firstKey+64*i+j] = int64(n)
			}
		}
	}
	return r
}
