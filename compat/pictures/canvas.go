package main

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours on a light background. No two have the same value: dark finds each by its value.
var (
	ink    = color.RGBA{0x1f, 0x23, 0x28, 0xff}
	faint  = color.RGBA{0x59, 0x63, 0x6e, 0xff}
	grid   = color.RGBA{0xd1, 0xd9, 0xe0, 0xff}
	blue   = color.RGBA{0x09, 0x69, 0xda, 0xff}
	orange = color.RGBA{0xbc, 0x4c, 0x00, 0xff}
	red    = color.RGBA{0xcf, 0x22, 0x2e, 0xff}
	grey   = color.RGBA{0xaf, 0xb8, 0xc1, 0xff}
)

// dark has the colours for a dark background.
var dark = map[color.RGBA]string{
	ink: "#f0f6fc", faint: "#9198a1", grid: "#3d444d", blue: "#4493f8", orange: "#f0883e", red: "#f85149", grey: "#656c76",
}

const (
	width      = vg.Length(640)
	headHeight = vg.Length(26)
	lineHeight = vg.Length(15)
)

var dashes = []vg.Length{5, 3}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

// style returns a text style.
func style(size vg.Length, c color.Color, bold bool) draw.TextStyle {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return draw.TextStyle{Font: f, Color: c, Handler: plot.DefaultTextHandler}
}

// An entry of a legend.
type entry struct {
	text  string
	thumb plot.Thumbnailer
}

// picture draws a title, a legend below, and a body of a height below both. Text in an SVG of an img
// element cannot use a font of the page, and only the picture itself can know the preference of the
// reader for dark or light: so the picture has a style sheet, which overrides colours by their values.
func picture(title string, legend []entry, height vg.Length, body func(draw.Canvas)) ([]byte, error) {
	top := headHeight + lineHeight*vg.Length(len(legend)) + 6
	canvas := vgsvg.New(width, top+height)
	whole := draw.New(canvas)
	whole.FillText(style(13, ink, true), vg.Point{X: 4, Y: top + height - 16}, title)
	l := plot.NewLegend()
	l.TextStyle, l.Top, l.Left, l.ThumbnailWidth, l.Padding = style(10, ink, false), true, true, 20, 3
	for _, e := range legend {
		l.Add(e.text, e.thumb)
	}
	l.Draw(draw.Crop(whole, 4, 0, 0, -headHeight))
	body(draw.Crop(whole, 0, 0, 0, -top))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(svg.String(), "\n\txmlns=")
	return fmt.Appendf(nil, `<svg viewBox="0 0 %g %g" role="img" aria-labelledby="t" xmlns=%s`, width, top+height,
		strings.Replace(rest, ">\n", ">\n<title id=\"t\">"+html.EscapeString(title)+"</title>\n"+sheet(), 1)), nil
}

// sheet is the style sheet. The declarations of the elements have no weight against !important.
func sheet() string {
	var s strings.Builder
	s.WriteString("<style>\ntext{font-family:\"Liberation Sans\",Arial,Helvetica,sans-serif!important}\n@media(prefers-color-scheme:dark){\n")
	for _, c := range []color.RGBA{ink, faint, grid, blue, orange, red, grey} {
		value := fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B)
		for _, property := range []string{"fill", "stroke"} {
			fmt.Fprintf(&s, "[style*=\"%s:%s\"]{%[1]s:%[3]s!important}\n", property, value, dark[c])
		}
	}
	s.WriteString("}\n</style>\n")
	return s.String()
}

// newPlot returns a plot without a background, in our style.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.Title.Padding = title, 4
	p.Title.TextStyle.Font = style(10.5, ink, true).Font
	p.Title.TextStyle.Color = ink
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.LineStyle.Color, a.Tick.LineStyle.Color, a.Tick.Length = grid, grid, 3
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = style(9, faint, false).Font, faint
		a.Tick.Label.Font, a.Tick.Label.Color = style(9, faint, false).Font, faint
	}
	return p
}
