package debugpage

import (
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file asks of a queue the questions of monitoring/README.md, section "Without the page", in their order.
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
	t := stretchOf(s.points)
	recently := failuresOf(*s)
	for _, question := range []struct {
		letter string
		answer bool
	}{
		{letterShutDown, s.ShuttingDown},
		{letterNoWorkers, s.lacksWorkers() && t.hadNone()},
		{letterFails, recently.All() || t.mostFail()},
		{letterHangs, s.Stuck},
		{letterNoTokens, s.Paused && s.Depth > 0 || t.noTokens()},
		{letterBusy, t.busy()},
		{letterHeldBack, t.heldBack()},
		{letterWaits, s.PutOff > late.Seconds() || s.retriesAreFar()},
		{letterWaits, t.onlyWaits() && (s.glance.retry || s.glance.deferred || s.NextDue > late.Seconds())},
		{letterAgain, t.again() && s.glance.again},
		{letterFails, recently.GivenUp > 0}, // Nothing tries these items again.
	} {
		if question.answer {
			return question.letter
		}
	}
	return ""
}

// retriesAreFar reports whether nothing that waits is due for long, retries included. The work may go on beside them.
func (s *Summary) retriesAreFar() bool { return s.glance.retry && s.NextDue > late.Seconds() }

// stretchTime is how far back an answer looks. A shorter look takes each burst for a stuck queue.
const stretchTime = 30 * time.Second

// stretchGap is the age from which a request is not compared with: an outage between the two can be over.
const stretchGap = 2 * time.Minute

// A stretch is the points of the last half minute, or else the last two. An answer about a state must hold at each
// point. At the first request, and after stretchGap without one, a stretch is empty, and all its answers are false.
type stretch struct {
	points        []Point
	before, now   Point // the first and the last
	seconds       float64
	paced         float64
	failed, ended uint64
}

func stretchOf(points []Point) stretch {
	last := len(points) - 1
	if last < 1 || points[last].Time.Sub(points[last-1].Time) > stretchGap {
		return stretch{}
	}
	first := last - 1
	for first > 0 && points[last].Time.Sub(points[first-1].Time) <= stretchTime {
		first--
	}
	t := stretch{points: points[first:], before: points[first], now: points[last]}
	t.seconds = t.now.Time.Sub(t.before.Time).Seconds()
	t.paced = t.now.Paced - t.before.Paced
	t.failed, t.ended = ends(t.before, t.now)
	return t
}

// isEmpty reports whether another request is needed for an answer.
func (t stretch) isEmpty() bool { return len(t.points) == 0 }

// rate names by how much a count has grown a second, if the queue counts.
func (t stretch) rate(counted bool, grown uint64) string {
	if t.isEmpty() || !counted {
		return "–"
	}
	return shortRate(float64(grown) / t.seconds)
}

// always reports whether a condition holds at each point.
func (t stretch) always(holds func(Point) bool) bool {
	return !t.isEmpty() && !slices.ContainsFunc(t.points, func(p Point) bool { return !holds(p) })
}

// hadNone reports whether there was no worker before either: a worker between Done and Get counts for nothing.
func (t stretch) hadNone() bool {
	return t.isEmpty() || t.points[len(t.points)-2].Workers == 0
}

// queued reports whether items wait for a worker for longer than a queue at work has them wait.
func (t stretch) queued() bool { return t.always(func(p Point) bool { return p.OldestItem >= 1 }) }

// older reports whether such items have grown older, by a twentieth of the time at least. The line of a queue that
// works a burst off does not, and the age of a line that stays as long as it is goes up and down by less.
func (t stretch) older() bool {
	return t.queued() && t.now.OldestItem-t.before.OldestItem > t.seconds/20
}

// noTokens reports whether the Pace kept items back for most of the time. A slow Pace has a token now and then.
func (t stretch) noTokens() bool { return t.older() && t.paced > t.seconds/2 }

// busy reports whether no worker is free.
func (t stretch) busy() bool {
	return t.older() && t.always(func(p Point) bool { return p.InFlight >= p.Workers })
}

// heldBack reports whether items are queued although workers are free and the Pace has tokens: only the Order keeps
// these items back.
func (t stretch) heldBack() bool {
	return t.queued() && t.paced <= t.seconds/10 && t.always(func(p Point) bool { return p.InFlight < p.Workers })
}

// onlyWaits reports whether items wait and the queue did nothing else. Most queues that work have waiting items
// too.
func (t stretch) onlyWaits() bool {
	return t.now.Waiting > 0 && t.now.Depth+t.now.InFlight == 0 && t.now.Done == t.before.Done && t.seconds > 0
}

// again reports whether an add a second was taken, and as many found their item in the queue, although nothing
// waits for long: a handler whose write brings two events looks like this.
func (t stretch) again() bool {
	adds := t.now.Adds - t.before.Adds
	return float64(adds) > t.seconds && t.now.Duplicates-t.before.Duplicates >= adds
}

// mostFail reports whether more runs fail than succeed, and more than one a second. A queue at work has a failure
// now and then.
func (t stretch) mostFail() bool { return 2*t.failed > t.ended && float64(t.failed) > t.seconds }

// A glance is what the first items of a queue tell.
type glance struct {
	putOff   time.Duration // for how long Debounce has put off an item, at most
	next     time.Time     // when the first item is due
	retry    bool          // an item waits after a failure
	deferred bool          // an item waits as its handler has said so by DeferFor
	again    bool          // most items in flight were in flight at the last glance, and have come again since
}

// A glancer glances at a queue: one Snapshot of the first items, without a walk. An item that is put off all the time
// is always due soon, so the first items that wait are enough. The turn of the queue's entry guards the glancer.
type glancer[T comparable] struct {
	queue    Queue[T]
	last     time.Time
	seen     glance
	inFlight map[T]bool // at the last glance
}

func (g *glancer[T]) glance(now time.Time) glance {
	if now.Sub(g.last) < fresh { // For all queues, and right afterwards for this one.
		return g.seen
	}
	var seen glance
	s := g.queue.Snapshot(maxHead) // What waits is in the order of the due times.
	for _, info := range s.Waiting {
		switch info.Why {
		case workqueue.WhyDebounce:
			seen.putOff = max(seen.putOff, info.Age)
		case workqueue.WhyRetry:
			seen.retry = true
		case workqueue.WhyDeferred:
			seen.deferred = true
		}
	}
	if len(s.Waiting) > 0 {
		seen.next = s.Waiting[0].Due
	}
	inFlight := make(map[T]bool, len(s.InFlight))
	same := 0
	for _, info := range s.InFlight {
		inFlight[info.Item] = true
		if g.inFlight[info.Item] && info.Age < now.Sub(g.last) {
			same++
		}
	}
	seen.again = 2*same > len(s.InFlight)
	g.last, g.seen, g.inFlight = now, seen, inFlight
	return seen
}
