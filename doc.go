// Package workqueue provides a queue of keys for controllers and for services that
// work in the background. Event handlers or requests add keys, workers get them, and a
// key whose work failed is added again after a while. The state of the world, or the
// payload, stays in a store. An item is a key of any comparable type.
//
// The package is a drop-in for k8s.io/client-go/util/workqueue. It guarantees:
//
//   - Items are handed out in the order in which they were queued. A higher
//     priority comes first, and an [Order] in the config can decide otherwise.
//   - An item added several times before a worker gets the item is handed out
//     once.
//   - No two workers hold the same item at a time. An item added while a worker
//     holds the item is handed out again after the Done of the worker: after the
//     last Add of an item, some worker gets the item.
//   - Any number of producers and workers may call a queue at the same time.
//   - A delayed item is never added early, also when an injected clock is set
//     back.
//   - After a ShutDown, workers still get the queued items, except those of a group on [HoldBack],
//     and then every Get returns. The workers of a full group get its items. Delayed items are dropped.
//   - A queue without delayed items and without items at work has no goroutine.
//     An empty queue has given back the memory of a burst.
//   - A panic in foreign code, such as a metric or a limiter, loses no item and
//     leaves no lock held.
//
// # Index by task
//
//   - Work off keys, with retries: [NewTypedRateLimiting], [Run], [RunOptions].
//   - Come again later, or never: [RequeueAfter], [RetryAfter], [Requeue], [Permanent].
//   - Urgent items, in any queue: [AddOptions]. Fair turns, limits for groups: [Order].
//   - At most so many a second: Pace and ItemPace of [TypedRateLimitingQueueConfig].
//   - Delay, put off, take back: [TypedDelaying.AddAfter], [TypedDelaying.Reschedule],
//     [TypedDelaying.Debounce], [TypedDelaying.Wake], [TypedRateLimiting.Remove].
//   - Not before a time, whatever adds come: [DeferFor], Firm of [AddOptions].
//   - Wait for the work, and end: [TypedRateLimiting.Barrier], [TypedRateLimiting.WaitEmpty],
//     [TypedRateLimiting.Drain].
//   - Look inside: [TypedRateLimiting.Snapshot], [TypedRateLimiting.Items], the package debugpage.
//   - Metrics: [SetProvider], [NewPrometheusProvider], [AdaptMetricsProvider].
//   - Tests of such code: the package workqueuetest, and testing/synctest.
//
// This page is the contract. Its tables are in
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/semantics.md (each call in each
// state, what a handler returns, all that blocks),
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/ordering.md (an Order), and
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/differences.md (each difference
// from client-go). All pages: https://github.com/seed16c08ea7/workqueue/blob/main/docs/README.md.
//
// # Queues and layers
//
// [Typed] is the queue itself. On top of a Typed, [TypedDelaying] adds AddAfter. On
// top of a delaying queue, [TypedRateLimiting] adds AddRateLimited, with delays from
// a [TypedRateLimiter]. The layers below can be replaced: the Typed by a
// [TypedInterface] in [TypedDelayingQueueConfig] or [TypedRateLimitingQueueConfig], the
// delaying queue by a [TypedDelayingInterface] in the latter. Most controllers want
// [NewTypedRateLimiting]. The constructors of client-go for delaying and rate
// limiting queues return interfaces with client-go's methods only: no GetContext, Drain,
// Snapshot or Remove.
//
// A queue with a Name has metrics if its config, or [SetProvider], has a
// [MetricsProvider]: [NewPrometheusProvider], [AdaptMetricsProvider] for a provider
// written for client-go, or a provider of your own.
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
// item succeeds or is given up: otherwise most limiters remember the item for ever.
// Forget and Done do not replace each other.
//
// [Run] is the same loop with any number of workers, for a handler that may fail in
// any way. The end of a context ends the Run:
//
//	err := workqueue.Run(ctx, queue, sync, workqueue.RunOptions[string]{Workers: 4})
//
// If the handler returns nil, the item comes again after the next add. After an error or a
// panic the item is retried when the limiter says. [RetryAfter], [RequeueAfter],
// [DeferFor], [Requeue] and [Permanent] ask for something else. docs/semantics.md has the table of all
// results, under What a handler returns.
//
// When the context of Run ends, Run hands out no more items, shuts the queue down,
// and returns with its last worker. OnStop gets the items that are left. With
// EndDrain, Run first works off the queued items and the items that wait for a retry.
// EndKeep leaves the queue open.
//
// # The life of an item
//
// Items are compared by ==, like the keys of a map. For the queue, an item is in
// one of four states:
//
//	idle              the queue does not know the item
//	queued            in line for a worker
//	in flight         held by a worker
//	in flight again   in flight, and added again since
//
// and three calls move the item:
//
//	        idle     queued      in flight         in flight again
//	Add     queued   queued      in flight again   in flight again
//	Get              in flight
//	Done    idle     queued      idle              queued
//
// Done of an item that nobody holds changes nothing, nor does Add after a shutdown.
// In each state an item can also wait for a time. At the end of the wait the item is
// added. Of several calls of AddAfter the earliest time counts. No Add ends a firm wait, see
// [AddOptions], and Wake ends any wait. Remove and RemoveFunc remove items. WaitIdle,
// WaitEmpty and Barrier wait for the work.
//
// # Shutdown
//
// ShutDown, ShutDownWithDrain and Drain make the queue ignore Add, AddAfter and
// similar calls from then on. Workers still get the queued items, and the items that
// were added again before the shutdown and are queued by their Done. A Get that finds nothing to
// hand out reports the shutdown. Waiting items are dropped. ShutDown returns at once, ShutDownWithDrain
// when nothing is queued and nothing is held. ShutDown ends the wait of every
// ShutDownWithDrain.
//
// Drain is ShutDownWithDrain with a context. If items are left when the context or a
// ShutDown ends the drain, the error is a [DrainError] with the queued items, the items in
// flight, and the items that waited when the Drain began. The three methods may be called any
// number of times, concurrently, in any order.
//
// # Memory ordering
//
// In the terminology of the Go memory model, an Add synchronizes before the return of
// the Get that hands the item out because of the Add. A Done synchronizes before the
// return of the next Get of the same item, and before the return of a WaitIdle, WaitEmpty,
// Barrier or Drain that waited for the Done.
//
// # Differences from client-go
//
// The API is that of client-go v0.37.2. A changed import path is enough unless a
// signature of another package names a type of client-go. The behaviour is the same,
// except where client-go contradicts its own documentation.
package workqueue
