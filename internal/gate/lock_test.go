package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// A crowd of callers, some awake and some asleep, has the lock one after the other, and the count of
// those that wait is zero in the end.
func TestCrowdHasTheLockInTurn(t *testing.T) {
	const callers, sections = 200, 50
	var (
		mu      gate.Mutex
		waiting atomic.Int32
		n       int
		crowd   sync.WaitGroup
	)
	mu.Lock() // Callers find the lock taken at first.
	for range callers {
		crowd.Go(func() {
			for range sections {
				gate.LockSoonOrRest(&mu, &waiting)
				n++
				mu.Unlock()
			}
		})
	}
	mu.Unlock()
	crowd.Wait()
	if n != callers*sections {
		t.Errorf("%d sections, want %d", n, callers*sections)
	}
	if left := waiting.Load(); left != 0 {
		t.Errorf("%d callers wait after the last one has left", left)
	}
}
