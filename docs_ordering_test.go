package workqueue_test

import (
	"slices"
	"strings"
	"testing"
)

// The table of calls and priorities has the rows and cells that are played, and the tests
// that the page names exist.
func TestOrderingOfCallsAndStates(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/ordering.md")
	for _, problem := range parseSuite(t).missing(page) {
		t.Error(problem)
	}
	var played []string
	for _, r := range priorityInterplay {
		played = append(played, "| "+strings.Join([]string{r.call, r.idle, r.waiting, r.queued, r.inFlight, r.again, r.held}, " | ")+" |")
	}
	if written := rowsOf(section(page, "Priorities")); !slices.Equal(written, played) {
		t.Errorf("the page has\n%s\nand the test\n%s", strings.Join(written, "\n"), strings.Join(played, "\n"))
	}
}
