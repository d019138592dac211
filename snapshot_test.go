package workqueue_test

import (
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A worker reads the same of its item as others read in a Snapshot, except the Age, which begins with
// the hand-out there. A new field of ItemInfo fails here until all three have it.
func TestItemInfoIsTheSameForEachReader(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		KeepTimes: true,
		Order:     workqueue.Order[string]{Group: func(item string) string { return "group of " + item }},
	})
	held := func() workqueue.ItemInfo[string] { return q.Snapshot(1).InFlight[0] }
	check := func(reader string, got, want workqueue.ItemInfo[string]) {
		t.Helper()
		got.Age, want.Age, got.Failures, want.Failures = 0, 0, 0, 0 // A constant limiter has 3 of any item.
		if got != want {
			t.Errorf("%s: got  %+v, in a Snapshot %+v", reader, got, want)
		}
	}
	priority := 7
	add := func() { q.AddWith(workqueue.AddOptions{Priority: &priority}, "a") }
	add()
	info, err := q.GetInfo(t.Context())
	if err != nil || info.Priority != 7 || !info.PriorityNamed() || info.State != workqueue.ItemInFlight {
		t.Errorf("got %+v, %v", info, err)
	}
	check("GetInfo", info, held())
	q.Done("a")

	add()
	ctx, stop := context.WithCancel(t.Context())
	err = workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
		info, _ := workqueue.ItemInfoFromContext[string](ctx)
		check("ItemInfoFromContext", info, held())
		stop()
		return nil
	}, workqueue.RunOptions[string]{})
	if err != nil {
		t.Error(err)
	}
}

// The times of waiting items follow their records when the records move, and a record that is used
// again has no old times.
func TestSnapshotSaysSinceWhenAfterShrinking(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{KeepTimes: true, Clock: clock})
	defer q.ShutDown()
	const n, left = 4000, 10
	for i := range n {
		q.AddAfter(i, 2*n*time.Second)
		clock.Step(time.Second)
	}
	for i := range n - left {
		q.Remove(i)
	}
	checkInvariants(t, n, q)
	for range left {
		q.AddAfter(n, 2*n*time.Second)
		q.Remove(n)
		clock.Step(time.Second)
	}
	q.AddAfter(n, 2*n*time.Second)
	for place, info := range q.Snapshot(n).Waiting {
		want := time.Duration(2*left-place) * time.Second
		if place == left {
			want = 0
		}
		if info.Item != n-left+place || info.Age != want {
			t.Errorf("%+v is at place %d, want %d for %v", info, place, n-left+place, want)
		}
	}
}

func TestSnapshotIsLimited(t *testing.T) {
	for _, open := range []func() *workqueue.Typed[int]{
		workqueue.NewTyped[int],
		func() *workqueue.Typed[int] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.DefaultQueue[int]()})
		},
	} {
		below := open()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below})
		for i := range 100 {
			q.Add(i)
			q.AddAfter(i, time.Duration(200-i)*time.Hour)
		}
		for range 40 {
			q.Get()
		}
		for _, limit := range []int{-1, 0, 1, 7, 40, 60, 99, 100, 1000} {
			s := q.Snapshot(limit)
			got := fmt.Sprint(len(s.Queued), len(s.InFlight), len(s.Waiting), s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
			most := limit
			if limit < 0 {
				most = 1000
			}
			want := fmt.Sprint(min(60, most), min(40, most), min(100, most), 60, 40, 100)
			if got != want {
				t.Errorf("limit %d: got %s, want %s", limit, got, want)
			}
			for place, info := range s.Waiting {
				if info.Item != 99-place || info.Position != 1+place {
					t.Errorf("limit %d: %+v waits at place %d", limit, info, place)
				}
			}
			checkLine(t, s.Queued, below.CheckInvariants())
		}
		q.ShutDown()
	}
}

