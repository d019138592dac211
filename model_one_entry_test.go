package workqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A oneEntry is the model of a queue with OneEntry: the queue may keep an item from
// waiting, and an Add ends a wait. All else is that of a naiveDelaying.
type oneEntry struct{ naiveDelaying }

// has reports whether the item is queued, or will be by its Done. What was removed is
// not, even if a storage still has it.
func (m *oneEntry) has(item int) bool {
	r := m.naive
	return r.remove(item)
}

func (m *oneEntry) addNow(item int) {
	m.cancel(item)
	m.add(item)
}

// plans makes a call with a delay, if it has an effect.
func (m *oneEntry) plans(item int, delay time.Duration, plan func()) {
	switch {
	case delay <= 0:
		m.addNow(item)
	case !m.has(item):
		plan()
	}
}

// TestModelOneEntry plays random calls on a queue with OneEntry and on its model,
// with a line and with a storage, and compares what is queued, held and waiting.
func TestModelOneEntry(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playOneEntry(t, randomScript(rnd, 300))
	}
}

func FuzzOneEntry(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		playOneEntry(t, script)
	})
}

func playOneEntry(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	span := 1 + int(script[0]>>1)%16
	var config workqueue.TypedQueueConfig[int]
	if script[0]&1 != 0 {
		config.Queue = workqueue.DefaultQueue[int]()
	}
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		below := workqueue.NewTypedWithConfig(config)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock, Queue: below, OneEntry: true})
		m := &oneEntry{naiveDelaying{naive: naive{stored: config.Queue != nil}}}
		for i := 1; i+1 < len(script); i += opSize {
			call := m.step(q, clock, script[i], int(script[i+1])%span)
			synctest.Wait()
			checkInvariants(t, i/opSize, q)
			got := fmt.Sprint(q.Len(), below.Held(), agendaOf(q))
			want := fmt.Sprint(m.queued(), len(m.held), fmt.Sprint(m.agenda()))
			if got != want {
				t.Fatalf("step %d: %s: queued, held, waiting: got %s, want %s", i/opSize, call, got, want)
			}
		}
		q.ShutDown()
	})
}

func (m *oneEntry) step(q *workqueue.TypedDelaying[int], clock *testingclock.FakeClock, op byte, item int) string {
	delay := time.Duration(int(op>>4)-2) * time.Second
	switch op % 11 {
	case 0, 1:
		q.Add(item)
		m.addNow(item)
		return fmt.Sprint("Add ", item)
	case 2, 3:
		q.AddAfter(item, delay)
		m.plans(item, delay, func() { m.addAfter(item, delay, 0) })
		return fmt.Sprint("AddAfter ", item, delay)
	case 4:
		q.Reschedule(item, delay)
		m.plans(item, delay, func() { m.reschedule(item, delay) })
		return fmt.Sprint("Reschedule ", item, delay)
	case 5:
		q.Debounce(item, delay, 2*delay)
		m.plans(item, delay, func() { m.debounce(item, delay, 2*delay) })
		return fmt.Sprint("Debounce ", item, delay)
	case 6, 7:
		got, ok := q.TryGet()
		want, wantOK := m.get()
		if got != want || ok != wantOK {
			panic(fmt.Sprintf("TryGet: got %d, %v, want %d, %v", got, ok, want, wantOK))
		}
		return fmt.Sprint("TryGet ", got)
	case 8, 9:
		q.Done(item)
		m.done(item)
		return fmt.Sprint("Done ", item)
	}
	if item%3 == 0 {
		q.AddAll(item, item+1)
		m.addNow(item)
		m.addNow(item + 1)
		return fmt.Sprint("AddAll ", item)
	}
	clock.Step(time.Duration(item) * time.Second)
	m.naiveDelaying.step(time.Duration(item) * time.Second)
	return fmt.Sprint("Step ", item)
}
