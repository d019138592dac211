package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Edits are insertions into a source and replacements of its parts. The edits of a
// node must be made before the edits of its children. Edits then nest as the syntax
// does: where two nodes begin at the same offset, the text of the outer node comes
// first, and where two nodes end, last.
type edits struct {
	base          token.Pos // of the first byte
	source        string
	opens, closes map[int][]string
	replaced      map[int]replacement
}

type replacement struct {
	end  int
	text string
}

func newEdits(base token.Pos, source string) *edits {
	return &edits{base, source, map[int][]string{}, map[int][]string{}, map[int]replacement{}}
}

// text returns the source of a node.
func (e *edits) text(n ast.Node) string {
	return e.source[n.Pos()-e.base : n.End()-e.base]
}

// line returns the line of the source on which a node begins.
func (e *edits) line(n ast.Node) string {
	at := int(n.Pos() - e.base)
	begin := strings.LastIndexByte(e.source[:at], '\n') + 1
	line, _, _ := strings.Cut(e.source[begin:], "\n")
	return line
}

// wrap puts text before and after a node.
func (e *edits) wrap(n ast.Node, before, after string) {
	at, end := int(n.Pos()-e.base), int(n.End()-e.base)
	e.opens[at] = append(e.opens[at], before)
	e.closes[end] = append(e.closes[end], after)
}

// replace puts text in the place of length bytes, in which no other edit may lie.
func (e *edits) replace(pos token.Pos, length int, text string) {
	at := int(pos - e.base)
	e.replaced[at] = replacement{at + length, text}
}

// String returns the edited source. Every line keeps its number if no edit has a
// line break.
func (e *edits) String() string {
	var b strings.Builder
	for at := 0; at <= len(e.source); {
		for _, text := range slices.Backward(e.closes[at]) {
			b.WriteString(text)
		}
		for _, text := range e.opens[at] {
			b.WriteString(text)
		}
		switch r, ok := e.replaced[at]; {
		case ok:
			b.WriteString(r.text)
			at = r.end
			continue
		case at < len(e.source):
			b.WriteByte(e.source[at])
		}
		at++
	}
	return b.String()
}
