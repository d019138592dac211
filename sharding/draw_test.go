package sharding

import (
	"bytes"
	"fmt"
	"os"
)

const style = `<style>
text { font: 12px sans-serif; fill: #444 } .title { font-size: 15px; font-weight: bold }
path { fill: none; stroke: #2166ac; stroke-width: 1.5 } line { stroke: #ddd } .axis { stroke: #999 }
@media (prefers-color-scheme: dark) { text { fill: #ccc } line { stroke: #444 } path { stroke: #67a9cf } }
</style>
`

// draw writes the picture of a simulation to a file, unless the name is empty.
func (s *simulation) draw(file string) error {
	if file == "" {
		return nil
	}
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 420" role="img" aria-labelledby="t">`+"\n")
	fmt.Fprintf(&svg, "<title id=\"t\">%d replicas share %d slots: slots without an owner, and writes a second, over time</title>\n%s", s.replicas, s.slots, style)
	fmt.Fprintf(&svg, `<text class="title" x="50" y="18">%d replicas share %d slots</text>`+"\n", s.replicas, s.slots)
	const left, right = 50, 890
	x := func(second int) float64 { return left + (right-left)*float64(second)/float64(len(s.samples)) }
	for i, m := range s.marks {
		fmt.Fprintf(&svg, `<line x1="%.0f" y1="60" x2="%.0f" y2="400"/><text x="%.0f" y="%d">%d</text>`+"\n", x(m.at), x(m.at), x(m.at)+2, 400, i+1)
	}
	panel := func(top int, title string, value func(sample) float64) {
		const height = 130
		most := 1.0
		for _, p := range s.samples {
			most = max(most, value(p))
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d">%s</text>`+"\n", left, top-6, title)
		fmt.Fprintf(&svg, `<text x="44" y="%d" text-anchor="end">%.0f</text><text x="44" y="%d" text-anchor="end">0</text>`+"\n", top+10, most, top+height)
		fmt.Fprintf(&svg, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/><path d="M`, left, top+height, right, top+height)
		for second, p := range s.samples {
			fmt.Fprintf(&svg, "%.1f %.1f ", x(second), float64(top)+height*(1-value(p)/most))
		}
		svg.WriteString(`"/>` + "\n")
	}
	panel(66, "slots without an owner", func(p sample) float64 {
		return float64(p.without)
	})
	panel(246, "writes a second", func(p sample) float64 { return p.writes })
	svg.WriteString("</svg>\n")
	return os.WriteFile(file, svg.Bytes(), 0o644)
}
