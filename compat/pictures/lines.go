package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"golang.org/x/perf/benchunit"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A kind of line has the same look in each panel.
type kind struct {
	text   string
	color  color.Color
	dashed bool
}

func (k kind) line(points plotter.XYs) (*plotter.Line, error) {
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = k.color, 1.5
	if k.dashed {
		line.Dashes = dashes
	}
	return line, nil
}

// A panel has a line of each kind; nil leaves the line out. A mark is a numbered vertical line. The
// vertical axis begins at 0, so that a flat line is a constant, and ends at most or above all lines.
type panel struct {
	title string
	lines []plotter.XYs
	marks []float64
	x, y  plot.Ticker
	dots  bool
	most  float64
}

func (p panel) plot(kinds []kind) (*plot.Plot, error) {
	out := newPlot(p.title)
	out.X.Tick.Marker, out.Y.Tick.Marker = p.x, p.y
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Width = grid, 0
	out.Add(lines)
	for i, points := range p.lines {
		if len(points) == 0 {
			continue
		}
		line, err := kinds[i].line(points)
		if err != nil {
			return nil, err
		}
		out.Add(line)
		if p.dots {
			dots, err := plotter.NewScatter(points)
			if err != nil {
				return nil, err
			}
			dots.Color, dots.Shape, dots.Radius = kinds[i].color, draw.CircleGlyph{}, 2
			out.Add(dots)
		}
	}
	out.Y.Min, out.Y.Max = 0, 1.05*max(out.Y.Max, p.most)
	return out, p.addMarks(out)
}

func (p panel) addMarks(out *plot.Plot) error {
	var numbers plotter.XYLabels
	for i, x := range p.marks {
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: out.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = grid, []vg.Length{2, 2}
		out.Add(line)
		numbers.XYs = append(numbers.XYs, plotter.XY{X: x, Y: out.Y.Max * 0.92})
		numbers.Labels = append(numbers.Labels, " "+strconv.Itoa(i+1))
	}
	if len(p.marks) == 0 {
		return nil
	}
	labels, err := plotter.NewLabels(numbers)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i] = style(9, faint, false)
	}
	out.Add(labels)
	return nil
}

// panels draws panels in rows, with a legend of the kinds.
func panels(title string, kinds []kind, all []panel, columns int, rowHeight vg.Length) ([]byte, error) {
	rows := (len(all) + columns - 1) / columns
	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	for i, p := range all {
		drawn, err := p.plot(kinds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		plots[i/columns][i%columns] = drawn
	}
	var legend []entry
	for _, k := range kinds {
		line, err := k.line(plotter.XYs{{}, {}})
		if err != nil {
			return nil, err
		}
		if k.text != "" {
			legend = append(legend, entry{k.text, line})
		}
	}
	return picture(title, legend, vg.Length(rows)*rowHeight, func(c draw.Canvas) {
		tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 14, PadY: 12, PadRight: 12, PadLeft: 2}
		for r, row := range plot.Align(plots, tiles, c) {
			for i, tile := range row {
				if plots[r][i] != nil {
					plots[r][i].Draw(tile)
				}
			}
		}
	})
}

// inUnit labels the usual ticks with a unit.
type inUnit string

func (unit inUnit) Ticks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Value == 0 {
			ticks[i].Label = "0"
		} else if ticks[i].Label != "" {
			s := benchunit.CommonScale([]float64{ticks[i].Value}, benchunit.Decimal)
			ticks[i].Label = fmt.Sprintf("%g %s%s", math.Round(100*ticks[i].Value/s.Factor)/100, s.Prefix, string(unit))
		}
	}
	return ticks
}

// scaled are the rows of docs/scaling.md that are drawn, each in a panel: the time of one operation.
var scaled = []struct{ table, row, title string }{
	{"queued items", "an Add, a Get and a Done", "A cycle, by queued items"},
	{"waiting items", "an AddAfter, while they gather", "An AddAfter, by waiting items"},
	{"workers", "an item from 4 producers", "An item, by workers"},
	{"queues", "a cycle, by turns", "A cycle, by queues"},
	{"names", "a cycle, by turns", "A cycle, by names in the metrics"},
	{"names", "a scrape, for each name", "A scrape for each name, by names"},
}

