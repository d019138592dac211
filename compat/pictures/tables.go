package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// tableOf returns the cells of the table between the marks of a name, without the line of dashes.
func tableOf(page []byte, name string) ([][]string, error) {
	_, rest, found := bytes.Cut(page, []byte("<!-- measured: "+name+" -->\n"))
	text, _, closed := bytes.Cut(rest, []byte("<!-- end -->"))
	if !found || !closed {
		return nil, fmt.Errorf("no table %q", name)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("the table %q has no rows", name)
	}
	return rows, nil
}

var quantity = regexp.MustCompile(`^(-?[0-9.]+) ?([a-zA-Zµ]*)`)

var prefixes = map[string]float64{
	"": 1, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20,
}

// value returns the median of a cell such as "43.4 ns (40.9 to 49.9)", in seconds or bytes. An
// empty cell is NaN.
func value(cell string) (float64, error) {
	if cell == "" {
		return math.NaN(), nil
	}
	m := quantity.FindStringSubmatch(cell)
	if m == nil {
		return 0, fmt.Errorf("%q is no value", cell)
	}
	number, err := strconv.ParseFloat(m[1], 64)
	factor, known := prefixes[m[2]]
	if err != nil || !known {
		return 0, fmt.Errorf("%q is no value", cell)
	}
	return number * factor, nil
}

// records returns the lines of a CSV file below its heads, which must be these.
func records(text []byte, heads ...string) ([][]string, error) {
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(all) < 2 || strings.Join(all[0], ",") != strings.Join(heads, ",") {
		return nil, fmt.Errorf("want lines below the heads %q", heads)
	}
	return all[1:], nil
}
