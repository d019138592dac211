package workqueue_test

import (
	"fmt"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// Waits double until they are drawn from the time between half a minute and a
// minute, so that keys which fail together do not come back together.
func ExampleNewTypedItemBackoffRateLimiter() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](workqueue.Backoff{
		Duration: 10 * time.Second, Factor: 2, Cap: time.Minute, Jitter: 1,
	})
	limiter.Rand = func() float64 { return 0.5 } // For an output that is always the same.
	for range 5 {
		fmt.Println(limiter.When("a"))
	}
	limiter.Forget("a")
	fmt.Println("after a success:", limiter.When("a"))
	// Output:
	// 15s
	// 30s
	// 45s
	// 45s
	// 45s
	// after a success: 15s
}

// One retry a second, however often failures are reported.
func ExampleNewTypedKeyBucketRateLimiter() {
	limiter := workqueue.NewTypedKeyBucketRateLimiterWithOptions[string](1, 1,
		workqueue.LimiterOptions{Clock: testingclock.NewFakePassiveClock(time.Now())})
	for _, key := range []string{"a", "b", "b", "b", "c"} {
		fmt.Println(key, limiter.When(key))
	}
	// Output:
	// a 0s
	// b 1s
	// b 1s
	// b 1s
	// c 2s
}

// Nobody calls Forget for keys whose object is gone.
func ExampleNewTypedExpiringRateLimiter() {
	clock := testingclock.NewFakePassiveClock(time.Now())
	limiter := workqueue.NewTypedExpiringRateLimiterWithOptions(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute), time.Hour, workqueue.LimiterOptions{Clock: clock})
	limiter.When("gone")
	fmt.Println("failures:", limiter.NumRequeues("gone"))
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	limiter.When("another")
	fmt.Println("failures two hours later:", limiter.NumRequeues("gone"))
	// Output:
	// failures: 1
	// failures two hours later: 0
}
