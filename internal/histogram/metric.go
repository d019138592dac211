//go:build !workqueue_noprometheus

package histogram

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// CanBeBounds reports whether bounds of classic buckets are finite and increasing.
func CanBeBounds(bounds []float64) bool {
	for i, bound := range bounds {
		if math.IsInf(bound, 0) || math.IsNaN(bound) || i > 0 && bound <= bounds[i-1] {
			return false
		}
	}
	return true
}

// NewMetric returns counts as a metric. The bounds are the bounds of the histogram. Counts of
// nothing may have no buckets.
func NewMetric(desc *prometheus.Desc, bounds []float64, counts Counts, created time.Time, labels ...string) prometheus.Metric {
	classic := make([]*dto.Bucket, len(bounds))
	sum := uint64(0)
	for i, bound := range bounds {
		if i < len(counts.Buckets) {
			sum += counts.Buckets[i]
		}
		cumulative := sum
		classic[i] = &dto.Bucket{UpperBound: &bound, CumulativeCount: &cumulative}
	}
	exponential, schema := coarsen(counts.Exponential)
	native := prometheus.MustNewConstNativeHistogram(desc, counts.Count, counts.Sum, exponential, nil, counts.Zero,
		schema, prometheus.DefNativeHistogramZeroThreshold, created, labels...)
	return twoHistograms{native, classic}
}

// maxBuckets is how many exponential buckets are written at most. 20 powers of
// two fit in with full resolution: from a millisecond to a quarter of an hour.
const maxBuckets = 160

// coarsen makes buckets wider until they are few enough, and returns the schema of the
// wider buckets.
func coarsen(counts map[int]uint64) (buckets map[int]int64, s int32) {
	for s = schema; ; s-- {
		buckets = make(map[int]int64)
		for key, n := range counts {
			shift := schema - s
			buckets[-(-key >> shift)] += int64(n)
		}
		if len(buckets) <= maxBuckets {
			return buckets, s
		}
	}
}

// twoHistograms is a native histogram with classic buckets beside. The client library has both
// only for its own histograms.
type twoHistograms struct {
	prometheus.Metric
	classic []*dto.Bucket
}

// Write implements [prometheus.Metric].
func (h twoHistograms) Write(out *dto.Metric) error {
	if err := h.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = h.classic
	return nil
}
