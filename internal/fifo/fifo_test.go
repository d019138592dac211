package fifo_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

func checkInvariants(t *testing.T, step int, m interface{ CheckInvariants() error }) {
	t.Helper()
	if err := m.CheckInvariants(); err != nil {
		t.Fatalf("after step %d: %v", step, err)
	}
}

// checkRoom checks that an empty FIFO has given back the memory of many items.
func checkRoom(t *testing.T, records int) {
	t.Helper()
	if records > 2048 {
		t.Errorf("there is room for %d items, and no item is left", records)
	}
}

// takeAll takes all that is queued, and holds nothing of it.
func (m *machine) takeAll() (items []int) {
	for item, _, ok := m.Take(0); ok; item, _, ok = m.Take(0) {
		items = append(items, item)
		m.done(item, 0)
	}
	return items
}

// Workers hold some of a burst while the rest of it is done and its memory given
// back: what is held is still known.
func TestHeldItemsWhileTheTableShrinks(t *testing.T) {
	t.Parallel()
	m := newMachine(fifo.Config[int]{})
	const n = 4000
	for i := range n {
		m.add(i, 0, nil)
		m.Take(0)
	}
	for i := range n {
		if i%500 != 0 {
			m.done(i, 0)
		}
		if i%1000 == 0 || i > n-5 {
			checkInvariants(t, i, m)
		}
	}
	for i := 0; i < n; i += 500 {
		m.add(i, 0, nil)
		m.done(i, 0)
		if item, _, ok := m.Take(0); item != i || !ok {
			t.Errorf("got %d, %v, want %d, which was added again", item, ok, i)
		}
		m.done(i, 0)
	}
	checkInvariants(t, n, m)
	if m.Held() != 0 || m.Len() != 0 {
		t.Errorf("%d items are held and %d queued, want none", m.Held(), m.Len())
	}
}

// Through growth and shrinking of all that holds items.
func TestOrderThroughBursts(t *testing.T) {
	t.Parallel()
	m := newMachine(fifo.Config[int]{})
	next, want := 0, 0
	for round, burst := range []int{3, 9000, 1, 20, 5000, 0, 700} {
		for range burst {
			m.add(next, 0, nil)
			next++
		}
		for range burst - burst/3 {
			got, _, _ := m.Take(0)
			if got != want {
				t.Fatalf("round %d: got %d, want %d", round, got, want)
			}
			m.done(got, 0)
			want++
		}
		checkInvariants(t, round, m)
	}
	if rest := m.takeAll(); !slices.IsSorted(rest) || len(rest) != next-want || rest[0] != want {
		t.Errorf("got the %d last items from %d on out of order", next-want, want)
	}
	checkInvariants(t, next, m)
	checkRoom(t, m.Items.Records.N)
}

// A line with a first item that nobody gets must not grow with each removal.
func TestLineDoesNotGrowWithRemovals(t *testing.T) {
	t.Parallel()
	m := newMachine(fifo.Config[int]{})
	m.add(-1, 0, nil)
	for i := range 10_000 {
		m.add(i, 0, nil)
		m.add(i+1, 0, nil)
		m.Remove(slab.HashOf(i), i) // i+1 is behind it, and keeps the hole from being the last.
	}
	checkInvariants(t, 0, m)
	if room := m.Items.Records.N; room > 4 {
		t.Errorf("there are %d records, for %d items", room, m.Len())
	}
}

func TestRemoveKeepsTheOrderOfTheOthers(t *testing.T) {
	t.Parallel()
	m := newMachine(fifo.Config[int]{})
	const n = 10_000
	want := make([]int, 0, n)
	for i := range n {
		m.add(i, 0, nil)
		want = append(want, i)
	}
	for _, i := range rand.Perm(n)[:n-500] {
		hash := slab.HashOf(i)
		if _, back := m.Remove(hash, i); !back {
			t.Fatalf("item %d is not removed", i)
		}
		if had, _ := m.Remove(hash, i); had {
			t.Fatalf("item %d is removed twice", i)
		}
		want[i] = -1
	}
	checkInvariants(t, 0, m)
	want = slices.DeleteFunc(want, func(i int) bool { return i < 0 })
	if got := m.takeAll(); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d: %v, %v", len(got), len(want), got, want)
	}
	checkRoom(t, m.Items.Records.N)
}

// A burst that nobody can name leaves no records, and neither Done nor Remove finds an item.
func TestItemsThatDifferFromThemselves(t *testing.T) {
	t.Parallel()
	var m fifo.FIFO[float64]
	m.Init(fifo.Config[float64]{Timed: true, OldestEvery: 2})
	nan := math.NaN()
	hash := slab.HashOf(nan)
	const n = 5000
	for range n {
		at, r := m.Items.Find(hash, nan)
		if r != nil || !m.Add(at, hash, nan, 0, nil) {
			t.Fatal("a NaN is a duplicate")
		}
	}
	if had, _ := m.Remove(hash, nan); had || m.Len() != n {
		t.Errorf("%d items are left after a Remove, want %d", m.Len(), n)
	}
	checkInvariants(t, 0, &m)
	m.Take(0)
	m.Conclude(slab.HashOf(nan), nan, fifo.EndBack, 0, nil)
	checkInvariants(t, 1, &m)
	for i := range n {
		if _, _, ok := m.Take(0); !ok {
			t.Fatalf("got %d items of %d", i, n)
		}
	}
	checkInvariants(t, 2, &m)
	checkRoom(t, m.Items.Records.N)
}

// A group ends and begins again while a survey is on its way: the group has one part all the same. A
// provider would show two series with the same labels.
func TestGroupThatBeginsAgainDuringASurvey(t *testing.T) {
	m := newMachine(fifo.Config[int]{Grouped: true})
	place := func(group string) *fifo.Placement { return &fifo.Placement{Group: group, Weight: 1} }
	const deep, others = 3, 10_000
	for item := range deep {
		m.add(item, 0, place("deep"))
	}
	for item := deep; item < others; item++ {
		m.add(item, 0, place(strconv.Itoa(item)))
	}
	var s fifo.Survey
	if m.Survey(&s) {
		t.Fatal("the survey is over after its first look")
	}
	for item := range deep {
		m.Remove(slab.HashOf(item), item)
	}
	m.add(others, 0, place("takes the lane of deep"))
	for item := range deep {
		m.add(item, 0, place("deep"))
	}
	for !m.Survey(&s) {
	}
	seen := 0
	for _, part := range s.Groups(m.Len(), m.Held()) {
		if part.Key == "deep" {
			seen++
		}
	}
	if seen != 1 {
		t.Errorf("the group has %d parts", seen)
	}
}
