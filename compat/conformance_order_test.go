package compat_test

import (
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Where all items have one priority and one group, each order is a FIFO: a queue with an
// Order is held to the same as one that has none.
func TestOrdersThatAreAFIFO(t *testing.T) {
	one := func(string) string { return "one" }
	timelines := slices.Concat(fifoTimelines, shutdownTimelines, drainTimelines, interruptedDrainTimelines)
	for name, order := range map[string]workqueue.Order[string]{
		"oldest":       {OldestEvery: 2},
		"priority":     {Priority: func(string) int { return 7 }},
		"FIFO":         {Priority: func(item string) int { return len(item) }, OldestEvery: 1},
		"group":        {Group: one, Weight: func(string) int { return 2 }},
		"limits":       {Group: one, MaxInFlight: func(string) int { return 100 }},
		"groups first": {Group: one, GroupsFirst: true, OldestEvery: 3},
	} {
		t.Run(name, func(t *testing.T) {
			for _, on := range layers {
				t.Run("layer="+string(on), func(t *testing.T) { playOn(t, oursWith(order), on, timelines) })
			}
		})
	}
}
