package workqueue_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed16c08ea7/workqueue"
)

// written returns what a registry says of its one histogram: classic buckets,
// and the native ones by key.
func written(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
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
	t.Fatalf("no histogram %s", name)
	return ""
}

// Our histograms say what Prometheus' own say of the same durations: at random,
// and at and beside every bound.
func TestHistogramIsThatOfPrometheus(t *testing.T) {
	t.Parallel()
	r := newRand(t)
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
		ours := workqueue.NewHistogramMetric("h", row.bounds)
		for range row.n {
			d := row.draw()
			theirs.Observe(d.Seconds())
			ours.Observe(d)
		}
		want, got := prometheus.NewRegistry(), prometheus.NewPedanticRegistry()
		want.MustRegister(theirs)
		got.MustRegister(ours)
		if got, want := written(t, got, "h"), written(t, want, "h"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Buckets are made wider when there are too many, and not before.
func TestHistogramAtTheLimitOfItsBuckets(t *testing.T) {
	h := workqueue.NewHistogramMetric("h", nil)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(h)
	for i := range 161 {
		h.Observe(time.Duration(1e6 * math.Exp2((float64(i)+0.5)/8)))
		want := "\nschema 3,"
		if i == 160 {
			want = "\nschema 2,"
		}
		if i >= 158 && !strings.Contains(written(t, r, "h"), want) {
			t.Errorf("%d buckets: got\n%s\nwant%s", i+1, written(t, r, "h"), want)
		}
	}
}

// A histogram that cannot be written is an error of the scrape, not a panic.
func TestHistogramThatCannotBeWritten(t *testing.T) {
	want := errors.New("histogram")
	h := workqueue.WithClassicBuckets(prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(want), want))
	if got := h.Write(new(dto.Metric)); got != want {
		t.Errorf("got the error %v, want %v", got, want)
	}
}

// What is read of two histograms adds up, and neither is changed by that.
func TestHistogramsAddUp(t *testing.T) {
	var h [2]workqueue.DurationHistogram
	for i := range h {
		h[i] = workqueue.NewDurationHistogram(1, 2)
		h[i].Observe(0)
		h[i].Observe(time.Second)
	}
	h[1].Observe(3 * time.Second)
	a, b := h[0].Read(), h[1].Read()
	var sum workqueue.Histogram
	for _, part := range []workqueue.Histogram{{}, a, {}, b} {
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
