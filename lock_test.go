package workqueue_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// lockable is what the tests need of a queue to take its lock away from others.
type lockable interface {
	Hold() (release func())
	StayAwake(claim bool)
	Awake() bool
}

// A contender is a call that waits for the lock of its queue in the given way.
type contender struct {
	name, waits string
	queue       lockable
	call        func()
	want        [3]int // queued, in flight and waiting after it and those above
}

// contenders are to be called in their order. totals returns what want is for.
func contenders(t *testing.T) (all []contender, totals func() [3]int) {
	fifo := workqueue.NewTyped[int]()
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	t.Cleanup(fifo.ShutDown)
	t.Cleanup(delaying.ShutDown)
	totals = func() [3]int {
		f, d := fifo.Snapshot(0), delaying.Snapshot(0)
		return [3]int{f.QueuedTotal, f.InFlightTotal, d.WaitingTotal}
	}
	return []contender{
		{"Add", "lockSoon", fifo, func() { fifo.Add(1) }, [3]int{1, 0, 0}},
		{"Get", "lockSoon", fifo, func() { fifo.Get() }, [3]int{0, 1, 0}},
		{"Done", "lockSoon", fifo, func() { fifo.Done(1) }, [3]int{0, 0, 0}},
		{"AddAfter", "lockAwake", delaying, func() { delaying.AddAfter(1, time.Hour) }, [3]int{0, 0, 1}},
	}, totals
}

// sleepers returns how many callers sleep until they get a lock of a queue.
func sleepers(waits string) (n int) {
	for _, stack := range stacks() {
		if strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, waits) {
			n++
		}
	}
	return n
}

// Calls stay awake for a lock that is held for some tens of nanoseconds. One that
// is held for long must not take a processor that long, and who sleeps must not
// keep the next one from staying awake.
func TestCallsSleepWhereTheQueueIsLockedForLong(t *testing.T) {
	all, totals := contenders(t)
	for _, c := range all {
		release := c.queue.Hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		for sleepers(c.waits) == 0 {
			runtime.Gosched()
		}
		if c.queue.Awake() {
			t.Errorf("%s: counts as awake although it sleeps", c.name)
		}
		release()
		<-returned
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
}

// A thousand goroutines that wait for a lock without sleeping take the processors
// from the one that has it, and each other's turns: 1 of 100 calls took tens of
// milliseconds.
func TestOneCallAtATimeStaysAwakeForTheLock(t *testing.T) {
	all, totals := contenders(t)
	for _, c := range all {
		c.queue.StayAwake(true) // That is somebody else, who gives up last.
		release := c.queue.Hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		for sleepers(c.waits) == 0 {
			runtime.Gosched()
		}
		release()
		<-returned
		if !c.queue.Awake() {
			t.Errorf("%s: has stayed awake beside somebody else, as it has ended that", c.name)
		}
		c.queue.StayAwake(false)
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
}

// The one who is awake ends that before it sleeps or has returned.
func TestTheNextCallStaysAwakeAfterTheLast(t *testing.T) {
	q := workqueue.NewTyped[int]()
	defer q.ShutDown()
	for _, gets := range []bool{true, false} {
		waits := 0
		wait := func() bool {
			if waits++; !q.Awake() {
				t.Error("somebody waits without being counted as awake")
			}
			q.LockAfter(func() bool {
				t.Error("a second one waits without sleeping")
				return false
			})()
			return gets && q.TryLock()
		}
		for range 2 {
			release := q.LockAfter(wait)
			if q.Awake() {
				t.Error("somebody counts as awake who has the lock")
			}
			if q.TryLock() {
				t.Error("a look takes the lock from the one who has it")
			}
			release()
		}
		if waits != 2 {
			t.Errorf("%d of 2 have waited without sleeping", waits)
		}
	}
}

// Many callers of a queue that is locked now and then for long all return: those
// who stayed awake, those who slept from the start, and those who did first one
// and then the other.
func TestAllCallsGetTheLock(t *testing.T) {
	const callers, calls = 64, 50
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	defer q.ShutDown()
	var crew sync.WaitGroup
	release := q.Hold()
	releaseFIFO := q.FIFO().Hold()
	for c := range callers {
		crew.Go(func() {
			for i := range calls {
				item := c*calls + i
				q.AddAfter(item, time.Hour)
				q.Add(item)
				got, _ := q.Get()
				q.Done(got)
			}
		})
	}
	for sleepers("lockAwake") < callers {
		runtime.Gosched()
	}
	release()
	for sleepers("lockSoon") == 0 {
		runtime.Gosched()
	}
	releaseFIFO()
	crew.Wait()
	snapshot := q.Snapshot(0)
	got := []int{snapshot.WaitingTotal, snapshot.QueuedTotal, snapshot.InFlightTotal}
	if want := []int{callers * calls, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("waiting, queued and in flight are %v, want %v", got, want)
	}
	if q.Awake() || q.FIFO().Awake() {
		t.Error("somebody counts as awake although all have returned")
	}
	if q.Locked() {
		t.Error("the queue is locked although all have returned")
	}
}

// A queue whose lock is taken is not entered by those who only look.
func TestALookTakesOnlyAFreeLock(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	defer q.ShutDown()
	release := q.Hold()
	if !q.Locked() {
		t.Error("a look takes a lock that somebody has")
	}
	q.StayAwake(true)
	release()
	if q.Locked() {
		t.Error("a look fails because somebody stays awake")
	}
	q.StayAwake(false)
}
