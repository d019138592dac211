package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

// On a slow machine the lines could change places, so the test runs on virtual time.
func TestOutputOfTheReadme(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		run(&out)
		if want := "go run -C examples ./quickstart\n" + out.String() + "```\n"; !strings.Contains(string(page), want) {
			t.Errorf("examples/README.md has not the output\n%s", &out)
		}
	})
}
