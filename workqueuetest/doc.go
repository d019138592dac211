// Package workqueuetest is for tests of code with a queue: event handlers, the handlers of
// [workqueue.Run], and whole controllers.
//
//   - [Handle] calls a handler once, as Run does, and returns the calls of the queue that follow.
//   - [New] returns a real queue that records each call, for Run and for workers of your own.
//   - [Queue.WaitIdle] and [Queue.WaitEmpty] wait until the work is done, without polling.
//
// Tests of delays and retries belong into a bubble of testing/synctest, where an hour
// passes as soon as all goroutines wait. A queue of this module works in a bubble with the
// real clock. docs/testing.md has the code.
package workqueuetest
