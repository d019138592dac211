package compat_test

import (
	"testing"
	"time"
)

// Each type breaks a promise of the queue inside, and shows whether a duel compares the promise.
type (
	dropsReAdd      struct{ holding }
	queuesStrangers struct{ holding }
	overtakes       struct{ queue }
	delaysMore      struct{ queue }
	countsNoRetry   struct{ queue }
	skipsLimiter    struct{ queue }
	neverForgets    struct{ queue }
	hidesShutDown   struct{ queue }
	drainsEarly     struct{ queue }
	drainsForever   struct {
		queue
		forced chan struct{}
	}
)

// holding knows the items in flight.
type holding struct {
	queue
	held map[string]bool
}

func hold(q queue) holding { return holding{queue: q, held: make(map[string]bool)} }

func (h holding) Get() (string, bool) {
	item, down := h.queue.Get()
	h.held[item] = !down
	return item, down
}

func (h holding) Done(item string) {
	delete(h.held, item)
	h.queue.Done(item)
}

func (f dropsReAdd) Add(item string) {
	if !f.held[item] {
		f.queue.Add(item)
	}
}

func (f queuesStrangers) Done(item string) {
	if !f.held[item] {
		f.queue.Add(item)
	}
	f.holding.Done(item)
}

func (f overtakes) Get() (string, bool) {
	item, down := f.queue.Get()
	if down || f.Len() == 0 {
		return item, down
	}
	f.Add(item)
	f.Done(item)
	return f.queue.Get()
}

func (f delaysMore) AddAfter(item string, d time.Duration) {
	if 0 < d && d < time.Hour {
		d++
	}
	f.queue.AddAfter(item, d)
}

func (f countsNoRetry) AddAfter(item string, d time.Duration) {
	if d <= 0 {
		f.Add(item)
	} else {
		f.queue.AddAfter(item, d)
	}
}

func (f skipsLimiter) AddRateLimited(item string) { f.Add(item) }

func (f neverForgets) Forget(string) {}

func (f hidesShutDown) ShuttingDown() bool { return false }

func (f drainsEarly) ShutDownWithDrain() { f.queue.ShutDown() }

func (f drainsForever) ShutDownWithDrain() {
	f.queue.ShutDown()
	<-f.forced
}

func (f drainsForever) ShutDown() {
	close(f.forced)
	f.queue.ShutDown()
}

// TestDuelReportsBrokenQueues is the control of the differential tests: a duel without reports
// would let any queue pass. The first random scripts of TestDifferentialRandom must find each fault.
func TestDuelReportsBrokenQueues(t *testing.T) {
	in := arenas()
	for fault, wrap := range map[string]func(queue) queue{
		"drops a re-add while processing":                    func(q queue) queue { return dropsReAdd{hold(q)} },
		"queues what nobody holds, D2":                       func(q queue) queue { return queuesStrangers{hold(q)} },
		"hands out the second first, D7":                     func(q queue) queue { return overtakes{q} },
		"delivers AddAfter a nanosecond late":                func(q queue) queue { return delaysMore{q} },
		"does not tell its metrics of a retry without delay": func(q queue) queue { return countsNoRetry{q} },
		"adds at once instead of asking the limiter":         func(q queue) queue { return skipsLimiter{q} },
		"never forgets":                                      func(q queue) queue { return neverForgets{q} },
		"does not tell that it shuts down":                   func(q queue) queue { return hidesShutDown{q} },
		"drains early, D1":                                   func(q queue) queue { return drainsEarly{q} },
		"drains for ever, D3":                                func(q queue) queue { return drainsForever{q, make(chan struct{})} },
	} {
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			found = runDuel(t, in[seed%uint64(len(in))], decode(randomScript(seed)), wrap) != nil
		}
		if !found {
			t.Errorf("no random script finds a queue that %s", fault)
		}
	}
}
