package workqueue

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
)

// TypedRateLimitingInterface is a [TypedDelayingInterface] with delays from a rate limiter.
// [TypedRateLimiting] documents the methods.
type TypedRateLimitingInterface[T comparable] interface {
	TypedDelayingInterface[T]

	// AddRateLimited adds the item after the time that the limiter says.
	AddRateLimited(item T)

	// Forget makes the limiter forget the failures of the item. Forget does not replace
	// Done.
	Forget(item T)

	// NumRequeues returns how many failures of the item the limiter knows.
	NumRequeues(item T) int
}

// TypedRateLimitingQueueConfig are the options of a [TypedRateLimiting]. The
// zero value is valid.
type TypedRateLimitingQueueConfig[T comparable] struct {
	// Logger works as in [TypedDelayingQueueConfig].
	Logger *logr.Logger

	// Name labels the metrics. A queue without a name has no metrics.
	Name string

	// MetricsProvider makes the metrics. nil is the provider given to [SetProvider] before
	// the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock measures the delays; nil is the real clock.
	Clock clock.WithTicker

	// KeepTimes works as in [TypedQueueConfig].
	KeepTimes bool

	// Queue works as in [TypedDelayingQueueConfig].
	Queue TypedInterface[T]

	// DelayingQueue takes the items and their delays; nil is a [TypedDelaying] with the
	// options of this config. The rate limiting queue owns the DelayingQueue and shuts it
	// down. Beside a DelayingQueue, a constructor panics for the options that client-go does
	// not have: Queue, KeepTimes, OneEntry, Order, Pace, ItemPace and StrictBackoff. For Logger,
	// MetricsProvider and Clock only [NewTypedRateLimiting] panics: with the constructors of
	// client-go they have no effect. Name is the default name of a [Run], and nothing else.
	DelayingQueue TypedDelayingInterface[T]

	// OneEntry works as in [TypedDelayingQueueConfig].
	OneEntry bool

	// Order works as in [TypedDelayingQueueConfig].
	Order Order[T]

	// Pace works as in [TypedDelayingQueueConfig]. In contrast to the limiter, which delays
	// what AddRateLimited adds, Pace counts all hand-outs.
	Pace *rate.Limiter

	// ItemPace works as in [TypedDelayingQueueConfig]. The limiter of the queue counts failures, and
	// ItemPace counts hand-outs.
	ItemPace Rate

	// StrictBackoff makes the waits that the limiter says firm, see [AddOptions], and those after a failure
	// in [Run]: no Add cuts the backoff of an item short. A further AddRateLimited does not prolong the wait,
	// and a queued item stays queued. Otherwise a call for each event would put the item off without end.
	// StrictBackoff implies OneEntry.
	StrictBackoff bool
}

// TypedRateLimiting is a queue with AddRateLimited, on top of a delaying queue. The delay
// comes from a [TypedRateLimiter], the limiter. Forget and NumRequeues call the limiter too.
// All other methods call the delaying queue.
//
// Whoever calls AddRateLimited for an item should call Forget once the item has succeeded
// or been given up. Otherwise the limiter remembers the item for ever, and delays the next
// failure of the item as if it followed the last failure.
//
// The zero value is not usable. All methods may be called concurrently. A TypedRateLimiting
// must not be copied. Its owner must call ShutDown, ShutDownWithDrain or Drain. The limiter
// must be safe for concurrent use: it is called without a lock. A panic in the limiter
// reaches the caller, and the item is not added.
//
// The constructors of client-go accept a nil limiter. AddRateLimited, Forget, NumRequeues, AddWith
// with RateLimited and [Run] then panic. All other methods work, and a [Snapshot] and a
// [DrainError] have no failures.
//
// A configured delaying queue either has all methods of a [TypedDelaying], as a type that embeds one,
// or counts as a queue that has those of [TypedDelayingInterface] alone. GetContext, GetInfo, TryGet,
// Remove, Snapshot, ReAddContext, Reschedule, Debounce and the like then panic.
type TypedRateLimiting[T comparable] struct {
	queue   TypedDelayingInterface[T]
	limiter TypedRateLimiter[T] // may be nil
	metrics *delayMetrics       // the metrics of queue; nil for none
	name    string
	strict  mode   // modeFirm and modeOnce for StrictBackoff, or 0
	drains  drains // of a queue without Drain

	// sealed makes the methods that add ignore their calls, as after a ShutDown, while the
	// queue below stays open for the retries of a Run that drains.
	sealed seal

	// tallies is nil until a Run counts.
	tallies atomic.Pointer[tallies[T]]
}

