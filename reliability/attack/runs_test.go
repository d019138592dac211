package attack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A meeting is a queue on which several calls of Run begin and end beside each other, each
// with an end of its own. Each item is added once by a producer, and then owed: until a
// handler succeeds with the item, the item is given up, taken by a worker without a Run,
// removed, or named by an OnStop.
type meeting struct {
	t        *testing.T
	delaying *workqueue.TypedDelaying[int]
	queue    *workqueue.TypedRateLimiting[int]
	given    workqueue.TypedRateLimitingInterface[int] // to Run
	limits   bool
	owed     []atomic.Bool
	busy     []atomic.Bool // a handler has the item
	flying   [groupsOfMeeting]atomic.Int64
	calls    atomic.Int64

	mu    sync.Mutex
	named map[int]string // guarded by mu
}

const groupsOfMeeting = 3

// through is a type that embeds a queue, and changes nothing.
type through struct {
	*workqueue.TypedRateLimiting[int]
}

func (q through) GetInfo(ctx context.Context) (workqueue.ItemInfo[int], error) {
	return q.TypedRateLimiting.GetInfo(ctx)
}

func (q through) Done(item int) { q.TypedRateLimiting.Done(item) }

// TestRuns has several calls of Run with different ends on a queue with an Order, beside
// producers and a worker without a Run. Nothing is lost without a name, no item is held twice,
// no group has more items in flight than it may, and a drain afterwards returns.
func TestRuns(t *testing.T) {
	play(t, 60, func(t *testing.T, rnd *rand.Rand) int {
		m := newMeeting(t, rnd)
		m.play(rnd)
		return int(m.calls.Load())
	})
}

func newMeeting(t *testing.T, rnd *rand.Rand) *meeting {
	m := &meeting{t: t, owed: make([]atomic.Bool, 150), busy: make([]atomic.Bool, 150), named: map[int]string{}}
	config := workqueue.TypedRateLimitingQueueConfig[int]{OneEntry: rnd.IntN(2) == 0, KeepTimes: rnd.IntN(4) == 0}
	if rnd.IntN(4) > 0 {
		m.limits = rnd.IntN(2) == 0
		config.Order = workqueue.Order[int]{
			Group:       func(item int) string { return fmt.Sprint(item % groupsOfMeeting) },
			Weight:      func(group string) int { return 1 + len(group) },
			GroupsFirst: rnd.IntN(2) == 0,
			OldestEvery: rnd.IntN(4),
		}
		if m.limits {
			config.Order.MaxInFlight = func(group string) int { return int(group[0] - '0') } // "0" has none.
		}
	} else if rnd.IntN(4) == 0 {
		config.Queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{})
		config.KeepTimes = false
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, 200*time.Microsecond)
	m.delaying = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{OneEntry: config.OneEntry, KeepTimes: config.KeepTimes, Order: config.Order, Queue: config.Queue})
	m.queue = workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[int]{DelayingQueue: m.delaying})
	m.given = m.queue
	if rnd.IntN(3) == 0 {
		m.given = through{m.queue}
	}
	return m
}

// fly counts an item in flight, and land ends the flight.
func (m *meeting) fly(item int) {
	m.calls.Add(1)
	if m.busy[item].Swap(true) {
		m.t.Errorf("%d is held twice", item)
	}
	g := item % groupsOfMeeting
	if n := m.flying[g].Add(1); m.limits && g > 0 && n > int64(g) {
		m.t.Errorf("group %d has %d items in flight", g, n)
	}
}

func (m *meeting) land(item int) {
	m.flying[item%groupsOfMeeting].Add(-1)
	m.busy[item].Store(false)
}

// handle ends in any way. An item that adds itself is still owed.
func (m *meeting) handle(ctx context.Context, item int) error {
	m.fly(item)
	defer m.land(item)
	switch rand.IntN(14) {
	case 0, 1:
		return errors.New("failed")
	case 2:
		panic("handler")
	case 3:
		runtime.Goexit()
	case 4:
		return workqueue.RequeueAfter(time.Duration(rand.IntN(300)) * time.Microsecond)
	case 5:
		return workqueue.Requeue()
	case 6:
		return workqueue.RetryAfter(time.Duration(rand.IntN(300))*time.Microsecond, errors.New("failed"))
	case 7:
		return workqueue.Permanent(errors.New("hopeless"))
	case 8:
		again := m.queue.AddWith(workqueue.AddOptions{Priority: new(rand.IntN(3))}, item) == 1
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if again {
			return nil
		}
	case 9:
		if m.queue.AddWith(workqueue.AddOptions{After: time.Duration(rand.IntN(300)) * time.Microsecond}, item) == 1 {
			return nil
		}
	case 10:
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	m.owed[item].Store(false)
	return nil
}

// produce adds each item once, in one of several ways, and removes some.
func (m *meeting) produce(rnd *rand.Rand) {
	for item := 0; item < len(m.owed); {
		n := min(1+rnd.IntN(8), len(m.owed)-item)
		items := make([]int, n)
		for i := range items {
			items[i] = item + i
			m.owed[item+i].Store(true)
		}
		options := workqueue.AddOptions{}
		if rnd.IntN(2) == 0 {
			options.Priority = new(rnd.IntN(4) - 1)
		}
		switch rnd.IntN(4) {
		case 0:
			options.After = time.Duration(rnd.IntN(500)) * time.Microsecond
		case 1:
			options.RateLimited = true
		}
		if taken := m.queue.AddWith(options, items...); taken < n { // Which ones is not said.
			m.name(fmt.Sprint("refused, ", taken, " of ", n), items...)
		}
		if rnd.IntN(4) == 0 {
			if removed := items[rnd.IntN(n)]; m.queue.Remove(removed) {
				m.name("removed", removed)
			}
		}
		item += n
		if rnd.IntN(3) == 0 {
			time.Sleep(time.Duration(rnd.IntN(100)) * time.Microsecond)
		}
	}
}

// steal takes items without a Run.
func (m *meeting) steal(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		if item, ok := m.queue.TryGet(); ok {
			m.name("stolen", item)
			m.fly(item)
			time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
			m.land(item)
			m.queue.Done(item)
		}
		time.Sleep(time.Duration(rnd.IntN(500)) * time.Microsecond)
	}
}

