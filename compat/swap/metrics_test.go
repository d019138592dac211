package swap_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The programs of this module, with the real client-go, whose provider is set by
// component-base or by controller-runtime. With the swap, the queue is ours, and all
// series of both registries have the same values at the same times.
func TestMetricsAreThoseOfBefore(t *testing.T) {
	before := tree(t, "..")
	for _, program := range []string{"componentbase", "controllerruntime"} {
		print := []string{"go", "test", "-count=1", "-vet=off", "-v", "-run=^TestSeries$", "./programs/" + program}
		plain := output(t, print)
		swapped := output(t, append([]string{world.swap, "try", "-library", "../..", "--"}, print...))
		for out, want := range map[string]string{plain: theirs, swapped: ours} {
			if !strings.Contains(out, "the type is of "+want+"\n") {
				t.Errorf("the queue is not of %s:\n%s", want, out)
			}
		}
		want, got := seriesOf(plain), seriesOf(swapped)
		if len(want) < 100 || !slices.Equal(want, got) {
			t.Errorf("%s: %d values are\n%s\nand with the swap\n%s", program, len(want), strings.Join(want, ""), strings.Join(got, ""))
		}
	}
	same(t, "this module", before, tree(t, ".."))
}

// output runs a command with the settings of the machine. So the copy of client-go is in
// the cache of the user, and what is compiled of it too: anew it takes a minute.
func output(t *testing.T, command []string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	return string(out)
}

// seriesOf returns the lines with a value, each of a moment and a series.
func seriesOf(out string) (lines []string) {
	for line := range strings.Lines(out) {
		if strings.Contains(line, ": workqueue_") {
			lines = append(lines, line)
		}
	}
	return lines
}
