// Package workqueue provides the queue at the heart of a controller: a program
// that watches a source of truth and works off keys until the world matches
// it. Event handlers add keys, workers get them, and a key whose work failed
// is added again after a while.
//
// It is a drop-in for k8s.io/client-go/util/workqueue. It guarantees:
//
//   - Items are handed out in the order in which they were added, unless an
//     Order in the config of the queue decides otherwise.
//   - An item that is added several times before a worker gets it is handed
//     out once.
//   - No two workers hold the same item at a time. An item that is added while
//     a worker holds it is handed out again once that worker is done: after the
//     last Add of an item some worker gets it.
//   - Any number of producers and workers may call a queue at the same time.
//   - A delayed item is never added early, also when an injected clock is set
//     back. It never waits for room.
//   - A shutdown hands out what has been accepted and ends all waits.
//   - A queue at rest has no goroutine, and gives back the memory that a burst
//     has taken.
//
// This page is the contract. Two pages have the tables behind it.
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/semantics.md says what
// each call does in each state, and what limiters and series mean.
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/differences.md has each
// difference from client-go, and the test that shows it. Beside them are ordering.md,
// migrating.md and testing.md.
//
// # Queues and layers
//
// [Typed] is the FIFO. [TypedDelaying] adds AddAfter on top of it, and
// [TypedRateLimiting] adds AddRateLimited on top of that, with the time that a
// [TypedRateLimiter] says. Each layer calls the one below through an interface,
// so each can be replaced: the FIFO by a [TypedInterface] in
// [TypedDelayingQueueConfig], the delaying queue by a [TypedDelayingInterface]
// in [TypedRateLimitingQueueConfig]. An Order is a [Queue], such as those of
// [NewPriorityQueue] and [NewFairQueue]. Most controllers want
// [NewTypedRateLimiting]. The constructors that client-go has return interfaces,
// which have only client-go's methods: no GetContext, Drain, Snapshot or Remove.
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
// # The worker loop
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
// An item that is added while it is handled comes again at once in any case, and with
// CancelOnReAdd that ends the context of its handler. An item that has failed
// MaxAttempts times in a row is given up and reported.
//
// When the context of Run ends, no more items are handed out, the contexts of
// handlers end at once or after a grace period, the queue is shut down, and Run
// returns with the last worker. OnStop is told what is left, by name. Drain works off
// what is queued or waits for a retry first. KeepQueue leaves the queue open.
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
// In each of these states an item can wait for a time as well. Then it is added.
//
// Whoever got an item must call Done, also when its work has panicked: defer the
// call. Until then the item is not handed out again and a drain does not end.
//
// An item that is not equal to itself, such as a NaN, is never a duplicate. Done
// cannot name it: it is handed out once for each Add and is idle from then on.
//
// # What blocks
//
// Get blocks while the queue is empty and not shut down; GetContext ends with its
// context as well. With a custom [Queue], Get blocks while its Len is zero, and looks
// again after the next Push or Touch. ShutDownWithDrain blocks until the work is done,
// and Drain until its context ends at the latest. All shutdowns wait for the queue's
// own goroutine, which ends at once unless foreign code keeps it.
//
// All other calls wait only for the queue's lock. Most hold it for constant or
// logarithmic time. These hold it for longer:
//
//   - When the line of queued items has no room, it doubles: 4 bytes an item are
//     copied.
//   - When the number of items falls below a sixteenth of its maximum, those left
//     are copied. This takes some 10 ns for each item of the maximum.
//   - AddAll adds all of its items, and due items are added 32 at a time. A worker
//     is woken at the end.
//   - A Snapshot copies items in proportion to its limit, some 20 ns each, and
//     sorts them without the lock. So does a Drain whose context has ended.
//   - A scrape looks at each item in flight. With a custom [Queue], a scrape and a
//     Snapshot look at each queued item too.
//
// # Delays
//
// AddAfter takes effect before it returns: the item waits, due at a time on
// the queue's clock, or is queued if that is not in the future. An item waits
// once: of several calls the earliest due time counts. Items due at the same
// time are queued in the order of their AddAfter. An Add of a waiting item queues
// it now. It goes on waiting, and so is handed out twice. With OneEntry in the config
// an item is queued or waits, and never both.
//
// Due items are added by a goroutine that exists while something waits, and by
// calls of AddAfter and its like that find it behind. It looks at the clock
// after at most 10 seconds, so that it notices a clock that jumps. A duration that
// would end beyond the 292 years of a [time.Duration] ends there.
//
// Reschedule replaces the due time of an item. Debounce(item, quiet, most) puts
// the item off until there was no such call for the time quiet, but never beyond
// the time most after the first of them. If most is zero or negative, there is no
// maximum. Remove takes an item back wherever it is queued or waits. A worker
// keeps what it holds, whatever is called.
//
// # Rate limiters
//
// A rate limiter spaces the retries of a queue, and nothing that is added by Add
// or AddAfter. It does not limit the work: that is up to the number of workers.
//
// Call Forget when an item succeeds, and when it is given up. Without it the next
// failure is delayed as if it followed the last one, and most limiters remember
// the item for ever. Forget and Done do not replace each other.
//
// # Retries without a queue
//
// [Backoff], [BackoffUntil] and their like are those of
// k8s.io/apimachinery/pkg/util/wait, and convert to them.
//
// # Shutdown
//
// ShutDown, ShutDownWithDrain and Drain make the queue ignore Add, and AddAfter
// and its like, from then on. Workers still get what is queued, including items
// that are added again at their Done because they had been before the shutdown;
// then Get reports the shutdown. Items that wait for their time are dropped.
// ShutDownWithDrain returns when nothing is queued and nothing is held,
// ShutDown at once, and it ends the wait of every ShutDownWithDrain.
//
// Drain is ShutDownWithDrain with a context. If that ends first, or ShutDown
// ends the drain, the error is a [DrainError] that names the items which are
// queued, in flight and no longer waiting. Workers can go on with the first two.
// Drain ends with its context even while a metric, a clock or a queue below keeps
// a goroutine of the queue.
//
// All three may be called any number of times, concurrently, in any order. When one
// returns, the queue has no goroutine left, except one that foreign code keeps while a
// Drain gives up: it ends when the foreign code returns.
//
// # Metrics
//
// A queue with a name has metrics if there is a [MetricsProvider], in its
// config or else from [SetProvider]:
//
//   - [NewPrometheusProvider] ships. It reads a queue when it is scraped, in one
//     critical section: the series agree, and cost no goroutine.
//   - [AdaptMetricsProvider] takes a provider that was written for client-go.
//   - Any other [MetricsProvider] is told of each change, and by a goroutine of
//     the work in flight, every 500 ms while there is any. One that is a
//     [StateProvider] too is told nothing, and reads the queues when it likes.
//
// The series of the shipped provider begin with workqueue_ and have the label
// name, abandoned_total the label state. The first seven are Kubernetes' own:
//
//	depth                              items queued, or held and added again
//	adds_total                         Adds that were no duplicates
//	queue_duration_seconds             histogram of the time from Add to Get
//	work_duration_seconds              histogram of the time from Get to Done
//	unfinished_work_seconds            age of the work in flight, added up
//	longest_running_processor_seconds  age of the oldest of it
//	retries_total                      calls of AddAfter and AddRateLimited
//	waiting                            items that wait for their time
//	in_flight                          items that workers hold
//	oldest_item_age_seconds            how long the next item has been in line
//	duplicates_total                   Adds of what was queued, or added again
//	rate_limited_total                 calls of AddRateLimited, which follow failures
//	rate_limit_delay_seconds           histogram of what the limiter said for them
//	results_total                      items handled by Run, by result
//	lateness_seconds                   histogram of the time from due to queued
//	abandoned_total                    items left at the end of queues, by state
//
// They go at the ShutDown of their queue, or at the end of its drain. With an
// order there are three more, by priority and by group: see docs/semantics.md.
//
// # Foreign code
//
// Metrics, rate limiters, clocks, and the contexts of Run and GetContext are called
// without a lock held. They may block, which delays only their caller, and call
// the queue, but must not shut it down. The methods of a custom [Queue] are called
// with the lock held and must do neither.
//
// A panic in foreign code reaches the caller of the queue, and leaves the queue
// as if the foreign code had returned: an item is neither lost nor handed out
// twice, no lock stays held, and a drain still ends. There are two exceptions. A
// Get did not return its item and so puts it back at the head. A goroutine of the
// queue has no caller: the panic is logged, unless it is in a gauge, and ends the
// program. Metrics that were not observed because of a panic are not made up for.
//
// # Memory ordering
//
// In the terminology of the Go memory model, an Add synchronizes before the
// return of the Get that hands the item out on its account, and a Done
// synchronizes before the return of the next Get that hands out the same item.
// So what a producer writes before Add, and what a worker writes before Done,
// is seen by the next worker that holds the item, without a lock of its own.
//
// # Differences from client-go
//
// The API is that of client-go v0.37.2. A changed import path is enough unless a
// signature of another package names a type of client-go: a function type, an
// interface to implement, a config. Queues and limiters are assignable to
// client-go's interfaces, and back. The behaviour is that of client-go, except
// where that contradicts its own documentation: docs/differences.md has the list.
package workqueue
