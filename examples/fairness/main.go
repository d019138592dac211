// Command fairness shows how the order of a queue treats two tenants. The flood adds
// 10,000 keys within 50 seconds, and the workers need 125 seconds for so many keys. The
// quiet tenant adds a key a second.
//
//	go run ./fairness
//
// The program prints how long the keys of each tenant waited, for five orders of the same
// queue. With -csv it writes the wait of each key to a file, of which fairness.svg is drawn. Time is
// simulated in simulate.go, so a run takes less than a second. The orders in this file are the part to copy.
package main

import (
	"bytes"
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

// An order is a value for the Order field of a queue's config, with a name for the table.
type order struct {
	name string
	workqueue.Order[string]
}

var orders = []order{
	{"FIFO", workqueue.Order[string]{}},
	{"priority", workqueue.Order[string]{Priority: priorityOf}},
	{"priority, OldestEvery 4", workqueue.Order[string]{
		Priority:    priorityOf,
		OldestEvery: 4,
	}},
	{"fair", workqueue.Order[string]{Group: tenantOf}},
	{"fair, MaxInFlight", workqueue.Order[string]{
		Group:       tenantOf,
		Weight:      weightOf,
		MaxInFlight: limitOf,
	}},
}

func main() {
	file := flag.String("csv", "", "write the wait of each key to this `file`")
	flag.Parse()
	if err := run(os.Stdout, *file); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

// run prints the table, and writes all waits unless file is empty.
func run(out io.Writer, file string) error {
	var results []result
	for _, o := range orders {
		results = append(results, result{o, simulate(o.Order)})
	}
	if err := table(out, results); err != nil || file == "" {
		return err
	}
	var csv bytes.Buffer
	csv.WriteString("order,tenant,added,waited\n")
	for _, r := range results {
		for _, w := range r.waits {
			fmt.Fprintf(&csv, "%q,%s,%.3f,%.3f\n", r.name, w.tenant, w.added.Seconds(), w.lasted.Seconds())
		}
	}
	return os.WriteFile(file, csv.Bytes(), 0o644)
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
