package main

import "fmt"

// A goal is what a scenario must reach.
type goal struct {
	text string
	// reached takes the medians by implementation and returns what was measured
	// too. The verdict is for the reader; no exit code depends on it.
	reached func(medians map[string]float64) (measured string, ok bool)
}

func faster(times float64) goal {
	return goal{
		text: fmt.Sprintf("at least %g times client-go", times),
		reached: func(medians map[string]float64) (string, bool) {
			ratio := medians[clientGo] / medians[ours]
			return fmt.Sprintf("%.2f times", ratio), ratio >= times
		},
	}
}

func within(times float64, limit string) goal {
	return goal{
		text: fmt.Sprintf("at most %g times the bare %s", times, limit),
		reached: func(medians map[string]float64) (string, bool) {
			ratio := medians[ours] / medians[limit]
			return fmt.Sprintf("%.2f times", ratio), ratio <= times
		},
	}
}

func atMost(most float64, unit string) goal {
	return goal{
		text: "at most " + quantity(most, unit),
		reached: func(medians map[string]float64) (string, bool) {
			return quantity(medians[ours], unit), medians[ours] <= most
		},
	}
}
