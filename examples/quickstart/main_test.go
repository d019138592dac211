package main

import (
	"bytes"
	"testing"
	"testing/synctest"
)

const want = `11 requests, 2 jobs now, one later
cat.png: done after 0 failures
dog.png: disk full
dog.png: disk full
dog.png: done after 2 failures
owl.png: done after 0 failures
`

func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		run(&out)
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
