package fifo_test

import (
	"fmt"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// TestEndsOfAHandOut plays each end of a hand-out in each state of a held item, on a FIFO and on the
// specification. Another item is queued, and a barrier was raised when only the first was there. The add and
// the removal come before the worker says how its hand-out ends, or afterwards: until Done that is the same.
// docs/semantics.md has the table.
func TestEndsOfAHandOut(t *testing.T) {
	ends := []struct {
		end  spec.End
		fifo fifo.End
		want [4]string // held; added again; removed; removed and added again
	}{
		{spec.Worked, fifo.EndWorked, [4]string{"idle, passes", "queued, passes", "idle, passes", "queued, passes"}},
		{spec.Retry, fifo.EndRetry, [4]string{"queued, passes", "queued, passes", "idle, passes", "queued, passes"}},
		{spec.Redo, fifo.EndRedo, [4]string{"queued, waits", "queued, waits", "idle, passes", "queued, passes"}},
		{spec.Back, fifo.EndBack, [4]string{"first, waits", "first, waits", "idle, passes", "queued, passes"}},
		{spec.Leave, fifo.EndLeave, [4]string{"idle, fails", "queued, waits", "idle, passes", "queued, passes"}},
	}
	const item, other = 1, 2
	hash := slab.HashOf(item)
	for _, row := range ends {
		for state, want := range row.want {
			for _, late := range []bool{false, true} {
				m, s := newMachine(fifo.Config[int]{}), spec.New(spec.Rules[int]{})
				m.add(item, 0, nil)
				s.Add(item, spec.Place{})
				b, ticket := m.RaiseBarrier(), s.Barrier()
				m.Take(0)
				s.Get()
				m.add(other, 0, nil)
				s.Add(other, spec.Place{})
				change := func() {
					if state >= 2 {
						m.Remove(hash, item)
						s.Remove(item)
					}
					if state%2 == 1 {
						m.add(item, 0, nil)
						s.Add(item, spec.Place{})
					}
				}
				if !late {
					change()
				}
				c := m.Conclude(hash, item, row.fifo, 0, nil)
				removed, again := s.Conclude(item, row.end, spec.Place{})
				if c.Removed != removed || c.Again != again {
					t.Errorf("%s in state %d: concluded %+v, want removed %v, again %v", row.end, state, c, removed, again)
				}
				if late {
					change()
				}
				checkInvariants(t, state, m)
				m.done(item, 0)
				s.Done(item)
				got := fmt.Sprintf("%s, %s", placeOf(m), fateOf(isOver(b), b.Dropped))
				wanted := fmt.Sprintf("%s, %s", placeIn(s), fateOf(s.Over(ticket) || s.Dropped(ticket), s.Dropped(ticket)))
				if got != want || wanted != want {
					t.Errorf("%s in state %d, late %v: got %s, the specification says %s, want %s", row.end, state, late, got, wanted, want)
				}
				checkInvariants(t, state, m)
			}
		}
	}
}

func placeOf(m *machine) string {
	var c fifo.Census[int]
	c.Limit = 9
	m.EnterIn(&c)
	for i, e := range c.Queued {
		if e.Item == 1 {
			return []string{"first", "queued"}[i]
		}
	}
	return "idle"
}

func placeIn(s *spec.Queue[int]) string {
	for i, e := range s.Line() {
		if e.Value == 1 {
			return []string{"first", "queued"}[i]
		}
	}
	return "idle"
}

func fateOf(over, dropped bool) string {
	switch {
	case dropped:
		return "fails"
	case over:
		return "passes"
	}
	return "waits"
}
