// Command quickstart makes thumbnails. Ten requests for two pictures are two
// jobs, a job that fails is tried again after a growing delay, and no picture
// is ever in the hands of both workers. No Kubernetes is involved.
package main

import (
	"errors"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func main() { run(os.Stdout) }

func run(out io.Writer) {
	log := log.New(out, "", 0)
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	for range 5 {
		queue.Add("cat.png")
		queue.Add("dog.png")
	}
	queue.AddAfter("owl.png", time.Second)
	log.Println("11 requests,", queue.Len(), "jobs now, one later")

	var jobs, workers sync.WaitGroup
	jobs.Add(3)
	for range 2 {
		workers.Go(func() {
			for name, shutdown := queue.Get(); !shutdown; name, shutdown = queue.Get() {
				failures := queue.NumRequeues(name)
				if err := shrink(name, failures); err != nil {
					log.Printf("%s: %v", name, err)
					queue.AddRateLimited(name) // Due in 100 ms, then 200 ms, 400 ms.
				} else {
					log.Printf("%s: done after %d failures", name, failures)
					queue.Forget(name) // Its next failure waits 100 ms again.
					jobs.Done()
				}
				queue.Done(name) // Only now may a worker be given this name again.
			}
		})
	}
	jobs.Wait()
	queue.ShutDown() // Get tells the workers to stop.
	workers.Wait()
}

func shrink(name string, failures int) error {
	time.Sleep(20 * time.Millisecond * time.Duration(name[0]-'a')) // c: 40 ms, d: 60 ms, o: 280 ms.
	if name == "dog.png" && failures < 2 {
		return errors.New("disk full")
	}
	return nil
}
