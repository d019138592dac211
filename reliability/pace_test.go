package reliability

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	upstream "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// A pacedQueue is a queue, ours or that of client-go.
type pacedQueue interface {
	Add(item int)
	Get() (item int, shutdown bool)
	Done(item int)
	ShutDown()
}

func newPaced(limit rate.Limit, burst int) pacedQueue {
	return workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[int]{
		ItemPace: workqueue.Rate{Limit: limit, Burst: burst},
	})
}

func newUpstream() pacedQueue {
	return upstream.NewTypedRateLimitingQueue(upstream.DefaultTypedControllerRateLimiter[int]())
}

// A crowd has the events and the hand-outs of keys. Key 0 is hot.
type crowd struct {
	queue pacedQueue
	start time.Time

	mu   sync.Mutex
	keys []keyLog
}

// A keyLog counts the events of a key, and its hand-outs.
type keyLog struct {
	events, seen int
	handOuts     int
	unseen       time.Time // when the first event came that no hand-out has followed
	latest       time.Duration
}

func (c *crowd) event(key int) {
	c.mu.Lock()
	k := &c.keys[key]
	if k.events == k.seen {
		k.unseen = time.Now()
	}
	k.events++
	c.mu.Unlock()
	c.queue.Add(key)
}

// work handles each key for a millisecond.
func (c *crowd) work() {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.mu.Lock()
		k := &c.keys[key]
		if k.handOuts++; k.seen < k.events {
			k.latest = max(k.latest, time.Since(k.unseen))
			k.seen = k.events
		}
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
		c.queue.Done(key)
	}
}

// run plays a thousand events a second for key 0, and ten a second for each of a thousand others,
// with 32 workers. It returns the hand-outs until the last event.
func (c *crowd) run(d time.Duration) (handOuts []int) {
	for range 32 {
		go c.work()
	}
	c.start = time.Now()
	for tick := 0; time.Since(c.start) < d; tick++ {
		c.event(0)
		for i := range 10 {
			c.event(1 + (tick*10+i)%1000)
		}
		time.Sleep(time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.keys {
		handOuts = append(handOuts, k.handOuts)
	}
	return handOuts
}

// Crossplane built two limiters around its queue because one hot object took the time of all, and
// took both back (crossplane/crossplane#6790, #6777, #6910). With ItemPace each key comes as often
// as it has events, up to its pace, and each event is followed by a hand-out soon.
func TestHotItemIsPaced(t *testing.T) {
	span := 3 * time.Minute
	if testing.Short() || raceEnabled {
		span = 20 * time.Second
	}
	for _, row := range []struct {
		name string
		open func() pacedQueue
		pace float64 // hand-outs a second; 0 for none
	}{
		{"pace 2", func() pacedQueue { return newPaced(2, 1) }, 2},
		{"pace 20", func() pacedQueue { return newPaced(20, 1) }, 20},
		{"no pace", func() pacedQueue {
			return workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[int]{})
		}, 0},
		{"client-go", newUpstream, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{queue: row.open(), keys: make([]keyLog, 1001)}
			defer c.queue.ShutDown()
			handOuts := c.run(span)
			time.Sleep(time.Second)
			synctest.Wait()
			low, high, latest := handOuts[1], handOuts[1], time.Duration(0)
			for key, k := range c.keys {
				latest = max(latest, k.latest)
				if key > 0 {
					low, high = min(low, handOuts[key]), max(high, handOuts[key])
				}
				if k.seen != k.events {
					t.Errorf("%s: key %d: %d of %d events were followed by a hand-out", row.name, key, k.seen, k.events)
				}
				if want := min(float64(k.events), row.pace*span.Seconds()); row.pace > 0 && !near(float64(handOuts[key]), want) {
					t.Errorf("%s: key %d was handed out %d times for %d events, want %v", row.name, key, handOuts[key], k.events, want)
				}
			}
			if row.pace > 0 && latest > time.Duration(float64(time.Second)/row.pace)+5*time.Millisecond {
				t.Errorf("%s: an event had to wait %v for a hand-out", row.name, latest)
			}
			t.Logf("%s: in %v, of %d events of the hot key %d hand-outs, of %d events of each other %d to %d; the longest wait %v",
				row.name, span, c.keys[0].events, handOuts[0], c.keys[1].events, low, high, latest)
		})
	}
}

