package main

import (
	"bytes"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const want = `                    order  tenant   keys  median wait       p99   longest
                     FIFO   quiet    150      30.29 s   74.14 s   75.59 s
                     FIFO   flood  10000      37.80 s   74.86 s   75.61 s
                 priority   quiet    150      50.90 s  123.00 s  124.98 s
                 priority   flood  10000      37.47 s   74.22 s   74.97 s
  priority, OldestEvery 4   quiet    150      30.30 s   74.19 s   75.59 s
  priority, OldestEvery 4   flood  10000      37.80 s   74.86 s   75.61 s
                     fair   quiet    150       0.04 s    0.04 s    0.04 s
                     fair   flood  10000      38.27 s   75.81 s   76.56 s
        fair, MaxInFlight   quiet    150       0.00 s    0.00 s    0.00 s
        fair, MaxInFlight   flood  10000      58.31 s  115.47 s  116.66 s
`

func TestOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "waits.csv")
	var out bytes.Buffer
	if err := run(&out, file); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1+len(orders)*(quietKeys+floodKeys) {
		t.Fatalf("%d lines, want one for each key of each order; %v", len(rows), err)
	}
	if got, want := strings.Join(rows[1], " "), "FIFO flood 0.000 0.000"; got != want {
		t.Errorf("the first line is %q, want %q", got, want)
	}
}

// What the picture is to show: who is delayed by the flood, and by how much.
func TestWhoWaits(t *testing.T) {
	for _, o := range orders {
		r := result{o, simulate(o.Order)}
		quiet, flood := r.of("quiet"), r.of("flood")
		if len(quiet) != quietKeys || len(flood) != floodKeys {
			t.Fatalf("%s: %d and %d keys were handed out", o.name, len(quiet), len(flood))
		}
		longest, others := quiet[len(quiet)-1], flood[len(flood)-1]
		switch {
		case o.name == "fair" && longest > workTime:
			t.Errorf("fair: the quiet tenant waits for %v, a round takes %v", longest, workTime)
		case strings.Contains(o.name, "MaxInFlight") && longest > 0:
			t.Errorf("%s: the quiet tenant waits for %v, although a worker is free", o.name, longest)
		case o.name == "priority" && longest < 120*time.Second:
			t.Errorf("priority: the quiet tenant waits for %v, the flood for 125 s", longest)
		case strings.Contains(o.name, "OldestEvery") && longest > others:
			t.Errorf("%s: the quiet tenant waits for %v, the flood for %v", o.name, longest, others)
		}
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	if err := run(io.Discard, t.TempDir()); err == nil {
		t.Error("got no error")
	}
}