// NewTypedRateLimitingQueue returns an empty rate limiting queue without name
// and metrics, which is a *[TypedRateLimiting].
func NewTypedRateLimitingQueue[T comparable](rateLimiter TypedRateLimiter[T]) TypedRateLimitingInterface[T] {
	return newRateLimiting(rateLimiter, TypedRateLimitingQueueConfig[T]{})
}

// NewTypedRateLimitingQueueWithConfig returns an empty rate limiting queue,
// which is a *[TypedRateLimiting]. As in client-go, Logger, MetricsProvider and Clock beside a
// DelayingQueue have no effect.
func NewTypedRateLimitingQueueWithConfig[T comparable](rateLimiter TypedRateLimiter[T], config TypedRateLimitingQueueConfig[T]) TypedRateLimitingInterface[T] {
	return newRateLimiting(rateLimiter, config)
}

// NewTypedRateLimiting returns an empty rate limiting queue. A nil limiter is
// [DefaultTypedControllerRateLimiter]. NewTypedRateLimiting panics if the config has a
// DelayingQueue and sets a field that then has no effect: any field but Name.
func NewTypedRateLimiting[T comparable](limiter TypedRateLimiter[T], config TypedRateLimitingQueueConfig[T]) *TypedRateLimiting[T] {
	if limiter == nil {
		limiter = DefaultTypedControllerRateLimiter[T]()
	}
	if config.DelayingQueue != nil {
		mustBeUnset("DelayingQueue", configField{"Logger", config.Logger != nil},
			configField{"MetricsProvider", config.MetricsProvider != nil}, configField{"Clock", config.Clock != nil})
	}
	return newRateLimiting(limiter, config)
}

// newRateLimiting accepts what client-go's constructors accept.
func newRateLimiting[T comparable](limiter TypedRateLimiter[T], config TypedRateLimitingQueueConfig[T]) *TypedRateLimiting[T] {
	q := &TypedRateLimiting[T]{queue: config.DelayingQueue, limiter: limiter, name: config.Name}
	if config.StrictBackoff {
		q.strict = modeFirm | modeOnce
	}
	if q.queue != nil {
		mustBeUnset("DelayingQueue", configField{"Queue", config.Queue != nil}, configField{"KeepTimes", config.KeepTimes},
			configField{"OneEntry", config.OneEntry}, configField{"Order", config.Order.isSet()}, configField{"Pace", config.Pace != nil},
			configField{"ItemPace", config.ItemPace != Rate{}}, configField{"StrictBackoff", config.StrictBackoff})
	} else {
		q.queue = NewTypedDelaying(TypedDelayingQueueConfig[T]{
			Logger:          config.Logger,
			Name:            config.Name,
			MetricsProvider: providerFor(config.Name, config.MetricsProvider),
			Clock:           config.Clock,
			KeepTimes:       config.KeepTimes,
			Queue:           config.Queue,
			OneEntry:        config.OneEntry || config.StrictBackoff,
			Order:           config.Order,
			Pace:            config.Pace,
			ItemPace:        config.ItemPace,
		})
	}
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		q.metrics = d.metrics
	}
	return q
}

func (q *TypedRateLimiting[T]) mustLimiter() TypedRateLimiter[T] {
	return mustLimiter(q.limiter, "TypedRateLimiting")
}

// AddRateLimited adds the item after the time that the limiter says. The limiter counts a
// failure of the item, also where nothing is added: after a shutdown, or while a [Run] drains the queue. A
// negative time means no wait. AddRateLimited does not block.
func (q *TypedRateLimiting[T]) AddRateLimited(item T) {
	d := max(0, q.mustLimiter().When(item))
	if !q.sealed.refuses(1) {
		q.limit(item, d, fifo.Rank{}, q.strict)
	}
}

// limit adds the item after the time d, which the limiter has said.
func (q *TypedRateLimiting[T]) limit(item T, d time.Duration, k fifo.Rank, m mode) (taken bool) {
	q.observeRetry(d, true)
	return q.addAfter(item, d, k, m)
}

