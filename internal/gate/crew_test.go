package gate_test

import (
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// A crew is a Crew with the lock of a queue.
type crew struct {
	mu   gate.Mutex
	crew gate.Crew
}

func (c *crew) Enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew.Enter()
}

func (c *crew) Leave()                { c.crew.Leave(&c.mu) }
func (c *crew) Left() <-chan struct{} { return c.crew.AllLeft(&c.mu) }

// A channel of AllLeft is closed when the last goroutine leaves, and a later goroutine is
// waited for anew.
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
