package debugpage

import (
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file asks of a queue the questions of docs/operating.md, section "The queue is stuck", in their order.
// An answer is the heading to read there. monitoring/queues.sh asks the same questions of the series, and a test
// wants the same letter of both.
const (
	letterShutDown  = "A. Somebody has shut the queue down"
	letterNoWorkers = "B. The workers have ended"
	letterFails     = "C. The work fails"
	letterHangs     = "D. An item has no Done"
	letterNoTokens  = "E. The Pace has no token"
	letterBusy      = "F. All workers are busy"
	letterHeldBack  = "G. A group is at its limit or held back"
	letterWaits     = "H. The items wait for a time"
	letterAgain     = "I. An item comes again and again"
)

const manual = "https://github.com/seed16c08ea7/workqueue/blob/main/docs/operating.md#"

// addressOf returns the address of a heading.
func addressOf(heading string) string {
	return manual + strings.NewReplacer(" ", "-", ".", "", ",", "").Replace(strings.ToLower(heading))
}

// ask returns the letter of a queue, or "" if no question has an answer.
func (s *Summary) ask() string {
	p := lastTwo(s.points)
	switch {
	case s.ShuttingDown:
		return letterShutDown
	case s.lacksWorkers():
		return letterNoWorkers
	case failuresOf(*s).All():
		return letterFails
	case s.Stuck:
		return letterHangs
	case s.Paused && s.Depth > 0, p.noTokens():
		return letterNoTokens
	case p.busy():
		return letterBusy
	case p.heldBack():
		return letterHeldBack
	case s.PutOff > late.Seconds(), p.onlyWaits():
		return letterWaits
	case p.again():
		return letterAgain
	case p.mostFail():
		return letterFails
	}
	return ""
}

// A pair is the points of the last two requests, and the seconds between them. At the first request the pair is
// zero, and all its answers are false.
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

// queued reports whether items wait for a worker for longer than a queue at work has them wait.
func (p pair) queued() bool { return p.before.OldestItem >= 1 && p.now.OldestItem >= 1 }

// noTokens reports whether the Pace kept items back for most of the time. A slow Pace has a token now and then.
func (p pair) noTokens() bool { return p.queued() && p.now.Paced-p.before.Paced > p.seconds/2 }

// busy reports whether no worker is free and the line grows older. Without the second, each queue that works a
// burst off would be busy.
func (p pair) busy() bool {
	return p.queued() && p.now.OldestItem > p.before.OldestItem && p.before.InFlight >= p.before.Workers && p.now.InFlight >= p.now.Workers
}

// heldBack reports whether items are queued although workers are free: only the Order keeps these items back.
func (p pair) heldBack() bool {
	return p.queued() && p.before.InFlight < p.before.Workers && p.now.InFlight < p.now.Workers
}

// onlyWaits reports whether items wait and the queue did nothing else. Most queues that work have waiting items
// too.
func (p pair) onlyWaits() bool {
	return p.now.Waiting > 0 && p.now.Depth+p.now.InFlight == 0 && p.now.Done == p.before.Done && p.seconds > 0
}

// again reports whether an add a second was taken, and as many found their item in the queue, although nothing
// waits for long: a handler whose write brings two events looks like this.
func (p pair) again() bool {
	adds := p.now.Adds - p.before.Adds
	return float64(adds) > p.seconds && p.now.Duplicates-p.before.Duplicates >= adds
}

// mostFail reports whether more runs fail than succeed, and more than one a second. A queue at work has a failure
// now and then.
func (p pair) mostFail() bool {
	failed := p.now.Failed - p.before.Failed
	return failed > p.now.Succeeded-p.before.Succeeded && float64(failed) > p.seconds
}

// waitsOf returns for how long Debounce has put off an item, at most, and when the first item is due. An item
// that is put off all the time is always due soon, so the first items that wait are enough.
func waitsOf[T comparable](q Queue[T]) (putOff time.Duration, next time.Time) {
	waiting := q.Snapshot(maxHead).Waiting // In the order of their due times.
	for _, info := range waiting {
		if info.Why == workqueue.WhyDebounce {
			putOff = max(putOff, info.Age)
		}
	}
	if len(waiting) > 0 {
		next = waiting[0].Due
	}
	return putOff, next
}
