// Package linearizability holds tests that record the calls of concurrent
// goroutines to a queue, and the answers. The tests look for an order of the calls,
// each at an instant between its start and its return, in which a queue with a
// single caller would have answered the same. Without such an order, the queue has
// let its callers see something that the package comment of workqueue rules out.
//
// The checker is porcupine. A test checks schedules that have happened, and not all
// possible schedules, so the tests run many short histories: HISTORIES in the
// Makefile is their number.
package linearizability
