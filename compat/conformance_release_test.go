package compat_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A full queue has no room for anything: its Add blocks until it is shut down,
// as that of a bounded queue may.
type full struct {
	typedQueue[string]
	down chan struct{}
	once *sync.Once
}

func (f full) Add(string) { <-f.down }

func (f full) ShutDown() {
	f.once.Do(func() { close(f.down) })
	f.typedQueue.ShutDown()
}

func (f full) ShutDownWithDrain() {
	f.once.Do(func() { close(f.down) })
	f.typedQueue.ShutDownWithDrain()
}

// TestShutDownReleasesTheQueueBelow is about who is told first. The goroutine
// of the delaying queue is in the inner queue's Add, and comes out of there
// only when the inner queue is shut down: to wait for it before is to wait for
// ever.
func TestShutDownReleasesTheQueueBelow(t *testing.T) {
	stops := map[string]func(delayingQueue[string]){
		"ShutDown":          delayingQueue[string].ShutDown,
		"ShutDownWithDrain": delayingQueue[string].ShutDownWithDrain,
	}
	onEach(t, func(t *testing.T, impl implementation) {
		for name, stop := range stops {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := clocktesting.NewFakeClock(time.Now())
					inner := full{impl.queue(settings{}), make(chan struct{}), new(sync.Once)}
					q := impl.delaying(settings{clock: fake, queue: inner})
					defer synctest.Wait()
					defer q.ShutDown()
					q.AddAfter("a", time.Second)
					synctest.Wait()
					fake.Step(time.Second)
					synctest.Wait()
					returned := false
					go func() {
						stop(q)
						returned = true
					}()
					synctest.Wait()
					if !returned {
						t.Error("it waits for the goroutine that waits for it")
						inner.ShutDown()
					}
				})
			})
		}
	})
}
