package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"
)

// fill writes tables into a page, each between marks such as
//
//	<!-- measured: workers -->
//	<!-- end -->
//
// An error names the mark that the page lacks. The rest of the page is written by hand.
func fill(page []byte, tables map[string]string) ([]byte, error) {
	for name, table := range tables {
		begin, end := []byte("<!-- measured: "+name+" -->\n"), []byte("<!-- end -->\n")
		before, rest, found := bytes.Cut(page, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			return nil, fmt.Errorf("the page has no %q with an end", begin)
		}
		page = bytes.Join([][]byte{before, begin, []byte(table), end, after}, nil)
	}
	return page, nil
}

func fillFile(name string, tables map[string]string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if page, err = fill(page, tables); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, page, 0o644)
}

// table has a line for each row, under the heads of the sections.
func table(results []result) string {
	var t strings.Builder
	t.WriteString("| scenario | workqueue | client-go | × client-go | priority queue | channel or timer | goal |\n")
	t.WriteString("|---|---:|---:|---:|---:|---:|---|\n")
	for _, s := range sections {
		rows := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.section != s.name })
		for i, row := range rows {
			if i == 0 {
				fmt.Fprintf(&t, "| **%s**: %s | | | | | | |\n", s.name, s.note)
			}
			fmt.Fprintln(&t, row)
		}
	}
	return t.String()
}

// String returns the line of a row. The ▼ is for a row in which a queue of others is faster. The
// channel and the timer are limits, and no queues.
func (r result) String() string {
	mark := ""
	if r.median(clientGo) < r.median(ours) || r.median(priority) < r.median(ours) {
		mark = "▼ "
	}
	limit := r.cell(channel) + r.cell(timer) // At most one of them.
	return fmt.Sprintf("| %s%s | %s | %s | **%s** | %s | %s | %s |",
		mark, r.title, r.cell(ours), r.cell(clientGo), r.times(), r.cell(priority), limit, r.verdicts())
}

// cell writes the median and the range around it, all on one scale.
func (r result) cell(impl string) string {
	s := r.sample(impl)
	if s == nil {
		return ""
	}
	least, most := s.Values[0], s.Values[len(s.Values)-1]
	write, _ := scaled(r.unit, r.median(impl))
	return fmt.Sprintf("%s (%s to %s)", quantity(r.median(impl), r.unit), write(least), write(most))
}

// times writes how many times as fast as client-go we are. Beyond a hundred the digits mean nothing.
// The ~ of benchstat says that the runs may differ by chance.
func (r result) times() string {
	our, their := r.sample(ours), r.sample(clientGo)
	ratio := r.median(clientGo) / r.median(ours)
	switch {
	case math.IsNaN(ratio):
		return "-"
	case ratio > 100:
		return "> 100×"
	}
	text := fmt.Sprintf("%.2f×", ratio)
	if c := benchmath.AssumeNothing.Compare(our, their); !r.slow && c.P > c.Alpha { // The few runs of a slow row are never enough.
		text += " ~"
	}
	return text
}

// scaled returns a function that writes values with the digits of one value, and the prefix of their unit.
func scaled(unit string, like float64) (write func(float64) string, prefix string) {
	s := benchunit.CommonScale([]float64{like}, classOf(unit))
	return func(value float64) string {
		if s.Factor == 1 && value == math.Trunc(value) {
			return fmt.Sprint(value) // A count.
		}
		return fmt.Sprintf("%.*f", s.Prec, value/s.Factor)
	}, s.Prefix
}

// quantity writes a value with its unit.
func quantity(value float64, unit string) string {
	write, prefix := scaled(unit, value)
	return strings.TrimSpace(write(value) + " " + prefix + symbol(unit))
}

func classOf(unit string) benchunit.Class {
	if symbol(unit) == "B" {
		return benchunit.Binary
	}
	return benchunit.Decimal
}

// symbol returns s for a time, B for bytes and nothing for a count.
func symbol(unit string) string {
	switch {
	case strings.Contains(unit, "ns"):
		return "s"
	case strings.HasPrefix(unit, "B/"):
		return "B"
	}
	return ""
}

// An origin says where the numbers come from.
type origin struct {
	commit, peers, machine, date, command string
	rounds                                int
	benchtime                             string
}

func (from origin) String() string {
	return fmt.Sprintf("Measured by `%s` on %s at commit %s, against %s.\n%s. Medians of %d runs of %s by turns, each in its own process, and of %d for slow\nrows. A ~ marks a row whose runs can differ by chance (p > 0.05, Mann-Whitney U test).\n",
		from.command, from.date, from.commit, from.peers, from.machine, from.rounds, from.benchtime, slowRounds(from.rounds))
}

func originOf(root string, o options) (origin, error) {
	commit, err := commitOf(root)
	if err != nil {
		return origin{}, err
	}
	peers, err := exec.Command("go", "list", "-m", "k8s.io/client-go", "sigs.k8s.io/controller-runtime").Output()
	if err != nil {
		return origin{}, fmt.Errorf("listing the peers: %w", err)
	}
	command := "make bench"
	if o.scale {
		command = "make scale"
	}
	return origin{
		commit: commit, command: command, date: time.Now().UTC().Format(time.DateOnly),
		peers: strings.ReplaceAll(strings.TrimSpace(string(peers)), "\n", ", "),
		machine: fmt.Sprintf("%s %s/%s, GOMAXPROCS %d, %s",
			runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), cpuModel()),
		rounds: o.rounds, benchtime: o.benchtime,
	}, nil
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding %s (run this in the module compat): %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// commitOf also works where there is no commit or no git, as in CI.
func commitOf(root string) (string, error) {
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "none", nil
	}
	commit := strings.TrimSpace(string(out))
	changes, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	if len(changes) > 0 {
		commit += " with uncommitted changes"
	}
	return commit, nil
}

// cpuModel is what Linux says, or nothing more than the architecture.
func cpuModel() string {
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer info.Close()
	lines := bufio.NewScanner(info)
	for lines.Scan() {
		if name, model, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return cmp.Or(strings.TrimSpace(model), runtime.GOARCH)
		}
	}
	return runtime.GOARCH
}