// checkLine checks the first queued items, after 40 items were taken.
func checkLine(t *testing.T, queued []workqueue.ItemInfo[int], err error) {
	t.Helper()
	for place, info := range queued {
		if info.Item < 40 || info.Position > 0 && (info.Item != 40+place || info.Position != 1+place) {
			t.Errorf("%+v is queued at place %d", info, place)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// BenchmarkSnapshot measures how long other callers wait for a snapshot.
func BenchmarkSnapshot(b *testing.B) {
	for name, below := range map[string]workqueue.Queue[int]{"line": nil, "storage": workqueue.DefaultQueue[int]()} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: below}),
		})
		for i := range 1_000_000 {
			q.Add(i)
			q.AddAfter(i, time.Hour+time.Duration(i*7919%1_000_000))
		}
		for range 1000 {
			q.Get()
		}
		b.Run(name+"/items=1M/limit=1000", func(b *testing.B) {
			for b.Loop() {
				if s := q.Snapshot(1000); len(s.Queued)+len(s.InFlight)+len(s.Waiting) != 3000 {
					b.Fatal(s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
				}
			}
		})
		q.ShutDown()
	}
}

func TestSnapshotInWordsOfAllStates(t *testing.T) {
	s := workqueue.Snapshot[string]{
		Queued:  []workqueue.ItemInfo[string]{{Item: "q", State: workqueue.ItemQueued, Age: 1, Due: epoch}},
		Waiting: []workqueue.ItemInfo[string]{{Item: "w", State: workqueue.ItemWaiting}, {Item: "d", State: workqueue.ItemWaiting, Due: epoch, Why: workqueue.WhyDeferred, Firm: true, Priority: -3, Failures: 2}},
		Failed:  []workqueue.ItemInfo[string]{{Item: "f", State: workqueue.ItemFailed, Failures: 1}}, Totals: workqueue.Totals{FailedTotal: 1},
	}
	const want = "0 queued, 0 in flight, 0 waiting, 1 failed\nq: queued for 1ns\nf: failed, 1 failures\nw: waiting\nd: waiting, due 2026-01-01T00:00:00Z, deferred, firm, priority -3, 2 failures"
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A page for operators shows a Snapshot as JSON: all names in snake case, and no field that does
// not apply, such as a due time in the year 1.
func TestSnapshotInJSONIsInSnakeCaseAndLeavesOutWhatIsNotKnown(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	for keep, want := range map[bool]string{
		true: `{"queued":[{"item":"b","state":"queued","position":1,"age_seconds":3}],` +
			`"in_flight":[{"item":"a","state":"in_flight_again","age_seconds":3}],` +
			`"waiting":[{"item":"c","state":"waiting","due":"` + epoch.Add(time.Hour).Format(time.RFC3339Nano) + `","why":"delay","position":1,"age_seconds":3}],` +
			`"queued_total":1,"in_flight_total":1,"waiting_total":1}`,
		false: `{"queued":[{"item":"b","state":"queued","position":1}],"in_flight":[{"item":"a","state":"in_flight_again"}],` +
			`"waiting":[{"item":"c","state":"waiting","due":"` + epoch.Add(time.Hour+3*time.Second).Format(time.RFC3339Nano) + `","why":"delay","position":1}],` +
			`"queued_total":1,"in_flight_total":1,"waiting_total":1}`,
	} {
		clock.SetTime(epoch)
		if !keep {
			clock.Step(3 * time.Second)
		}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{KeepTimes: keep, Clock: clock})
		q.AddAll("a", "b")
		q.Get()
		q.Add("a")
		q.AddAfter("c", time.Hour)
		clock.Step(3 * time.Second)
		got, err := json.Marshal(q.Snapshot(9))
		if err != nil || string(got) != want {
			t.Errorf("times kept %v: got\n%s, %v, want\n%s", keep, got, err, want)
		}
		var back workqueue.Snapshot[string]
		if err := json.Unmarshal(got, &back); err != nil || back.String() != q.Snapshot(9).String() {
			t.Errorf("read back: got\n%v, %v, want\n%v", back, err, q.Snapshot(9))
		}
		q.ShutDown()
	}
	got, err := json.Marshal(workqueue.ItemInfo[int]{})
	if want := `{"item":0}`; err != nil || string(got) != want {
		t.Errorf("the zero value: got %s, %v, want %s", got, err, want)
	}
}

