// Command quickstart makes thumbnails. Ten requests for two pictures are two
// jobs, a job that fails is tried again after a growing delay, and no picture
// is ever in the hands of both workers. No Kubernetes is involved.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

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

	ctx, stop := context.WithCancel(context.Background())
	var jobs sync.WaitGroup
	jobs.Add(3)
	go func() {
		jobs.Wait()
		stop() // A server would stop on a signal.
	}()
	quiet := logr.Discard() // Run logs failures as well.
	workqueue.Run(ctx, queue, func(ctx context.Context, name string) error {
		info, _ := workqueue.ItemInfoFromContext[string](ctx)
		if err := shrink(name, info.Failures); err != nil {
			log.Printf("%s: %v", name, err)
			return err // Run retries the job after 100 ms, then 200 ms, 400 ms.
		}
		log.Printf("%s: done after %d failures", name, info.Failures)
		jobs.Done()
		return nil
	}, workqueue.RunOptions[string]{Workers: 2, Logger: &quiet})
}

func shrink(name string, failures int) error {
	time.Sleep(20 * time.Millisecond * time.Duration(name[0]-'a')) // c: 40 ms, d: 60 ms, o: 280 ms.
	if name == "dog.png" && failures < 2 {
		return errors.New("disk full")
	}
	return nil
}
