package realworld_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

var page = flag.String("page", "", "the Markdown page whose table to write")

// results is the table of all scenarios.
var results table

// A table has a row for each measure, and a column for each implementation.
type table struct {
	mu   sync.Mutex
	rows []*row
}

type row struct {
	scenario, measure string
	values            map[string]string
}

// add sets a value. The rows stay in the order of their first values. An implementation with a
// fault has no column.
func (t *table) add(scenario, measure string, impl implementation, value any) {
	if impl.name != ours.name && impl.name != theirs.name {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v := value.(type) {
	case time.Duration:
		value = rounded(v)
	case float64:
		value = fmt.Sprintf("%.1f", v)
	}
	for _, r := range t.rows {
		if r.scenario == scenario && r.measure == measure {
			r.values[impl.name] = fmt.Sprint(value)
			return
		}
	}
	t.rows = append(t.rows, &row{scenario, measure, map[string]string{impl.name: fmt.Sprint(value)}})
}

// rounded has three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// print writes the table to the standard output, and into the page of the flag.
func (t *table) print() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return nil
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	var markdown strings.Builder
	line := func(cells ...string) {
		fmt.Fprintln(out, strings.Join(cells, "\t"))
		fmt.Fprintln(&markdown, "|", strings.Join(cells, " | "), "|")
	}
	header := []string{"scenario", "measure"}
	for _, impl := range implementations {
		header = append(header, impl.name)
	}
	line(header...)
	markdown.WriteString("|---|---|" + strings.Repeat("---:|", len(implementations)) + "\n")
	for _, r := range t.rows {
		cells := []string{r.scenario, r.measure}
		for _, impl := range implementations {
			cells = append(cells, cmp.Or(r.values[impl.name], "cannot"))
		}
		line(cells...)
	}
	if err := out.Flush(); err != nil || *page == "" {
		return err
	}
	return replaceTable(*page, markdown.String())
}

// replaceTable replaces what is between the two marks of the page.
func replaceTable(page, table string) error {
	const begin, end = "<!-- results -->\n", "<!-- end of results -->"
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, found2 := strings.Cut(rest, end)
	if !found || !found2 {
		return fmt.Errorf("%s has no lines %q and %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+table+end+after), 0o644)
}