// drawScaling draws the time of an operation against the number of things.
func drawScaling(page []byte) ([]byte, error) {
	var all []panel
	for _, s := range scaled {
		table, err := tableOf(page, s.table)
		if err != nil {
			return nil, err
		}
		p := panel{title: s.title, y: inUnit("s"), dots: true}
		var sizes plot.ConstantTicks
		for i, size := range table[0][2:] {
			sizes = append(sizes, plot.Tick{Value: float64(i), Label: size})
		}
		p.x = sizes
		for i, row := range table[1:] {
			if row[0] != s.row || i+2 >= len(table) {
				continue
			}
			for _, cells := range [][]string{row[2:], table[i+2][2:]} { // Ours, and below it that of client-go.
				points, err := pointsOf(cells)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.row, err)
				}
				p.lines = append(p.lines, points)
			}
		}
		if len(p.lines) != 2 {
			return nil, fmt.Errorf("%d lines of %q in the table %q instead of 2", len(p.lines), s.row, s.table)
		}
		all = append(all, p)
	}
	return panels("Time of one operation, as one process grows (lower is better)",
		[]kind{{"workqueue", blue, false}, {"client-go", orange, true}}, all, 3, 150)
}

// pointsOf returns the values of cells by their index, without empty cells.
func pointsOf(cells []string) (points plotter.XYs, err error) {
	for i, cell := range cells {
		v, err := value(cell)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			points = append(points, plotter.XY{X: float64(i), Y: v})
		}
	}
	return points, nil
}

// drawFairness draws, for each order, the waits of the keys of two tenants. Of the keys of a second
// it draws one.
func drawFairness(waits []byte) ([]byte, error) {
	rows, err := records(waits, "order", "tenant", "added", "waited")
	if err != nil {
		return nil, err
	}
	kinds := []kind{{"quiet: one key a second", blue, false}, {"flood: 10,000 keys in 50 s; the workers do 80 a second", orange, true}}
	var all []panel
	var longest float64
	for _, row := range rows {
		if len(all) == 0 || all[len(all)-1].title != row[0] {
			all = append(all, panel{title: row[0], lines: make([]plotter.XYs, 2), x: inUnit("s"), y: inUnit("s")})
		}
		added, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return nil, err
		}
		waited, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			return nil, err
		}
		longest = max(longest, waited)
		line := &all[len(all)-1].lines[0]
		if row[1] == "flood" {
			line = &all[len(all)-1].lines[1]
		}
		if n := len(*line); n == 0 || math.Floor((*line)[n-1].X) != math.Floor(added) {
			*line = append(*line, plotter.XY{X: added, Y: waited})
		}
	}
	for i := range all {
		all[i].most = longest
	}
	return panels("How long a key waits, by the time of its add", kinds, all, 2, 150)
}

// drawReplicas draws what TestSimulation of sharding has sampled each second. A number marks where a
// row of the table in docs/scaling.md begins.
func drawReplicas(samples []byte) ([]byte, error) {
	rows, err := records(samples, "phase", "slots without an owner", "writes a second")
	if err != nil {
		return nil, err
	}
	both := []panel{{title: "slots without an owner"}, {title: "writes a second"}}
	for i := range both {
		p := &both[i]
		p.lines, p.x, p.y = make([]plotter.XYs, 1), inUnit("s"), inUnit("")
		for second, row := range rows {
			if second == 0 || row[0] != rows[second-1][0] {
				p.marks = append(p.marks, float64(second))
			}
			v, err := strconv.ParseFloat(row[i+1], 64)
			if err != nil {
				return nil, err
			}
			p.lines[0] = append(p.lines[0], plotter.XY{X: float64(second), Y: v})
		}
	}
	return panels("Replicas that share slots, second by second", []kind{{"", blue, false}}, both, 1, 150)
}