// observeRetry observes how long a retry waits, and whether the limiter has said so.
func (q *TypedRateLimiting[T]) observeRetry(d time.Duration, limited bool) {
	if q.metrics != nil && !q.queue.ShuttingDown() {
		q.metrics.observeRetry(d, limited)
	}
}

// addAfter is AddAfter with a rank, and reports whether the item was taken, see addBelow.
// An add without a delay counts as a retry too, as in AddRateLimited.
func (q *TypedRateLimiting[T]) addAfter(item T, duration time.Duration, k fifo.Rank, m mode) (taken bool) {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		return d.addAfter(item, duration, k, m, fifo.WhyRetry)
	}
	if firm := m.has(modeFirm); k.Named || firm {
		return q.below("AddWith").AddWith(AddOptions{After: duration, Firm: firm, Priority: priorityOf(k)}, item) == 1
	}
	q.queue.AddAfter(item, duration)
	return true
}

// Forget makes the limiter forget the failures of the item, and makes [Run] forget the
// failures counted for MaxAttempts. A waiting item goes on waiting. Done is still owed for
// a held item.
func (q *TypedRateLimiting[T]) Forget(item T) {
	q.mustLimiter().Forget(item)
	if t := q.tallies.Load(); t != nil {
		t.failed.forgetAny(item)
	}
}

// NumRequeues returns how many failures of the item the limiter knows.
func (q *TypedRateLimiting[T]) NumRequeues(item T) int { return q.mustLimiter().NumRequeues(item) }

// AddAfter adds the item after the duration, see [TypedDelaying.AddAfter].
func (q *TypedRateLimiting[T]) AddAfter(item T, duration time.Duration) {
	if !q.sealed.refuses(1) {
		q.queue.AddAfter(item, duration)
	}
}

// Add adds the item now. A waiting item goes on waiting, unless OneEntry is set.
func (q *TypedRateLimiting[T]) Add(item T) {
	if !q.sealed.refuses(1) {
		q.queue.Add(item)
	}
}

// Len returns the number of queued items. Waiting items do not count.
func (q *TypedRateLimiting[T]) Len() int { return q.queue.Len() }

// Get returns a queued item, see [Typed.Get].
func (q *TypedRateLimiting[T]) Get() (item T, shutdown bool) { return q.queue.Get() }

// GetContext returns a queued item, see [TypedDelaying.GetContext].
func (q *TypedRateLimiting[T]) GetContext(ctx context.Context) (T, error) {
	return q.below("GetContext").GetContext(ctx)
}

// GetInfo returns a queued item with its priority and age, see [TypedDelaying.GetInfo]. The
// limiter is not asked: Failures is 0.
func (q *TypedRateLimiting[T]) GetInfo(ctx context.Context) (ItemInfo[T], error) {
	return q.below("GetInfo").GetInfo(ctx)
}

// TryGet returns a queued item if there is one, see [TypedDelaying.TryGet].
func (q *TypedRateLimiting[T]) TryGet() (item T, ok bool) {
	return q.below("TryGet").TryGet()
}

// Done ends what Get began, see [Typed.Done].
func (q *TypedRateLimiting[T]) Done(item T) { q.queue.Done(item) }

// ShuttingDown reports whether the queue is being shut down, or drained by a [Run].
func (q *TypedRateLimiting[T]) ShuttingDown() bool {
	return q.sealed.Load() || q.queue.ShuttingDown()
}

// ShutDown shuts the delaying queue down, see [TypedDelaying.ShutDown].
func (q *TypedRateLimiting[T]) ShutDown() {
	q.drains.halt()
	q.queue.ShutDown()
}

// ShutDownWithDrain shuts the delaying queue down and waits, see
// [TypedDelaying.ShutDownWithDrain].
func (q *TypedRateLimiting[T]) ShutDownWithDrain() { q.queue.ShutDownWithDrain() }

// AddAll adds the items in the given order, see [TypedDelaying.AddWith]. It returns how many items the queue
// took: a duplicate counts as taken, an item after a shutdown, or while a [Run] drains, does not.
func (q *TypedRateLimiting[T]) AddAll(items ...T) (taken int) {
	return q.AddWith(AddOptions{}, items...)
}

