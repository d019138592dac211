package reliability

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A million adds of one item from 64 goroutines are one item, and while a
// worker holds it one more.
func TestMillionDuplicates(t *testing.T) {
	q := workqueue.NewTyped[string]()
	flood := func() {
		var adding sync.WaitGroup
		for range 64 {
			adding.Go(func() {
				for range 1_000_000 / 64 {
					q.Add("a")
				}
			})
		}
		adding.Wait()
	}
	for _, held := range []bool{false, true} {
		if flood(); q.Len() != 1 && !held || q.Len() != 0 && held {
			t.Fatalf("held %v: %d items are queued", held, q.Len())
		}
		if held {
			q.Done("a")
		}
		if item, ok := q.TryGet(); item != "a" || !ok {
			t.Fatalf("held %v: got %q, %v", held, item, ok)
		}
		if item, ok := q.TryGet(); ok {
			t.Fatalf("held %v: got %q a second time", held, item)
		}
	}
	q.Done("a")
	q.ShutDownWithDrain()
}

// With workers beside, each sees what was written before the last Add.
func TestMillionDuplicatesWithWorkers(t *testing.T) {
	q := workqueue.NewTyped[int]()
	var adding, working sync.WaitGroup
	var written, read, holders atomic.Int64
	for range 4 {
		working.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				if holders.Add(1) != 1 {
					t.Error("two workers hold the item")
				}
				read.Store(written.Load())
				holders.Add(-1)
				q.Done(item)
			}
		})
	}
	for range 64 {
		adding.Go(func() {
			for range 1_000_000 / 64 {
				written.Add(1)
				q.Add(7)
			}
		})
	}
	adding.Wait()
	q.ShutDownWithDrain()
	working.Wait()
	if written.Load() != read.Load() {
		t.Errorf("the last worker saw %d of %d", read.Load(), written.Load())
	}
}

// A million distinct items through eight workers: each once.
func TestMillionDistinctItems(t *testing.T) {
	const n = 1_000_000
	q := workqueue.NewTyped[int]()
	var adding, working sync.WaitGroup
	got := make([]atomic.Int32, n)
	for range 8 {
		working.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				got[item].Add(1)
				q.Done(item)
			}
		})
	}
	for p := range 8 {
		adding.Go(func() {
			for i := p; i < n; i += 8 {
				q.Add(i)
			}
		})
	}
	adding.Wait()
	q.ShutDownWithDrain()
	working.Wait()
	for item := range got {
		if times := got[item].Load(); times != 1 {
			t.Fatalf("item %d was handed out %d times", item, times)
		}
	}
}

// Items of 1 MB: equal ones are one item, wherever they lie, and nothing of
// them is kept.
func TestItemsOfAMegabyte(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedItemBasedRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
	big := func(i int) string { return strings.Repeat("x", 1<<20) + strconv.Itoa(i) }
	before := heap()
	for range 3 {
		for i := range 50 {
			q.Add(big(i))
		}
	}
	if n := q.Len(); n != 50 {
		t.Errorf("%d items are queued, want 50", n)
	}
	for i := range 50 {
		item, _ := q.Get()
		if item != big(i) {
			t.Fatalf("got an item that ends in %s, want %d", item[1<<20:], i)
		}
		q.AddRateLimited(item)
		q.Forget(item)
		q.Done(big(i))
	}
	for range 50 {
		item, _ := q.Get()
		q.Done(item)
	}
	if by := grown(before, 1<<20); by > 1<<20 {
		t.Errorf("%d bytes are kept of 50 MB", by)
	}
	q.ShutDownWithDrain()
}

// A megabyte need not be behind a pointer.
func TestItemsThatAreAMegabyte(t *testing.T) {
	type item [1 << 20]byte
	q := workqueue.NewTyped[item]()
	before := heap()
	for i := range 5 {
		q.Add(item{byte(i)})
		q.Add(item{byte(i)})
	}
	peak := heap() - before
	for i := range 5 {
		got, _ := q.Get()
		if got[0] != byte(i) || q.Len() != 4-i {
			t.Errorf("got item %d at place %d, %d are queued", got[0], i, q.Len())
		}
		q.Done(got)
	}
	q.ShutDownWithDrain()
	t.Logf("5 items take %d MB", peak>>20)
}
