// Package slab has the containers of the queues. A container names its elements by an index
// of 32 bits: the index costs half of a pointer, and the garbage collector does not follow
// it. A container that is mostly empty gives memory back.
//
//	Table    records, found by their items
//	Pages    a vector that grows without moving its elements
//	Ledger   a set of items with a note on each
//	Heap     elements that know their place
//	Ring     a FIFO in a circular buffer
//
// No container is safe for concurrent use. The zero value of each container is empty.
package slab
