package reliability

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// A crowd has the events and the hand-outs of keys. Key 0 is hot.
type crowd struct {
	queue *workqueue.TypedRateLimiting[int]
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
	const span = 3 * time.Minute
	for _, pace := range []int{2, 20} {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{keys: make([]keyLog, 1001), queue: workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[int]{
				ItemPace: workqueue.Rate{Limit: rate.Limit(pace), Burst: 1},
			})}
			defer c.queue.ShutDown()
			handOuts := c.run(span)
			time.Sleep(time.Second)
			synctest.Wait()
			for key, k := range c.keys {
				if k.seen != k.events {
					t.Errorf("pace %d: key %d: %d of %d events were followed by a hand-out", pace, key, k.seen, k.events)
				}
				if want := min(float64(k.events), float64(pace)*span.Seconds()); !near(float64(handOuts[key]), want) {
					t.Errorf("pace %d: key %d was handed out %d times for %d events, want %v", pace, key, handOuts[key], k.events, want)
				}
				if k.latest > time.Second/time.Duration(pace)+5*time.Millisecond {
					t.Errorf("pace %d: an event of key %d had to wait %v for a hand-out", pace, key, k.latest)
				}
			}
		})
	}
}

// near allows for a percent, and for the burst.
func near(got, want float64) bool { return got >= 0.99*want-1 && got <= 1.01*want+1 }

// A million keys pass through a queue with ItemPace, 10,000 a second. The pace of a key that was
// seen takes memory until the key has all its tokens again.
func TestPaceOfAMillionKeys(t *testing.T) {
	const n = 1_000_000
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
