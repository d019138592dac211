package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The table of workers shows the cost of an item for a worker of Run, and for a worker with a loop by
// hand. Its lines are the loops, and its columns the numbers of workers.

var workers = []int{1, 2, 8}

// loops are the loops on each kind of queue. The first is the one by hand, with which the others are
// compared.
var loops = []struct{ title, bench, impl string }{
	{"by hand", "loop=by-hand/queue=%s", ours},
	{"Run", "loop=Run/queue=%s", ours},
	{"Run, OnResult", "loop=Run/queue=%s/option=OnResult", ours},
	{"Run, CancelOnReAdd", "loop=Run/queue=%s/option=CancelOnReAdd", ours},
	{"Run, Timeout", "loop=Run/queue=%s/option=Timeout", ours},
	{"client-go, by hand", "loop=by-hand/queue=%s", clientGo},
}

// queueKinds are the kinds of queues. A queue of client-go keeps no times without metrics.
var queueKinds = []string{"plain", "KeepTimes", "Prometheus"}

// A line is a loop on a kind of queue.
type line struct{ title, bench, impl, byHand string }

func lines() (all []line) {
	for _, kind := range queueKinds {
		for _, l := range loops {
			if l.impl == ours || kind != "KeepTimes" {
				all = append(all, line{kind + " queue, " + l.title, "Run/" + fmt.Sprintf(l.bench, kind), l.impl,
					"Run/" + fmt.Sprintf(loops[0].bench, kind)})
			}
		}
	}
	return all
}

// at returns the benchmark with a number of workers.
func at(bench string, workers int) string { return fmt.Sprintf("%s/workers=%d", bench, workers) }

// runRows are the rows of the table of workers. A loop of both implementations has one row.
func runRows() (rows []scenario) {
	known := map[string]int{}
	for _, l := range lines() {
		for _, n := range workers {
			bench := at(l.bench, n)
			if i, ok := known[bench]; ok {
				rows[i].peers, rows[i+1].peers = noPrio, noPrio
				continue
			}
			known[bench] = len(rows)
			for _, unit := range []string{"ns/op", "B/op"} {
				rows = append(rows, scenario{title: bench, bench: bench, unit: unit, peers: []string{l.impl}})
			}
		}
	}
	return rows
}

// runTable has the median time of an item, and how many times that of the loop by hand on the same
// queue. The bytes are those of one worker.
func runTable(results []result) string {
	median := func(bench, unit, impl string) float64 {
		i := slices.IndexFunc(results, func(r result) bool { return r.bench == bench && r.unit == unit })
		if i < 0 {
			return math.NaN()
		}
		return results[i].median(impl)
	}
	var t strings.Builder
	t.WriteString("| an item of 64k, for | 1 worker | 2 workers | 8 workers | allocated |\n|---|---:|---:|---:|---:|\n")
	for _, l := range lines() {
		fmt.Fprintf(&t, "| %s |", l.title)
		for _, n := range workers {
			time, byHand := median(at(l.bench, n), "ns/op", l.impl), median(at(l.byHand, n), "ns/op", ours)
			switch {
			case math.IsNaN(time):
				t.WriteString(" |")
			case l.bench == l.byHand && l.impl == ours || math.IsNaN(byHand):
				fmt.Fprintf(&t, " %s |", quantity(time, "ns/op"))
			default:
				fmt.Fprintf(&t, " %s, %.2f of by hand |", quantity(time, "ns/op"), time/byHand)
			}
		}
		if bytes := median(at(l.bench, 1), "B/op", l.impl); math.IsNaN(bytes) {
			t.WriteString(" |\n")
		} else {
			fmt.Fprintf(&t, " %s |\n", quantity(bytes, "B/op"))
		}
	}
	return t.String()
}