// AddWith adds the items with a priority, at once or after a wait, see
// [TypedDelaying.AddWith]. With RateLimited the limiter says the wait of each item, unless
// After is shorter.
//
// AddWith panics before the first add if the options name a priority and the delaying queue
// knows none. With RateLimited the items are added one by one: a panic of the limiter, or of the
// [Order], leaves the items before. It returns how many items were taken, as [Typed.AddWith] does, and 0 while a
// [Run] drains the queue.
func (q *TypedRateLimiting[T]) AddWith(options AddOptions, items ...T) (taken int) {
	k := rankOf(options.Priority)
	checkRankBelow[T](q.queue, k)
	if !options.RateLimited {
		if q.sealed.refuses(len(items)) {
			return 0
		}
		return q.addWith(items, options, k)
	}
	m := q.strict
	if options.Firm {
		m = q.firmMode()
	}
	limiter := q.mustLimiter()
	for _, item := range items {
		d := max(0, limiter.When(item))
		if options.After > 0 {
			d = min(d, options.After)
		}
		if !q.sealed.refuses(1) && !q.queue.ShuttingDown() && q.limit(item, d, k, m) {
			taken++
		}
	}
	return taken
}

// addWith is AddWith without a limiter. A configured delaying queue may have no AddWith.
func (q *TypedRateLimiting[T]) addWith(items []T, options AddOptions, k fifo.Rank) (taken int) {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		return d.AddWith(options, items...)
	}
	if options.Firm {
		return q.below("AddWith").AddWith(options, items...)
	}
	if options.After <= 0 {
		return addAllBelow[T](q.queue, items, k)
	}
	for _, item := range items {
		if !q.queue.ShuttingDown() && q.addAfter(item, options.After, k, 0) {
			taken++
		}
	}
	return taken
}

// Reschedule replaces the due time of the item, see [TypedDelaying.Reschedule]. The limiter
// is not asked, and counts no failure. Reschedule also reports false while a [Run] drains
// the queue.
func (q *TypedRateLimiting[T]) Reschedule(item T, duration time.Duration) (taken bool) {
	return !q.sealed.refuses(1) && q.below("Reschedule").Reschedule(item, duration)
}

// Debounce adds the item when a series of calls is over, see [TypedDelaying.Debounce].
// Debounce also reports false while a [Run] drains the queue.
func (q *TypedRateLimiting[T]) Debounce(item T, quiet, maxWait time.Duration) (taken bool) {
	return !q.sealed.refuses(1) && q.below("Debounce").Debounce(item, quiet, maxWait)
}

// LimitsChanged asks for the limits of all groups again, see [TypedDelaying.LimitsChanged].
func (q *TypedRateLimiting[T]) LimitsChanged() {
	q.below("LimitsChanged").LimitsChanged()
}

// Remove takes the item back, see [TypedDelaying.Remove]. The counts of [Run] for MaxAttempts
// and CancelOnReAdd start anew, unless the queue is shut down. The limiter still knows the failures of
// the item: call Forget to reset the limiter too.
func (q *TypedRateLimiting[T]) Remove(item T) bool {
	removed := q.below("Remove").Remove(item)
	// After Remove, and not before: a worker could count a failure in between and have the
	// item retried. Then the count would outlive the removed item.
	q.forgetTallies(item)
	return removed
}

// RemoveFunc removes items, see [TypedDelaying.RemoveFunc]. As for Remove, the counts of [Run] for
// MaxAttempts and CancelOnReAdd start anew, and the limiter still knows the failures.
func (q *TypedRateLimiting[T]) RemoveFunc(del func(item T) bool) (removed int) {
	var last T
	var removing bool
	forget := func() { // After the removal, as in Remove.
		if removing {
			q.forgetTallies(last)
		}
	}
	defer forget()
	return q.below("RemoveFunc").RemoveFunc(func(item T) bool {
		forget()
		last, removing = item, del(item)
		return removing
	})
}

// firmMode returns the mode of a firm wait, and panics if the queue below cannot make an item wait so.
func (q *TypedRateLimiting[T]) firmMode() mode {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		return d.modeOf(AddOptions{Firm: true})
	}
	q.below("AddWith")
	return modeFirm
}

// Wake ends the waits of the items, see [TypedDelaying.Wake]. The limiter still knows the failures. A
// [Run] that drains the queue does not refuse the call, as the items were added before.
func (q *TypedRateLimiting[T]) Wake(items ...T) (woken int) {
	return q.below("Wake").Wake(items...)
}

