package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart is as wide as a README column and grows downwards.
const (
	chartWidth = 860
	labelWidth = 330 // room for the longest title at 13 px
	barsWidth  = chartWidth - labelWidth - 60
	rowHeight  = 26
	headHeight = 34
	topHeight  = 58
)

// An SVG in an img element sees the reader's preference, but none of the page's
// style sheets: the colours of both backgrounds have to be in it.
const chartStyle = `<style>
text{font:13px -apple-system,BlinkMacSystemFont,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.head{font-weight:600}.note{fill:#59636e;font-size:12px}
.ours{fill:#0969da}.theirs{fill:#afb8c1}.lost{fill:#cf222e}
.grid{stroke:#d1d9e0}.one{stroke:#1f2328;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.ours{fill:#4493f8}
.theirs{fill:#656c76}.lost{fill:#f85149}.grid{stroke:#3d444d}.one{stroke:#f0f6fc}}
</style>
`

// chart draws how many times faster than client-go each scenario is.
func chart(results []result, from origin) []byte {
	c := canvas{y: topHeight, most: axisEnd(results)}
	for _, s := range sections {
		rows := ofSection(results, s.name)
		if !s.chart || len(rows) == 0 {
			continue
		}
		c.text("head", 0, c.y+22, "start", s.name)
		c.y += headHeight
		for _, row := range rows {
			if !math.IsNaN(row.ratio(clientGo)) { // client-go has nothing to measure.
				c.row(row)
			}
		}
	}
	var svg bytes.Buffer
	height := c.y + 30
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t">`+"\n", chartWidth, height)
	svg.WriteString(`<title id="t">Speed of workqueue relative to client-go, by scenario</title>` + "\n" + chartStyle)
	svg.Write(c.frame(height))
	svg.Write(c.rows.Bytes())
	fmt.Fprintf(&svg, `<text class="note" x="0" y="%d">%s</text>`+"\n</svg>\n", height-6,
		html.EscapeString(fmt.Sprintf("Medians of %d runs. %s, %s, %s.", from.options.rounds, from.golang, from.cpu, from.date)))
	return svg.Bytes()
}

// axisEnd is the ratio at the right edge. A few large ones would press all the
// others against the left, so bars are cut off there and labelled.
func axisEnd(results []result) float64 {
	const least, most = 3, 6
	end := 0.0
	for _, r := range results {
		if ratio := r.ratio(clientGo); !r.slow && !math.IsNaN(ratio) { // max of a NaN is NaN.
			end = max(end, ratio)
		}
	}
	return min(max(math.Ceil(end), least), most)
}

type canvas struct {
	rows bytes.Buffer
	y    int
	most float64
}

func (c *canvas) x(ratio float64) float64 {
	return labelWidth + min(ratio, c.most)/c.most*barsWidth
}

// row draws two bars: workqueue and, thinner, the priority queue.
func (c *canvas) row(r result) {
	ratio := r.ratio(clientGo)
	class := "ours"
	if ratio < 1 {
		class = "lost"
	}
	c.text("", labelWidth-10, c.y+14, "end", strings.ReplaceAll(r.title, "`", ""))
	c.bar(class, ratio, c.y+2, 12)
	end := max(ratio, 1) // the line of client-go must not run through the label
	c.text("", int(c.x(end))+6, c.y+13, "start", times(ratio))
	if other := r.values[clientGo].median() / r.values[priority].median(); !math.IsNaN(other) {
		c.bar("theirs", other, c.y+15, 5)
	}
	c.y += rowHeight
}

func (c *canvas) bar(class string, ratio float64, y, height int) {
	fmt.Fprintf(&c.rows, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n",
		class, labelWidth, y, c.x(ratio)-labelWidth, height)
}

func (c *canvas) text(class string, x, y int, anchor, text string) {
	fmt.Fprintf(&c.rows, `<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n",
		class, x, y, anchor, html.EscapeString(text))
}

// frame draws what lies behind the bars: heading, legend and a line for each
// whole ratio, the one of client-go stronger.
func (c *canvas) frame(height int) []byte {
	var out bytes.Buffer
	out.WriteString(`<text class="title" x="0" y="18">Times as fast as client-go (higher is better)</text>` + "\n")
	out.WriteString(`<rect class="ours" x="0" y="30" width="12" height="12"/><text class="note" x="18" y="41">workqueue</text>` + "\n")
	out.WriteString(`<rect class="theirs" x="100" y="33" width="12" height="5"/><text class="note" x="118" y="41">controller-runtime priority queue</text>` + "\n")
	for ratio := 0; float64(ratio) <= c.most; ratio++ {
		class, label := "grid", fmt.Sprintf("%d×", ratio)
		if ratio == 1 {
			class, label = "one", "client-go"
		}
		x := c.x(float64(ratio))
		fmt.Fprintf(&out, `<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, class, x, topHeight, x, height-26)
		fmt.Fprintf(&out, `<text class="note" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, topHeight-6, label)
	}
	return out.Bytes()
}
