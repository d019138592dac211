package workqueue_test

import (
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// What schedule has promised binds debounce, at all times.
func TestAgendaDebounceIsBound(t *testing.T) {
	for _, row := range []struct {
		name  string
		calls func(a *workqueue.Agenda[float64])
		want  time.Duration
	}{
		{"by what was promised earlier", func(a *workqueue.Agenda[float64]) {
			a.Schedule(1, 5)
			a.Debounce(1, 30, 40)
		}, 5},
		{"by its own latest time", func(a *workqueue.Agenda[float64]) {
			a.Debounce(1, 5, 10)
			a.Debounce(1, 30, 40)
		}, 10},
		{"by an earlier promise since", func(a *workqueue.Agenda[float64]) {
			a.Debounce(1, 5, 10)
			a.Schedule(1, 7)
			a.Debounce(1, 30, 40)
		}, 7},
		{"not by a later one", func(a *workqueue.Agenda[float64]) {
			a.Debounce(1, 5, 10)
			a.Schedule(1, 20)
			a.Debounce(1, 30, 40)
		}, 10},
		{"before the epoch, beside another", func(a *workqueue.Agenda[float64]) {
			a.Debounce(2, 100, 100)
			a.Schedule(1, -10)
			a.Schedule(1, -5)
			a.Debounce(1, -1, -1)
		}, -10},
	} {
		var a workqueue.Agenda[float64]
		row.calls(&a)
		if a.Next() != row.want {
			t.Errorf("%s: due at %d, want %d", row.name, a.Next(), row.want)
		}
		checkInvariants(t, 0, &a)
	}
}

// What is left when an agenda gives its room back can be put off as far as
// before, and what could not be put off cannot be then.
func TestAgendaShrinksWithItsLatestTimes(t *testing.T) {
	t.Parallel()
	var a workqueue.Agenda[float64]
	const n = 5000
	for i := range n {
		if item := float64(i); i%3 == 0 {
			a.Schedule(item, time.Duration(i))
		} else {
			a.Debounce(item, time.Duration(i), time.Duration(2*n+i))
		}
	}
	checkInvariants(t, 0, &a)
	for range n - 10 {
		a.Pop()
	}
	checkInvariants(t, 1, &a)
	if a.Room() > n/2 {
		t.Errorf("%d records are left for %d items", a.Room(), a.Len())
	}
	for i := n - 10; i < n; i++ {
		a.Debounce(float64(i), 4*n, 5*n)
	}
	checkInvariants(t, 2, &a)
	for a.Len() > 0 {
		due := a.Next()
		item := int(a.Pop())
		want := time.Duration(item)
		if item%3 != 0 {
			want += 2 * n
		}
		if due != want {
			t.Errorf("item %d is due at %d, want %d", item, due, want)
		}
	}
}
