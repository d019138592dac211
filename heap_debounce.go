package workqueue

import "time"

// debounce makes the item due at the given time, which may be later than it
// was, unless schedule or reschedule has brought it in: those have promised
// something, and debounce can only bring it forward. Of the latest times of
// several calls the first counts. The priority is for a new item, see reschedule.
func (a *agenda[T]) debounce(hash uint32, item T, now, due, latest time.Duration, priority int) (first bool) {
	at, r := a.items.find(hash, item)
	if r == nil {
		ref := a.insert(at, hash, item, now, debounced, priority)
		a.makeExtras().latest.put(ref, latest)
		return a.push(ref, min(due, latest))
	}
	n := a.nodes.at(r.pos)
	latest = n.due
	if r.state == debounced {
		latest = *a.extras.latest.at(n.ref)
	}
	if due >= latest && n.due == latest {
		return false // It is due as late as it may be.
	}
	return a.move(r.pos, min(due, latest))
}
