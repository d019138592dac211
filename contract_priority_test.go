package workqueue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// What a call that names a priority does to an item in each state of the table in
// docs/semantics.md. The item was brought there with the priority 3; where it waits as
// well, the wait has 4. The result is what the queue has it for then, and with
// which priority.
var priorityInterplay = []interplayRow{
	{"AddWith 5",
		"queued 5", "queued 5, waiting 10s 4", "queued 5", "again 5", "again 5", "again 5, waiting 10s 4"},
	{"AddWith 1",
		"queued 1", "queued 1, waiting 10s 4", "queued 3", "again 1", "again 3", "again 1, waiting 10s 4"},
	{"AddWith -1",
		"queued -1", "queued -1, waiting 10s 4", "queued 3", "again -1", "again 3", "again -1, waiting 10s 4"},
	{"Add",
		"queued 0", "queued 0, waiting 10s 4", "queued 3", "again 0", "again 3", "again 0, waiting 10s 4"},
	{"AddWith 5, with OneEntry",
		"queued 5", "queued 5", "queued 5", "again 5", "again 5", "again 5"},
	{"AddWith 1, with OneEntry",
		"queued 1", "queued 4", "queued 3", "again 1", "again 3", "again 4"},
	{"Add, with OneEntry",
		"queued 0", "queued 4", "queued 3", "again 0", "again 3", "again 4"},
	{"AddWith 5 after 20s",
		"waiting 20s 5", "waiting 10s 5", "queued 3, waiting 20s 5", "in flight 3, waiting 20s 5", "again 3, waiting 20s 5", "in flight 3, waiting 10s 5"},
	{"AddWith 1 after 5s",
		"waiting 5s 1", "waiting 5s 4", "queued 3, waiting 5s 1", "in flight 3, waiting 5s 1", "again 3, waiting 5s 1", "in flight 3, waiting 5s 4"},
	{"AddWith 5 rate limited",
		"waiting 5s 5", "waiting 5s 5", "queued 3, waiting 5s 5", "in flight 3, waiting 5s 5", "again 3, waiting 5s 5", "in flight 3, waiting 5s 5"},
	{"AddWith 5 rate limited after 2s",
		"waiting 2s 5", "waiting 2s 5", "queued 3, waiting 2s 5", "in flight 3, waiting 2s 5", "again 3, waiting 2s 5", "in flight 3, waiting 2s 5"},
	{"AddWith 5 rate limited after 20s",
		"waiting 5s 5", "waiting 5s 5", "queued 3, waiting 5s 5", "in flight 3, waiting 5s 5", "again 3, waiting 5s 5", "in flight 3, waiting 5s 5"},
	{"AddAfter 20s",
		"waiting 20s 0", "waiting 10s 4", "queued 3, waiting 20s 0", "in flight 3, waiting 20s 0", "again 3, waiting 20s 0", "in flight 3, waiting 10s 4"},
	{"Reschedule 20s",
		"waiting 20s 0", "waiting 20s 4", "queued 3, waiting 20s 0", "in flight 3, waiting 20s 0", "again 3, waiting 20s 0", "in flight 3, waiting 20s 4"},
	{"Reschedule 0s",
		"queued 0", "queued 4", "queued 3", "again 0", "again 3", "again 4"},
	{"Debounce 5s",
		"waiting 5s 0", "waiting 5s 4", "queued 3, waiting 5s 0", "in flight 3, waiting 5s 0", "again 3, waiting 5s 0", "in flight 3, waiting 5s 4"},
	{"Debounce 0s",
		"queued 0", "queued 4", "queued 3", "again 0", "again 3", "again 4"},
	{"Remove, AddWith 1",
		"queued 1", "queued 1", "queued 1", "again 1", "again 1", "again 1"},
	{"Done, Step",
		"idle", "queued 4", "queued 3", "idle", "queued 3", "queued 4"},
	{"Step",
		"idle", "queued 4", "queued 3", "in flight 3", "again 3", "again 4"},
}

func TestPriorityOfAnItemInEachState(t *testing.T) {
	t.Parallel()
	for _, row := range priorityInterplay {
		row.play(t, []string{"Typed", "apart", "metrics"}, priorityCell)
	}
}

func priorityCell(t *testing.T, call, state, below string) string {
	clock := testingclock.NewFakeClock(epoch)
	config := workqueue.TypedDelayingQueueConfig[string]{Clock: clock}
	call, config.OneEntry = strings.CutSuffix(call, ", with OneEntry")
	order := workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{})
	switch below {
	case "Typed":
		config.Order = order
	case "apart":
		typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: order})
		config.Queue = struct{ *workqueue.Typed[string] }{typed}
		if config.OneEntry { // Which can ask a *Typed only.
			config.Queue = typed
		}
	case "metrics":
		config.Order, config.Name, config.MetricsProvider = order, "q", silent{}
	}
	q := workqueue.NewTypedRateLimiting(constant(5*time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelaying(config),
	})
	defer q.ShutDown()
	bring(q, state, interplayAdds{
		first: func() { q.AddWith(workqueue.AddOptions{Priority: 3}, "a") },
		again: func() {
			q.AddWith(workqueue.AddOptions{Priority: -5}, "a")
			q.AddWith(workqueue.AddOptions{Priority: 3}, "a")
			q.Add("a")
		},
		later: func() { q.AddWith(workqueue.AddOptions{After: 10 * time.Second, Priority: 4}, "a") },
	})
	for one := range strings.SplitSeq(call, ", ") {
		applyWith(q, clock, one)
	}
	synctest.Wait()
	checkInvariants(t, 0, q)
	return describePriorities(q.Snapshot(9))
}

func applyWith(q *workqueue.TypedRateLimiting[string], clock *testingclock.FakeClock, call string) {
	var options workqueue.AddOptions
	switch {
	case call == "Step":
		synctest.Wait()
		clock.Step(10 * time.Second)
	case strings.HasPrefix(call, "AddWith"):
		call, after, _ := strings.Cut(call, " after ")
		options.After, _ = time.ParseDuration(after)
		call, options.RateLimited = strings.CutSuffix(call, " rate limited")
		options.Priority, _ = strconv.Atoi(call[len("AddWith "):])
		q.AddWith(options, "a")
	default:
		apply(q, call)
	}
}

func describePriorities(s workqueue.Snapshot[string]) string {
	return describePlaces(s, func(place string, info workqueue.ItemInfo[string]) string {
		return fmt.Sprint(place, " ", info.Priority)
	})
}
