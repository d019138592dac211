package workqueue

import "sync"

// A crew counts the goroutines of a queue. It is a [sync.WaitGroup] for those
// who may give up waiting: foreign code can keep a goroutine for ever.
//
// It is guarded by the lock of the queue. Its zero value is empty.
type crew struct {
	size int
	gone chan struct{} // closed when size becomes 0; nil if nobody waits
}

// closedForAll is closed.
var closedForAll = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter counts a goroutine that is about to start. The caller has the lock, and has
// seen that the queue is open: who is counted later is missed by the shutdown.
func (c *crew) enter() { c.size++ }

// leave is the last thing that the goroutine does. It takes the lock.
func (c *crew) leave(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	c.size--
	if c.size == 0 && c.gone != nil {
		close(c.gone)
		c.gone = nil
	}
}

// allLeft returns a channel that is closed when there is no goroutine. It takes the
// lock.
func (c *crew) allLeft(mu *sync.Mutex) <-chan struct{} {
	mu.Lock()
	defer mu.Unlock()
	if c.size == 0 {
		return closedForAll
	}
	if c.gone == nil {
		c.gone = make(chan struct{})
	}
	return c.gone
}
