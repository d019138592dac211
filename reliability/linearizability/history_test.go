package linearizability

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed16c08ea7/workqueue"
)

// A queue has the methods of all layers.
type queue interface {
	Add(item int8)
	AddAll(items ...int8) int
	AddWith(options workqueue.AddOptions, items ...int8) int
	Len() int
	Get() (item int8, shutdown bool)
	GetContext(ctx context.Context) (int8, error)
	GetInfo(ctx context.Context) (workqueue.ItemInfo[int8], error)
	TryGet() (int8, bool)
	Done(item int8)
	Remove(item int8) bool
	RemoveFunc(del func(item int8) bool) int
	Find(item int8) (workqueue.ItemInfo[int8], bool)
	Snapshot(limit int) workqueue.Snapshot[int8]
	WaitIdle(ctx context.Context) error
	Barrier(ctx context.Context) error
	Drain(ctx context.Context) error
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// A delayer is a queue with waits. Firm waits of a history last an hour, so only calls end them.
type delayer interface {
	AddAfter(item int8, d time.Duration)
	Reschedule(item int8, d time.Duration) bool
	Debounce(item int8, quiet, maxWait time.Duration) bool
	Wake(items ...int8) int
}

// A load describes the calls of one history.
type load struct {
	producers, workers int
	calls              int  // of all producers and workers together
	early              bool // a producer shuts down before the end
	drains, waits      int
	seed               uint64
	lacks              method // not called
}

// randomLoad has 4 to 8 goroutines. Some 45 calls are enough to go wrong, and few enough to check:
// the order of a FIFO is global, so no history falls apart into independent histories.
func randomLoad(rnd *rand.Rand) load {
	l := load{
		producers: 2 + rnd.IntN(2),
		workers:   2 + rnd.IntN(2),
		calls:     48,
		early:     rnd.IntN(3) == 0,
		seed:      rnd.Uint64(),
	}
	if rnd.IntN(3) == 0 {
		l.drains = 1 + rnd.IntN(2)
	}
	if rnd.IntN(2) == 0 {
		l.waits = 1 + rnd.IntN(maxWaits)
	}
	return l
}

// A history is a queue in use, and the calls made so far.
type history struct {
	load
	queue   queue
	start   time.Time
	cancels []atomic.Pointer[context.CancelFunc] // of the context of each waiting worker
	ready   atomic.Int32                         // clients that are about to begin

	mu    sync.Mutex
	calls []porcupine.Operation
}

// A client is one goroutine that makes calls. A client keeps its calls to itself until its end: a
// shared record would order the calls whose order is in question.
type client struct {
	*history
	id   int
	rnd  *rand.Rand
	ops  []porcupine.Operation
	held []int8
}

// record plays a load on a queue and returns the calls, or false if a call has not returned.
func record(q queue, l load) ([]porcupine.Operation, bool) {
	h := &history{
		load:    l,
		queue:   q,
		start:   time.Now(),
		cancels: make([]atomic.Pointer[context.CancelFunc], l.workers),
	}
	var producing, working, draining sync.WaitGroup
	for i := range l.workers {
		working.Go(func() { h.client(i).work() })
	}
	for i := range l.producers {
		producing.Go(func() { h.client(l.workers + i).produce(i == 0 && l.early) })
	}
	for i := range l.drains {
		draining.Go(func() { h.client(l.workers + l.producers + i).drain(int8(i)) })
	}
	for i := range h.waits {
		draining.Go(func() { h.client(l.workers + l.producers + l.drains + i).wait(int8(i)) })
	}
	ended := make(chan struct{})
	go func() {
		producing.Wait()
		last := h.client(l.workers + l.producers + l.drains + h.waits)
		last.shutDown()
		working.Wait()
		if l.drains+h.waits > 0 {
			last.empty() // The items that the workers have left, for drains and waits that began late.
		}
		last.submit()
		draining.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return h.calls, true
	case <-time.After(3 * time.Minute):
		return nil, false
	}
}

func (h *history) client(id int) *client {
	return &client{
		history: h, id: id,
		rnd: rand.New(rand.NewPCG(h.seed, uint64(id))),
		ops: make([]porcupine.Operation, 0, 32),
	}
}

// begin returns when all clients are there, and as many of them as there are processors run: they
// are awake, and not on their way from a channel.
func (c *client) begin() {
	c.ready.Add(1)
	for int(c.ready.Load()) < c.producers+c.workers+c.drains+c.waits {
		runtime.Gosched()
	}
}

func (c *client) submit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.history.calls, c.ops...)
}

