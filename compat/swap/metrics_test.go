package swap_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The programs of this module, with the real client-go, whose provider is set by
// component-base or by controller-runtime. With the swap, the queue is ours, and all
// series of both registries have the same values at the same times.
func TestMetricsAreThoseOfBefore(t *testing.T) {
	before := tree(t, "..")
	for _, program := range []string{"componentbase", "controllerruntime"} {
		t.Run(program, func(t *testing.T) {
			print := []string{"go", "test", "-count=1", "-vet=off", "-v", "-run=^TestSeries$", "./programs/" + program}
			plain := output(t, print)
			swapped := output(t, append([]string{world.swap, "try", "-library", "../..", "--"}, print...))
			for out, want := range map[string]string{plain: theirs, swapped: ours} {
				if !strings.Contains(out, "the type is of "+want+"\n") {
					t.Errorf("the queue is not of %s:\n%s", want, out)
				}
			}
			compareSeries(t, seriesOf(plain), seriesOf(swapped))
		})
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

// seriesOf returns the values by step and series.
func seriesOf(out string) map[string]string {
	series := map[string]string{}
	for line := range strings.Lines(out) {
		if step, rest, found := strings.Cut(line, ": workqueue_"); found {
			name := rest[:strings.LastIndex(rest, " ")]
			series[step+": workqueue_"+name] = strings.TrimSpace(rest[len(name):])
		}
	}
	return series
}

func compareSeries(t *testing.T, want, got map[string]string) {
	t.Helper()
	if len(want) < 100 {
		t.Errorf("there are %d values", len(want))
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q with the swap, and %q without", name, got[name], value)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s is there with the swap only", name)
		}
	}
}
