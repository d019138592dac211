package debugpage

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// WalkTime bounds the walk over the items for a request.
const WalkTime = 500 * time.Millisecond

const (
	maxInFlight = 100
	maxHead     = 20 // of queued items, of waiting items, of failed items
	maxHits     = 100
)

// spans are the upper ends of the time line.
var spans = [...]time.Duration{
	time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, math.MaxInt64,
}

// A look is a request's reading of a queue.
type look struct {
	show   shower
	stuck  time.Duration
	now    time.Time
	search string

	detail Detail
}

// summarize sets the numbers of a queue.
func (l *look) summarize(s workqueue.QueueStats, ending bool) {
	d := &l.detail
	d.ShuttingDown = ending
	d.Depth, d.InFlight, d.Workers, d.Waiting = s.Depth, s.InFlight, s.Workers, s.Waiting
	d.OldestItem, d.LongestRunning = s.OldestItem.Seconds(), s.LongestRunning.Seconds()
	d.Stuck = s.LongestRunning > l.stuck
	// A queue that counts has buckets, also before the first item.
	d.Counted = s.Latency.Buckets != nil || s.WorkDuration.Buckets != nil || s.Lateness.Buckets != nil
	d.Pushed, d.Paused, d.Pace = s.Pushed, s.Paused, s.Pace
	d.Adds, d.Duplicates, d.Done = s.Adds, s.Duplicates, s.WorkDuration.Count
	d.Retries, d.RateLimited, d.Paced = s.Retries, s.RateLimited, s.Paced.Seconds()
	d.Results, d.Work = s.Results, s.WorkDuration.Sum
	d.ByPriority = partsOf(s.ByPriority, strconv.Itoa)
	d.ByGroup = partsOf(s.ByGroup, l.show.text)
}

// late is the age of the oldest queued item from which the page marks it: that of the alert
// WorkqueueOldestItemTooOld.
const late = 15 * time.Minute

func (s *Summary) isLate() bool { return s.OldestItem > late.Seconds() }

// lacksWorkers reports whether items are queued and nobody takes them.
func (s *Summary) lacksWorkers() bool { return s.Depth > 0 && s.Workers == 0 }

func partsOf[K comparable](parts []workqueue.PartStats[K], name func(K) string) (shown []Part) {
	for _, p := range parts {
		part := Part{Others: p.Others, Depth: p.Depth, InFlight: p.InFlight, HeldBack: p.HeldBack, OldestItem: p.OldestItem.Seconds()}
		if !p.Others {
			part.Name = name(p.Key)
		}
		shown = append(shown, part)
	}
	return shown
}

// lookAt reads the items of a queue.
func lookAt[T comparable](q Queue[T], l *look) {
	s := q.Snapshot(maxInFlight)
	d := &l.detail
	d.QueuedItems = itemsOf(l, s.Queued[:min(len(s.Queued), maxHead)])
	d.WaitingItems = itemsOf(l, s.Waiting[:min(len(s.Waiting), maxHead)])
	w := walk[T]{
		look:   l,
		failed: top[T]{limit: maxHead, less: func(a, b workqueue.ItemInfo[T]) bool { return a.Failures < b.Failures }},
	}
	if s.InFlightTotal > len(s.InFlight) {
		// A Snapshot with a limit does not say which of the held items it shows. The walk
		// finds the items that are held longest.
		w.held = top[T]{limit: maxInFlight, less: func(a, b workqueue.ItemInfo[T]) bool { return a.Age < b.Age }}
	}
	w.run(q)
	d.InFlightItems = itemsOf(l, s.InFlight)
	if w.held.limit > 0 {
		d.InFlightItems = itemsOf(l, w.held.infos)
	}
	d.MostFailed = itemsOf(l, w.failed.infos)
}

// writeKeys writes a line for each item: the state and the whole key.
func writeKeys[T comparable](w io.Writer, q Queue[T], show shower) error {
	for info := range q.Items() {
		key := escaped(show.redacted(textOf(info.Item)), math.MaxInt)
		if _, err := fmt.Fprintf(w, "%v\t%s\n", info.State, key); err != nil {
			return err
		}
	}
	return nil
}

func itemsOf[T comparable](l *look, infos []workqueue.ItemInfo[T]) (items []Item) {
	for _, info := range infos {
		items = append(items, itemOf(l, info, l.show.item(info.Item)))
	}
	return items
}

func itemOf[T comparable](l *look, info workqueue.ItemInfo[T], key string) Item {
	i := Item{
		Key: key, State: info.State.String(), Age: info.Age.Seconds(),
		Failures: info.Failures, Priority: info.Priority, Why: string(info.Why),
	}
	if !info.Due.IsZero() {
		i.Due, i.Left = info.Due.UTC(), info.Due.Sub(l.now).Seconds()
	}
	i.Stuck = isHeld(info.State) && info.Age > l.stuck
	return i
}

func isHeld(s workqueue.ItemState) bool {
	return s == workqueue.ItemInFlight || s == workqueue.ItemInFlightAgain
}

// A walk looks at each item once, for all lists that need all items.
type walk[T comparable] struct {
	look   *look
	failed top[T]
	held   top[T] // not in use while its limit is 0
}

func (w *walk[T]) run(q Queue[T]) {
	d := &w.look.detail
	d.Timeline = newTimeline()
	// A key can have a String method that is slow. So the clock is read for each key, and
	// otherwise now and then: a visit takes some 50 ns, as does the clock.
	every := 256
	if w.look.search != "" {
		every = 1
	}
	end := time.Now().Add(WalkTime)
	for info := range q.Items() {
		if d.LookedAt%every == 0 && time.Now().After(end) {
			d.Cut = true
			return
		}
		d.LookedAt++
		w.visit(info)
	}
}

func (w *walk[T]) visit(info workqueue.ItemInfo[T]) {
	d := &w.look.detail
	if info.Failures > 0 {
		w.failed.offer(info)
	}
	if info.State == workqueue.ItemWaiting {
		left := info.Due.Sub(w.look.now)
		i := 0
		for left >= spans[i] && i < len(spans)-1 {
			i++
		}
		d.Timeline[i].Items++
	}
	if isHeld(info.State) && w.held.limit > 0 {
		w.held.offer(info)
	}
	if w.look.search == "" {
		return
	}
	// The shown text and no other is searched: a search that found what Redact hides would
	// tell the hidden text, one letter after the other.
	if key := w.look.show.item(info.Item); strings.Contains(key, w.look.search) {
		if d.HitsTotal++; d.HitsTotal <= maxHits {
			d.Hits = append(d.Hits, itemOf(w.look, info, key))
		}
	}
}

func newTimeline() []Span {
	line := make([]Span, len(spans))
	for i := range line[:len(line)-1] {
		line[i].Below = spans[i].Seconds()
	}
	return line
}

// top keeps the greatest of the offered infos, the greatest first.
type top[T comparable] struct {
	limit int
	less  func(a, b workqueue.ItemInfo[T]) bool
	infos []workqueue.ItemInfo[T]
}

func (t *top[T]) offer(info workqueue.ItemInfo[T]) {
	at := len(t.infos)
	for at > 0 && t.less(t.infos[at-1], info) {
		at--
	}
	if at == t.limit {
		return
	}
	t.infos = slices.Insert(t.infos, at, info)
	t.infos = t.infos[:min(len(t.infos), t.limit)]
}

// protect calls f, which calls foreign code, and returns the text of a panic. The text may name a
// key, and so is redacted.
func (s shower) protect(f func()) (failure string) {
	defer func() {
		if p := recover(); p != nil {
			failure = s.text(sprint(p))
		}
	}()
	f()
	return ""
}
