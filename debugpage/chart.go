package debugpage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// maxPoints is how many points a queue keeps for its charts.
const maxPoints = 120

func pointOf(now time.Time, s *Summary) Point {
	return Point{
		Time: now, Depth: s.Depth, InFlight: s.InFlight, Workers: s.Workers, Waiting: s.Waiting,
		OldestItem: s.OldestItem, LongestRunning: s.LongestRunning,
		Adds: s.Adds, Duplicates: s.Duplicates, Done: s.Done, Retries: s.Retries, RateLimited: s.RateLimited, Paced: s.Paced, Work: s.Work,
		Succeeded: sum(s.Results, workqueue.OutcomeSucceeded, workqueue.OutcomeRequeued, workqueue.OutcomeDeferred, workqueue.OutcomeReAdded),
		Failed:    sum(s.Results, workqueue.OutcomeFailed, workqueue.OutcomeGivenUp),
		GivenUp:   s.Results[workqueue.OutcomeGivenUp],
	}
}

func sum(results map[workqueue.Outcome]uint64, outcomes ...workqueue.Outcome) (n uint64) {
	for _, outcome := range outcomes {
		n += results[outcome]
	}
	return n
}

// record appends a point, unless the last one is of the same second.
func record(points []Point, p Point) []Point {
	if n := len(points); n > 0 && p.Time.Sub(points[n-1].Time) < fresh {
		return points
	}
	if len(points) == maxPoints {
		copy(points, points[1:])
		points = points[:maxPoints-1]
	}
	return append(points, p)
}

// A chart is a line over time.
type chart struct {
	Name      string
	Now, Most string
	Line      string // the points of a polyline, in the box of width by height
	Area      string // the same, closed at the bottom
}

const (
	width  = 300
	height = 60
)

// charts returns the charts of a queue: of what the queue has, and if the queue counts, the rates.
func charts(d *Detail) (shown []chart) {
	whole := func(v float64) string { return group(int(v)) }
	add := func(name string, format func(float64) string, value func(Point) float64) {
		shown = append(shown, newChart(name, d.Points, format, func(i int) float64 { return value(d.Points[i]) }))
	}
	add("Depth", whole, func(p Point) float64 { return float64(p.Depth) })
	add("In flight", whole, func(p Point) float64 { return float64(p.InFlight) })
	add("Workers", whole, func(p Point) float64 { return float64(p.Workers) })
	add("Waiting", whole, func(p Point) float64 { return float64(p.Waiting) })
	add("Oldest queued", shortDuration, func(p Point) float64 { return p.OldestItem })
	add("Longest in flight", shortDuration, func(p Point) float64 { return p.LongestRunning })
	if d.Counted && len(d.Points) > 1 {
		rate := func(name string, count func(Point) uint64) {
			shown = append(shown, newChart(name, d.Points[1:], shortRate, func(i int) float64 {
				a, b := d.Points[i], d.Points[i+1]
				return float64(count(b)-count(a)) / b.Time.Sub(a.Time).Seconds()
			}))
		}
		rate("Adds", func(p Point) uint64 { return p.Adds })
		rate("Duplicates", func(p Point) uint64 { return p.Duplicates })
		rate("Done", func(p Point) uint64 { return p.Done })
		rate("Retries", func(p Point) uint64 { return p.Retries })
	}
	return shown
}

// newChart draws one value for each point. The distance of two points is that of their times:
// requests come at any time.
func newChart(name string, points []Point, format func(float64) string, value func(i int) float64) chart {
	if len(points) == 0 {
		return chart{Name: name, Now: format(0), Most: format(0)}
	}
	first, last := points[0].Time, points[len(points)-1].Time
	whole, most := last.Sub(first).Seconds(), 0.0
	for i := range points {
		most = max(most, value(i))
	}
	var line strings.Builder
	for i, p := range points {
		x, y := float64(width), float64(height)
		if whole > 0 {
			x = p.Time.Sub(first).Seconds() / whole * width
		}
		if most > 0 {
			y = height - value(i)/most*(height-2)
		}
		fmt.Fprintf(&line, "%.1f,%.1f ", x, y)
	}
	c := chart{Name: name, Now: format(value(len(points) - 1)), Most: format(most), Line: strings.TrimSpace(line.String())}
	c.Area = fmt.Sprintf("0,%d %s %d,%d", height, c.Line, width, height)
	return c
}

// spark returns the chart of the depth, for a line of the table of all queues.
func spark(s Summary) chart {
	return newChart("Depth", s.points, func(float64) string { return "" }, func(i int) float64 { return float64(s.points[i].Depth) })
}