// makes records a call, and sometimes yields: on one processor each client would otherwise make all
// its calls before the next client makes any.
func (c *client) makes(in call, f func() result) result {
	if c.rnd.IntN(3) == 0 {
		runtime.Gosched()
	}
	from := time.Since(c.start)
	out := f()
	to := time.Since(c.start)
	c.ops = append(c.ops, porcupine.Operation{
		ClientId: c.id, Input: in, Output: out, Call: int64(from), Return: int64(to),
	})
	return out
}

func (c *client) produce(early bool) {
	defer c.submit()
	c.begin()
	budget := c.load.calls / 2 / c.producers
	for i := range budget {
		c.produceOnce()
		if early && i == budget/2 {
			c.shutDown()
		}
	}
}

func (c *client) produceOnce() {
	item := int8(c.rnd.IntN(maxItems))
	switch c.rnd.IntN(16) {
	case 0, 1:
		c.addAll()
	case 2:
		c.makes(call{method: length}, func() result { return result{n: c.queue.Len()} })
	case 3:
		c.makes(call{method: shuttingDown}, func() result { return result{ok: c.queue.ShuttingDown()} })
	case 4, 5:
		c.cancelSomebody()
	case 6:
		c.done(item) // Mostly of an item that the client does not hold.
	case 7:
		c.remove(item)
	case 8:
		c.snapshot()
	case 9, 10:
		c.deferOrWake(item)
	default:
		c.add(item)
	}
}

func (c *client) add(item int8) {
	if _, ordered := c.queue.(ordered); ordered && c.rnd.IntN(3) > 0 {
		priority := c.rnd.IntN(4) - 1
		c.makes(call{method: add, item: item, priority: int8(priority), named: true}, func() (none result) {
			c.queue.AddWith(workqueue.AddOptions{Priority: &priority}, item)
			return none
		})
		return
	}
	c.makes(call{method: add, item: item}, func() (none result) { c.addSomehow(item); return none })
}

// addSomehow makes one of the calls that count as an Add.
func (c *client) addSomehow(item int8) {
	q, delays := c.queue.(delayer)
	switch {
	case delays && item%4 == 1:
		q.AddAfter(item, 0)
	case delays && item%4 == 2:
		q.Debounce(item, -1, 0)
	case delays && item%4 == 3:
		q.Debounce(item, 0, time.Hour)
	default:
		c.queue.Add(item)
	}
}

// deferOrWake makes one of the calls about a firm wait. For a queue without them it adds the item.
func (c *client) deferOrWake(item int8) {
	q, ok := c.queue.(delayer)
	if !ok {
		c.add(item)
		return
	}
	switch c.rnd.IntN(4) {
	case 0, 1:
		c.makes(call{method: addFirmly, item: item}, func() (none result) {
			c.queue.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, item)
			return none
		})
	case 2:
		c.makes(call{method: wake, item: item}, func() result { return result{ok: q.Wake(item) == 1} })
	default:
		c.makes(call{method: find, item: item}, func() result {
			info, ok := c.queue.Find(item)
			return result{ok: ok, n: int(info.State), sure: info.Firm}
		})
	}
}

func (c *client) snapshot() {
	c.makes(call{method: snapshot}, func() result { return result{left: contentsOf(c.queue.Snapshot(maxItems))} })
}

func contentsOf(s workqueue.Snapshot[int8]) *contents {
	c := &contents{}
	for _, info := range s.Queued {
		c.line = append(c.line, info.Item)
		c.of[info.Item] = int8(info.Priority)
		c.sorted = info.Position == 0
	}
	if c.sorted {
		slices.Sort(c.line)
	}
	for _, info := range s.InFlight {
		c.held = c.held.with(info.Item)
		if info.State == workqueue.ItemInFlightAgain {
			c.again = c.again.with(info.Item)
		}
	}
	return c
}

func (c *client) addAll() {
	if c.lacks == addAll {
		return
	}
	all := make([]int8, 1+c.rnd.IntN(3))
	for i := range all {
		all[i] = int8(c.rnd.IntN(maxItems))
	}
	c.makes(call{method: addAll, all: all}, func() (none result) { c.queue.AddAll(all...); return none })
}

func (c *client) remove(item int8) {
	switch {
	case c.lacks == remove:
	case c.rnd.IntN(2) == 0:
		c.removeFunc(item)
	default:
		c.makes(call{method: remove, item: item}, func() result { return result{ok: c.queue.Remove(item)} })
	}
}

// removeFunc removes one item by RemoveFunc. An item that is added during the call may be removed
// twice, so the call counts as several.
func (c *client) removeFunc(item int8) {
	n := 0
	c.makes(call{method: remove, item: item}, func() result {
		n = c.queue.RemoveFunc(func(i int8) bool { return i == item })
		return result{ok: n > 0}
	})
	once := c.ops[len(c.ops)-1]
	for ; n > 1; n-- {
		c.ops = append(c.ops, once)
	}
}

