package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// turns are what can happen to a Run whose one worker holds the item "held",
// with "queued" behind it and "waiting" due in 10 s. The last three are what
// the handler then does, and the others come from outside.
var turns = map[string]func(o *orderRun){
	"end":      func(o *orderRun) { o.note("stop"); o.stop() },
	"shutdown": func(o *orderRun) { o.queue.ShutDown() },
	"drain":    func(o *orderRun) { go drainOf(o.show)(o.t.Context()) },
	"re-add":   func(o *orderRun) { o.queue.Add("held") },
	"remove":   (*orderRun).remove,
	"deadline": func(*orderRun) { time.Sleep(5 * time.Second) },
	"panic":    func(o *orderRun) { o.does <- panics },
	"exit":     func(o *orderRun) { o.does <- exits },
	"give up":  func(o *orderRun) { o.does <- permanently },
}

// Every three of the turns in every order, at one instant or a second apart.
// Whatever the order: Run returns; nothing is held, nothing handled after the
// end of ctx or by two at a time; and each item has been handled to the end,
// given up or named, unless it waited for its time and somebody else has shut the queue
// down.
func TestRunInEveryOrder(t *testing.T) {
	t.Parallel()
	names := slices.Collect(maps.Keys(turns))
	others := []string{"no GetContext", "no Drain", "neither"}
	n := 0
	for _, first := range names {
		for _, second := range names {
			for _, third := range names {
				if first == second || second == third || first == third {
					continue
				}
				for _, pause := range []time.Duration{0, time.Second} {
					n++
					queues := []string{"all methods", others[n%3]}
					if raceEnabled { // The names are in another order each time, and all is played without it too.
						queues = queues[n/2%2:][:1]
					}
					for _, queue := range queues {
						order := []string{first, second, third}
						synctest.Test(t, func(t *testing.T) {
							problem := playOrder(newShow(t, runQueues[queue]), order, pause)
							if problem != "" {
								t.Errorf("%v, %v apart, queue with %s: %s", order, pause, queue, problem)
							}
						})
					}
				}
			}
		}
	}
}

func playOrder(s *show, order []string, pause time.Duration) (problem string) {
	o := &orderRun{show: s, settled: map[string]bool{}, does: make(chan reply, 3)}
	s.queue.Add("held")
	s.queue.Add("queued")
	s.queue.AddAfter("waiting", 10*time.Second)
	s.run(runOptions{
		Timeout:       5 * time.Second,
		CancelOnReAdd: s.isOurs(),
		OnGiveUp:      func(_ context.Context, item string, _ error) { o.settle(item, true) },
	}, o.handle)
	synctest.Wait()
	for _, turn := range order {
		turns[turn](o)
		time.Sleep(pause)
	}
	time.Sleep(time.Minute)
	s.stop()
	err := s.end()
	s.wantFailuresAsLogged()
	return o.judge(err, slices.Contains(order, "shutdown") || slices.Contains(order, "drain"))
}

// An orderRun keeps account of the items.
type orderRun struct {
	*show
	does chan reply

	mu       sync.Mutex
	calls    int
	atWork   int
	inHand   string // by the handler
	problems []string
	settled  map[string]bool // as of the last hand-out, or it waits for a retry
}

func (o *orderRun) settle(item string, settled bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settled[item] = settled
}

// remove takes back the last Add of "held". If no handler has it, the item is
// not wanted any more.
func (o *orderRun) remove() {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fifo.Remove("held") && o.inHand != "held" {
		o.settled["held"] = true
	}
}

func (o *orderRun) begin(ctx context.Context, item string) (patience time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settled[item] = false
	o.inHand = item
	if o.atWork++; o.atWork > 1 {
		o.problems = append(o.problems, "two at work")
	}
	// An item that was handed out in the same instant may find ctx ended.
	if err := ctx.Err(); err != nil && context.Cause(ctx) != workqueue.ErrReAdded && !o.stopsNow() {
		o.problems = append(o.problems, fmt.Sprintf("%s is handled in spite of %v", item, err))
	}
	if o.calls++; o.calls == 1 {
		return time.Hour // For the turns.
	}
	return time.Second
}

func (o *orderRun) stopsNow() bool {
	o.show.mu.Lock()
	defer o.show.mu.Unlock()
	return slices.Contains(o.events, fmt.Sprintf("%g:stop", time.Since(o.start).Seconds()))
}

func (o *orderRun) handle(ctx context.Context, item string) error {
	patience := o.begin(ctx, item)
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.atWork--
		o.inHand = ""
		if o.ctx.Err() == nil && context.Cause(ctx) != workqueue.ErrReAdded {
			o.settled[item] = true
		}
	}()
	select {
	case does := <-o.does:
		return does()
	case <-ctx.Done():
		time.Sleep(patience / 2400) // 1.5 s if it is the first.
		return ctx.Err()
	case <-time.After(patience):
		o.settle(item, true)
		return nil
	}
}

