package attack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A named is a priority, and whether an add has named the priority.
type named struct {
	priority int
	named    bool
}

func (n named) String() string { return fmt.Sprint(n.priority, map[bool]string{true: "!"}[n.named]) }

// raise is the rank of two adds: the second counts if its priority is higher.
func (n named) raise(by named) named {
	if by.priority > n.priority {
		return by
	}
	return n
}

// A place is what a queue has an item for.
type place struct {
	rank named
	seq  int // of the queued, by their adds and raises
}

type delay struct {
	rank   named
	due    time.Time
	seq    int       // of the last call that has set the due time
	latest time.Time // of a Debounce; zero for a wait that no Debounce may put off
}

// ranks is a model of a TypedDelaying with a Priority function, and without groups: each item
// can be queued, or held and perhaps added again, and can wait besides.
type ranks struct {
	oneEntry bool
	queued   map[string]place
	held     map[string]named
	again    map[string]named
	waits    map[string]delay
	seq      int
}

func (m *ranks) next() int { m.seq++; return m.seq }

// add adds the item now. It leaves a wait as it is.
func (m *ranks) add(item string, rank named) {
	_, held := m.held[item]
	at, queued := m.queued[item]
	again, marked := m.again[item]
	switch {
	case queued && rank.priority > at.rank.priority:
		m.queued[item] = place{rank, m.next()}
	case queued:
	case marked:
		m.again[item] = again.raise(rank)
	case held:
		m.again[item] = rank
	default:
		m.queued[item] = place{rank, m.next()}
	}
}

// endWait ends the wait of the item and adds the item.
func (m *ranks) endWait(item string, rank named, keep bool) {
	if w, ok := m.waits[item]; ok {
		delete(m.waits, item)
		if keep {
			rank = w.rank
		} else {
			rank = w.rank.raise(rank)
		}
	}
	m.add(item, rank)
}

func (m *ranks) hasEntry(item string) bool {
	_, queued := m.queued[item]
	_, marked := m.again[item]
	return m.oneEntry && (queued || marked)
}

// wait lets the item wait, by an AddAfter.
func (m *ranks) wait(item string, rank named, due time.Time) {
	if m.hasEntry(item) {
		m.add(item, rank)
		return
	}
	w, ok := m.waits[item]
	switch {
	case !ok:
		w = delay{rank: rank, due: due, seq: m.next()}
	default:
		w.rank = w.rank.raise(rank)
		if !w.latest.IsZero() && due.Before(w.latest) {
			w.latest = due
		}
		if due.Before(w.due) {
			w.due, w.seq = due, m.next()
		}
	}
	m.waits[item] = w
}

func (m *ranks) reschedule(item string, rank named, due time.Time) {
	if m.hasEntry(item) {
		return
	}
	if w, ok := m.waits[item]; ok {
		rank = w.rank
	}
	m.waits[item] = delay{rank: rank, due: due, seq: m.next()}
}

func (m *ranks) debounce(item string, rank named, due, latest time.Time) {
	if m.hasEntry(item) {
		m.add(item, rank)
		return
	}
	earlier := func(a, b time.Time) time.Time {
		if b.Before(a) {
			return b
		}
		return a
	}
	w, ok := m.waits[item]
	switch {
	case !ok:
		w = delay{rank: rank, due: earlier(due, latest), seq: m.next(), latest: latest}
	case !w.latest.IsZero():
		if at := earlier(due, w.latest); !at.Equal(w.due) || at.Before(w.latest) {
			w.due, w.seq = at, m.next()
		}
	case due.Before(w.due):
		w.due, w.seq = due, m.next()
	}
	m.waits[item] = w
}

// step adds what is due.
func (m *ranks) step(now time.Time) {
	for {
		first := ""
		for item, w := range m.waits {
			if f := m.waits[first]; !w.due.After(now) && (first == "" || w.due.Before(f.due) || w.due.Equal(f.due) && w.seq < f.seq) {
				first = item
			}
		}
		if first == "" {
			return
		}
		rank := m.waits[first].rank
		delete(m.waits, first)
		m.add(first, rank)
	}
}

// line is the order of the hand-outs.
func (m *ranks) line() (items []string) {
	for item := range m.queued {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b string) int {
		p, q := m.queued[a], m.queued[b]
		if p.rank.priority != q.rank.priority {
			return q.rank.priority - p.rank.priority
		}
		return p.seq - q.seq
	})
	return items
}

func (m *ranks) String() string {
	var b strings.Builder
	for _, item := range m.line() {
		fmt.Fprint(&b, item, m.queued[item].rank, " ")
	}
	b.WriteString("| ")
	for item := range names {
		if rank, ok := m.held[item]; ok {
			if again, ok := m.again[item]; ok {
				rank = again
				b.WriteString("again ")
			}
			fmt.Fprint(&b, item, rank, " ")
		}
	}
	b.WriteString("| ")
	for item := range names {
		if w, ok := m.waits[item]; ok {
			fmt.Fprint(&b, item, w.rank, w.due.Format(" 05.000 "))
		}
	}
	return b.String()
}

