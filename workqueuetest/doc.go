// Package workqueuetest helps to test what works with a queue: event handlers that add
// keys, handlers that [workqueue.Run] calls, and whole controllers.
//
//   - [Handle] calls a handler once, as Run does, and returns what becomes of the item.
//   - [New] returns a queue that notes each call, and is a queue all the same: Run, and
//     workers of your own, work on it.
//   - [Queue.WaitIdle] and [Queue.WaitEmpty] wait until the work is done, without
//     asking again and again.
//
// Tests of delays and retries belong into a bubble of testing/synctest, where an hour
// passes as soon as all goroutines wait. A queue of this module works in one as it is,
// with the real clock. docs/testing.md has all this with code.
package workqueuetest
