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

// ask sets the letter of a queue.
func (s *Summary) ask() {
	r := lastTwo(s.points)
	switch {
	case s.ShuttingDown:
		s.Letter = shutDown
	case s.lacksWorkers():
		s.Letter = noWorkers
	case failuresOf(*s).All():
		s.Letter = fails
	case s.Stuck:
		s.Letter = hangs
	case s.Paused && s.Depth > 0, r.lackTokens():
		s.Letter = paced
	case r.areBusy():
		s.Letter = busy
	case r.holdBack():
		s.Letter = groupFull
	case s.PutOff > late.Seconds(), r.onlyWait():
		s.Letter = waits
	case r.addAgain():
		s.Letter = comes
	}
}

// A pair is two points of a queue, and the seconds between them. At the first request the pair is zero, and
// has no answer.
type pair struct {
	before, now Point
	seconds     float64
}

func lastTwo(points []Point) pair {
	n := len(points)
	if n < 2 {
		return pair{}
	}
	before, now := points[n-2], points[n-1]
	return pair{before, now, now.Time.Sub(before.Time).Seconds()}
}

// queued reports whether items wait for a worker.
func (p pair) queued() bool { return p.before.OldestItem >= 1 && p.now.OldestItem >= 1 }

func (p pair) lackTokens() bool { return p.queued() && p.now.Paced-p.before.Paced > p.seconds/2 }

func (p pair) areBusy() bool {
	return p.queued() && p.now.OldestItem > p.before.OldestItem && p.before.InFlight >= p.before.Workers && p.now.InFlight >= p.now.Workers
}

func (p pair) holdBack() bool {
	return p.queued() && p.before.InFlight < p.before.Workers && p.now.InFlight < p.now.Workers
}

// onlyWait reports whether the queue did nothing else: most queues that work have waiting items too.
func (p pair) onlyWait() bool {
	return p.now.Waiting > 0 && p.now.Depth+p.now.InFlight == 0 && p.now.Done == p.before.Done && p.seconds > 0
}

func (p pair) addAgain() bool {
	adds := p.now.Adds - p.before.Adds
	return float64(adds) > p.seconds && p.now.Duplicates-p.before.Duplicates >= adds
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
