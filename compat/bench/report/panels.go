package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// Three panels stand in a row. A panel is a box for the lines, with labels around the box.
const (
	panelColumns = 3
	panelStep    = 290 // from panel to panel
	panelLeft    = 58  // room for the labels of the vertical axis
	panelWide    = 168 // leaves room for the last values
	panelHigh    = 120
	panelTop     = 44 // from the title of the panel to the box, with the highest label
	panelDown    = 208
	panelText    = 14 // the height of a label
)

// lineStyle adds lines to the style of the bars. Lines need more contrast than bars.
const lineStyle = `<style>
path.ours,path.theirs{fill:none;stroke-width:2}path.ours{stroke:#0969da}
path.theirs{stroke:#6e7781;stroke-dasharray:5 3}circle.theirs{fill:#6e7781}
@media(prefers-color-scheme:dark){path.ours{stroke:#4493f8}path.theirs{stroke:#9198a1}circle.theirs{fill:#9198a1}}
</style>
`

// panels draws a panel for each measure that has one: the cost against the size, on a
// logarithmic axis. The vertical axes begin at 0, so that a flat line is a constant cost.
func panels(results []result, from origin) []byte {
	var c canvas
	count := 0
	for _, a := range axes {
		for _, m := range a.measures {
			if m.panel == "" {
				continue
			}
			p := panel{&c, panelLeft + count%panelColumns*panelStep, 96 + count/panelColumns*panelDown, a, m, 0}
			p.draw(a.curve(m, ours, results), a.curve(m, clientGo, results))
			count++
		}
	}
	height := 96 + (count+panelColumns-1)/panelColumns*panelDown - 10
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t">`+"\n", chartWidth, height)
	svg.WriteString(`<title id="t">Cost of one operation against the number of items, workers, queues and names</title>` + "\n" + chartStyle + lineStyle)
	svg.WriteString(`<text class="title" x="0" y="18">Cost of one operation, as one process grows (lower is better)</text>` + "\n")
	svg.WriteString(`<path class="ours" d="M0 36h24"/><text class="note" x="32" y="41">workqueue</text>` + "\n")
	svg.WriteString(`<path class="theirs" d="M120 36h24"/><text class="note" x="152" y="41">client-go</text>` + "\n")
	svg.Write(c.rows.Bytes())
	fmt.Fprintf(&svg, `<text class="note" x="0" y="%d">%s</text>`+"\n</svg>\n", height-6,
		html.EscapeString(fmt.Sprintf("%s, %s, %s.", from.golang, from.cpu, from.date)))
	return svg.Bytes()
}

// A panel has its box at x and y. The vertical axis ends at most.
type panel struct {
	*canvas
	x, y int
	axis axis
	measure
	most float64
}

func (p panel) draw(our, their curve) {
	p.most = roundUp(max(our.largest(), their.largest()))
	p.text("head", p.x-panelLeft, p.y-panelTop+26, "start", p.panel)
	for i := range 3 {
		value := p.most * float64(i) / 2
		_, y := p.point(0, value)
		fmt.Fprintf(&p.rows, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, p.x, y, p.x+panelWide, y)
		p.text("note", p.x-6, int(y)+4, "end", quantity(value, p.unit))
	}
	for i, size := range p.axis.sizes {
		x, _ := p.point(i, 0)
		p.text("note", int(x), p.y+panelHigh+18, "middle", short(size))
	}
	p.line("theirs", their)
	p.line("ours", our)
	p.ends(our.last(), their.last())
}

// point returns the place of a value of the axis' i-th size.
func (p panel) point(i int, value float64) (x, y float64) {
	steps := max(1, len(p.axis.sizes)-1)
	return float64(p.x) + 8 + (panelWide-16)*float64(i)/float64(steps),
		float64(p.y) + panelHigh*(1-value/p.most)
}

// line draws the known values of a curve.
func (p panel) line(class string, values curve) {
	var path, dots strings.Builder
	verb := "M"
	for i, value := range values {
		if math.IsNaN(value) {
			continue
		}
		x, y := p.point(i, value)
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, y)
		fmt.Fprintf(&dots, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"/>`, class, x, y)
		verb = "L"
	}
	if path.Len() > 0 {
		fmt.Fprintf(&p.rows, `<path class="%s" d="%s"/>%s`+"\n", class, path.String(), dots.String())
	}
}

// ends writes the last values beside the ends of the lines. Labels of near ends move apart.
func (p panel) ends(our, their float64) {
	_, ourY := p.point(0, our)
	_, theirY := p.point(0, their)
	if gap := math.Abs(ourY - theirY); gap < panelText {
		apart := math.Copysign((panelText-gap)/2, ourY-theirY)
		ourY, theirY = ourY+apart, theirY-apart
	}
	for _, end := range [][2]float64{{our, ourY}, {their, theirY}} {
		if value, y := end[0], end[1]; !math.IsNaN(value) {
			p.text("note", p.x+panelWide+2, int(y)+4, "start", quantity(value, p.unit))
		}
	}
}

// largest returns 0 if no value is known.
func (c curve) largest() float64 {
	most := 0.0
	for _, value := range c {
		if value > most { // Not for a NaN.
			most = value
		}
	}
	return most
}

func (c curve) last() float64 { return c[len(c)-1] }

// roundUp returns the next 1, 1.5, 2, 3, 4, 6 or 8 times a power of ten. Half of each has at most two digits.
func roundUp(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, digit := range []float64{1, 1.5, 2, 3, 4, 6, 8} {
		if value <= digit*power {
			return digit * power
		}
	}
	return 10 * power
}
