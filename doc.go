// Package workqueue provides the queue at the heart of a controller: a program
// that watches a source of truth and works off keys until the world matches
// it. Event handlers add keys, workers get them, and a key whose work failed
// is added again after a while.
//
// It is a drop-in for k8s.io/client-go/util/workqueue. It guarantees:
//
//   - Items are handed out in the order in which they were added. A higher
//     priority comes first, and an [Order] in the config can decide otherwise.
//   - An item that is added several times before a worker gets it is handed
//     out once.
//   - No two workers hold the same item at a time. An item that is added while
//     a worker holds it is handed out again once that worker is done: after the
//     last Add of an item some worker gets it.
//   - Any number of producers and workers may call a queue at the same time.
//   - A delayed item is never added early, also when an injected clock is set
//     back.
//   - A shutdown hands out what has been accepted and ends all waits.
//   - A queue at rest has no goroutine, and gives back the memory of a burst.
//   - A panic in foreign code, such as a metric or a limiter, loses no item and
//     leaves no lock held.
//
// This page is the contract. These pages have the tables behind it:
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/semantics.md says what
// each call does in each state, what blocks, and what limiters and metrics mean,
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/ordering.md what an Order
// does, and https://github.com/seed16c08ea7/workqueue/blob/main/docs/differences.md
// lists each difference from client-go with its test.
//
// # Queues and layers
//
// [Typed] is the queue itself. [TypedDelaying] adds AddAfter on top of it, and
// [TypedRateLimiting] adds AddRateLimited on top of that, with the time that a
// [TypedRateLimiter] says. Each layer calls the one below through an interface,
// so each can be replaced: the Typed by a [TypedInterface] in
// [TypedDelayingQueueConfig], the delaying queue by a [TypedDelayingInterface]
// in [TypedRateLimitingQueueConfig]. Most controllers want [NewTypedRateLimiting].
// The constructors that client-go has return interfaces, which have only
// client-go's methods: no GetContext, Drain, Snapshot or Remove.
//
// AddWith gives an add a priority, in any queue. With an [Order], groups of items
// take turns, have a limit in flight, or the oldest item is handed out now and then.
//
// A queue with a Name has metrics if its config, or [SetProvider], has a
// [MetricsProvider]: [NewPrometheusProvider], [AdaptMetricsProvider] for a provider
// that was written for client-go, or one of your own.
//
// # The worker loop
//
// A worker is a loop around three calls:
//
//	func work(queue *workqueue.TypedRateLimiting[string]) {
//		for {
//			key, shutdown := queue.Get()
//			if shutdown {
//				return
//			}
//			if err := sync(key); err != nil {
//				queue.AddRateLimited(key)
//			} else {
//				queue.Forget(key)
//			}
//			queue.Done(key)
//		}
//	}
//
// Whoever got an item must call Done, also when the work has panicked. Until then
// the item is not handed out again and a drain does not end. Call Forget when an
// item succeeds, and when it is given up: most limiters remember it for ever
// otherwise. Forget and Done do not replace each other.
//
// [Run] is this loop with any number of workers, for a handler that may fail in
// any way and a context that ends it:
//
//	err := workqueue.Run(ctx, queue, sync, workqueue.RunOptions[string]{Workers: 4})
//
// What the handler does decides when the item is handed out again, and with how
// many failures counted:
//
//	return nil                 when it is added
//	return err                 after the time that the limiter says, with one more
//	panic, runtime.Goexit      the same
//	return RetryAfter(d, err)  after d, with one more
//	return RequeueAfter(d)     after d, with none
//	return Requeue()           after the time that the limiter says, with as many
//	return Permanent(err)      when it is added, with none; it is reported
//
// When the context of Run ends, Run hands out no more items, shuts the queue down,
// and returns with its last worker. OnStop is told what is left, by name. With Drain,
// Run first works off what is queued or waits for a retry. KeepQueue leaves the queue
// open.
//
// # The life of an item
//
// Items are compared by ==, as the keys of a map are. To the queue an item is
// in one of four states:
//
//	idle         the queue does not know it
//	queued       in line for a worker
//	processing   held by a worker
//	reprocess    held by a worker, and added again since
//
// and these calls move it:
//
//	        idle     queued       processing   reprocess
//	Add     queued   queued       reprocess    reprocess
//	Get              processing
//	Done    idle     queued       idle         queued
//
// Done of an item that nobody holds changes nothing, nor does Add after a shutdown.
// In each of these states an item can wait for a time as well. Then it is added. Of
// several calls of AddAfter the earliest time counts. Remove takes an item back
// wherever it is queued or waits.
//
// # Shutdown
//
// ShutDown, ShutDownWithDrain and Drain make the queue ignore Add, AddAfter and
// their like from then on. Workers still get what is queued, including items that
// their Done queues because they were added again before the shutdown; then Get
// reports the shutdown. Items that wait for their time are dropped.
// ShutDownWithDrain returns when nothing is queued and nothing is held, ShutDown at
// once, and ShutDown ends the wait of every ShutDownWithDrain.
//
// Drain is ShutDownWithDrain with a context. If the context ends first, or ShutDown
// ends the drain, the error is a [DrainError] that names the items which are queued,
// in flight and no longer waiting. All three may be called any number of times,
// concurrently, in any order.
//
// # Memory ordering
//
// In the terminology of the Go memory model, an Add synchronizes before the return
// of the Get that hands the item out on its account, and a Done synchronizes before
// the return of the next Get that hands out the same item. So the next worker that
// holds an item sees what a producer has written before Add, and what a worker has
// written before Done, without a lock of its own.
//
// # Differences from client-go
//
// The API is that of client-go v0.37.2. A changed import path is enough unless a
// signature of another package names a type of client-go. The behaviour is that of
// client-go, except where that contradicts its own documentation: a drain waits for
// queued items, AddAfter never blocks, and a Done of an item that nobody holds does
// nothing, for example.
package workqueue