// near allows for a percent, and for the burst.
func near(got, want float64) bool { return got >= 0.99*want-1 && got <= 1.01*want+1 }

// A million keys pass through a queue with ItemPace, 10,000 a second. The pace of a key that was
// seen takes memory until the key has all its tokens again.
func TestPaceOfAMillionKeys(t *testing.T) {
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 100_000
	}
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{ItemPace: workqueue.Rate{Limit: 2}})
		defer q.ShutDown()
		for i := range n {
			q.Add("namespace/object-" + strconv.Itoa(i))
			item, _ := q.Get()
			q.Add(item) // Waits for its pace.
			q.Done(item)
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
			for q.Len() > 0 {
				item, _ := q.Get()
				q.Done(item)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
			q.Done(item)
		}
		for range 20_000 { // Each hand-out drops up to two keys whose tokens are all there.
			q.Add("another")
			item, _ := q.Get()
			q.Done(item)
		}
		by := grown(before, 1<<20)
		t.Logf("%d keys: %d KB in the end", n, by>>10)
		if by > 1<<20 {
			t.Errorf("%d bytes are kept in the end", by)
		}
	})
}

// A fight is an object that two controllers write, each what the other does not want. Each write
// is an event for both, 5 ms later.
type fight struct {
	queues [2]pacedQueue

	mu     sync.Mutex
	owner  int
	writes [2]int
	slow   time.Duration // the longest time from the event of another object to its handler
	since  map[int]time.Time
}

// reconcile takes 10 ms. Item 0 is the object, the others are nobody else's.
func (f *fight) reconcile(side int) {
	for {
		item, shutdown := f.queues[side].Get()
		if shutdown {
			return
		}
		if item != 0 {
			f.mu.Lock()
			f.slow = max(f.slow, time.Since(f.since[item]))
			f.mu.Unlock()
		}
		time.Sleep(10 * time.Millisecond)
		if item == 0 && f.write(side) {
			time.AfterFunc(5*time.Millisecond, func() {
				f.queues[0].Add(0)
				f.queues[1].Add(0)
			})
		}
		f.queues[side].Done(item)
	}
}

func (f *fight) write(side int) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owner == side {
		return false
	}
	f.owner = side
	f.writes[side]++
	return true
}

// touch is an event of another object for the first controller.
func (f *fight) touch(item int) {
	f.mu.Lock()
	f.since[item] = time.Now()
	f.mu.Unlock()
	f.queues[0].Add(item)
}

// Two controllers that fight over an object write it as fast as they can. A pace of one a second,
// after a burst of 5, bounds the writes, also if only one of them has it.
func TestControllersThatFightArePaced(t *testing.T) {
	const span = 10 * time.Minute
	paced := func() pacedQueue { return newPaced(1, 5) }
	for _, row := range []struct {
		name      string
		sides     [2]func() pacedQueue
		low, high int // writes
	}{
		{"client-go", [2]func() pacedQueue{newUpstream, newUpstream}, 20_000, 1e9},
		{"one paced", [2]func() pacedQueue{paced, newUpstream}, 1200, 1212},
		{"both paced", [2]func() pacedQueue{paced, paced}, 1200, 1212},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fight{owner: 1, since: map[int]time.Time{}, queues: [2]pacedQueue{row.sides[0](), row.sides[1]()}}
			go f.reconcile(0)
			go f.reconcile(1)
			f.queues[0].Add(0)
			for i := range int(span / time.Second) {
				f.touch(1 + i%100)
				time.Sleep(time.Second)
			}
			f.mu.Lock()
			writes := f.writes[0] + f.writes[1]
			text := fmt.Sprintf("%s: %d and %d writes in %v, another object waits up to %v", row.name, f.writes[0], f.writes[1], span, f.slow)
			f.mu.Unlock()
			if t.Log(text); writes < row.low || writes > row.high {
				t.Errorf("%s: want %d to %d writes", row.name, row.low, row.high)
			}
			f.queues[0].ShutDown()
			f.queues[1].ShutDown()
			time.Sleep(time.Minute) // client-go's goroutines end late.
		})
	}
}
