package debugpage

import (
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Report is the schema of the JSON. A request without a queue has Queues, and a request for a queue
// has Queue.
type Report struct {
	Title string    `json:"title"`
	Time  time.Time `json:"time"`

	// Queues are in the order of their names. The first 500 are shown.
	Queues []Summary `json:"queues,omitempty"`
	// QueuesTotal is how many queues the page has. It is always there.
	QueuesTotal int `json:"queues_total"`

	Queue *Detail `json:"queue,omitempty"`

	// Error is why there is no Queue: the page has no queue of the name, the queue was busy
	// with other requests for too long, or the search has more than 200 bytes.
	Error string `json:"error,omitempty"`
}

// Summary are the numbers of a queue, see QueueStats of the queue. The numbers, Stuck and Counted are
// always there.
type Summary struct {
	Name         string `json:"name"`
	ShuttingDown bool   `json:"shutting_down,omitzero"`

	// Letter is the heading of docs/operating.md that tells what to look at and what to do, such as
	// "E. The Pace has no token", by the requests of the last half minute, or the last two. Letter is "" if no question
	// has an answer.
	Letter string `json:"letter,omitempty"`

	// Error is a panic in the queue, in its limiter or in its clock. In a Report without a Queue, Error
	// also says that the queue was busy with other requests: its numbers are 0 then.
	Error string `json:"error,omitempty"`

	Depth    int  `json:"depth"`
	InFlight int  `json:"in_flight"`
	Workers  int  `json:"workers"` // goroutines that wait for an item, and items in flight
	Waiting  int  `json:"waiting"`
	Stuck    bool `json:"stuck"` // an item is in flight for longer than Options.Stuck

	OldestItem     float64 `json:"oldest_item_seconds"`
	LongestRunning float64 `json:"longest_running_seconds"`

	// Counted is whether the queue counts: a StateProvider reads the queue. Otherwise the
	// counts are 0.
	Counted bool `json:"counted"`
	// Pushed is whether the queue does not count although it has a provider: the provider is no
	// StateProvider.
	Pushed      bool    `json:"pushed,omitzero"`
	Adds        uint64  `json:"adds"`
	Duplicates  uint64  `json:"duplicates"`
	Done        uint64  `json:"done"`
	Work        float64 `json:"work_seconds"` // the times from Get to Done of these items, added up
	Retries     uint64  `json:"retries"`
	RateLimited uint64  `json:"rate_limited"`
	// Results counts the items handled by workers of Run, by outcome, and what CountResult was told. Results is nil
	// until Run or CountResult is called for the queue.
	Results map[workqueue.Outcome]uint64 `json:"results,omitempty"`

	// Paused is whether Pace hands out nothing, as its limiter has a limit or a burst of 0.
	Paused bool `json:"paused,omitzero"`

	// Pace is the limit and the burst of Pace, left out without a Pace. The limit without an end is 1.8e308.
	Pace workqueue.PaceStats `json:"pace,omitzero"`

	// PaceSharedWith are the first 10 other queues of the page with the same limiter: all of them take its tokens.
	PaceSharedWith []string `json:"pace_shared_with,omitempty"`

	// Paced is how long Pace has kept items back.
	Paced float64 `json:"paced_seconds"`

	// NextDue is the time until the first waiting item is due, negative if the item is late.
	NextDue float64 `json:"next_due_seconds,omitzero"`

	// PutOff is for how long Debounce has put off one of the 20 items that are due next, at most.
	PutOff float64 `json:"put_off_seconds,omitzero"`

	points []Point
	glance glance
	read   time.Time
}

// Detail is a queue. The lists have the items of about one instant. The numbers that come from the
// walk are not of one instant, see LookedAt.
type Detail struct {
	Summary

	ByPriority []Part `json:"by_priority,omitempty"`
	ByGroup    []Part `json:"by_group,omitempty"`

	InFlightItems []Item `json:"in_flight_items,omitempty"` // the first 100, held longest first
	QueuedItems   []Item `json:"queued_items,omitempty"`    // the first 20 of a Snapshot
	WaitingItems  []Item `json:"waiting_items,omitempty"`   // the 20 that are due next
	// MostFailed are the 20 items with the most failures, from the walk.
	MostFailed []Item `json:"most_failed,omitempty"`

	// Timeline counts the waiting items by the time that is left, from the walk. It is always
	// there.
	Timeline []Span `json:"timeline"`

	Search string `json:"search,omitempty"`
	// Hits are the first 100 items whose key contains Search, as the page shows the key.
	Hits []Item `json:"hits,omitempty"`
	// HitsTotal counts all hits of the walk. It is always there.
	HitsTotal int `json:"hits_total"`

	// LookedAt is how many items the walk has visited. If Cut is true, the walk has ended early,
	// and the numbers from the walk are too low. An item that waits and is in the queue
	// as well counts twice. Both fields are always there.
	LookedAt int  `json:"looked_at"`
	Cut      bool `json:"cut"`

	Points []Point `json:"points,omitempty"` // the oldest first
}

// Part is the state of a priority or of a group. Its fields are always there.
type Part struct {
	Name       string  `json:"name"`   // the number of the priority, or the shown name of the group
	Others     bool    `json:"others"` // all parts without a name of their own
	Depth      int     `json:"depth"`
	InFlight   int     `json:"in_flight"`
	HeldBack   bool    `json:"held_back"` // MaxInFlight of the group is negative, or that of one of the others is
	OldestItem float64 `json:"oldest_item_seconds"`
}

// Item is an item of a queue.
type Item struct {
	Key      string    `json:"key"`   // as shown: redacted, escaped and cut
	State    string    `json:"state"` // queued, in_flight, in_flight_again or waiting
	Age      float64   `json:"age_seconds,omitzero"`
	Due      time.Time `json:"due,omitzero"`
	Left     float64   `json:"left_seconds,omitzero"` // until Due, negative if the item is late
	Why      string    `json:"why,omitzero"`          // why the item waits or is not handed out, as ItemInfo.Why
	Failures int       `json:"failures,omitzero"`
	Priority int       `json:"priority,omitzero"`
	Stuck    bool      `json:"stuck,omitzero"`
}

// Span is a part of the time line: the items that are due in less than Below and not in an earlier
// Span. The last Span has no Below. Items is always there.
type Span struct {
	Below float64 `json:"below_seconds,omitzero"`
	Items int     `json:"items"`
}

// Point is the state of a queue when a request has looked at the queue. Its fields are always there.
type Point struct {
	Time           time.Time `json:"time"`
	Depth          int       `json:"depth"`
	InFlight       int       `json:"in_flight"`
	Workers        int       `json:"workers"`
	Waiting        int       `json:"waiting"`
	OldestItem     float64   `json:"oldest_item_seconds"`
	LongestRunning float64   `json:"longest_running_seconds"`
	Adds           uint64    `json:"adds"`
	Duplicates     uint64    `json:"duplicates"`
	Done           uint64    `json:"done"`
	Retries        uint64    `json:"retries"`
	RateLimited    uint64    `json:"rate_limited"`
	Work           float64   `json:"work_seconds"`
	Paced          float64   `json:"paced_seconds"`
	Succeeded      uint64    `json:"succeeded"` // results of Run that are no failures: succeeded, requeued, deferred and readded
	Failed         uint64    `json:"failed"`    // results of Run: failed and given_up
	GivenUp        uint64    `json:"given_up"`  // the given_up of these
}
