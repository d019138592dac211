// Package patterns_test has small whole programs, one for each way to use a queue that is
// easy to get wrong.
package patterns_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

func newQueue() *workqueue.TypedRateLimiting[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
}

// A crawler ends when no page is left. Its handlers add pages, so the queue may be empty
// while a page is at work. The crawler counts the pages that it has added and not finished,
// and ends Run with the last page. EndDrain would be wrong: a queue that drains takes no
// pages from handlers.
func Example_crawler() {
	links := map[string][]string{"/": {"/a", "/b"}, "/a": {"/b", "/c"}, "/c": {"/"}}
	queue := newQueue()
	ctx, stop := context.WithCancel(context.Background())

	var unfinished atomic.Int64
	var seen sync.Map
	add := func(page string) {
		if _, again := seen.LoadOrStore(page, true); !again {
			unfinished.Add(1) // Before the Add: a worker may finish the page at once.
			queue.Add(page)
		}
	}
	visit := func(_ context.Context, page string) error {
		for _, link := range links[page] {
			add(link)
		}
		return nil
	}
	add("/")
	err := workqueue.Run(ctx, queue, visit, workqueue.RunOptions[string]{
		Workers: 4,
		OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) {
			if !r.Again && unfinished.Add(-1) == 0 {
				stop()
			}
		},
	})

	var pages []string
	for page := range seen.Range {
		pages = append(pages, page.(string))
	}
	slices.Sort(pages)
	fmt.Println(pages, err)
	// Output: [/ /a /b /c] <nil>
}

// A web server answers 202 only for a job that the queue has taken. To ask ShuttingDown
// first would be a race with the shutdown.
func Example_webServer() {
	queue := newQueue()
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if queue.AddWith(workqueue.AddOptions{}, r.URL.Path) == 0 {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	post := func(path string) int {
		w := httptest.NewRecorder()
		serve(w, httptest.NewRequest(http.MethodPost, path, nil))
		return w.Code
	}
	fmt.Println(post("/jobs/1"))
	queue.ShutDown()
	fmt.Println(post("/jobs/2"))
	// Output:
	// 202
	// 503
}

// A program that leads in turns handles items only during its terms. With EndKeep the queue
// stays open between two terms, and a term that ends counts as no failure of the item at work.
func Example_leadershipTerms() {
	queue := newQueue()
	queue.AddAll("a", "b")
	for term := 1; term <= 2; term++ {
		ctx, lose := context.WithCancel(context.Background())
		err := workqueue.Run(ctx, queue, func(ctx context.Context, item string) error {
			if term == 1 {
				lose() // The leadership is lost in the middle of the work on a, which is queued again.
				return ctx.Err()
			}
			fmt.Printf("term %d: %s, %d failures\n", term, item, queue.NumRequeues(item))
			if queue.Len() == 0 {
				lose()
			}
			return nil
		}, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep})
		if err != nil {
			fmt.Println(err)
		}
	}
	queue.ShutDown()
	// Output:
	// term 2: b, 0 failures
	// term 2: a, 0 failures
}

// Two queues that call one service share the budget of that service for retries. Each queue
// has a backoff of its own, and the greater of the two waits counts.
func Example_oneBudgetForTwoQueues() {
	budget := &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}
	open := func() *workqueue.TypedRateLimiting[string] {
		backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
		return workqueue.NewTypedRateLimiting(
			workqueue.NewTypedMaxOfRateLimiter(backoff, budget), workqueue.TypedRateLimitingQueueConfig[string]{})
	}
	pods, nodes := open(), open()
	defer pods.ShutDown()
	defer nodes.ShutDown()

	pods.AddRateLimited("pod")   // takes the only token of this hour
	nodes.AddRateLimited("node") // waits for the next token
	due := nodes.Snapshot(1).Waiting[0].Due
	fmt.Println("the node waits for", time.Until(due).Round(time.Minute))
	// Output: the node waits for 1h0m0s
}

// A traced queue sees each hand-out and each Done. Run takes a type that embeds our queue,
// and calls its GetInfo and Done; a retry goes to the embedded queue.
type traced struct {
	*workqueue.TypedRateLimiting[string]
}

func (q traced) GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	if err == nil {
		fmt.Println("get", info.Item)
	}
	return info, err
}

func (q traced) Done(item string) {
	fmt.Println("done", item)
	q.TypedRateLimiting.Done(item)
}

func Example_decorator() {
	queue := traced{newQueue()}
	queue.Add("a")
	ctx, stop := context.WithCancel(context.Background())
	workqueue.Run(ctx, queue, func(context.Context, string) error {
		stop()
		return nil
	}, workqueue.RunOptions[string]{})
	// Output:
	// get a
	// done a
}