// QueueStats had the names of Go and nanoseconds, and could not stand beside a Snapshot or the page.
func TestStatsInJSONAreInSnakeCaseAndSeconds(t *testing.T) {
	stats := workqueue.QueueStats{
		Depth: 2, InFlight: 1, Workers: 2, Adds: 4, Duplicates: 1, Unfinished: 1500 * time.Millisecond, LongestRunning: time.Second,
		OldestItem: 2 * time.Second, Paced: time.Millisecond, Pushed: true,
		ByPriority: []workqueue.PartStats[int]{{Key: 7, Depth: 1, OldestItem: 250 * time.Millisecond}},
		ByGroup:    []workqueue.PartStats[string]{{Key: "a", Depth: 1, HeldBack: true}, {Others: true, InFlight: 1}},
		Latency:    workqueue.DurationStats{Count: 1, Sum: 0.5, Buckets: []uint64{0, 1}, Exponential: map[int]uint64{-8: 1}},
		Waiting:    3, Retries: 2, RateLimited: 1,
		Results: map[workqueue.Outcome]uint64{workqueue.OutcomeGivenUp: 1},
	}
	const none = `{"count":0,"sum_seconds":0,"zero":0}`
	const want = `{"depth":2,"in_flight":1,"workers":2,"adds":4,"duplicates":1,"pushed":true,` +
		`"by_priority":[{"key":7,"depth":1,"in_flight":0,"oldest_item_seconds":0.25}],` +
		`"by_group":[{"key":"a","depth":1,"in_flight":0,"held_back":true,"oldest_item_seconds":0},` +
		`{"key":"","others":true,"depth":0,"in_flight":1,"oldest_item_seconds":0}],` +
		`"latency":{"count":1,"sum_seconds":0.5,"buckets":[0,1],"zero":0,"exponential":{"-8":1}},"work_duration":` + none + `,` +
		`"waiting":3,"retries":2,"rate_limited":1,"lateness":` + none + `,"retry_delay":` + none + `,"results":{"given_up":1},` +
		`"unfinished_seconds":1.5,"longest_running_seconds":1,"oldest_item_seconds":2,"paced_seconds":0.001}`
	got, err := json.Marshal(stats)
	if err != nil || string(got) != want {
		t.Errorf("got\n%s, %v, want\n%s", got, err, want)
	}
	var back workqueue.QueueStats
	if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, stats) {
		t.Errorf("read back: got\n%+v, %v, want\n%+v", back, err, stats)
	}
}

// Null and an error changed the value.
func TestNullAndABadTextChangeNothing(t *testing.T) {
	stats, info, part := workqueue.QueueStats{Depth: 3}, workqueue.ItemInfo[string]{Item: "a"}, workqueue.PartStats[int]{Key: 4}
	for _, into := range []any{&stats, &info, &part} {
		before := fmt.Sprintf("%+v", into)
		if err := json.Unmarshal([]byte("null"), into); err != nil {
			t.Errorf("%T: null: %v", into, err)
		}
		if err := json.Unmarshal([]byte(`{"depth": "many", "item": 1, "key": "five"}`), into); err == nil {
			t.Errorf("%T: a bad text is no error", into)
		}
		if after := fmt.Sprintf("%+v", into); after != before {
			t.Errorf("%T: got %s, want %s", into, after, before)
		}
	}
}

// The JSON leaves zero fields out. A value that is read into a second time keeps no field of the first.
func TestReadingIntoAUsedValueKeepsNothing(t *testing.T) {
	stats := workqueue.QueueStats{Depth: 3, ByPriority: []workqueue.PartStats[int]{{Key: 4, HeldBack: true}}, Paused: true}
	info := workqueue.ItemInfo[string]{Item: "a", Age: time.Hour, Failures: 2}
	part := workqueue.PartStats[int]{Key: 4, HeldBack: true}
	for into, zero := range map[any]any{&stats: workqueue.QueueStats{}, &info: workqueue.ItemInfo[string]{State: workqueue.ItemQueued}, &part: workqueue.PartStats[int]{}} {
		text, err := json.Marshal(zero)
		if err := cmp.Or(err, json.Unmarshal(text, into)); err != nil {
			t.Errorf("%T: %v", into, err)
		}
		if got := reflect.ValueOf(into).Elem().Interface(); !reflect.DeepEqual(got, zero) {
			t.Errorf("got %+v, want %+v", got, zero)
		}
	}
}

