package main

import "fmt"

// A goal is a limit for the medians of a scenario.
type goal struct {
	text string
	// judge takes the medians by implementation. It returns the measured value, and
	// how many times better than the goal the value is. The verdict is for the
	// reader: no exit code depends on the goals.
	judge func(medians map[string]float64) (measured string, margin float64)
}

// certain is the margin from which another run will hardly miss the goal. Between
// two runs of the report, the medians of the shorter rows differ by as much.
const certain = 1.05

// verdict says whether a goal was reached, and whether by more than chance.
func verdict(margin float64) string {
	switch {
	case !(margin >= 1):
		return "**missed**"
	case margin < certain:
		return "reached, barely"
	}
	return "reached"
}

func faster(times float64) goal {
	return goal{
		text: fmt.Sprintf("at least %g times client-go", times),
		judge: func(medians map[string]float64) (string, float64) {
			ratio := medians[clientGo] / medians[ours]
			return fmt.Sprintf("%.2f times", ratio), ratio / times
		},
	}
}

func within(times float64, limit string) goal {
	return goal{
		text: fmt.Sprintf("at most %g times the bare %s", times, limit),
		judge: func(medians map[string]float64) (string, float64) {
			ratio := medians[ours] / medians[limit]
			return fmt.Sprintf("%.2f times", ratio), times / ratio
		},
	}
}

func atMost(most float64, unit string) goal {
	return goal{
		text: "at most " + quantity(most, unit),
		judge: func(medians map[string]float64) (string, float64) {
			if medians[ours] == most {
				return quantity(most, unit), certain // A count, as of goroutines.
			}
			return quantity(medians[ours], unit), most / medians[ours]
		},
	}
}
