package main

import (
	"fmt"
	"math/rand/v2"
)

// tenants is how many groups a queue has. Each may have as many items in flight as its
// number says, and the first any number.
const tenants = 5

// chooseOrder chooses the fields of an order. Each of its functions has the trap, if there
// may be faults: an add asks them without a lock, and so they may call the queue. A function
// that ends the goroutine is left out, because nobody could repeat the add.
func (r *recipe) chooseOrder(rnd *rand.Rand, back func()) {
	t := &trap{}
	if r.traps {
		t = &trap{name: badOrder, odds: odds, dies: true, calls: back}
	}
	r.prioritizes = true
	r.apart = rnd.IntN(3) == 0
	r.order.OldestEvery = rnd.IntN(5)
	if rnd.IntN(2) == 0 {
		r.order.Priority = func(item int) int {
			t.spring()
			return item % 5
		}
	}
	if rnd.IntN(3) > 0 {
		r.chooseGroups(rnd, t)
	}
	r.text += fmt.Sprintf(", order %+v, apart %v", r.order, r.apart)
}

// chooseGroups groups the items by their numbers or, half of the time, at random: the group
// of an item then changes at each call.
func (r *recipe) chooseGroups(rnd *rand.Rand, t *trap) {
	fickle := rnd.IntN(2) == 0
	r.order.Group = func(item int) string {
		t.spring()
		if fickle {
			item = rand.IntN(tenants)
		}
		return groupNames[item%tenants]
	}
	r.order.GroupsFirst = rnd.IntN(2) == 0
	if rnd.IntN(2) == 0 {
		r.order.Weight = func(group string) int {
			t.spring()
			return 1 + len(group)
		}
	}
	if rnd.IntN(4) > 0 {
		r.order.MaxInFlight = func(group string) int {
			t.spring()
			return len(group)
		}
	}
}

// The number of a group is the length of its name.
var groupNames = [tenants]string{"", "g", "gg", "ggg", "gggg"}
