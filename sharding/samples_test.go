package sharding

import (
	"bytes"
	"fmt"
	"os"
)

// write writes a line for each second of a simulation to a file, unless the name is empty. The
// program pictures of compat draws docs/scaling.svg of it.
func (s *simulation) write(file string) error {
	if file == "" {
		return nil
	}
	var csv bytes.Buffer
	csv.WriteString("phase,slots without an owner,writes a second\n")
	phase := 0
	for second, p := range s.samples {
		for phase < len(s.marks) && s.marks[phase].at <= second {
			phase++
		}
		fmt.Fprintf(&csv, "%d,%d,%.0f\n", phase, p.without, p.writes)
	}
	return os.WriteFile(file, csv.Bytes(), 0o644)
}
