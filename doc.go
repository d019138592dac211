// Package workqueue provides the queue at the heart of a controller: a program
// that watches a source of truth and works off keys until the world matches
// it. Event handlers add keys, workers get them, and a key whose work failed
// is added again after a while.
//
// It is a drop-in for k8s.io/client-go/util/workqueue. What it guarantees:
//
//   - Items are handed out in the order in which they were added.
//   - An item that is added several times before a worker gets it is handed
//     out once.
//   - No two workers hold the same item at a time. An item that is added while
//     a worker holds it is handed out again once that worker is done: after the
//     last Add of an item some worker gets it.
//   - Any number of producers and workers may call a queue at the same time.
//   - A delayed item is never added early, and never waits for room.
//   - A shutdown hands out what has been accepted and ends all waits.
//   - A queue at rest has no goroutine, and gives back the memory that a burst
//     has taken.
//
// # Queues and layers
//
// [Typed] is the FIFO. [TypedDelaying] adds AddAfter on top of it, and
// [TypedRateLimiting] adds AddRateLimited on top of that, with the time that a
// [TypedRateLimiter] says. Each layer talks to the one below through an
// interface, so that each can be replaced: the order of the FIFO by a [Queue]
// in [TypedQueueConfig], the FIFO by a [TypedInterface] in
// [TypedDelayingQueueConfig], the delaying queue by a [TypedDelayingInterface]
// in [TypedRateLimitingQueueConfig]. Most controllers want
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
// many failures behind it:
//
//	return nil               when it is added
//	return err               after the time that the limiter says, with one more
//	panic, runtime.Goexit    the same
//	return RequeueAfter(d)   after d, with none
//	return Permanent(err)    when it is added, with none; it is reported
//
// An item that is added while it is handled comes again at once in any case. An
// item is also given up, and reported, when it has failed MaxAttempts times in
// a row. One that is given up is handed out again after the next Add.
//
// When the context ends, no more items are handed out, the contexts of handlers
// end at once or after a grace period, the queue is shut down, and Run returns
// with the last worker. Its error names what is left. Handlers that fail by
// then are left too: nothing retries them.
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
// Done of an item that nobody holds changes nothing, and neither does Add
// after a shutdown. Whether an item waits in a delaying queue is independent
// of these states: when its time comes, that is an Add.
//
// Whoever got an item must call Done, also when its work has panicked; a
// deferred call is the way. Until then the item is not handed out again and a
// drain does not end.
//
// An item that is not equal to itself, such as a NaN, is never a duplicate and
// cannot be named by Done. It is handed out once for each Add and is idle from
// then on.
//
// # What blocks
//
// Get blocks while the queue is empty and not shut down, GetContext until its
// context ends at the latest. ShutDownWithDrain blocks until the work is done,
// Drain until its context ends at the latest.
// ShutDown waits for the queue's own goroutine, which is soon. Nothing else
// blocks but on the queue's lock, and that is held only for constant or
// logarithmic time, but for two things that are amortized: the line of queued
// items, of 4 bytes each, is copied when it doubles, and what is left of the
// items is copied, at some 10 ns for each that there were at most, when that
// has fallen to a sixteenth. A Snapshot is as long as its limit.
//
// # Delays
//
// AddAfter takes effect before it returns: the item waits, due at a time on
// the queue's clock, or is queued if that is not in the future. An item waits
// once: of several calls the earliest due time counts. Items due at the same
// time are queued in the order of their AddAfter. An Add of a waiting item
// queues it now and leaves it waiting, so that it is handed out twice.
//
// Due items are added by a goroutine that exists while something waits, and by
// calls of AddAfter and its like that find it behind. It looks at the clock
// after at most 10 seconds, whatever happened to its timer, so that a clock
// which jumps is noticed. A duration that would end beyond the 292 years of a
// [time.Duration] saturates there.
//
// # Taking back and putting off
//
// Beside the four states of its life an item waits or does not. What a call
// does to either:
//
//	                idle      waiting          queued         in flight       in flight, again
//	Add             queued    queued, waiting  -              again           -
//	AddAfter        waiting   the earlier due  also waiting   also waiting    also waiting
//	Reschedule      waiting   the new due      also waiting   also waiting    also waiting
//	Debounce        waiting   put off          also waiting   also waiting    also waiting
//	Remove          -         idle             idle           -               in flight
//	ShutDown, Drain -         idle             -              -               -
//
// An item that is both, such as queued and waiting, has both columns: Remove
// takes it out of both, and AddAfter leaves it queued. A worker keeps what it
// holds, whatever is called.
//
// Some calls end the wait of an item and add it now: Reschedule and Debounce
// with a duration that is not positive, and Add, AddAll and AddAfter with none
// if AddCancelsWaiting is set in the config. Then the item is not handed out a
// second time when it would have been due.
//
// Debounce puts off only what Debounce brought in. The time of an AddAfter, an
// AddRateLimited or a Reschedule is when the item comes at the latest, before
// and after a Debounce, until it is replaced by a Reschedule.
//
// All of it takes effect before the call returns, and each item is in one place
// at any time: what Remove does not find will not be handed out on account of
// an earlier call. The exception are due items on the way to a queue below that
// was configured, and is not a [Typed] without a [Queue].
//
// # What is limited by what
//
// A rate limiter spaces the retries of a queue. It does not limit the work:
// that is up to the number of workers, and what is added by Add does not pass
// it.
//
//	call             passes
//	Add, AddAll      nothing
//	AddAfter         nothing but its own duration
//	AddRateLimited   When of the limiter, whose wait goes to AddAfter
//	Forget           Forget of the limiter, and not the queue
//	Get, Done        nothing
//
// Each When counts, also of an item that waits already, for which the earlier
// time stays. Limiters differ in what they count, and for how long:
//
//	limiter                                    limits               knows an item
//	TypedItemExponentialFailureRateLimiter     each item            until Forget
//	TypedItemFastSlowRateLimiter               each item            until Forget
//	TypedItemBackoffRateLimiter                each item            until Forget
//	TypedBucketRateLimiter                     all, by calls        never
//	TypedKeyBucketRateLimiter                  all, by items        until its token is there
//	TypedMaxOfRateLimiter                      what its limiters do
//	TypedWithMaxWaitRateLimiter                what its limiter does, cut off
//	TypedExpiringRateLimiter                   what its limiter does, until it was idle
//
// Forget belongs to the success of an item and to giving it up, which includes
// that its object is gone. Without it the next failure is delayed as if it
// followed the last one, and most limiters remember the item for ever. It does
// not replace Done, and Done does not replace it. Before AddRateLimited it
// would make every failure the first one.
//
// [DefaultTypedControllerRateLimiter] is the default of most controllers, in
// numbers:
//
//   - An item waits 5 ms after its first failure and twice as long after each
//     further one: 40 ms after the 4th, 5 s after the 11th, 5 min 28 s after
//     the 17th, and 1000 s from the 19th on.
//   - All items together have 100 tokens and 10 more a second. Of 10,000 items
//     that fail at once the last waits (10,000 - 100) / 10 s, which is 16.5
//     minutes, for its first retry (kubernetes/kubernetes#104554).
//   - Each AddRateLimited takes a token, also for an item that waits anyway,
//     and none comes back (kubernetes-sigs/controller-runtime#1594).
//   - There is no jitter. Where the bucket does not take them apart, items that
//     fail together are tried again together.
//
// Other set-ups fit better where the numbers are known. The examples of the
// package have each of them in full:
//
//   - Many cheap keys: [TypedItemBackoffRateLimiter] with a Jitter of 1 and a
//     Cap of minutes, and a [TypedKeyBucketRateLimiter] with the rate that the
//     other side can take, joined by [NewTypedMaxOfRateLimiter]; around them a
//     [TypedExpiringRateLimiter] if keys can disappear while they fail.
//   - Few expensive keys: a [TypedItemBackoffRateLimiter] from some seconds to
//     some minutes, and no bucket.
//   - A server that says when to come back: AddAfter with its time. The limiter
//     is not asked, and so the failure does not count.
//
// What that makes of an outage of 10 minutes, of a dependency that serves 500
// calls a second to 10,000 keys afterwards, is the example named outage: with
// exponential waits all keys come back at the same time, and 500 of them get
// through every 1000 s, for 5 hours; with jitter there are never more than 47
// calls a second, and all are done in 11 minutes; with the default limiter in
// 17 minutes, or 33 if each failure is reported twice; with the set-up for many
// cheap keys in 2 minutes.
//
// Limits can be changed in use: SetLimit and SetBurst of both buckets hold for
// tokens that are taken from then on. All limiters print themselves, with what
// they hold, by [fmt.Println] and the like.
//
// # Retries without a queue
//
// [Backoff], [BackoffUntil] and their like are those of
// k8s.io/apimachinery/pkg/util/wait, to which they convert. They differ as
// follows:
//
//   - No interval is negative: a negative duration or factor counts as zero,
//     as does a factor that is not a number, and what exceeds the range of a
//     [time.Duration] is its maximum.
//   - No wait of [NewExponentialBackoffManager] exceeds its maximum, as is
//     documented there, but the first one does there, and jitter does. Jitter
//     takes place below the maximum. In [Backoff], where the Cap is documented
//     to hold for the interval without jitter, it does so here too.
//   - A timer that is set anew forgets a tick that nobody has received.
//   - A panic of the function that is run reaches the caller. There it is
//     logged on its way.
//   - The panic about a nil clock, manager or function says so.
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
// queued, in flight and no longer waiting. Workers can go on with the first
// two.
//
// All three may be called any number of times, concurrently, in any order. When
// one returns, the queue has no goroutine left.
//
// # Metrics
//
// A queue with a name has metrics if there is a [MetricsProvider], in its
// config or else from [SetProvider]. Which one depends on the program:
//
//   - [NewPrometheusProvider] is the one that ships, for a registry that has no
//     metrics of work queues yet.
//   - [AdaptMetricsProvider] makes one of a provider that was written for
//     client-go, where the registry has its metrics and dashboards read them.
//     Neither Kubernetes' component-base nor controller-runtime exports its own.
//   - Any other [MetricsProvider] is told of each change, and of the work in
//     flight every 500 ms while there is any, by a goroutine. One that is a
//     [StateProvider] too is told nothing, and reads the queues when it likes.
//
// The series of the shipped provider have the prefix workqueue_ and the label
// name. These are those of Kubernetes:
//
//	depth                              items queued, or held and added again
//	adds_total                         Adds that were no duplicates
//	queue_duration_seconds             histogram of the time from Add to Get
//	work_duration_seconds              histogram of the time from Get to Done
//	unfinished_work_seconds            age of the work in flight, added up
//	longest_running_processor_seconds  age of the oldest of it
//	retries_total                      calls of AddAfter and AddRateLimited
//
// and these are new:
//
//	waiting                  items that wait for their time
//	in_flight                items that workers hold
//	oldest_item_age_seconds  how long the next item has been in line
//	duplicates_total         Adds of what was queued, or held and added again
//	rate_limited_total       calls of AddRateLimited, which follow failures
//	lateness_seconds         histogram of the time from due to queued
//	abandoned_total          items left at the end of queues, by their state
//
// A retry storm shows in rate_limited_total, as retries_total counts polling
// with AddAfter too. The oldest item is the one at the head of the line. Behind
// it there may be one that was added earlier, while a worker held it. If a
// [Queue] decides the order, it is the oldest of all, which shows what starves;
// to find it takes some 4 ns for each item queued. The label of abandoned_total
// is the state, queued, in_flight or waiting, and not the name, so that it
// outlives queues.
//
// All series of a queue are read when they are scraped, in one critical
// section of all its layers: they agree, to the item, and cost no goroutine.
// Layers that were constructed apart, and handed one to the next, are read one
// after the other, and should have the same name and provider.
//
// The series are there from the construction of a queue to its end, which is
// its ShutDown, or the end of its drain, so that one can watch what that waits
// for. Workers that go on after a ShutDown are no longer in them. A queue that
// is dropped without a shutdown loses its series when it is garbage collected,
// and items that wait keep it from that. Queues of the same name share their
// series: gauges are sums, or the greatest of the longest and oldest, and
// counters go on from where one of them has ended. A warning to [slog.Default]
// says so once, as it is mostly a mistake.
//
// # Foreign code
//
// Metrics, rate limiters and clocks are called without a lock held: they may
// block, which delays only their caller, and may call the queue, though they
// must not shut it down. The methods of a custom [Queue] are called with the
// lock held and must do neither. With the shipped metrics provider an item
// passes without a call of it.
//
// A panic in foreign code reaches the caller of the queue, and leaves the
// queue as if the foreign code had returned: an item is neither lost nor
// handed out twice, no lock stays held, and a drain still ends. The exception
// is Get, which did not return an item and so puts it back at the head. On the
// goroutines of a queue, which add delayed items and set the gauges of work in
// flight, there is no caller: the panic ends the program, as it would on any
// other goroutine, and the first of the two logs it. Metrics that were not
// observed because of a panic are not made up for.
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
// client-go's interfaces, and back.
//
// The behaviour is that of client-go too, except where that contradicts its
// documentation:
//
//   - ShutDownWithDrain waits for queued items as well as for those in flight
//     (kubernetes/kubernetes#141079).
//   - Done of an item that nobody holds is ignored; there it could queue the
//     item twice and give it to two workers (kubernetes/kubernetes#79934).
//   - Of several concurrent calls of ShutDownWithDrain all return.
//   - ShutDown ends a drain also if it is not the first ShutDown of a delaying
//     queue.
//   - Both shutdowns of a delaying queue end its goroutine before they return,
//     and no AddAfter stays blocked behind them (kubernetes/kubernetes#134323).
//   - AddAfter takes effect before it returns and never blocks; there it hands
//     over to a goroutine through a channel of 1000.
//   - A flood of AddAfter does not delay items that are due.
//   - Items due at the same time are added in the order of their AddAfter.
//   - Delays of the exponential limiter saturate; there one of them, for a base
//     of a power of two nanoseconds, is negative.
//   - SetProvider may race with constructors.
//   - Memory is given back after a burst (kubernetes/kubernetes#116878).
//   - A metric that panics loses no item, and one that calls the queue does not
//     deadlock, as metrics are observed without the lock.
//   - An item that differs from itself does not keep a drain from ending, and
//     one that cannot be hashed panics in AddAfter, there on a goroutine of the
//     queue.
//   - A panic on the goroutine of a delaying queue is logged and ends the
//     program, whatever the state of a global switch.
//   - Goroutines: none for a queue at rest, one while something waits. There it
//     is two for each delaying queue with metrics, at all times.
//   - Negative delays in the constructor of a limiter count as zero.
//   - A panic about a nil rate limiter, bucket, clock or function, or about a
//     negative number of workers, says so. It never comes earlier than there.
//   - The series of the shipped metrics provider go with their queue; there
//     they stay (kcp-dev/kcp#4007).
//   - Metrics never observe a negative duration; there they do when the clock
//     is set back. But a provider that is told each change can learn of a Get
//     before the Add, as two goroutines tell it, neither of them with the lock:
//     for a moment the depth is -1.
//   - The 32 deprecated names are marked such that tools see all of them.
//
// # Looks wrong, but is intended
//
//   - Add of an item that waits does not cancel the wait, and AddAfter with no
//     delay leaves an earlier wait in place: client-go's callers rely on the
//     second run.
//   - Drain returns nil although waiting items were dropped: no shutdown waits
//     for them, and a DrainError is for what it did not get done.
//   - Workers are not woken one for each item, see the comment on Typed.wake:
//     the first to arrive wakes the next.
//   - The retries metric counts every AddAfter, also those that no failure
//     caused, since existing dashboards do.
//   - Len leaves out items that will be queued by their Done.
package workqueue
