package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// The table in docs/semantics.md under "Taking back and putting off", a cell
// each: a call, made of an item in a state, and what the queue then has the item
// for. The item waits for 10 s where it waits; the calls name 5 and 20 s.
var interplay = []interplayRow{
	{"Add",
		"queued", "queued, waiting 10s", "queued", "again", "again", "again, waiting 10s"},
	{"Add, with OneEntry",
		"queued", "queued", "queued", "again", "again", "again"},
	{"AddAll, with OneEntry",
		"queued", "queued", "queued", "again", "again", "again"},
	{"AddAfter 5s",
		"waiting 5s", "waiting 5s", "queued, waiting 5s", "in flight, waiting 5s", "again, waiting 5s", "in flight, waiting 5s"},
	{"AddAfter 5s, with OneEntry",
		"waiting 5s", "waiting 5s", "queued", "in flight, waiting 5s", "again", "in flight, waiting 5s"},
	{"AddAfter 20s",
		"waiting 20s", "waiting 10s", "queued, waiting 20s", "in flight, waiting 20s", "again, waiting 20s", "in flight, waiting 10s"},
	{"AddAfter 20s, with OneEntry",
		"waiting 20s", "waiting 10s", "queued", "in flight, waiting 20s", "again", "in flight, waiting 10s"},
	{"AddAfter 0s",
		"queued", "queued, waiting 10s", "queued", "again", "again", "again, waiting 10s"},
	{"AddAfter 0s, with OneEntry",
		"queued", "queued", "queued", "again", "again", "again"},
	{"AddRateLimited",
		"waiting 5s", "waiting 5s", "queued, waiting 5s", "in flight, waiting 5s", "again, waiting 5s", "in flight, waiting 5s"},
	{"AddRateLimited, with OneEntry",
		"waiting 5s", "waiting 5s", "queued", "in flight, waiting 5s", "again", "in flight, waiting 5s"},
	{"Reschedule 5s",
		"waiting 5s", "waiting 5s", "queued, waiting 5s", "in flight, waiting 5s", "again, waiting 5s", "in flight, waiting 5s"},
	{"Reschedule 5s, with OneEntry",
		"waiting 5s", "waiting 5s", "queued", "in flight, waiting 5s", "again", "in flight, waiting 5s"},
	{"Reschedule 20s",
		"waiting 20s", "waiting 20s", "queued, waiting 20s", "in flight, waiting 20s", "again, waiting 20s", "in flight, waiting 20s"},
	{"Reschedule 20s, with OneEntry",
		"waiting 20s", "waiting 20s", "queued", "in flight, waiting 20s", "again", "in flight, waiting 20s"},
	{"Reschedule 0s",
		"queued", "queued", "queued", "again", "again", "again"},
	{"Debounce 5s",
		"waiting 5s", "waiting 5s", "queued, waiting 5s", "in flight, waiting 5s", "again, waiting 5s", "in flight, waiting 5s"},
	{"Debounce 5s, with OneEntry",
		"waiting 5s", "waiting 5s", "queued", "in flight, waiting 5s", "again", "in flight, waiting 5s"},
	{"Debounce 20s",
		"waiting 20s", "waiting 10s", "queued, waiting 20s", "in flight, waiting 20s", "again, waiting 20s", "in flight, waiting 10s"},
	{"Debounce 20s, with OneEntry",
		"waiting 20s", "waiting 10s", "queued", "in flight, waiting 20s", "again", "in flight, waiting 10s"},
	{"Debounce 0s",
		"queued", "queued", "queued", "again", "again", "again"},
	{"Debounce 20s, without a maximum",
		"waiting 20s", "waiting 10s", "queued, waiting 20s", "in flight, waiting 20s", "again, waiting 20s", "in flight, waiting 10s"},
	{"Remove",
		"idle false", "idle true", "idle true", "in flight false", "in flight true", "in flight true"},
	{"Done",
		"idle", "waiting 10s", "queued", "idle", "queued", "waiting 10s"},
	{"ShutDown",
		"idle", "idle", "queued", "in flight", "again", "in flight"},
	{"Drain",
		"idle", "idle", "queued; left queued", "in flight; left in flight", "again; left again", "in flight; left in flight, waiting 10s"},
}

func TestInterplayOfCallsAndStates(t *testing.T) {
	t.Parallel()
	for _, row := range interplay {
		belows := []string{"Typed", "storage", "foreign"}
		if strings.HasSuffix(row.call, "with OneEntry") {
			belows = belows[:2]
		}
		row.play(t, belows, interplayCell)
	}
}

// An interplayRow is a call and what comes of it for an item that is idle, waiting,
// queued, in flight, in flight and added again, and in flight and waiting.
type interplayRow struct {
	call string

	idle, waiting, queued, inFlight, again, held string
}

