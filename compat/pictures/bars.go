package main

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawn are the sections of BENCHMARKS.md that are in the picture. The others have rows that a
// picture of ratios cannot show: with no client-go, or with ratios of a hundred and more.
var drawn = []string{"One goroutine", "Delays and retries", "Many goroutines"}

// cutOff is the ratio at the right edge. A few larger ratios would press all others to the left, so
// their bars end here, with the ratio beside them.
const cutOff = 6

// A bar is a scenario, or the head of a section.
type bar struct {
	title        string
	head         bool
	ours, theirs float64 // times as fast as client-go; theirs is the priority queue
}

// bars returns the rows of the drawn sections, without scenarios that client-go lacks.
func bars(page []byte) ([]bar, error) {
	table, err := tableOf(page, "scenarios")
	if err != nil {
		return nil, err
	}
	var all []bar
	shown := false
	for _, row := range table[1:] {
		if head, isHead := strings.CutPrefix(row[0], "**"); isHead {
			name, _, _ := strings.Cut(head, "**")
			if shown = strings.Contains(strings.Join(drawn, "\n"), name); shown {
				all = append(all, bar{title: name, head: true, ours: math.NaN(), theirs: math.NaN()})
			}
			continue
		}
		if !shown {
			continue
		}
		if len(row) < 5 {
			return nil, fmt.Errorf("the row %q has %d cells", row[0], len(row))
		}
		ratio := strings.Trim(row[3], "*")
		if ratio == "-" {
			continue
		}
		b := bar{title: strings.ReplaceAll(strings.TrimPrefix(row[0], "▼ "), "`", "")}
		if _, err := fmt.Sscanf(ratio, "%f×", &b.ours); err != nil {
			return nil, fmt.Errorf("the ratio %q of %q: %w", ratio, row[0], err)
		}
		clientGo, err := value(row[2])
		if err != nil {
			return nil, err
		}
		theirs, err := value(row[4])
		if err != nil {
			return nil, err
		}
		b.theirs = clientGo / theirs
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of the sections %q is in the table", drawn)
	}
	return all, nil
}

// columns returns the names, the lengths of the bars of each series, and the labels of the rows. The
// first row is at the top.
func columns(all []bar) (names []string, ours, lost, theirs plotter.Values, labels plotter.XYLabels) {
	names = make([]string, len(all))
	ours, lost, theirs = make(plotter.Values, len(all)), make(plotter.Values, len(all)), make(plotter.Values, len(all))
	for i, b := range all {
		y := len(all) - 1 - i
		if b.head {
			continue
		}
		names[y] = b.title
		if b.ours < 1 {
			lost[y] = b.ours
		} else {
			ours[y] = min(b.ours, cutOff)
		}
		if !math.IsNaN(b.theirs) {
			theirs[y] = min(b.theirs, cutOff)
		}
		// Not across the line of client-go.
		labels.XYs = append(labels.XYs, plotter.XY{X: min(max(b.ours, 1), cutOff) + 0.06, Y: float64(y)})
		labels.Labels = append(labels.Labels, fmt.Sprintf("%.2f×", b.ours))
	}
	return names, ours, lost, theirs, labels
}

// drawBenchmarks draws how many times as fast as client-go each scenario is.
func drawBenchmarks(page []byte) ([]byte, error) {
	all, err := bars(page)
	if err != nil {
		return nil, err
	}
	const rowHeight = 19
	p := newPlot("")
	lines := plotter.NewGrid()
	lines.Vertical.Color, lines.Horizontal.Width = grid, 0
	p.Add(lines) // Before the bars, which hide it.
	names, ours, lost, theirs, labels := columns(all)
	var legend []entry
	for _, series := range []struct {
		values plotter.Values
		color  color.Color
		height vg.Length
		offset vg.Length
		text   string
	}{
		{ours, blue, 9, 2, "workqueue"},
		{lost, red, 9, 2, "workqueue, where client-go is faster"},
		{theirs, grey, 4, -5.5, "the priority queue of controller-runtime"},
	} {
		chart, err := plotter.NewBarChart(series.values, series.height)
		if err != nil {
			return nil, err
		}
		chart.Horizontal, chart.Color, chart.LineStyle.Width, chart.Offset = true, series.color, 0, series.offset
		p.Add(chart)
		legend = append(legend, entry{series.text, chart})
	}
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range text.TextStyle {
		text.TextStyle[i] = style(9, ink, false)
		text.TextStyle[i].YAlign = draw.YCenter
	}
	p.Add(text)
	p.NominalY(names...)
	p.Y.Tick.Label.Color, p.Y.LineStyle.Width, p.Y.Tick.Length = ink, 0, 0
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, cutOff+0.6, -0.6, float64(len(all))-0.4
	var ticks plot.ConstantTicks
	for ratio := range cutOff + 1 {
		ticks = append(ticks, plot.Tick{Value: float64(ratio), Label: fmt.Sprintf("%d×", ratio)})
	}
	p.X.Tick.Marker = ticks
	one, err := plotter.NewLine(plotter.XYs{{X: 1, Y: p.Y.Min}, {X: 1, Y: p.Y.Max}})
	if err != nil {
		return nil, err
	}
	one.Color, one.Width = ink, 1.2
	legend = append(legend, entry{"1×: client-go", one})
	p.Add(one)
	return picture("Times as fast as client-go (higher is better)", legend, vg.Length(len(all))*rowHeight+20, func(c draw.Canvas) {
		c = draw.Crop(c, 4, 0, 0, 0)
		p.Draw(c)
		// Beside the titles of the rows, which all have one style.
		bars := p.DataCanvas(c)
		_, at := p.Transforms(&bars)
		head := style(10.5, ink, true)
		head.XAlign, head.YAlign = draw.XRight, draw.YCenter
		for i, b := range all {
			if b.head {
				c.FillText(head, vg.Point{X: bars.Min.X - 3, Y: at(float64(len(all) - 1 - i))}, b.title)
			}
		}
	})
}
