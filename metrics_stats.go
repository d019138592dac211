package workqueue

import "time"

// This file has what a provider of metrics is told of a queue, and what it may read.

// A StateProvider is a [MetricsProvider] that reads the state of a queue when
// somebody asks for it, instead of being told of each change. A queue that
// finds this interface uses none of the methods of MetricsProvider. It then
// has no goroutine for its gauges, calls no foreign code when an item passes,
// and what is read is exact and agrees with itself. [NewPrometheusProvider]
// returns one.
type StateProvider interface {
	MetricsProvider

	// NewQueueMetrics is called once for each named queue, at the end of its
	// construction. Layers of a queue that were constructed apart, one handed
	// to the next, are queues of their own here, which usually have one name.
	//
	// read returns the state of those layers, all of it at one instant. It may
	// be called at any time and from any goroutine but a method of a [Queue],
	// and takes the locks of the queue. It takes time proportional to the
	// number of items in flight, and, if the queue has a [Queue] of its own,
	// some 4 ns for each item queued. It does not keep the queue in memory, and
	// reports false once that is gone.
	//
	// NewQueueMetrics and End are called without a lock of the queue held.
	NewQueueMetrics(name string, layers QueueLayers, read func() (QueueStats, bool)) QueueMetrics
}

// QueueLayers says which of the fields of [QueueStats] are in use.
type QueueLayers uint8

// The layers of a queue.
const (
	LayerFIFO   QueueLayers = 1 << iota // a Typed
	LayerDelays                         // a TypedDelaying, with what is above it
)

// QueueStats is the state of a queue and what it has counted. The zero value is
// that of a new queue.
type QueueStats struct {
	// Of LayerFIFO.

	Depth      int    // items that are queued, or held and marked for another run
	InFlight   int    // items that are held by workers
	Adds       uint64 // Adds that were not duplicates
	Duplicates uint64 // Adds that were, and so changed nothing

	// DepthByGroup has the 25 deepest groups, the deepest first, and behind them all
	// others as one. It is nil if the order of the queue is not that of
	// [NewFairQueue], or of [NewPriorityQueue] with such orders within, whose groups of
	// one name are added up. To read it takes some 30 ns more for each group, and where
	// they are added up some 160 for each priority that it has items of.
	DepthByGroup []GroupDepth

	Unfinished     time.Duration // for how long the held items have been so, added up
	LongestRunning time.Duration // for how long the one held longest has been
	// OldestItem is the time since the Add of the item at the head of the line,
	// and of all that are queued for a queue with a [Queue], whose order is
	// not known: there it shows what starves. If there are Levels, it is the greatest of
	// theirs. It is 0 if nothing is queued.
	OldestItem time.Duration

	// Levels are the priorities that have been in use, if the order of the queue is of
	// [NewPriorityQueue], or one of [NewFairQueue] with such orders within. There are 26
	// at most: the first 25 have one each, and the last one, if there are more, all others
	// together. They take no look at each queued item if the order is of NewPriorityQueue
	// without Within.
	Levels []LevelStats

	Latency      Histogram // from Add to Get
	WorkDuration Histogram // from Get to Done

	// Of LayerDelays.

	Waiting     int    // items that wait for their time
	Retries     uint64 // calls of AddAfter, including those of AddRateLimited
	RateLimited uint64 // calls of AddRateLimited

	Lateness     Histogram // from when an item was due until it was queued
	LimiterDelay Histogram // what the rate limiter has said, for each AddRateLimited

	// Results counts the items that workers of [Run] have handled, by outcome. It is
	// nil as long as no Run was called for the queue.
	Results map[Outcome]uint64
}

// LevelStats is the state of the items of one priority. It is the 0 of all if there are
// none at the moment.
type LevelStats struct {
	Priority int
	Others   bool // all priorities that have none for themselves; Priority means nothing
	Depth    int  // items that are queued, or held and marked for another run
	// OldestItem is the time since the Add of the one that is queued for longest.
	OldestItem time.Duration
}
