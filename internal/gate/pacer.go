package gate

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// maxPaceWait is the longest sleep of a keeper. Nobody tells the queue of a token that
// another queue has taken, or of a new limit.
const maxPaceWait = 100 * time.Millisecond

// A Pacer lets a queue hand out an item for each token of a limiter. The worker that finds an
// item and no token is the keeper: the worker sleeps until the next token is there. So the
// queue needs one timer and no goroutine, and whoever ends the wait of the keeper (a context,
// a shutdown) ends an ordinary Get.
//
// A Pacer takes a token only when an item is ready. A reservation would decide too early: the
// item could be removed meanwhile, or another item could come first.
//
// A Pacer is guarded by the lock of its queue, except for the Alarm, which belongs to the
// keeper. Times are relative to an epoch.
type Pacer struct {
	Alarm Alarm
	Kept  bool // a worker is the keeper

	OnPause func()      // called without a lock, when a keeper finds a pause; nil is nobody
	told    atomic.Bool // OnPause was called for the pause

	limiter *rate.Limiter
	clock   clock.WithTicker
	epoch   time.Time
	last    time.Duration // of the last look; a clock may be read in another order than the lock is taken
	next    time.Duration // of the keeper, if the last look found an item and no token; or last
	total   time.Duration // for how long items were kept back, up to last
}

// NewPacer returns a pacer for a limiter.
func NewPacer(limiter *rate.Limiter, c clock.WithTicker, epoch time.Time) *Pacer {
	return &Pacer{limiter: limiter, clock: c, epoch: epoch}
}

// Allow takes a token if an item is ready, and reports false if there was no token.
func (p *Pacer) Allow(now time.Duration, ready bool) bool {
	p.total = p.KeptBack(now)
	p.last = max(p.last, now)
	p.next = p.last
	if !ready {
		return true
	}
	if p.limiter.AllowN(p.epoch.Add(p.last), 1) {
		if p.told.Load() {
			p.told.Store(false)
		}
		return true
	}
	p.next += p.wait()
	return false
}

// wait returns how long the keeper sleeps. A limiter whose burst or limit is not positive never
// has a token, and the time until its next token would be too short to sleep.
func (p *Pacer) wait() time.Duration {
	if limit := float64(p.limiter.Limit()); limit > 0 && p.limiter.Burst() > 0 {
		missing := 1 - p.limiter.TokensAt(p.epoch.Add(p.last))
		if wait := math.Ceil(missing / limit * float64(time.Second)); wait < float64(maxPaceWait) {
			return max(1, time.Duration(wait))
		}
	}
	return maxPaceWait
}

// Paused reports whether the limiter has no token, and gets none until somebody changes its limit or its
// burst: one of the two is 0. A queue without a pacer has nil.
func (p *Pacer) Paused() bool {
	if p == nil {
		return false
	}
	limit := p.limiter.Limit()
	return limit != rate.Inf && p.limiter.Burst() <= 0 || limit <= 0 && p.limiter.Tokens() < 1
}

// A Limit is a limiter with its limit and its burst at a moment.
type Limit struct {
	Limit   rate.Limit
	Burst   int
	Limiter *rate.Limiter
}

// Limit returns the limit of the limiter. A queue without a pacer has nil, and the zero value. A limit that JSON cannot
// write, such as 1 divided by 0, is no limit.
func (p *Pacer) Limit() Limit {
	if p == nil {
		return Limit{}
	}
	limit := p.limiter.Limit()
	if !(limit <= rate.Inf) {
		limit = rate.Inf
	}
	return Limit{limit, p.limiter.Burst(), p.limiter}
}

// TellPause calls OnPause once for each pause. The keeper calls TellPause before it sleeps.
func (p *Pacer) TellPause() {
	if !p.Paused() {
		p.told.Store(false) // The pause is over, even if no token was taken since.
		return
	}
	if !p.told.Swap(true) && p.OnPause != nil {
		p.OnPause()
	}
}

// Next returns when the keeper looks again, after a look that found no token.
func (p *Pacer) Next() time.Duration { return p.next }

// Arm sets the alarm of the keeper. A clock that was set back is far from the next look, but the
// limit may change meanwhile.
func (p *Pacer) Arm(d time.Duration) { p.Alarm.Arm(p.clock, max(0, min(d, maxPaceWait))) }

// KeptBack returns for how long items were kept back. A queue without a pacer has nil. A look
// counts up to the next look of the keeper: without a keeper, nobody knows whether the item and
// the lack of tokens are still there.
func (p *Pacer) KeptBack(now time.Duration) time.Duration {
	if p == nil {
		return 0
	}
	return p.total + max(0, min(now, p.next)-p.last)
}
