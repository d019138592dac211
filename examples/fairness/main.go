// Command fairness shows how the order of a queue treats two tenants. The flood adds
// 10,000 keys within 50 seconds, and the workers need 125 seconds for so many keys. The
// quiet tenant adds a key a second.
//
//	go run ./fairness
//
// The program prints how long the keys of each tenant waited, for five orders of the same
// queue, and draws the waits as an SVG. Time is simulated in simulate.go, so a run takes
// less than a second. The orders in this file are the part to copy.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A key is namespace/name, as in Kubernetes. The namespace is the tenant.
func tenantOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// The flood has the higher priority. A priority says who matters, not who adds little, so
// the case is real.
func priorityOf(key string) int {
	if tenantOf(key) == "flood" {
		return 1
	}
	return 0
}

// The flood may occupy all workers but one. In return its higher weight gives the flood
// longer turns.
func limitOf(tenant string) int {
	if tenant == "flood" {
		return workers - 1
	}
	return 0 // any number
}

func weightOf(tenant string) int {
	if tenant == "flood" {
		return workers - 1
	}
	return 1
}

// An order is a value for the Order field of a queue's config, with names for the table.
type order struct {
	name, about string
	workqueue.Order[string]
}

var orders = []order{
	{"FIFO", "all keys in one line", workqueue.Order[string]{}},
	{"priority", "the flood has the higher one", workqueue.Order[string]{Priority: priorityOf}},
	{"priority, OldestEvery 4", "every 4th is the oldest key", workqueue.Order[string]{
		Priority:    priorityOf,
		OldestEvery: 4,
	}},
	{"fair", "tenants take turns", workqueue.Order[string]{Group: tenantOf}},
	{"fair, MaxInFlight", "3 of 4 workers for the flood", workqueue.Order[string]{
		Group:       tenantOf,
		Weight:      weightOf,
		MaxInFlight: limitOf,
	}},
}

func main() {
	file := flag.String("svg", "fairness.svg", "`file` that the picture is written to; none if empty")
	flag.Parse()
	if err := run(os.Stdout, *file); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

// run prints the table, and writes the picture unless file is empty.
func run(out io.Writer, file string) error {
	var results []result
	for _, o := range orders {
		results = append(results, result{o, simulate(o.Order)})
	}
	if err := table(out, results); err != nil || file == "" {
		return err
	}
	if err := os.WriteFile(file, draw(results), 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nThe picture is in %s.\n", file)
	return err
}

// A result is an order and the waits of all keys.
type result struct {
	order
	waits []wait
}

// of returns the waits of a tenant, the shortest first.
func (r result) of(tenant string) (waits []time.Duration) {
	for _, w := range r.waits {
		if w.tenant == tenant {
			waits = append(waits, w.lasted)
		}
	}
	slices.Sort(waits)
	return waits
}

func table(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "order\ttenant\tkeys\tmedian wait\tp99\tlongest\t")
	for _, r := range results {
		for _, tenant := range []string{"quiet", "flood"} {
			waits := r.of(tenant)
			last := len(waits) - 1
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t\n", r.name, tenant, len(waits),
				seconds(waits[last/2]), seconds(waits[last*99/100]), seconds(waits[last]))
		}
	}
	return w.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
