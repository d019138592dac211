package debugpage

import (
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file asks of a queue the questions of docs/operating.md, section "The queue is stuck", in their order.
// The text of an answer is the heading to read there.
const (
	shutDown  = "A. Somebody has shut the queue down"
	noWorkers = "B. The workers have ended"
	fails     = "C. The work fails"
	hangs     = "D. An item has no Done"
	paced     = "E. The Pace has no token"
	busy      = "F. All workers are busy"
	groupFull = "G. A group is at its limit or held back"
	waits     = "H. The items wait for a time"
	comes     = "I. An item comes again and again"
)

const manual = "https://github.com/seed16c08ea7/workqueue/blob/main/docs/operating.md#"

// addressOf returns the address of a heading.
func addressOf(heading string) string {
	return manual + strings.NewReplacer(" ", "-", ".", "", ",", "").Replace(strings.ToLower(heading))
}

// ask sets the letter of a queue. Some questions compare the last point with the one before, and have no
// answer at the first request. H would be the answer of most queues that work: it needs a queue that did nothing
// between the two points, or an item whose Debounce has gone on for too long.
func (s *Summary) ask() {
	ok := len(s.points) > 1
	var before, now Point
	if ok {
		before, now = s.points[len(s.points)-2], s.points[len(s.points)-1]
	}
	queued := ok && before.OldestItem >= 1 && now.OldestItem >= 1
	switch {
	case s.ShuttingDown:
		s.Letter = shutDown
	case s.lacksWorkers():
		s.Letter = noWorkers
	case failuresOf(*s).All():
		s.Letter = fails
	case s.Stuck:
		s.Letter = hangs
	case s.Paused && s.Depth > 0, queued && now.Paced-before.Paced > now.Time.Sub(before.Time).Seconds()/2:
		s.Letter = paced
	case queued && now.OldestItem > before.OldestItem && before.InFlight >= before.Workers && now.InFlight >= now.Workers:
		s.Letter = busy
	case queued && before.InFlight < before.Workers && now.InFlight < now.Workers:
		s.Letter = groupFull
	case s.PutOff > late.Seconds(), ok && now.Waiting > 0 && now.Depth+now.InFlight == 0 && now.Done == before.Done:
		s.Letter = waits
	case ok && now.Adds-before.Adds > uint64(now.Time.Sub(before.Time).Seconds()) && now.Duplicates-before.Duplicates >= now.Adds-before.Adds:
		s.Letter = comes
	}
}

// waitsOf returns for how long Debounce has put off an item, at most, and when the first item is due. An item
// that is put off all the time is always due soon, so that it is among the first items that wait.
func waitsOf[T comparable](q Queue[T]) (putOff time.Duration, next time.Time) {
	for _, info := range q.Snapshot(maxHead).Waiting {
		if info.Why == workqueue.WhyDebounce {
			putOff = max(putOff, info.Age)
		}
		if next.IsZero() || info.Due.Before(next) {
			next = info.Due
		}
	}
	return putOff, next
}
