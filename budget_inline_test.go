//go:build !race

// The compiler is asked once: under the race detector it inlines less, and takes longer.

package workqueue_test

import (
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What every item passes must be inlined, or a cycle of Add, Get and Done takes
// several per cent longer for each of them. The compiler decides by a budget of
// 80, and most of these are close to it: a change that makes one larger is noticed here, and
// not from a benchmark months later.
func TestHotPathIsInlined(t *testing.T) {
	if runtime.GOARCH != "amd64" || testing.Short() {
		t.Skip("the costs are those of one compiler")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m=2", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, f := range []string{
		`(*Typed[go.shape.interface {}]).settle`,
		`slab.(*Table[go.shape.interface {},go.shape.struct { github.com/seed16c08ea7/workqueue/internal/fifo.next uint32; github.com/seed16c08ea7/workqueue/internal/fifo.lane uint32 }]).Probe`,
		`slab.(*Table[go.shape.interface {},go.shape.struct { github.com/seed16c08ea7/workqueue/internal/fifo.next uint32; github.com/seed16c08ea7/workqueue/internal/fifo.lane uint32 }]).claim`,
		`slab.(*Table[go.shape.interface {},go.shape.struct { github.com/seed16c08ea7/workqueue/internal/fifo.next uint32; github.com/seed16c08ea7/workqueue/internal/fifo.lane uint32 }]).Release`,
		`slab.(*Table[go.shape.interface {},go.shape.struct { github.com/seed16c08ea7/workqueue/internal/fifo.next uint32; github.com/seed16c08ea7/workqueue/internal/fifo.lane uint32 }]).Sparse`,
		`fifo.(*FIFO[go.shape.interface {}]).hold`,
		`fifo.(*FIFO[go.shape.interface {}]).unhold`,
		`(*instruments).now`,
	} {
		if ok, _ := regexp.Match(`can inline `+regexp.QuoteMeta(f)+` with cost`, out); !ok {
			t.Errorf("%s is not inlined", f)
		}
	}
}

// The build tag leaves the Prometheus provider out, and with it all packages but three that are not ours.
func TestBuildTagLeavesPrometheusOut(t *testing.T) {
	t.Parallel()
	foreign := func(tags string) (packages []string) {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, ".").CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if strings.Contains(name, ".") && !strings.HasPrefix(name, "github.com/seed16c08ea7/") && !strings.HasPrefix(name, "vendor/") {
				packages = append(packages, name)
			}
		}
		return packages
	}
	want := []string{"github.com/go-logr/logr", "golang.org/x/time/rate", "k8s.io/utils/clock"}
	if got := foreign("workqueue_noprometheus"); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("with the tag the package needs %v, want %v", got, want)
	}
	if got := foreign(""); !slices.Contains(got, "github.com/prometheus/client_golang/prometheus") {
		t.Errorf("without the tag the package needs %v, and not Prometheus", got)
	}
}
