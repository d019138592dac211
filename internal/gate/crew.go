package gate

// A Crew counts the goroutines of a queue. Unlike the wait of a [sync.WaitGroup], the wait
// for a Crew can be given up: foreign code can keep a goroutine for ever.
//
// A Crew is guarded by the lock of the queue. The zero Crew is empty.
type Crew struct {
	size int
	gone chan struct{} // closed when size becomes 0; nil if nobody waits
}

// ClosedForAll is a closed channel.
var ClosedForAll = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Enter counts a goroutine that is about to start. The caller holds the lock, and has seen
// that the queue is open: a shutdown would miss a goroutine that is counted later.
func (c *Crew) Enter() { c.size++ }

// Leave is the last call of the goroutine, and takes the lock.
func (c *Crew) Leave(mu *Mutex) {
	mu.Lock()
	defer mu.Unlock()
	c.size--
	if c.size == 0 && c.gone != nil {
		close(c.gone)
		c.gone = nil
	}
}

// AllLeft returns a channel that is closed when no goroutine is left. AllLeft takes the
// lock.
func (c *Crew) AllLeft(mu *Mutex) <-chan struct{} {
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
