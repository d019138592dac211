package main

import (
	"fmt"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The load. The workers together do 80 keys a second.
const (
	workers  = 4
	workTime = 50 * time.Millisecond

	floodKeys  = 10_000
	floodEvery = 5 * time.Millisecond // 200 a second, for 50 s

	quietKeys  = 150
	quietEvery = time.Second
	quietStart = 15 * time.Millisecond // when no worker is free
)

// A wait says when a key was added, and for how long the key was queued.
type wait struct {
	tenant        string
	added, lasted time.Duration
}

// A simulation plays the load on a queue, in a single goroutine with a clock of its own.
// A worker is a place in busy, where a key lies for workTime.
type simulation struct {
	queue *workqueue.Typed[string]
	now   time.Duration
	added map[string]time.Duration
	busy  [workers]job
	waits []wait
}

type job struct {
	key  string // none if empty
	ends time.Duration
}

// simulate returns the waits of all keys, in the order in which they were handed out.
func simulate(order workqueue.Order[string]) []wait {
	s := simulation{
		queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: order}),
		added: make(map[string]time.Duration),
	}
	defer s.queue.ShutDown()
	for len(s.waits) < floodKeys+quietKeys {
		s.add("flood", s.now, floodEvery, floodKeys)
		s.add("quiet", s.now-quietStart, quietEvery, quietKeys)
		s.work()
		s.now += floodEvery
	}
	return s.waits
}

// add adds the next key of a tenant when the key is due.
func (s *simulation) add(tenant string, passed, every time.Duration, keys int) {
	if n := int(passed / every); passed >= 0 && passed%every == 0 && n < keys {
		key := fmt.Sprintf("%s/key-%d", tenant, n)
		s.added[key] = s.now
		s.queue.Add(key)
	}
}

// work lets each worker that has finished its key take the next key.
func (s *simulation) work() {
	for i := range s.busy {
		w := &s.busy[i]
		if w.key != "" && s.now < w.ends {
			continue
		}
		if w.key != "" {
			s.queue.Done(w.key)
		}
		key, ok := s.queue.TryGet()
		*w = job{key, s.now + workTime}
		if ok {
			s.waits = append(s.waits, wait{tenantOf(key), s.added[key], s.now - s.added[key]})
		}
	}
}
