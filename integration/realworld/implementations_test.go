package realworld_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
)

// queue is the interface that controllers know.
type queue = clientgo.TypedRateLimitingInterface[key]

// backoff doubles the delay of a key with each failure in a row, from first up to most.
type backoff struct{ first, most time.Duration }

// An implementation is a column of the table: a queue, with the limiter and the workers that
// users of this queue have.
type implementation struct {
	name  string
	queue func(b backoff) queue
	// work handles keys until ctx ends, and returns when the workers have ended.
	work func(ctx context.Context, q queue, workers int, handle handler) error
}

type handler func(ctx context.Context, k key) error

var (
	ours = implementation{
		name: "workqueue",
		queue: func(b backoff) queue {
			return workqueue.NewTypedRateLimitingQueueWithConfig(
				workqueue.NewTypedItemExponentialFailureRateLimiter[key](b.first, b.most),
				workqueue.TypedRateLimitingQueueConfig[key]{Name: "fleets"})
		},
		work: func(ctx context.Context, q queue, workers int, handle handler) error {
			logger := logr.Discard()
			return workqueue.Run(ctx, q, handle, workqueue.RunOptions[key]{Workers: workers, Logger: &logger})
		},
	}
	theirs = implementation{
		name: "client-go",
		queue: func(b backoff) queue {
			return clientgo.NewTypedRateLimitingQueueWithConfig(
				clientgo.NewTypedItemExponentialFailureRateLimiter[key](b.first, b.most),
				clientgo.TypedRateLimitingQueueConfig[key]{Name: "fleets"})
		},
		work: loops,
	}
	implementations = []implementation{ours, theirs}
)

// loops is the loop of most controllers, on as many goroutines as there are workers.
func loops(ctx context.Context, q queue, workers int, handle handler) error {
	defer context.AfterFunc(ctx, q.ShutDown)()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				k, end := q.Get()
				if end {
					return
				}
				if err := handle(ctx, k); err != nil {
					q.AddRateLimited(k)
				} else {
					q.Forget(k)
				}
				q.Done(k)
			}
		})
	}
	running.Wait()
	return nil
}

// A scenario returns an error if the implementation has not done what it shall. It ends the test
// itself if the scenario could not be played.
type scenario func(t *testing.T, impl implementation) error

// play plays a scenario on each implementation.
func play(t *testing.T, s scenario) {
	needServers(t)
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			if err := s(t, impl); err != nil {
				t.Error(err)
			}
		})
	}
}

// A control is a queue with a fault, and a part of the error by which a scenario notices the fault.
type control struct {
	impl implementation
	want string
}

// notices plays a scenario on faulty queues, side by side and after all tests of play.
func notices(t *testing.T, s scenario, controls ...control) {
	needServers(t)
	t.Parallel()
	for _, c := range controls {
		t.Run(c.impl.name, func(t *testing.T) {
			t.Parallel()
			if err := s(t, c.impl); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func needServers(t *testing.T) {
	t.Helper()
	if servers == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set: use make realworld")
	}
}

// size is that of the long form, or of the short form.
func size[T any](long, short T) T {
	if testing.Short() {
		return short
	}
	return long
}

// faulty returns client-go's implementation with a queue that has a fault. Run takes only our
// queues, so a faulty queue has the loops as workers.
func faulty(name string, fault func(q queue) queue) implementation {
	return implementation{name: name, queue: func(b backoff) queue { return fault(theirs.queue(b)) }, work: loops}
}

// losing loses a key: the queue ignores the key from the second add on.
func losing(lost string) implementation {
	return faulty("loses a key", func(q queue) queue { return &losingQueue{queue: q, lost: lost} })
}

type losingQueue struct {
	queue
	lost string

	mu   sync.Mutex
	adds int
}

func (q *losingQueue) Add(k key)            { q.unlessLost(k, q.queue.Add) }
func (q *losingQueue) AddRateLimited(k key) { q.unlessLost(k, q.queue.AddRateLimited) }

func (q *losingQueue) unlessLost(k key, add func(key)) {
	if k.Name == q.lost {
		q.mu.Lock()
		q.adds++
		ignored := q.adds > 1
		q.mu.Unlock()
		if ignored {
			return
		}
	}
	add(k)
}

// forgetting ignores the add of a key that a worker holds.
var forgetting = faulty("forgets a change of a held key", func(q queue) queue {
	return &forgettingQueue{queue: q, held: make(map[key]bool)}
})

type forgettingQueue struct {
	queue

	mu   sync.Mutex
	held map[key]bool
}

func (q *forgettingQueue) Add(k key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.held[k] {
		q.queue.Add(k)
	}
}

func (q *forgettingQueue) Get() (key, bool) {
	k, end := q.queue.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[k] = true
	return k, end
}

func (q *forgettingQueue) Done(k key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, k)
	q.queue.Done(k)
}

// doubling hands every tenth key out once more to the next worker that comes.
var doubling = faulty("hands a key out twice", func(q queue) queue { return &doublingQueue{queue: q} })

type doublingQueue struct {
	queue

	mu    sync.Mutex
	gets  int
	again []key
}

func (q *doublingQueue) Get() (k key, end bool) {
	q.mu.Lock()
	if n := len(q.again); n > 0 {
		k, q.again = q.again[n-1], q.again[:n-1]
		q.mu.Unlock()
		return k, false
	}
	q.mu.Unlock()
	if k, end = q.queue.Get(); end {
		return k, end
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gets++; q.gets%10 == 0 {
		q.again = append(q.again, k)
	}
	return k, false
}

// endless hands out keys after its end, for some seconds so that its workers come to an end.
var endless = faulty("goes on after the end", func(q queue) queue { return &endlessQueue{queue: q} })

type endlessQueue struct {
	queue

	mu   sync.Mutex
	last key
	more int
}

func (q *endlessQueue) Get() (key, bool) {
	k, end := q.queue.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if end && q.more < 200 {
		q.more++
		time.Sleep(10 * time.Millisecond) // The journal learns of the end meanwhile.
		return q.last, false
	}
	q.last = k
	return k, end
}

// hasty retries without a delay.
var hasty = faulty("retries at once", func(q queue) queue { return &hastyQueue{queue: q} })

type hastyQueue struct{ queue }

func (q *hastyQueue) AddRateLimited(k key) { q.queue.Add(k) }
