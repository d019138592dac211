package linearizability

import (
	"fmt"
	"strings"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A shape is the Order of a queue. The groups of items are their remainders. In the zero
// shape, all items are of one group.
type shape struct {
	every       int8 // OldestEvery
	groups      int8 // how many groups there are
	weights     bool
	limits      bool
	groupsFirst bool
	asks        bool // there is a Priority function
}

func (k shape) group(item int8) int8 { return item % max(1, k.groups) }

// priority returns the priority of an add that names none.
func (k shape) priority(item int8) int8 {
	if k.asks {
		return item % 4 / 2
	}
	return 0
}

func (k shape) weight(group int8) int8 {
	if k.weights {
		return 1 + (group+1)%2
	}
	return 1
}

func (k shape) limit(group int8) int8 {
	if !k.limits || group == 2 {
		return 0
	}
	return 1
}

// rules returns the Order for the specification.
func (k shape) rules() spec.Rules[int8] {
	return spec.Rules[int8]{OldestEvery: int(k.every), GroupsFirst: k.groupsFirst, Place: func(item int8, p spec.Place) spec.Place {
		if !p.Named {
			p.Priority = int(k.priority(item))
		}
		if k.groups > 0 {
			group := k.group(item)
			p.Group, p.Weight, p.Limit = nameOf(group), int(k.weight(group)), int(k.limit(group))
		}
		return p
	}}
}

func nameOf(group int8) string { return strings.Repeat("g", int(group)) }

// An ordered queue has the Order of a shape, and is added to with priorities.
type ordered struct {
	*workqueue.TypedDelaying[int8]
	shape shape
}

func newOrdered(k shape) ordered {
	o := workqueue.Order[int8]{OldestEvery: int(k.every)}
	if k.asks {
		o.Priority = func(item int8) int { return int(k.priority(item)) }
	}
	if k.groups > 0 {
		number := func(group string) int8 { return int8(len(group)) }
		o.Group = func(item int8) string { return nameOf(k.group(item)) }
		o.GroupsFirst = k.groupsFirst
		if k.weights {
			o.Weight = func(group string) int { return int(k.weight(number(group))) }
		}
		if k.limits {
			o.MaxInFlight = func(group string) int { return int(k.limit(number(group))) }
		}
	}
	return ordered{workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{Order: o}), k}
}

func (k shape) String() string {
	words := []string{"priorities"}
	for _, one := range []struct {
		has  bool
		word string
	}{
		{k.asks, "a function for them"},
		{k.every > 0, fmt.Sprint("the oldest every ", k.every)},
		{k.groups > 0, fmt.Sprint(k.groups, " groups")},
		{k.weights, "weights"},
		{k.limits, "limits"},
		{k.groupsFirst, "groups first"},
	} {
		if one.has {
			words = append(words, one.word)
		}
	}
	return strings.Join(words, ", ")
}

// orders are queues with an Order of each shape.
func orders() (all []implementation) {
	shapes := []shape{{}, {every: 1}, {every: 3, asks: true}}
	for i := range 16 {
		k := shape{groups: 3, weights: i&1 > 0, limits: i&2 > 0, groupsFirst: i&4 > 0, asks: i&3 == 1}
		if i&4 > 0 {
			k.groups = 2 // of three items each, which their priorities order
		}
		if i&8 > 0 {
			k.every = 2 + int8(i&1)
		}
		shapes = append(shapes, k)
	}
	for _, k := range shapes {
		all = append(all, implementation{name: k.String(), open: func() queue { return newOrdered(k) }})
	}
	return all
}

// shapeOf returns the shape of a queue. Other queues than the ordered take priorities too, but the
// tests name none there, so that some histories are those of a FIFO.
func shapeOf(q queue) shape {
	if q, ok := q.(ordered); ok {
		return q.shape
	}
	return shape{}
}
