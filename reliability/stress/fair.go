package main

import (
	"math/rand/v2"

	"github.com/seed16c08ea7/workqueue"
)

// tenants is how many groups a fair queue has. Each may have as many items in flight as
// its number says, and the first any number.
const tenants = 5

// newFair returns a fair queue whose functions have the trap, and so has the stack that
// each group may have. A group is what an item's number says, or anything: half of the
// queues have a function that changes its mind at each call.
func newFair(rnd *rand.Rand, t *trap) workqueue.Queue[int] {
	fickle := rnd.IntN(2) == 0
	o := workqueue.FairOptions[int, int]{
		Group: func(item int) int {
			t.spring()
			if fickle {
				return rand.IntN(tenants)
			}
			return item % tenants
		},
	}
	if rnd.IntN(2) == 0 {
		o.Weight = func(tenant int) int {
			t.spring()
			return 1 + tenant
		}
	}
	if rnd.IntN(4) > 0 {
		o.MaxInFlight = func(tenant int) int {
			t.spring()
			return tenant
		}
	}
	switch rnd.IntN(3) {
	case 0:
		o.Within = func() workqueue.Queue[int] { return &stack{trap: t} }
	case 1:
		o.Within = func() workqueue.Queue[int] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{OldestEvery: 3, Of: func(item int) int {
				t.spring()
				return item % 3
			}})
		}
	}
	return workqueue.NewFairQueue(o)
}
