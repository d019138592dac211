// Package patterns_test has short programs for uses of a queue that are easy to get wrong.
package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

func newQueue() *workqueue.TypedRateLimiting[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
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

// A payload is what a client wants for a key. A greater number is a newer payload.
type payload struct {
	number int
	text   string
}

// payloads stands for a store. A client that sends another payload for a key replaces the old one.
type payloads struct {
	mu   sync.Mutex
	last int
	of   map[string]payload
}

// put stores the payload. The caller adds the key afterwards, never the other way round: a worker could find the
// old payload.
func (s *payloads) put(key, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.of[key] = payload{s.last, text}
}

func (s *payloads) get(key string) (p payload, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok = s.of[key]
	return p, ok
}

// end deletes the payload of the number. A newer one stays: its key was added again, or is about to be.
func (s *payloads) end(key string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[key].number == number {
		delete(s.of, key)
	}
}

// An attempt is an error that knows its payload.
type attempt struct {
	number int
	error
}

// The newest payload of a key is worked on, whatever has become of the older ones, and none is left in the store.
func Example_newestPayload() {
	store := payloads{of: make(map[string]payload)}
	queue := newQueue()
	send := func(key, text string) {
		store.put(key, text)
		queue.Add(key)
	}
	ctx, stop := context.WithCancel(context.Background())
	handle := func(_ context.Context, key string) error {
		p, ok := store.get(key)
		if !ok {
			return nil
		}
		fmt.Println(key, p.text)
		if p.text == "broken" {
			send(key, "mended") // A client, while a worker has the key.
			return attempt{p.number, errors.New(p.text)}
		}
		store.end(key, p.number)
		stop()
		return nil
	}
	send("order-7", "first")
	send("order-7", "broken")
	err := workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{
		MaxAttempts: 1,
		OnGiveUp: func(_ context.Context, key string, err error) {
			var a attempt
			if errors.As(err, &a) {
				store.end(key, a.number)
			}
		},
	})
	fmt.Println(len(store.of), err)
	// Output:
	// order-7 broken
	// order-7 mended
	// 0 <nil>
}