// play plays the call in each state, on each kind of queue below.
func (row interplayRow) play(t *testing.T, belows []string, cell func(t *testing.T, call, state, below string) string) {
	for state, want := range map[string]string{
		"idle": row.idle, "waiting": row.waiting, "queued": row.queued,
		"in flight": row.inFlight, "again": row.again, "in flight, waiting": row.held,
	} {
		for _, below := range belows {
			t.Run(row.call+"/"+state+"/"+below, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if got := cell(t, row.call, state, below); got != want {
						t.Errorf("%s of an item that is %s: got %q, want %q", row.call, state, got, want)
					}
				})
			})
		}
	}
}

// A pair is a queue with a limiter of 5 s, with and without a Typed that it
// knows below.
func interplayCell(t *testing.T, call, state, below string) string {
	clock := testingclock.NewFakeClock(epoch)
	config := workqueue.TypedDelayingQueueConfig[string]{Clock: clock}
	call, config.OneEntry = strings.CutSuffix(call, ", with OneEntry")
	switch below {
	case "storage":
		config.Queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
	case "foreign":
		config.Queue = struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()}
	}
	q := workqueue.NewTypedRateLimiting(constant(5*time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelaying(config),
	})
	defer q.ShutDown()
	bring(q, state, interplayAdds{
		first: func() { q.Add("a") }, again: func() { q.Add("a") }, later: func() { q.AddAfter("a", 10*time.Second) },
	})
	if before := describeLimiter(q.Snapshot(9)); before != strings.Replace(state, "waiting", "waiting 10s", 1) {
		t.Fatalf("in the beginning the item is %s", before)
	}
	result := apply(q, call)
	synctest.Wait()
	checkInvariants(t, 0, q)
	return describeLimiter(q.Snapshot(9)) + result
}

// interplayAdds are the calls by which an item comes to a state: the add of an item that
// is not queued, that of one which is held, and the one that makes it wait for 10 s.
type interplayAdds struct{ first, again, later func() }

// bring brings the item a to a state.
func bring(q *workqueue.TypedRateLimiting[string], state string, adds interplayAdds) {
	state, waits := strings.CutSuffix(state, "waiting")
	if waits {
		defer adds.later()
	}
	switch strings.TrimSuffix(state, ", ") {
	case "queued":
		adds.first()
	case "in flight":
		adds.first()
		q.Get()
	case "again":
		adds.first()
		q.Get()
		adds.again()
	}
}

func apply(q *workqueue.TypedRateLimiting[string], call string) (result string) {
	verb, arg, _ := strings.Cut(call, " ")
	arg, endless := strings.CutSuffix(arg, ", without a maximum")
	d, _ := time.ParseDuration(arg)
	most := time.Hour
	if endless {
		most = 0
	}
	switch verb {
	case "Add":
		q.Add("a")
	case "AddAll":
		q.AddAll("a")
	case "AddAfter":
		q.AddAfter("a", d)
	case "AddRateLimited":
		q.AddRateLimited("a")
	case "Reschedule":
		q.Reschedule("a", d)
	case "Debounce":
		q.Debounce("a", d, most)
	case "Remove":
		return fmt.Sprint(" ", q.Remove("a"))
	case "Done":
		q.Done("a")
	case "ShutDown":
		q.ShutDown()
	case "Drain":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if e, ok := q.Drain(ctx).(*workqueue.DrainError[string]); ok {
			return "; left " + describeLimiter(e.Snapshot)
		}
	}
	return ""
}

// describeLimiter says where the only item is.
func describeLimiter(s workqueue.Snapshot[string]) string {
	return describePlaces(s, func(place string, _ workqueue.ItemInfo[string]) string { return place })
}

// describePlaces says what the queue has the only item for, as show writes it.
func describePlaces(s workqueue.Snapshot[string], show func(place string, info workqueue.ItemInfo[string]) string) string {
	var places []string
	for _, info := range slices.Concat(s.Queued, s.InFlight, s.Waiting) {
		places = append(places, show(map[workqueue.ItemState]string{
			workqueue.ItemQueued: "queued", workqueue.ItemInFlight: "in flight", workqueue.ItemInFlightAgain: "again",
			workqueue.ItemWaiting: fmt.Sprint("waiting ", info.Due.Sub(epoch)),
		}[info.State], info))
	}
	if len(places) == 0 {
		return "idle"
	}
	return strings.Join(places, ", ")
}

// A constant is a limiter with one delay for everything.
type constant time.Duration

func (c constant) When(string) time.Duration { return time.Duration(c) }
func (constant) Forget(string)               {}
func (constant) NumRequeues(string) int      { return 3 }
