package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A result is a row with its measured values, by implementation.
type result struct {
	scenario
	values map[string]series
}

type series []float64

func (v series) median() float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func (r result) medians() map[string]float64 {
	medians := make(map[string]float64)
	for impl, values := range r.values {
		medians[impl] = values.median()
	}
	return medians
}

// ratio returns the median of another implementation divided by our median. The
// ratio is infinite if only our median is 0, and NaN if both medians are 0.
func (r result) ratio(other string) float64 {
	return r.values[other].median() / r.values[ours].median()
}

// lost reports whether a peer did better. The channel and the timer are
// limits, not peers.
func (r result) lost() bool {
	return r.ratio(clientGo) < 1 || r.ratio(priority) < 1
}

// A scale is how values from a size on are written.
type scale struct {
	from, divisor float64
	name          string
}

// scales go from the largest down. Nanoseconds have four digits before they
// become microseconds, which keeps most of a table in one unit.
var scales = map[string][]scale{
	"ns": {{1e9, 1e9, " s"}, {1e6, 1e6, " ms"}, {1e4, 1e3, " µs"}, {0, 1, " ns"}},
	"B":  {{10 << 20, 1 << 20, " MiB"}, {10 << 10, 1 << 10, " KiB"}, {0, 1, " B"}},
}

// scaleOf returns the scale for a value of a benchmark's unit.
func scaleOf(value float64, unit string) scale {
	kind := ""
	switch {
	case strings.Contains(unit, "ns"):
		kind = "ns"
	case strings.HasPrefix(unit, "B/"):
		kind = "B"
	}
	for _, s := range scales[kind] {
		if math.Abs(value) >= s.from {
			return s
		}
	}
	return scale{0, 1, ""}
}

// quantity writes a value of a benchmark's unit with three digits.
func quantity(value float64, unit string) string {
	s := scaleOf(value, unit)
	return digits(value/s.divisor) + s.name
}

// spread writes the median and the range around it, all on one scale.
func (v series) spread(unit string) string {
	s := scaleOf(v.median(), unit)
	return fmt.Sprintf("%s%s (%s to %s)", digits(v.median()/s.divisor), s.name,
		digits(slices.Min(v)/s.divisor), digits(slices.Max(v)/s.divisor))
}

func digits(value float64) string {
	switch size := math.Abs(value); {
	case size >= 99.95 || size == math.Trunc(size):
		return fmt.Sprintf("%.0f", value)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", value)
	case size >= 0.005:
		return fmt.Sprintf("%.2f", value)
	default:
		return "0"
	}
}

// times writes a ratio. Beyond a hundred its digits mean nothing.
func times(ratio float64) string {
	switch {
	case math.IsNaN(ratio):
		return "-"
	case ratio > 100:
		return "> 100×"
	default:
		return fmt.Sprintf("%.2f×", ratio)
	}
}