func (m *meeting) name(how string, items ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range items {
		m.named[item] += how + "; "
	}
}

func (m *meeting) play(rnd *rand.Rand) {
	ctx, stop := context.WithCancel(m.t.Context())
	var others, runs sync.WaitGroup
	seeds := [2]uint64{rnd.Uint64(), rnd.Uint64()}
	others.Go(func() { m.produce(rand.New(rand.NewPCG(seeds[0], 0))) })
	if rnd.IntN(2) == 0 {
		others.Go(func() { m.steal(ctx, rand.New(rand.NewPCG(seeds[1], 0))) })
	}
	n := 1 + rnd.IntN(4)
	byHand := rnd.IntN(2) == 0
	var shutting, shut atomic.Bool // a shutdown by hand has begun, and has returned
	var names atomic.Bool          // a Run has ended that names all that is left
	for i := range n {
		end := workqueue.End(rnd.IntN(3))
		options := workqueue.RunOptions[int]{
			Workers: 1 + rnd.IntN(3), AtEnd: end, Logger: &quiet,
			CancelOnReAdd: rnd.IntN(2) == 0, MaxCancels: rnd.IntN(2), MaxAttempts: rnd.IntN(2) * 4,
			OnGiveUp: func(_ context.Context, item int, _ error) {
				m.owed[item].Store(false)
				if rand.IntN(4) == 0 {
					panic("OnGiveUp")
				}
			},
		}
		if rnd.IntN(2) == 0 {
			options.Grace = time.Duration(rnd.IntN(3000)) * time.Microsecond
		}
		if rnd.IntN(3) == 0 {
			options.Timeout = time.Duration(1+rnd.IntN(300)) * time.Microsecond
		}
		if end == workqueue.EndDrain {
			options.Grace = max(options.Grace, time.Microsecond)
		}
		var left workqueue.Snapshot[int]
		var worked atomic.Bool // before a shutdown by hand
		handle := func(ctx context.Context, item int) error {
			if !shutting.Load() {
				worked.Store(true)
			}
			return m.handle(ctx, item)
		}
		options.OnStop = func(s workqueue.Snapshot[int]) {
			left = s
			if !byHand || shut.Load() && worked.Load() {
				names.Store(true)
			}
			if end == workqueue.EndKeep && !m.queue.ShuttingDown() {
				return // All is still in the queue.
			}
			for _, infos := range [][]workqueue.ItemInfo[int]{s.Queued, s.Waiting, s.Failed} {
				for _, info := range infos {
					m.name(fmt.Sprint("Run ", i, " end ", end, " ", info.State), info.Item)
				}
			}
		}
		begins, ends := time.Duration(rnd.IntN(500))*time.Microsecond, time.Duration(rnd.IntN(4000))*time.Microsecond
		runs.Go(func() {
			time.Sleep(begins)
			within, cancel := context.WithTimeout(ctx, ends)
			defer cancel()
			err := workqueue.Run(within, m.given, handle, options)
			if err == nil && end == workqueue.EndDrain && len(left.Queued)+len(left.InFlight)+len(left.Failed) > 0 {
				m.t.Errorf("a Run with EndDrain has left %v, and returned nil", left)
			}
			if err == nil && within.Err() == nil {
				m.t.Error("nil from a Run whose context has not ended")
			}
		})
	}
	if byHand {
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		shutting.Store(true)
		switch rnd.IntN(3) {
		case 0:
			m.queue.ShutDown()
		case 1:
			others.Go(m.queue.ShutDownWithDrain)
		case 2:
			others.Go(func() {
				within, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
				defer cancel()
				var left *workqueue.DrainError[int]
				err := m.queue.Drain(within)
				if errors.As(err, &left) == (err == nil) || err != nil && len(left.Left.Queued)+len(left.Left.InFlight) == 0 {
					m.t.Errorf("got %v from Drain", err)
				}
			})
		}
		for !m.delaying.ShuttingDown() {
			time.Sleep(time.Microsecond)
		}
		shut.Store(true)
	}
	call(m.t, "Run", runs.Wait)
	stop()
	if byHand { // Ends a drain.
		call(m.t, "ShutDown", m.queue.ShutDown)
	}
	call(m.t, "the producer", others.Wait)
	rest := m.queue.Snapshot(-1)
	for _, info := range slices.Concat(rest.Queued, rest.Waiting) {
		m.name("in the queue", info.Item)
	}
	m.queue.ShutDown() // What waits is named, and would be queued beside the drain.
	for g := range m.flying {
		if left := m.flying[g].Load(); left != 0 || rest.InFlightTotal != 0 {
			m.t.Errorf("%d items of group %d are in flight, the queue says %d of all", left, g, rest.InFlightTotal)
		}
	}
	for {
		item, ok := m.queue.TryGet()
		if !ok {
			break
		}
		m.queue.Done(item)
	}
	if n := m.queue.Len(); n > 0 {
		m.t.Errorf("%d items are queued and cannot be got", n)
	}
	call(m.t, "a drain", m.queue.ShutDownWithDrain)
	for item := range m.owed {
		if m.owed[item].Load() && m.named[item] == "" && (names.Load() || !byHand) {
			m.t.Errorf("%d was lost: %d runs, by hand %v", item, n, byHand)
		}
	}
}
