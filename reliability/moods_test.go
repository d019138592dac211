package reliability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// The functions of an order answer anew at each add, and the clock of the queue is set forwards and
// back. Random calls are compared with the contract: each hand-out, and each Snapshot.
func TestOrderThatChangesItsMindAndClockThatIsSetBack(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			g := newGame(rand.New(rand.NewPCG(seed, 0)))
			defer g.queue.ShutDown()
			for range 200 {
				g.call(t)
				if got, want := g.got(), g.want(); got != want {
					t.Errorf("the queue has\n%s\nwant\n%s", got, want)
				}
				if t.Failed() {
					t.Fatalf("seed %d, the last calls were\n%s", seed, strings.Join(g.log[max(0, len(g.log)-30):], "\n"))
				}
			}
		})
	}
}

// A game is a queue beside the contract.
type game struct {
	rnd   *rand.Rand
	clock *testingclock.FakeClock
	epoch time.Time
	mood  int
	queue *workqueue.TypedDelaying[string]
	spec  *spec.Queue[string]
	limit func(group string) int
	log   []string
}

func newGame(rnd *rand.Rand) *game {
	g := &game{rnd: rnd, epoch: time.Now()}
	g.clock = testingclock.NewFakeClock(g.epoch)
	priority := func(item string) int { return (int(item[0]) + g.mood) % 5 }
	group := func(item string) string { return []string{"", "g", "h"}[(int(item[0])+g.mood/3)%3] }
	weight := func(string) int { return 1 + g.mood%3 }
	limit := func(group string) int { return (len(group)+g.mood)%5 - 1 }
	g.limit = limit
	order := workqueue.Order[string]{
		Priority: priority, Group: group, Weight: weight, MaxInFlight: limit,
		OldestEvery: rnd.IntN(4), GroupsFirst: rnd.IntN(2) == 0,
	}
	oneEntry := rnd.IntN(2) == 0
	g.queue = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: g.clock, OneEntry: oneEntry, Order: order})
	g.spec = spec.New(spec.Rules[string]{
		OldestEvery: order.OldestEvery, GroupsFirst: order.GroupsFirst, OneEntry: oneEntry,
		Place: func(item string, p spec.Place) spec.Place {
			if !p.Named {
				p.Priority = priority(item)
			}
			p.Group = group(item)
			p.Weight, p.Limit = weight(p.Group), limit(p.Group)
			return p
		},
	})
	return g
}

// call makes a call at random.
func (g *game) call(t *testing.T) {
	item := string(rune('a' + g.rnd.IntN(5)))
	d := time.Duration(1+g.rnd.IntN(9)) * time.Second
	n := g.rnd.IntN(7) - 1
	named := spec.Place{Priority: n, Named: true}
	kind := g.rnd.IntN(13)
	g.log = append(g.log, fmt.Sprint(kind, " ", item, " ", d, " ", n))
	switch kind {
	case 0:
		g.queue.Add(item)
		g.spec.Add(item, spec.Place{})
	case 1:
		g.queue.AddWith(workqueue.AddOptions{Priority: &n}, item)
		g.spec.Add(item, named)
	case 2:
		g.queue.AddAfter(item, d)
		g.spec.Later(spec.After, item, d, 0, spec.Place{})
	case 3:
		g.queue.AddWith(workqueue.AddOptions{Priority: &n, After: d}, item)
		g.spec.Later(spec.After, item, d, 0, named)
	case 4:
		d -= 3 * time.Second
		g.queue.Reschedule(item, d)
		g.spec.Later(spec.Reschedule, item, d, 0, spec.Place{})
	case 5:
		most := d + time.Duration(g.rnd.IntN(4))*time.Second
		g.queue.Debounce(item, d, most)
		g.spec.Later(spec.Debounce, item, d, most, spec.Place{})
	case 6, 7:
		got, ok := g.queue.TryGet()
		if want, wantOK := g.spec.Get(); got != want.Value || ok != wantOK {
			t.Errorf("TryGet returns %q, %v, want %q, %v", got, ok, want.Value, wantOK)
		}
	case 8:
		g.queue.Done(item)
		g.spec.Done(item)
	case 9:
		if got, want := g.queue.Remove(item), g.spec.Remove(item); got != want {
			t.Errorf("Remove returns %v, want %v", got, want)
		}
	case 10:
		g.mood++
	case 11:
		d -= 4 * time.Second
		g.clock.SetTime(g.clock.Now().Add(d))
		synctest.Wait()
		g.spec.Step(d)
	case 12:
		g.queue.LimitsChanged()
		g.spec.LimitsChanged(g.limit)
	}
}

// got returns the items of the queue in words.
func (g *game) got() string {
	var lines []string
	s := g.queue.Snapshot(-1)
	for _, info := range slices.Concat(s.Queued, s.InFlight) {
		lines = append(lines, fmt.Sprintln(info.Item, info.State, info.Priority))
	}
	slices.Sort(lines) // With groups, Queued is not in the order of the hand-outs.
	for _, info := range s.Waiting {
		lines = append(lines, fmt.Sprintln(info.Item, info.Due.Sub(g.epoch), info.Priority))
	}
	return strings.Join(lines, "")
}

func (g *game) want() string {
	var lines []string
	for _, i := range g.spec.Queued {
		lines = append(lines, fmt.Sprintln(i.Value, workqueue.ItemQueued, i.Place.Priority))
	}
	for item, h := range g.spec.Held {
		state, place := workqueue.ItemInFlight, h.Place
		if h.Marked {
			state, place = workqueue.ItemInFlightAgain, h.Next
		}
		lines = append(lines, fmt.Sprintln(item, state, place.Priority))
	}
	slices.Sort(lines)
	for _, w := range g.spec.Waiting {
		lines = append(lines, fmt.Sprintln(w.Value, w.Due, w.Place.Priority))
	}
	return strings.Join(lines, "")
}
