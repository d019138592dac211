package workqueue_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A page for operators shows a Snapshot as JSON: states in words, and nothing that
// does not apply, such as a due time in the year 1.
func TestSnapshotInJSONSaysStatesInWordsAndLeavesOutWhatIsNotKnown(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	for keep, want := range map[bool]string{
		true: `{"queued":[{"item":"b","state":"queued","age":3000000000,"position":1}],` +
			`"inFlight":[{"item":"a","state":"in flight, added again","age":3000000000}],` +
			`"waiting":[{"item":"c","state":"waiting","age":3000000000,"due":"` + epoch.Add(time.Hour).Format(time.RFC3339Nano) + `","position":1}],` +
			`"queuedTotal":1,"inFlightTotal":1,"waitingTotal":1}`,
		false: `{"queued":[{"item":"b","state":"queued","position":1}],"inFlight":[{"item":"a","state":"in flight, added again"}],` +
			`"waiting":[{"item":"c","state":"waiting","due":"` + epoch.Add(time.Hour+3*time.Second).Format(time.RFC3339Nano) + `","position":1}],` +
			`"queuedTotal":1,"inFlightTotal":1,"waitingTotal":1}`,
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

func TestItemStateAsText(t *testing.T) {
	for s := range workqueue.ItemState(9) {
		known := s >= workqueue.ItemQueued && s <= workqueue.ItemFailed
		text, err := s.MarshalText()
		if (err == nil) != known || known && string(text) != s.String() {
			t.Errorf("%v: got %q, %v", s, text, err)
		}
		back := workqueue.ItemState(77)
		if err := back.UnmarshalText([]byte(s.String())); (err == nil) != known || known && back != s || !known && back != 77 {
			t.Errorf("%v: read back as %v, %v", s, back, err)
		}
	}
	var s workqueue.ItemState
	for _, text := range []string{"", "1", "Queued"} {
		if err := s.UnmarshalText([]byte(text)); err == nil || fmt.Sprint(err) != fmt.Sprintf("workqueue: %q is no state of an item", text) {
			t.Errorf("%q: got %v, %v", text, s, err)
		}
	}
}