func (c *client) done(item int8) {
	c.makes(call{method: done, item: item}, func() (none result) { c.queue.Done(item); return none })
}

func (c *client) shutDown() {
	c.makes(call{method: shutDown}, func() (none result) { c.queue.ShutDown(); return none })
}

func (c *client) cancelSomebody() {
	if cancel := c.cancels[c.rnd.IntN(c.workers)].Swap(nil); cancel != nil {
		(*cancel)()
	}
}

// drain begins some time after the others.
func (c *client) drain(number int8) {
	defer c.submit()
	c.beginLate()
	c.makesInHalves(drainBegins, drainEnds, number, c.drainOnce)
}

func (c *client) beginLate() {
	c.begin()
	for range c.rnd.IntN(40) {
		runtime.Gosched()
	}
}

// makesInHalves records a call whose two halves span the same time.
func (c *client) makesInHalves(begins, ends method, number int8, f func() result) {
	c.makes(call{method: ends, number: number}, f)
	whole := c.ops[len(c.ops)-1]
	whole.Input, whole.Output = call{method: begins, number: number}, result{}
	c.ops = append(c.ops, whole)
}

// wait waits some time after the others, and some of the waits are given up.
func (c *client) wait(number int8) {
	defer c.submit()
	c.beginLate()
	ctx, cancel := context.Background(), func() {}
	if c.rnd.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.rnd.IntN(100))*time.Microsecond)
	}
	defer cancel()
	if c.rnd.IntN(2) == 0 {
		c.makes(call{method: waitIdle}, func() result { return result{ok: c.queue.WaitIdle(ctx) == nil} })
		return
	}
	c.makesInHalves(barrierBegins, barrierEnds, number, func() result { return result{ok: c.queue.Barrier(ctx) == nil} })
}

// drainOnce drains with or without a context. A drain without a context returns no result, so a
// ShutDown may have ended the wait.
func (c *client) drainOnce() result {
	if c.rnd.IntN(2) == 0 {
		c.queue.ShutDownWithDrain()
		return result{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.rnd.IntN(50))*time.Microsecond)
	defer cancel()
	var err *workqueue.DrainError[int8]
	if errors.As(c.queue.Drain(ctx), &err) {
		return result{left: contentsOf(err.Left)}
	}
	return result{sure: true}
}

// work gets items until the queue is shut down, or the budget is spent.
func (c *client) work() {
	defer c.submit()
	c.begin()
	for range c.load.calls / 2 / c.workers {
		r := c.getOnce()
		switch {
		case errors.Is(r.err, workqueue.ErrShutDown):
			c.finish(len(c.held))
			return
		case !r.ok:
			continue
		}
		c.held = append(c.held, r.item)
		if c.rnd.IntN(3) > 0 {
			c.finish(1)
		}
		if c.rnd.IntN(8) == 0 {
			c.add(r.item)
		}
	}
	c.finish(len(c.held))
}

// empty gets each item that is left in a queue that is shut down, and calls Done.
func (c *client) empty() {
	for r := c.get(); r.ok; r = c.get() {
		c.done(r.item)
	}
}

// finish calls Done for some of the items in hand, not always in their order.
func (c *client) finish(n int) {
	for range n {
		at := c.rnd.IntN(len(c.held))
		item := c.held[at]
		c.held = slices.Delete(c.held, at, at+1)
		c.done(item)
	}
}

func (c *client) getOnce() result {
	switch kind := c.rnd.IntN(4); {
	case kind == 0:
		return c.getContext()
	case kind == 1 && c.lacks != tryGet:
		return c.makes(call{method: tryGet}, func() result {
			item, ok := c.queue.TryGet()
			return result{item: item, ok: ok}
		})
	}
	return c.get()
}

func (c *client) get() result {
	if _, ordered := c.queue.(ordered); ordered && c.rnd.IntN(2) == 0 {
		return c.makes(call{method: get}, func() result {
			info, err := c.queue.GetInfo(context.Background())
			if err != nil {
				return result{err: err}
			}
			return result{item: info.Item, ok: true, priority: int8(info.Priority), named: true}
		})
	}
	return c.makes(call{method: get}, func() result {
		item, shutdown := c.queue.Get()
		if shutdown {
			return result{err: workqueue.ErrShutDown}
		}
		return result{item: item, ok: true}
	})
}

// getContext waits with a context that a producer may end at any time.
func (c *client) getContext() result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.cancels[c.id].Store(&cancel)
	return c.makes(call{method: getContext}, func() result {
		item, err := c.queue.GetContext(ctx)
		return result{item: item, ok: err == nil, err: err}
	})
}
