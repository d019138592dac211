package gate_test

import (
	"sync"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// A crew has the lock that a queue would have.
type crew struct {
	mu   sync.Mutex
	crew gate.Crew
}

func (c *crew) Enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew.Enter()
}

func (c *crew) Leave()                { c.crew.Leave(&c.mu) }
func (c *crew) Left() <-chan struct{} { return c.crew.AllLeft(&c.mu) }

// The wait is for the last of a crew, and for that of the next one anew.
func TestCrewIsWaitedFor(t *testing.T) {
	var c crew
	gone := func(left <-chan struct{}) bool {
		select {
		case <-left:
			return true
		default:
			return false
		}
	}
	if !gone(c.Left()) {
		t.Error("nobody has entered, and is waited for")
	}
	for range 2 {
		c.Enter()
		c.Enter()
		before := c.Left()
		c.Leave()
		if gone(before) || gone(c.Left()) {
			t.Error("one is left, and not waited for")
		}
		c.Leave()
		if !gone(before) || !gone(c.Left()) {
			t.Error("nobody is left, and waited for")
		}
	}
}
