package spread_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/spread"
)

const longest = time.Duration(math.MaxInt64)

func TestAdd(t *testing.T) {
	for _, row := range []struct {
		d                time.Duration
		fraction, random float64
		want             time.Duration
	}{
		{100, 0.5, 0, 100},
		{100, 0.5, 0.5, 125},
		{100, 0, 1, 100},
		{-100, 0.5, 1, 0},
		{0, math.Inf(1), 1, 0},
		{100, math.Inf(1), 1, longest},
		{100, math.Inf(1), 0, longest}, // 0 times infinity is not a number.
		{1<<53 + 1, 1e-300, 1, 1<<53 + 1},
		{longest - 1, 0, 1, longest - 1},
		{longest, 1, 1, longest},
		{1 << 62, 1, 1, longest},
		{1, 1, 1, 2},
	} {
		if got := spread.Add(row.d, row.fraction, row.random); got != row.want {
			t.Errorf("Add(%d, %v, %v): got %d, want %d", row.d, row.fraction, row.random, got, row.want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for _, row := range []struct {
		limit    time.Duration
		fraction float64
		want     time.Duration
	}{
		{100, 1, 50},
		{100, 0, 100},
		{100, -1, 100},
		{100, math.NaN(), 100},
		{100, 1e300, 1},
		{100, math.Inf(1), 1},
		{1<<53 + 1, 0, 1<<53 + 1},
		{longest, 1e-17, longest},
		{longest, 1, 1 << 62},
	} {
		if got := spread.Ceiling(row.limit, row.fraction); got != row.want {
			t.Errorf("Ceiling(%d, %v): got %d, want %d", row.limit, row.fraction, got, row.want)
		}
	}
}
