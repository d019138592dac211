package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A picture shows what its page says.
func TestPicturesAreOfTheirPages(t *testing.T) {
	root := filepath.Join("..", "..")
	waits, err := fairnessWaits(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for picture, draw := range map[string]func() ([]byte, error){
		"docs/benchmarks.svg":            func() ([]byte, error) { return drawBenchmarks(read("BENCHMARKS.md")) },
		"docs/scaling-one.svg":           func() ([]byte, error) { return drawScaling(read("docs/scaling.md")) },
		"examples/fairness/fairness.svg": func() ([]byte, error) { return drawFairness(waits) },
	} {
		want, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(picture), want) {
			t.Errorf("%s is not of its page: make pictures", picture)
		}
		wellFormed(t, picture, want)
	}
	wellFormed(t, "docs/scaling.svg", read("docs/scaling.svg"))
}

// wellFormed fails if a picture is no XML, has a length that is no number, or has a colour for which
// the dark style sheet has none.
func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if i := bytes.Index(svg, []byte("NaN")); i >= 0 {
		t.Errorf("%s: NaN in %s", name, svg[max(0, i-80):i+3])
	}
	for _, colour := range regexp.MustCompile(`(?:fill|stroke):#[0-9A-F]{6}\b`).FindAllString(string(svg), -1) {
		if !strings.Contains(string(svg), `[style*="`+colour+`"]`) {
			t.Errorf("%s: a dark background has no %s", name, colour)
		}
	}
}

func TestReplicas(t *testing.T) {
	svg, err := drawReplicas([]byte("phase,slots without an owner,writes a second\n1,0,200\n1,3,220\n2,0,210\n"))
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "replicas", svg)
	if got := bytes.Count(svg, []byte("> 2</text>")); got != 2 {
		t.Errorf("%d marks of the second phase, want one in each panel:\n%s", got, svg)
	}
}
