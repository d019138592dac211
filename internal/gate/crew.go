package gate

import "sync"

// A Crew counts the goroutines of a queue. It is a [sync.WaitGroup] for those
// who may give up waiting: foreign code can keep a goroutine for ever.
//
// It is guarded by the lock of the queue. Its zero value is empty.
type Crew struct {
	size int
	gone chan struct{} // closed when size becomes 0; nil if nobody waits
}

// ClosedForAll is closed.
var ClosedForAll = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Enter counts a goroutine that is about to start. The caller has the lock, and has
// seen that the queue is open: who is counted later is missed by the shutdown.
func (c *Crew) Enter() { c.size++ }

// Leave is the last thing that the goroutine does. It takes the lock.
func (c *Crew) Leave(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	c.size--
	if c.size == 0 && c.gone != nil {
		close(c.gone)
		c.gone = nil
	}
}

// AllLeft returns a channel that is closed when there is no goroutine. It takes the
// lock.
func (c *Crew) AllLeft(mu *sync.Mutex) <-chan struct{} {
	mu.Lock()
	defer mu.Unlock()
	if c.size == 0 {
		return ClosedForAll
	}
	if c.gone == nil {
		c.gone = make(chan struct{})
	}
	return c.gone
}
