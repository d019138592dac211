// Package killed is for tests that end programs at random moments.
package killed

import (
	"sync"
	"testing"
)

// Times calls kill 20 times, eight at a time, and reports each problem that kill returns.
// Under -short there are three calls.
func Times(t *testing.T, kill func(n int) (problem string)) {
	t.Helper()
	times := 20
	if testing.Short() {
		times = 3
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for n := range times {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if problem := kill(n); problem != "" {
				t.Errorf("kill %d: %s", n, problem)
			}
		})
	}
	all.Wait()
}
