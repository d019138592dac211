package workqueue

// A nest is the order within a level.
type nest[T comparable] struct {
	queue   Queue[T]        // nil as long as nothing has come
	holding HoldingQueue[T] // the same, if it is that
	ghosts  map[T]struct{}  // in queue, and of a higher level now
	n       int
	out     int  // handed out, of a holding queue
	has     bool // first was taken out ahead of time
	first   T
}

// ready reports whether there is anything to hand out. An order that has ghosts may
// say so and have nothing else. It is asked itself only if the caller tells it of Done.
func (c *nest[T]) ready(heard bool) bool {
	switch {
	case c.n == 0:
		return false
	case c.has:
		return true
	case c.holding != nil && heard:
		return c.holding.Ready()
	}
	return c.queue.Len() > 0
}

// fetch takes out the next item of an order that has ghosts, and drops it if it is one.
func (c *nest[T]) fetch() {
	item := c.queue.Pop()
	if _, ghost := c.ghosts[item]; ghost {
		delete(c.ghosts, item)
		c.tell(item)
		return
	}
	c.has, c.first = true, item
}

// tell tells the order that an item which it has handed out is not processed.
func (c *nest[T]) tell(item T) {
	if c.holding != nil {
		c.holding.Done(item)
	}
}