// shown is the same of a Snapshot.
func shown(s workqueue.Snapshot[string]) string {
	var b strings.Builder
	rank := func(info workqueue.ItemInfo[string]) named { return named{info.Priority, info.PriorityNamed} }
	for _, info := range s.Queued {
		fmt.Fprint(&b, info.Item, rank(info), " ")
	}
	b.WriteString("| ")
	for item := range names {
		for _, info := range s.InFlight {
			if info.Item == item {
				if info.State == workqueue.ItemInFlightAgain {
					b.WriteString("again ")
				}
				fmt.Fprint(&b, item, rank(info), " ")
			}
		}
	}
	b.WriteString("| ")
	for item := range names {
		for _, info := range s.Waiting {
			if info.Item == item {
				fmt.Fprint(&b, item, rank(info), info.Due.Format(" 05.000 "))
			}
		}
	}
	return b.String()
}

// names are the items, in order.
func names(yield func(item string) bool) {
	for _, item := range []string{"a", "b", "c", "d", "e"} {
		if !yield(item) {
			return
		}
	}
}

// TestPriorities has a Priority function beside adds that name priorities, in each call that
// adds an item now or later, on a queue with and without OneEntry. The function changes its
// mind.
func TestPriorities(t *testing.T) {
	play(t, 60, func(t *testing.T, rnd *rand.Rand) (calls int) {
		synctest.Test(t, func(t *testing.T) { calls = playPriorities(t, rnd) })
		return calls
	})
}

func playPriorities(t *testing.T, rnd *rand.Rand) int {
	mood := 0
	config := workqueue.TypedDelayingQueueConfig[string]{OneEntry: rnd.IntN(2) == 0, KeepTimes: rnd.IntN(4) == 0}
	function := rnd.IntN(4) > 0
	if function {
		config.Order.Priority = func(item string) int { return (int(item[0]) + mood) % 5 }
	}
	q := workqueue.NewTypedDelaying(config)
	defer q.ShutDown()
	m := &ranks{
		oneEntry: config.OneEntry, queued: map[string]place{}, held: map[string]named{},
		again: map[string]named{}, waits: map[string]delay{},
	}
	calls := 200
	var log []string
	for range calls {
		item := string(rune('a' + rnd.IntN(5)))
		unnamed := named{}
		if function {
			unnamed.priority = config.Order.Priority(item)
		}
		rank, options := unnamed, workqueue.AddOptions{}
		if rnd.IntN(2) == 0 {
			options.Priority = new(rnd.IntN(7) - 1)
			rank = named{*options.Priority, true}
		}
		d := time.Duration(1+rnd.IntN(9)) * time.Second
		due := time.Now().Add(d)
		what := ""
		switch rnd.IntN(11) {
		case 0:
			what = "AddWith"
			q.AddWith(options, item)
			if m.oneEntry {
				m.endWait(item, rank, false)
			} else {
				m.add(item, rank)
			}
		case 1:
			what = "Add"
			q.Add(item)
			if rank = unnamed; m.oneEntry {
				m.endWait(item, rank, false)
			} else {
				m.add(item, rank)
			}
		case 2, 3:
			what = "AddWith After"
			options.After = d
			q.AddWith(options, item)
			m.wait(item, rank, due)
		case 4:
			rank = unnamed
			if what = "Reschedule"; rnd.IntN(3) == 0 {
				what = "Reschedule 0"
				q.Reschedule(item, 0)
				m.endWait(item, rank, true)
				break
			}
			q.Reschedule(item, d)
			m.reschedule(item, rank, due)
		case 5:
			rank = unnamed
			if what = "Debounce"; rnd.IntN(3) == 0 {
				what = "Debounce 0"
				q.Debounce(item, 0, 0)
				m.endWait(item, rank, true)
				break
			}
			most := d + time.Duration(rnd.IntN(4))*time.Second
			q.Debounce(item, d, most)
			m.debounce(item, rank, due, time.Now().Add(most))
		case 6, 7:
			what = "TryGet"
			got, ok := q.TryGet()
			want := ""
			if line := m.line(); len(line) > 0 {
				want = line[0]
				m.held[want] = m.queued[want].rank
				delete(m.queued, want)
			}
			if item = got; got != want || ok != (want != "") {
				t.Errorf("got %q, want %q", got, want)
			}
		case 8:
			what = "Done"
			q.Done(item)
			if _, held := m.held[item]; held {
				delete(m.held, item)
				if again, ok := m.again[item]; ok {
					delete(m.again, item)
					m.add(item, again)
				}
			}
		case 9:
			if what = "Remove"; rnd.IntN(3) == 0 {
				q.Remove(item)
				delete(m.queued, item)
				delete(m.again, item)
				delete(m.waits, item)
			}
			mood++
		case 10:
			what = "Step"
			time.Sleep(d / 3)
			synctest.Wait()
			m.step(time.Now())
		}
		log = append(log, fmt.Sprintln(what, item, rank, d))
		if got, want := shown(q.Snapshot(-1)), m.String(); got != want {
			t.Errorf("after\n%s\ngot  %s\nwant %s", strings.Join(log[max(0, len(log)-30):], ""), got, want)
		}
		if t.Failed() {
			break
		}
	}
	return calls
}