// The longest duration was read back as a negative one: its float is greater by 1.
func TestLongestDurationsInJSONKeepTheirSign(t *testing.T) {
	for _, d := range []time.Duration{math.MaxInt64, math.MinInt64, 1, -1} {
		text, err := json.Marshal(workqueue.QueueStats{Unfinished: d})
		var stats workqueue.QueueStats
		if err := cmp.Or(err, json.Unmarshal(text, &stats)); err != nil || stats.Unfinished != d {
			t.Errorf("stats: got %v, %v, want %v", stats.Unfinished, err, d)
		}
		text, err = json.Marshal(workqueue.ItemInfo[int]{Age: d})
		var info workqueue.ItemInfo[int]
		if err := cmp.Or(err, json.Unmarshal(text, &info)); err != nil || info.Age != d {
			t.Errorf("info: got %v, %v, want %v", info.Age, err, d)
		}
	}
}

// A textual is a constant that has a text.
type textual interface {
	~uint8
	fmt.Stringer
	encoding.TextMarshaler
}

// checkText checks that a known constant has the text of String and is read back, and that an unknown one has no
// text and is not read.
func checkText[T textual, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, value T, known bool) {
	t.Helper()
	text, err := value.MarshalText()
	if (err == nil) != known || known && string(text) != value.String() {
		t.Errorf("%v: got %q, %v", value, text, err)
	}
	back := T(77)
	if err := P(&back).UnmarshalText([]byte(value.String())); (err == nil) != known || known && back != value || !known && back != 77 {
		t.Errorf("%v: read back as %v, %v", value, back, err)
	}
}

func TestItemStateAsText(t *testing.T) {
	for s := range workqueue.ItemState(9) {
		checkText(t, s, s >= workqueue.ItemQueued && s <= workqueue.ItemFailed)
	}
	var s workqueue.ItemState
	for _, text := range []string{"", "1", "Queued"} {
		if err := s.UnmarshalText([]byte(text)); err == nil || fmt.Sprint(err) != fmt.Sprintf("workqueue: %q is no state of an item", text) {
			t.Errorf("%q: got %v, %v", text, s, err)
		}
	}
}

// For a small limit, the Snapshot looks for the first waiting items; for a large limit it copies
// and sorts. Both return the first items, with items of one time in the order of their calls.
func TestSnapshotOfTheFirstWaitingItems(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		KeepTimes: true, Clock: testingclock.NewFakeClock(epoch),
	})
	defer q.ShutDown()
	const n = 640
	rnd := newRand(t)
	var want []spec.Wait[int]
	for item := range n {
		due := time.Duration(1+rnd.IntN(50)) * time.Second
		q.AddAfter(item, due)
		want = append(want, spec.Wait[int]{Value: item, Due: due})
	}
	slices.SortStableFunc(want, func(a, b spec.Wait[int]) int { return cmp.Compare(a.Due, b.Due) })
	for _, limit := range []int{math.MinInt, -1, 0, 1, n/16 - 1, n / 16, n/16 + 1, n - 1, n, n + 1, math.MaxInt} {
		s := q.Snapshot(limit)
		most := limit
		if limit < 0 {
			most = n
		}
		if len(s.Waiting) != min(most, n) || s.WaitingTotal != n {
			t.Errorf("limit %d: %d of %d are shown", limit, len(s.Waiting), s.WaitingTotal)
		}
		for place, info := range s.Waiting {
			w := want[place]
			got := fmt.Sprint(info.Item, info.State, info.Age, info.Due.Sub(epoch), info.Position)
			if want := fmt.Sprint(w.Value, workqueue.ItemWaiting, 0*time.Second, w.Due, 1+place); got != want {
				t.Fatalf("limit %d: got %s, want %s", limit, got, want)
			}
		}
	}
}

// Items in our line have a position, and stored items have none.
func TestSnapshotSaysThePositionInLine(t *testing.T) {
	for _, storage := range []bool{false, true} {
		s := &shelf[string]{}
		var config workqueue.TypedQueueConfig[string]
		if storage {
			config.Queue = s
		}
		q := workqueue.NewTypedWithConfig(config)
		q.AddAll("held", "c")
		q.Get()
		for _, item := range []string{"a", "b"} {
			s.hook = func(string) { panic("storage") }
			goes(func() { q.Add(item) })
			s.hook = nil
		}
		want := map[bool]string{false: "[c 1 a 2 b 3 held 0]", true: "[a 1 b 2 held 0 c 0]"}[storage]
		var got []any
		snapshot := q.Snapshot(9)
		for _, info := range slices.Concat(snapshot.Queued, snapshot.InFlight) {
			got = append(got, info.Item, info.Position)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("storage %v: got %v, want %s", storage, got, want)
		}
	}
}

