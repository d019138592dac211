package histogram_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue/internal/histogram"
)

// A collector writes a histogram.
type collector struct {
	histogram.Histogram
	desc   *prometheus.Desc
	bounds []float64
}

func newCollector(bounds []float64) *collector {
	return &collector{histogram.New(bounds), prometheus.NewDesc("h", "help", nil, nil), bounds}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ch <- histogram.NewMetric(c.desc, c.bounds, c.Read(), time.Now())
}

// written returns what a registry says of its one histogram: classic buckets,
// and the native ones by key.
func written(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("got %d families, %v, want 1", len(families), err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	native := make(map[int32]int64)
	key, n, i := int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		key += span.GetOffset()
		for range span.GetLength() {
			n += h.GetPositiveDelta()[i]
			i++
			if n > 0 { // Small gaps are written as buckets with nothing in them.
				native[key] = n
			}
			key++
		}
	}
	classic := ""
	for _, b := range h.GetBucket() {
		classic += fmt.Sprintf("%v:%d ", b.GetUpperBound(), b.GetCumulativeCount())
	}
	return fmt.Sprintf("%d observations of %v s\nup to %s\nschema %d, zero %d up to %v\nnative %v", h.GetSampleCount(), h.GetSampleSum(),
		classic, h.GetSchema(), h.GetZeroCount(), h.GetZeroThreshold(), native)
}

// Our histograms say what Prometheus' own say of the same durations: at random,
// and at and beside every bound.
func TestHistogramIsThatOfPrometheus(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	r := rand.New(rand.NewPCG(seed, 0))
	bounds := []float64{-1, 0, 1e-9, 2.5e-9, 1.5e-8, 1e-6, 0.1, 1, 1.0000000005, 60, 9223372036.854775807, 1e10}
	edges := []time.Duration{0, 1, 2, 3, math.MaxInt64, math.MaxInt64 - 1}
	for _, b := range bounds[:10] {
		edges = append(edges, time.Duration(b*1e9)-1, time.Duration(b*1e9), time.Duration(b*1e9)+1)
	}
	for k := -29 * 8; k <= 33*8; k++ { // Each bound of a native bucket.
		d := time.Duration(math.Exp2(float64(k)/8) * 1e9)
		edges = append(edges, d-1, d, d+1)
	}
	for name, row := range map[string]struct {
		bounds []float64
		factor float64 // of the resolution to which ours is to come down
		draw   func() time.Duration
		n      int
	}{
		"within a factor of 1000":    {bounds, 1.1, func() time.Duration { return time.Millisecond + time.Duration(r.Int64N(1e9)) }, 3000},
		"within a factor of 10^6":    {bounds, 1.1, func() time.Duration { return 1000 + time.Duration(math.Exp2(20*r.Float64())) }, 3000},
		"within a factor of 10^9":    {bounds, 1.3, func() time.Duration { return time.Duration(math.Exp2(30 * r.Float64())) }, 6000},
		"everything there is":        {bounds, 1.5, func() time.Duration { return time.Duration(r.Int64() >> r.IntN(63)) }, 6000},
		"bounds":                     {bounds, 1.5, func() time.Duration { return max(0, edges[r.IntN(len(edges))]) }, 6000},
		"without classic buckets":    {[]float64{}, 1.1, func() time.Duration { return time.Duration(r.Int64N(100)) }, 300},
		"nothing":                    {bounds, 1.1, nil, 0},
		"nothing but a zero":         {bounds, 1.1, func() time.Duration { return 0 }, 1},
		"a single nanosecond":        {bounds, 1.1, func() time.Duration { return 1 }, 1},
		"the longest there is, once": {bounds, 1.1, func() time.Duration { return math.MaxInt64 }, 1},
	} {
		theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: row.bounds, NativeHistogramBucketFactor: row.factor})
		ours := newCollector(row.bounds)
		for range row.n {
			d := row.draw()
			theirs.Observe(d.Seconds())
			ours.Observe(d)
		}
		want, got := prometheus.NewRegistry(), prometheus.NewPedanticRegistry()
		want.MustRegister(theirs)
		got.MustRegister(ours)
		if got, want := written(t, got), written(t, want); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Buckets are made wider when there are too many, and not before.
func TestHistogramAtTheLimitOfItsBuckets(t *testing.T) {
	h := newCollector(nil)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(h)
	for i := range 161 {
		h.Observe(time.Duration(1e6 * math.Exp2((float64(i)+0.5)/8)))
		want := "\nschema 3,"
		if i == 160 {
			want = "\nschema 2,"
		}
		if i >= 158 && !strings.Contains(written(t, r), want) {
			t.Errorf("%d buckets: got\n%s\nwant%s", i+1, written(t, r), want)
		}
	}
}

// What is read of two histograms adds up, and neither is changed by that.
func TestHistogramsAddUp(t *testing.T) {
	var h [2]histogram.Histogram
	for i := range h {
		h[i] = histogram.New([]float64{1, 2})
		h[i].Observe(0)
		h[i].Observe(time.Second)
	}
	h[1].Observe(3 * time.Second)
	a, b := h[0].Read(), h[1].Read()
	var sum histogram.Counts
	for _, part := range []histogram.Counts{{}, a, {}, b} {
		sum.Add(part)
	}
	for _, row := range []struct {
		of        string
		got, want any
	}{
		{"sum", sum, "{5 5 [4 0 1] 2 map[0:2 13:1]}"},
		{"first", a, "{2 1 [2 0 0] 1 map[0:1]}"},
		{"second", b, "{3 4 [2 0 1] 1 map[0:1 13:1]}"},
	} {
		if got := fmt.Sprint(row.got); got != row.want {
			t.Errorf("%s: got %v, want %v", row.of, got, row.want)
		}
	}
}

// A locked histogram counts by the bounds of another one, from nothing, and from several
// goroutines.
func TestLockedHistogram(t *testing.T) {
	like := histogram.New([]float64{1, 2})
	like.Observe(0)
	l := histogram.NewLocked(&like)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for range 100 {
				l.Observe(time.Duration(i) * time.Second)
				l.Read()
			}
		})
	}
	all.Wait()
	if got, want := fmt.Sprint(l.Read()), "{300 300 [200 100 0] 100 map[0:100 8:100]}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBoundsOfClassicBuckets(t *testing.T) {
	for _, row := range []struct {
		bounds []float64
		want   bool
	}{
		{nil, true},
		{[]float64{1}, true},
		{[]float64{-1, 0, 1}, true},
		{[]float64{1, 1}, false},
		{[]float64{1, 2, 1.5}, false},
		{[]float64{math.NaN()}, false},
		{[]float64{1, math.Inf(1)}, false},
		{[]float64{math.Inf(-1), 1}, false},
	} {
		if got := histogram.CanBeBounds(row.bounds); got != row.want {
			t.Errorf("%v: got %v, want %v", row.bounds, got, row.want)
		}
	}
}

// Counts from elsewhere may have no exponential buckets.
func TestAddToCountsWithoutExponential(t *testing.T) {
	sum := histogram.Counts{Count: 1, Zero: 1, Buckets: []uint64{1, 0}}
	sum.Add(histogram.Counts{Count: 1, Sum: 1, Buckets: []uint64{0, 1}, Exponential: map[int]uint64{0: 1}})
	if sum.Count != 2 || sum.Exponential[0] != 1 || sum.Buckets[1] != 1 {
		t.Errorf("got %+v", sum)
	}
}