// judge says what is wrong with the end. What waited is lost if somebody else has shut
// the queue down.
func (o *orderRun) judge(err error, down bool) string {
	named := map[string]bool{}
	for _, info := range slices.Concat(o.stopped.Queued, o.stopped.InFlight, o.stopped.Failed, o.stopped.Waiting) {
		if named[info.Item] && info.State != workqueue.ItemWaiting { // Beside a queued one, a wait is dropped too.
			o.problems = append(o.problems, info.Item+" is named twice")
		}
		named[info.Item] = true
	}
	if err != nil {
		o.problems = append(o.problems, err.Error())
	}
	for item, settled := range o.settled {
		if !settled && !named[item] {
			o.problems = append(o.problems, fmt.Sprintf("%s is lost: %v, %q", item, err, o.events))
		}
	}
	if _, handled := o.settled["queued"]; !handled && !named["queued"] {
		o.problems = append(o.problems, "what was queued is lost")
	}
	if _, handled := o.settled["waiting"]; !handled && !named["waiting"] && o.isOurs() && !down {
		o.problems = append(o.problems, fmt.Sprintf("what waited is not in %v", o.stopped))
	}
	return strings.Join(o.problems, "; ")
}

// Many workers and outcomes at random: each item is handled as often as it has
// failed, was requeued and in the end has succeeded, or was given up, and never
// by two workers. Some are forgotten or removed on the way, and start over.
func TestRunManyWorkersAtRandom(t *testing.T) {
	const items, workers = 300, 32
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[int](0, time.Second, 2), workqueue.TypedRateLimitingQueueConfig[int]{})
		scripts := make([][]reply, items)
		rng := newRand(t)
		for i := range scripts {
			scripts[i] = randomReplies(rng)
			q.Add(i)
		}
		var mu sync.Mutex
		calls, held, given := make([]int, items), make([]bool, items), make([]int, items)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Hour)
			cancel()
		}()
		err := workqueue.Run(ctx, q, func(_ context.Context, item int) error {
			mu.Lock()
			if held[item] {
				t.Errorf("item %d is held twice", item)
			}
			held[item] = true
			calls[item]++
			call := calls[item]
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			held[item] = false
			mu.Unlock()
			return startOver(q, item, scripts[item][call-1])
		}, workqueue.RunOptions[int]{
			Workers:     workers,
			MaxAttempts: 5,
			Logger:      discard(),
			OnGiveUp: func(_ context.Context, item int, _ error) {
				mu.Lock()
				defer mu.Unlock()
				given[item]++
			},
		})
		if err != nil {
			t.Errorf("got %v from Run", err)
		}
		if n := q.Attempts(); n != 0 {
			t.Errorf("the attempts of %d items are kept", n)
		}
		for i, script := range scripts {
			wantCalls, wantGiven := fate(script, 5)
			if calls[i] != wantCalls || given[i] != wantGiven {
				t.Errorf("item %d: got %d calls, given up %d times, want %d and %d", i, calls[i], given[i], wantCalls, wantGiven)
			}
		}
	})
}

// startOver has the reply, and forgets or removes the item before if that is part
// of it.
func startOver(q *workqueue.TypedRateLimiting[int], item int, f reply) error {
	err := f()
	switch {
	case errors.Is(err, errForgotten):
		q.Forget(item)
	case errors.Is(err, errRemoved):
		q.Remove(item)
	}
	return err
}

var (
	errForgotten = errors.New("failed after a Forget")
	errRemoved   = errors.New("failed after a Remove")
)

func failsForgotten() error { return errForgotten }
func failsRemoved() error   { return errRemoved }

var (
	manyFailures = []reply{fails, panics, exits}
	randomReply  = []func(*rand.Rand) reply{
		func(rng *rand.Rand) reply { return manyFailures[rng.IntN(len(manyFailures))] },
		func(rng *rand.Rand) reply { return manyFailures[rng.IntN(len(manyFailures))] },
		func(rng *rand.Rand) reply { return requeues(time.Duration(rng.IntN(3))) },
		func(rng *rand.Rand) reply { return []reply{failsForgotten, failsRemoved}[rng.IntN(2)] },
	}
)

// randomReplies returns what a handler does until it is done with an item.
func randomReplies(rng *rand.Rand) (script []reply) {
	for range rng.IntN(12) {
		script = append(script, randomReply[rng.IntN(len(randomReply))](rng))
	}
	if rng.IntN(4) == 0 {
		return append(script, permanently)
	}
	return append(script, succeeds)
}

// fate returns how many calls a script comes to, and how often its item is
// given up. It judges the replies by calling them.
func fate(script []reply, attempts int) (calls, given int) {
	failures := 0
	for _, f := range script {
		calls++
		var err error
		returned := false
		goes(func() { err = f(); returned = true })
		switch {
		case returned && err == nil:
			return calls, 0
		case returned && errors.Is(err, errFailed) && err != errFailed: // Permanent.
			return calls, 1
		case err == errForgotten || err == errRemoved:
			failures = 0
		case returned && err != errFailed: // RequeueAfter.
			failures = 0
			continue
		}
		if failures++; failures == attempts {
			return calls, 1
		}
	}
	return calls, 0
}
