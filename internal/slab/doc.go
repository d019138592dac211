// Package slab has the containers that the queues are made of. They name what they hold by
// an index of 32 bits, which costs half of a pointer and is nothing that the garbage
// collector follows, and they give memory back when they are mostly empty.
//
//	Table    records, found by their items
//	Pages    a vector that grows without moving what it holds
//	Ledger   a set of items with a note on each
//	Heap     elements that know their place
//	Ring     a FIFO in a circular buffer
//
// None of them is safe for concurrent use, and the zero value of each is empty.
package slab
