//go:build ignore

// Draw makes an SVG of a text that says which boxes stand in which row. The
// format is explained at the head of architecture.txt.
//
//	go run docs/draw.go docs/architecture.txt > docs/architecture.svg
package main

import (
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"strings"
)

// Measures in pixels. A row has its label on the left and its boxes beside it.
const (
	width, left, top = 860, 110, 64
	high, step, gap  = 74, 104, 12
)

const style = `<style>
text{font:13px -apple-system,BlinkMacSystemFont,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.name{font-weight:600}.note{fill:#59636e;font-size:12px}
rect{fill:#f6f8fa;stroke:#818b98}.lock{fill:#ddf4ff;stroke:#0969da}
.pure{fill:#dafbe1;stroke:#1a7f37}.foreign{fill:#fff8c5;stroke:#9a6700;stroke-dasharray:4}
path{stroke:#59636e;fill:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}rect{fill:#151b23;stroke:#656c76}
.lock{fill:#121d2f;stroke:#4493f8}.pure{fill:#12261e;stroke:#3fb950}.foreign{fill:#272115;stroke:#d29922}
path{stroke:#9198a1}}
</style>
`

// A row is a label, its boxes, and what the arrow to the next row says.
type row struct {
	label, down string
	boxes       []string
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run docs/draw.go TEXT > SVG")
	}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	title, rows, err := parse(string(source))
	if err != nil {
		log.Fatal(err)
	}
	draw(os.Stdout, title, rows)
}

func parse(source string) (title string, rows []row, err error) {
	for number, text := range strings.Split(source, "\n") {
		verb, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "" || text[0] == '#':
		case verb == "title":
			title = rest
		case verb == "row":
			rows = append(rows, row{label: rest})
		case len(rows) > 0 && verb == "box":
			rows[len(rows)-1].boxes = append(rows[len(rows)-1].boxes, rest)
		case len(rows) > 0 && verb == "down":
			rows[len(rows)-1].down = rest
		default:
			return "", nil, fmt.Errorf("line %d: cannot read %q", number+1, text)
		}
	}
	return title, rows, nil
}

func draw(w io.Writer, title string, rows []row) {
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t\">\n", width, top+len(rows)*step)
	fmt.Fprintf(w, "<title id=\"t\">%s</title>\n%s", html.EscapeString(title), style)
	write(w, "title", 0, 18, title)
	for i, kind := range []string{"lock", "pure", "foreign"} {
		what := []string{"has a mutex", "single-threaded, used with its owner's lock held", "may be your code"}[i]
		x := []int{0, 110, 420}[i]
		fmt.Fprintf(w, "<rect class=\"%s\" x=\"%d\" y=\"32\" width=\"12\" height=\"12\"/>", kind, x)
		write(w, "note", x+18, 43, what)
	}
	for i, r := range rows {
		r.draw(w, top+i*step)
	}
	fmt.Fprintln(w, "</svg>")
}

func (r row) draw(w io.Writer, y int) {
	write(w, "note", 0, y+high/2, r.label)
	wide := (width-left-2+gap)/max(1, len(r.boxes)) - gap
	for i, box := range r.boxes {
		kind, text, _ := strings.Cut(box, " ")
		x := left + i*(wide+gap)
		fmt.Fprintf(w, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", kind, x, y, wide, high)
		for n, line := range strings.Split(text, ";") {
			class := "note"
			if n == 0 {
				class = "name"
			}
			write(w, class, x+12, y+20+17*n, strings.TrimSpace(line))
		}
	}
	if r.down != "" {
		fmt.Fprintf(w, "<path d=\"M%d %dv20m-5 -6l5 6l5 -6\"/>", left+24, y+high+5)
		write(w, "note", left+38, y+high+20, r.down)
	}
}

func write(w io.Writer, class string, x, y int, text string) {
	fmt.Fprintf(w, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, html.EscapeString(text))
}
