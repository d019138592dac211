package workqueue

import (
	"container/heap"
	"slices"
)

// earliest returns the nodes that come first in the order of pop, at most
// limit. It looks at the children of those and no others, as the next one is
// among the children of those before it.
func (a *agenda[T]) earliest(limit int) []node {
	if limit >= a.len() {
		return a.sorted()
	}
	nodes := make([]node, 0, max(0, limit))
	if limit <= 0 {
		return nodes
	}
	next := frontier{*a.nodes.at(0)}
	for len(nodes) < limit {
		n := heap.Pop(&next).(node)
		nodes = append(nodes, n)
		from := heapArity*a.items.records.at(n.ref).pos + 1
		for c := from; c < min(from+heapArity, uint32(a.nodes.n)); c++ {
			heap.Push(&next, *a.nodes.at(c))
		}
	}
	return nodes
}

// A frontier is a [heap.Interface] of nodes.
type frontier []node

func (f frontier) Len() int { return len(f) }

func (f frontier) Less(i, j int) bool { return f[i].before(f[j]) }

func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

func (f *frontier) Push(n any) { *f = append(*f, n.(node)) }

func (f *frontier) Pop() any {
	last := len(*f) - 1
	n := (*f)[last]
	*f = (*f)[:last]
	return n
}

// sorted returns all nodes in the order of pop.
func (a *agenda[T]) sorted() []node {
	nodes := make([]node, 0, a.nodes.n)
	for p := range uint32(a.nodes.n) {
		nodes = append(nodes, *a.nodes.at(p))
	}
	slices.SortFunc(nodes, node.compare)
	return nodes
}
