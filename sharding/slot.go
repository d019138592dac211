package sharding

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// A slot is what this replica knows of one slot, see the package comment for its states.
type slot struct {
	shards *Shards
	index  int

	mu    sync.Mutex
	term  *term // the last one, nil before the first
	open  bool  // handlers may begin
	epoch int64 // the highest that was seen
	calls map[*call]struct{}

	// made says that this process has written a Lease which names it, and that no verify has ended since:
	// another may be at work. It outlives a term.
	made bool

	stray sync.Once     // see isStray
	idle  chan struct{} // closed when calls becomes empty; nil while nobody waits
}

// A call is a handler at work.
type call struct {
	item   any
	cancel context.CancelCauseFunc
}

// owns reports whether handlers may begin now. The clock is asked, since a process that was
// stopped runs on before its timers do.
func (sl *slot) owns(now time.Time) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.open && now.Before(sl.term.until)
}

// begin notes a handler, or reports false if the slot is not owned.
func (sl *slot) begin(c *call) bool {
	now := time.Now()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if !sl.open || !now.Before(sl.term.until) {
		return false
	}
	sl.calls[c] = struct{}{}
	return true
}

// finish notes the end of a handler. Further calls do nothing.
func (sl *slot) finish(c *call) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	delete(sl.calls, c)
	if len(sl.calls) == 0 && sl.idle != nil {
		close(sl.idle)
		sl.idle = nil
	}
}

// whenIdle returns a channel that is closed when no handler is left.
func (sl *slot) whenIdle() <-chan struct{} {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.idle == nil {
		sl.idle = make(chan struct{})
	}
	idle := sl.idle
	if len(sl.calls) == 0 {
		close(idle)
		sl.idle = nil
	}
	return idle
}

// inFlight returns the handlers at work.
func (sl *slot) inFlight() []*call {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.callsLocked()
}

func (sl *slot) callsLocked() []*call {
	calls := make([]*call, 0, len(sl.calls))
	for c := range sl.calls {
		calls = append(calls, c)
	}
	return calls
}

func cancelAll(calls []*call) {
	for _, c := range calls {
		c.cancel(ErrNotOwned)
	}
}

// setOpen opens the gate, unless the term is over, or shuts the gate.
func (sl *slot) setOpen(open bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.open = open && !sl.term.isOver
}

// isHeld reports whether the slot was gained by the present or last try.
func (sl *slot) isHeld() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.term != nil && sl.term.isHeld
}

func (sl *slot) sawEpoch(epoch int64) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.epoch = max(sl.epoch, epoch)
}

// lose ends the ownership, unless its epoch is later than the given one.
func (sl *slot) lose(epoch int64) {
	sl.mu.Lock()
	t := sl.term
	isLost := t != nil && t.epoch > 0 && t.epoch <= epoch // A write may be on its way.
	sl.mu.Unlock()
	if isLost {
		t.end()
	}
}

// saw notes that the watch has shown our record of an epoch, and that nobody else is at work from a
// time on.
func (sl *slot) saw(epoch int64, alone time.Time) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if t := sl.term; t != nil && t.epoch == epoch && !t.isShown {
		t.isShown = true
		time.AfterFunc(time.Until(alone), func() { close(t.alone) })
	}
}

// run takes the slot from trying to away, and reports whether the slot was held in between. leave
// ends when the slot shall be handed over. ctx ends after all slots have ended.
func (sl *slot) run(ctx, leave context.Context) (held bool) {
	t := sl.newTerm(ctx)
	defer t.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := t.elect(); err != nil && t.ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "sharding: a slot was not tried for", "lock", t.Describe())
		}
	}()
	idle := sl.live(t, leave, ended)
	isHandedOver := idle && t.held() && leave.Err() != nil
	t.end()
	defer t.settle()
	<-ended
	if idle {
		release, cancel := context.WithTimeout(ctx, sl.shards.options.RenewDeadline/2)
		defer cancel()
		t.release(release, isHandedOver)
	}
	return t.held()
}

// live goes through the states of a slot, and reports whether the record may be released: no
// handler is left.
func (sl *slot) live(t *term, leave context.Context, ended <-chan struct{}) (idle bool) {
	select {
	case <-t.began:
	case <-ended:
		return false
	case <-leave.Done():
	}
	if leave.Err() != nil || !t.verify(leave) {
		return true // A write may be on its way, or has succeeded.
	}
	s := sl.shards
	if f := s.options.OnGained; f != nil {
		f(t.ctx, sl.index, t.epoch)
	}
	sl.setOpen(true)
	sl.keep(t, leave)
	sl.setOpen(false)
	s.removeKeys(sl.index)
	idle = sl.drain(t) || sl.cut(t)
	s.removeKeys(sl.index) // The last handlers may have added retries.
	if f := s.options.OnLost; f != nil && idle {
		f(context.WithoutCancel(t.ctx), sl.index, t.epoch)
	}
	return idle
}

// keep lists the items of the slot, again after errors, and waits until the slot shall leave or
// the term is over. Either ends a list too.
func (sl *slot) keep(t *term, leave context.Context) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(leave, cancel)()
	for again := sl.shards.addKeys(ctx, sl.index); ; again = sl.shards.addKeys(ctx, sl.index) {
		select {
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// drain waits for the handlers while the elector renews. It reports false when the ownership
// has ended, which a drain at the end of Run does itself after the DrainTimeout.
//
// The ownership lasts as long as the elector renews, so handlers that ignore their contexts are
// alone at work. Only the end of Run sets them a bound, and the log names them once.
func (sl *slot) drain(t *term) bool {
	s := sl.shards
	idle := sl.whenIdle()
	var ending <-chan struct{} // nil until the contexts of the handlers end
	timer := time.NewTimer(s.options.DrainTimeout)
	defer timer.Stop()
	for {
		select {
		case <-idle:
			return true
		case <-t.over:
			return false
		case <-ending:
			t.end()
			return false
		case <-timer.C:
		}
		if ending != nil {
			klog.FromContext(t.ctx).Error(errHung, "sharding: a slot cannot be handed over", "slot", sl.index, "items", sl.items())
			continue
		}
		cancelAll(sl.inFlight())
		ending = s.ending
		timer.Reset(s.options.CancelBound)
	}
}

// errHung is for the log: the keys of the slot have no worker anywhere until the handlers return.
var errHung = errors.New("handlers ignore their contexts")

// cut waits for the handlers after the end of the ownership, and reports whether all have
// ended.
func (sl *slot) cut(t *term) bool {
	s := sl.shards
	idle := sl.whenIdle()
	select {
	case <-idle:
		return true
	case <-t.bound:
	}
	items := sl.items()
	if len(items) == 0 {
		return true
	}
	select {
	case <-idle:
		return true
	case <-s.ending:
		s.abandon(sl.index, items)
		return false
	}
}

// items returns the items of the handlers at work.
func (sl *slot) items() (items []any) {
	for _, c := range sl.inFlight() {
		items = append(items, c.item)
	}
	return items
}
