package main

import (
	"strings"
	"testing"
	"time"
)

// A figure that deviates is noticed, of either queue.
func TestControllersThatDeviateAreNoticed(t *testing.T) {
	s := fake(t, classic, nil) // It answers 1 to everything.
	s.age = func() time.Duration { return time.Minute }
	var out strings.Builder
	err := s.checkControllers(t.Context(), &out)
	if err == nil {
		t.Fatal("nothing is wrong with series that are all 1")
	}
	for _, want := range []string{
		`workqueue_depth{name="ours-still", controller="ours-still", priority="-100"}: got 1`,
		`workqueue_adds_total{name="theirs-still", controller="theirs-still"}: got 1`,
		`workqueue_unfinished_work_seconds{name="ours-still"`,
		"ours has no series",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not noticed:\n%v", want, err)
		}
	}
}