// WakeFunc ends the waits of the items that match, see [TypedDelaying.WakeFunc].
func (q *TypedRateLimiting[T]) WakeFunc(match func(item T) bool) (woken int) {
	return q.below("WakeFunc").WakeFunc(match)
}

// Find returns what the delaying queue knows of an item, see [TypedDelaying.Find], with its Failures.
func (q *TypedRateLimiting[T]) Find(item T) (info ItemInfo[T], ok bool) {
	info, ok = q.below("Find").Find(item)
	if ok {
		info.Failures = q.knownFailures(item)
	}
	return info, ok
}

// Snapshot returns the items of the delaying queue, see [TypedDelaying.Snapshot], with their
// Failures. The limiter is asked for each item afterwards, and not at the same instant.
func (q *TypedRateLimiting[T]) Snapshot(limit int) Snapshot[T] {
	s := q.below("Snapshot").Snapshot(limit)
	q.addFailures(s)
	return s
}

func (q *TypedRateLimiting[T]) addFailures(s Snapshot[T]) {
	for _, infos := range [][]ItemInfo[T]{s.Queued, s.InFlight, s.Waiting} {
		for i := range infos {
			infos[i].Failures = q.knownFailures(infos[i].Item)
		}
	}
}

// knownFailures returns how often an item has failed in a row: the greater of two counts. Only the limiter counts the
// failures in loops by hand, and only Run counts a RetryAfter, for which nobody asks the limiter.
func (q *TypedRateLimiting[T]) knownFailures(item T) (n int) {
	if q.limiter != nil { // Without one, a Snapshot is still of use.
		n = q.limiter.NumRequeues(item)
	}
	if t := q.tallies.Load(); t != nil && t.failed.failing.Load() > 0 {
		n = max(n, t.failed.number(item))
	}
	return n
}

// Items visits the items of the delaying queue, see [TypedDelaying.Items], with their Failures. The
// limiter is asked without a lock.
func (q *TypedRateLimiting[T]) Items() iter.Seq[ItemInfo[T]] {
	return func(yield func(ItemInfo[T]) bool) {
		for info := range q.below("Items").Items() {
			info.Failures = q.knownFailures(info.Item)
			if !yield(info) {
				return
			}
		}
	}
}

// Stats returns the state of the delaying queue, see [TypedDelaying.Stats].
func (q *TypedRateLimiting[T]) Stats() QueueStats {
	return q.below("Stats").Stats()
}

// CountResult counts what a worker loop of your own has made of an item, for Results of the [QueueStats] and
// the metric results_total, which the alerts about failures read. [Run] counts by itself. It is one atomic add. A
// queue without a [StateProvider] counts nothing. CountResult panics if the outcome is none of [Outcomes].
func (q *TypedRateLimiting[T]) CountResult(outcome Outcome) {
	if outcome >= outcomes {
		panic(fmt.Sprintf("workqueue: CountResult of an unknown outcome: %v", outcome))
	}
	q.metrics.forRun().count(outcome)
}

// Drain drains the delaying queue, see [TypedDelaying.Drain]. Beside a [Run] that ends, Drain returns nil:
// Run takes out what is left, and its OnStop names it.
func (q *TypedRateLimiting[T]) Drain(ctx context.Context) error {
	err := drainBelow[T](ctx, q.queue, &q.drains)
	if e, ok := err.(*DrainError[T]); ok {
		q.addFailures(e.Left)
	}
	return err
}

// ReAddContext calls the queue below, see [Typed.ReAddContext].
func (q *TypedRateLimiting[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	return q.below("ReAddContext").ReAddContext(ctx, item)
}

// A seal refuses the adds of callers while Runs drain the queue. The queue below stays open,
// as a shutdown would drop the retries of these Runs.
type seal struct {
	holders atomic.Int32 // Runs that drain; never 0 again once a Run has drained
	refused atomic.Int64 // adds, until a Run has told of them
}

// Load reports whether callers find the queue shut down.
func (s *seal) Load() bool { return s.holders.Load() > 0 }

// refuses reports whether n adds are refused, and counts them.
func (s *seal) refuses(n int) bool {
	if !s.Load() {
		return false
	}
	s.refused.Add(int64(n))
	return true
}

// handOver takes one of several holders away, and reports false for the last one.
func (s *seal) handOver() bool {
	for n := s.holders.Load(); n > 1; n = s.holders.Load() {
		if s.holders.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}