// sortedItems are the infos of Items, in the order of the items and of their states.
func sortedItems[T cmp.Ordered](q interface {
	Items() iter.Seq[workqueue.ItemInfo[T]]
}) []workqueue.ItemInfo[T] {
	return slices.SortedFunc(q.Items(), compareInfos)
}

func compareInfos[T cmp.Ordered](a, b workqueue.ItemInfo[T]) int {
	return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.State, b.State))
}

// At rest, Items visits what a Snapshot has, and Find finds it, whatever the layers.
func TestItemsAreThoseOfASnapshot(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	timed := workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: true}
	stored := timed
	stored.Queue = workqueue.DefaultQueue[string]()
	for name, q := range map[string]layered{
		"own layers": workqueue.NewTypedRateLimiting(constant(time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock, KeepTimes: true}),
		"no times":   workqueue.NewTypedRateLimiting(constant(time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock}),
		"a Queue below": workqueue.NewTypedRateLimiting(constant(time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{
			Clock: clock, Queue: workqueue.NewTypedWithConfig(stored),
		}),
		"an embedding type below": workqueue.NewTypedRateLimiting(constant(time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{
			Clock: clock, Queue: struct{ *workqueue.Typed[string] }{workqueue.NewTypedWithConfig(timed)},
		}),
	} {
		if name == "a Queue below" {
			q.AddAll("held", "held and added again")
		} else {
			q.AddWith(workqueue.AddOptions{Priority: prio(3)}, "held", "held and added again")
		}
		q.Get()
		q.Get()
		clock.Step(time.Second)
		q.AddAll("queued", "held and added again", "queued and waits", "removed", "next")
		q.Remove("removed")
		q.AddAfter("queued and waits", time.Hour)
		q.AddWith(workqueue.AddOptions{RateLimited: true}, "failed")
		items := 7
		switch name {
		case "a Queue below":
			q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "firm")
			items++
		case "own layers", "no times":
			q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true, Priority: prio(4)}, "firm")
			items++
		}
		clock.Step(time.Second)
		s := q.Snapshot(-1)
		want := slices.Concat(s.Queued, s.InFlight, s.Waiting)
		for i := range want {
			want[i].Position = 0
		}
		slices.SortFunc(want, compareInfos)
		if got := sortedItems(q); !slices.Equal(got, want) || len(got) != items {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, want)
		}
		for _, info := range want {
			if info.Item == "queued and waits" { // Find has one of the two places.
				continue
			}
			if got, ok := q.(*workqueue.TypedRateLimiting[string]).Find(info.Item); !ok || got != info {
				t.Errorf("%s: found %+v, %v, want %+v", name, got, ok, info)
			}
		}
		for most := range 7 { // Within the items of each state.
			n := 0
			for range q.Items() {
				if n == most {
					break
				}
				n++
			}
		}
		q.Remove("held")
		checkInvariants(t, 0, q)
		q.ShutDown()
	}
}

// Run with -race: everybody works on while the items are visited.
func TestItemsBesideWorkers(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(limiterOf(func(int) time.Duration { return time.Microsecond }), workqueue.TypedRateLimitingQueueConfig[int]{KeepTimes: true})
	var over sync.WaitGroup
	for range 4 {
		over.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				q.AddRateLimited(item)
				q.Done(item)
			}
		})
	}
	for i := range 1000 {
		q.Add(i)
	}
	for range 20 {
		for info := range q.Items() {
			if info.Item < 0 || info.Item >= 1000 || info.State == 0 || info.Age < 0 {
				t.Errorf("%+v", info)
			}
		}
		if s := q.Stats(); s.Depth+s.InFlight+s.Waiting < 1000 {
			t.Errorf("%+v", s)
		}
	}
	q.ShutDown()
	over.Wait()
}
