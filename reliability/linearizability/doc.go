// Package linearizability holds tests that record what concurrent callers of a
// queue have seen, and look for an order of the calls, each at one instant
// between its start and its return, in which a queue that is used by one
// goroutine would have answered the same. If there is none, the queue has let
// its callers see something that the package comment of workqueue rules out.
//
// The checker is porcupine. It looks at schedules that have happened and not at
// all that can happen, so the tests run many short histories; HISTORIES in the
// Makefile says how many.
package linearizability
