package workqueue

import "context"

// This file is what CancelOnReAdd does for a handler whose item is added again: it decides
// whether the call may be cut short, and has the item handled once more.

// isCutShort reports whether CancelOnReAdd has ended the call before its end, which it has
// if the handler returns the error of its context. It counts how many calls in a row have
// met with that. Whatever else the handler returns ends the series: it has come to
// something.
func (w *worker[T]) isCutShort(cancelled bool) bool {
	cut := w.overtaken && cancelled
	w.mu.Lock()
	defer w.mu.Unlock()
	if !cut {
		delete(w.cancels, w.item)
		return false
	}
	if w.cancels == nil {
		w.cancels = make(map[T]int)
	}
	w.cancels[w.item]++
	return true
}

// mayCancel reports whether the next call of the handler may be cut short. One that may
// not is logged: mostly the handler adds its own item, and would be cut short for ever.
// The lock is free while that is logged, as a logger is foreign code.
func (w *worker[T]) mayCancel() bool {
	w.mu.Lock()
	n := w.cancels[w.item]
	w.mu.Unlock()
	most := w.options.MaxCancels
	if most == 0 {
		most = defaultMaxCancels
	}
	if n < most {
		return true
	}
	w.logger.Info("Handler is not cancelled any more until it has come to an end, as its item was added again in each run", "item", w.item, "cancels", n)
	return false
}

// redo has Done queue an item whose handler was overtaken. The Add that did so
// may have been taken back since, by Remove. But the Add before it, for which the
// item was handed out, was not: its work is undone. So the item is added once
// more, and is left behind if that is too late. A Remove that comes after this is
// one of a queued item.
//
// An Add after Done would be wrong: the next worker may have the item by then, and
// would be overtaken by it.
func (w *worker[T]) redo() Result {
	if !w.addedAgain() {
		w.add(w.item)
	}
	again := w.addedAgain()
	if !again { // The queue is shut down.
		w.noteQueued(w.item)
	}
	return Result{Outcome: OutcomeReAdded, Failures: w.failuresOf(w.item), Again: again && w.goesOn()}
}

// addedAgain reports whether Done will queue the item. The context must be one that has
// not ended: a context that has tells nothing of the item. The new one costs allocations,
// which only calls that were cut short pay for.
func (w *worker[T]) addedAgain() bool {
	ctx, cancel := w.reAdder.ReAddContext(context.Background(), w.item)
	defer cancel()
	return ctx.Err() != nil
}