// ends returns how many hand-outs have failed between two points, and how many have ended: by the results of Run, or in
// a loop by hand by the waits that its limiter has named. Such a wait is counted before its hand-out has ended.
func ends(before, now Point) (failed, ended uint64) {
	if now.Failed+now.Succeeded == 0 {
		return now.RateLimited - before.RateLimited, now.Done - before.Done
	}
	failed = now.Failed - before.Failed
	return failed, failed + now.Succeeded - before.Succeeded
}

// failures are the failures in a time.
type failures struct {
	Failed, Handled uint64
	GivenUp         uint64
	since           string
}

// All is whether there were failures and no success.
func (f failures) All() bool { return f.Failed > 0 && f.Failed >= f.Handled }

func (f failures) String() string {
	if f.since == "" {
		return "–"
	}
	text := group(f.Failed) + " of " + group(f.Handled) + f.since
	if f.GivenUp > 0 {
		text += ", " + group(f.GivenUp) + " given up"
	}
	return text
}

// recent is the longest time for the failures of the table of all queues: that of the alert
// WorkqueueNothingSucceeds.
const recent = 10 * time.Minute

// failuresOf returns the failures since the first point that is recent, or else since the point before the
// last. If there is one point only, failuresOf returns all failures.
func failuresOf(s Summary) failures {
	if !s.Counted || len(s.points) == 0 {
		return failures{}
	}
	before, last := s.points[:len(s.points)-1], s.points[len(s.points)-1]
	if len(before) == 0 {
		failed, ended := ends(Point{}, last)
		return failures{failed, ended, last.GivenUp, " ever"}
	}
	i := slices.IndexFunc(before, func(p Point) bool { return last.Time.Sub(p.Time) <= recent })
	if i < 0 {
		i = len(before) - 1
	}
	failed, ended := ends(before[i], last)
	return failures{failed, ended, last.GivenUp - before[i].GivenUp, " in " + shortDuration(last.Time.Sub(before[i].Time).Seconds())}
}

// work names the mean time of the work, of the last half minute or the last two requests, and ever.
func work(s *Summary) string {
	t := stretchOf(s.points)
	mean := func(seconds float64, items uint64) string {
		if items == 0 {
			return "–"
		}
		return shortDuration(seconds / float64(items))
	}
	return mean(t.now.Work-t.before.Work, t.now.Done-t.before.Done) + ", ever " + mean(s.Work, s.Done)
}

// bar returns the width of a bar out of 100.
func bar(n, most int) string {
	if most == 0 {
		return "0"
	}
	return strconv.FormatFloat(100*float64(n)/float64(most), 'f', 1, 64)
}

func deepest(parts []Part) (most int) {
	for _, p := range parts {
		most = max(most, p.Depth)
	}
	return most
}

func fullest(line []Span) (most int) {
	for _, s := range line {
		most = max(most, s.Items)
	}
	return most
}

// spanName says when the items of part i of the time line are due.
func spanName(line []Span, i int) string {
	switch {
	case i == 0:
		return "in less than " + shortDuration(line[0].Below)
	case i == len(line)-1:
		return "later"
	}
	return "in less than " + shortDuration(line[i].Below)
}

// group returns a number with a comma between groups of three digits.
func group[N int | uint64](n N) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// shortDuration returns seconds with two or three digits, in the unit that fits.
func shortDuration(seconds float64) string {
	switch abs := math.Abs(seconds); {
	case abs == 0:
		return "0 s"
	case abs < 1:
		return fmt.Sprintf("%.0f ms", seconds*1000)
	case abs < 10:
		return strings.Replace(fmt.Sprintf("%.1f s", seconds), ".0", "", 1)
	case abs < 60:
		return fmt.Sprintf("%.0f s", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h == 0:
		return strings.TrimSuffix(fmt.Sprintf("%d m %d s", m, s), " 0 s")
	case h < 48 && h > -48:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d m", h, m), " 0 m")
	}
	return fmt.Sprintf("%d d", h/24)
}

// age is shortDuration, and a dash for a time that is not known.
func age(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return shortDuration(seconds)
}

func shortRate(perSecond float64) string {
	if perSecond < 10 && perSecond != math.Trunc(perSecond) {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return group(int(perSecond)) + "/s"
}

// pace names the limit and the burst of a Pace.
func pace(p workqueue.PaceStats) string {
	if p.Limit == rate.Inf {
		return "no limit"
	}
	return fmt.Sprintf("%.4g/s, burst %d", float64(p.Limit), p.Burst)
}
