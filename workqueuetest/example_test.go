package workqueuetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

// What becomes of an item, without a queue, workers or time.
func ExampleHandle() {
	certificates := map[string]time.Duration{"web": 90 * time.Minute, "api": 0}
	renew := func(_ context.Context, name string) error {
		left, ok := certificates[name]
		if !ok {
			return nil // It was deleted.
		}
		if left > time.Hour {
			return workqueue.RequeueAfter(left - time.Hour)
		}
		return fmt.Errorf("%s cannot be renewed", name)
	}
	for _, name := range []string{"gone", "web", "api"} {
		fmt.Println(workqueuetest.Handle(context.Background(), renew, name, workqueue.RunOptions[string]{}))
	}
	// Output:
	// [Get gone Forget gone Done gone]
	// [Get web Forget web AddAfter web 30m0s Done web]
	// [Get api AddRateLimited api Done api]
}
