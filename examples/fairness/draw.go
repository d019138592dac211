package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"slices"
	"time"
)

// The picture has a panel for each order, two in a row. All have the same axes: when a
// key was added, and for how long it waited then.
const (
	width, topHeight        = 860, 62
	panelWidth, panelHeight = 420, 236
	plotLeft, plotTop       = 48, 52
	plotWidth, plotHeight   = 350, 140

	mostAdded = 150 * time.Second
	mostWait  = 125 * time.Second
)

// The colours are for both backgrounds: in an img element an SVG sees the reader's
// preference, and no style sheet of the page.
const style = `<style>
text{font:13px -apple-system,BlinkMacSystemFont,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.head{font-weight:600}.note{fill:#59636e;font-size:12px}
.grid{stroke:#d1d9e0}.line{fill:none;stroke-width:2.5;stroke-linejoin:round}
.quiet{stroke:#0969da}.flood{stroke:#bc4c00;stroke-dasharray:6 3}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.grid{stroke:#3d444d}
.quiet{stroke:#4493f8}.flood{stroke:#f0883e}}
</style>
`

func draw(results []result) []byte {
	var svg bytes.Buffer
	height := topHeight + (len(results)+1)/2*panelHeight
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t">`+"\n", width, height)
	fmt.Fprintf(&svg, `<title id="t">How long the keys of two tenants wait in five orders</title>`+"\n%s", style)
	write(&svg, "title", 0, 18, "start", "How long a key waits that is added at a time")
	legend(&svg, 0, "quiet", "one key a second")
	legend(&svg, 230, "flood", "10,000 keys in 50 s; the workers do 80 a second")
	for i, r := range results {
		panel(&svg, i%2*(width-panelWidth), topHeight+i/2*panelHeight, r)
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

func write(svg *bytes.Buffer, class string, x, y int, anchor, text string) {
	fmt.Fprintf(svg, `<text class="%s" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}

func legend(svg *bytes.Buffer, x int, tenant, about string) {
	fmt.Fprintf(svg, `<path class="line %s" d="M%d 42h28"/>`+"\n", tenant, x)
	write(svg, "", x+36, 46, "start", tenant+": "+about)
}

func panel(svg *bytes.Buffer, left, top int, r result) {
	fmt.Fprintf(svg, `<g transform="translate(%d %d)">`+"\n", left, top)
	quiet := r.of("quiet")
	write(svg, "head", 0, 20, "start", r.name+": "+r.about)
	write(svg, "note", 0, 38, "start", "longest wait of the quiet tenant "+seconds(quiet[len(quiet)-1]))
	for s := 0; s <= 125; s += 25 {
		_, y := at(0, time.Duration(s)*time.Second)
		fmt.Fprintf(svg, `<path class="grid" d="M%d %.1fh%d"/>`+"\n", plotLeft, y, plotWidth)
		write(svg, "note", plotLeft-8, int(y)+4, "end", fmt.Sprintf("%d s", s))
	}
	for s := 0; s <= 150; s += 50 {
		x, _ := at(time.Duration(s)*time.Second, 0)
		write(svg, "note", int(x), plotTop+plotHeight+18, "middle", fmt.Sprintf("%d s", s))
	}
	for _, tenant := range []string{"flood", "quiet"} {
		line(svg, tenant, r.waits)
	}
	svg.WriteString("</g>\n")
}

// line draws a point for each second, however many keys were added in it.
func line(svg *bytes.Buffer, tenant string, waits []wait) {
	second := func(w wait) time.Duration { return w.added.Truncate(time.Second) }
	waits = slices.DeleteFunc(slices.Clone(waits), func(w wait) bool { return w.tenant != tenant })
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.added, b.added) })
	waits = slices.CompactFunc(waits, func(a, b wait) bool { return second(a) == second(b) })
	fmt.Fprintf(svg, `<path class="line %s" d="`, tenant)
	for i, w := range waits {
		x, y := at(w.added, w.lasted)
		fmt.Fprintf(svg, "%c%.1f %.1f", "ML"[min(i, 1)], x, y)
	}
	svg.WriteString(`"/>` + "\n")
}

// at returns where a wait is drawn.
func at(added, lasted time.Duration) (x, y float64) {
	x = plotLeft + plotWidth*added.Seconds()/mostAdded.Seconds()
	y = plotTop + plotHeight*(1-lasted.Seconds()/mostWait.Seconds())
	return x, y
}
