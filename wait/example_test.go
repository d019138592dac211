package wait_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue/wait"
)

// Steps is how often the interval changes, and the Cap ends that too.
func ExampleBackoff_Step() {
	b := wait.Backoff{Duration: time.Second, Factor: 3, Steps: 5, Cap: 20 * time.Second}
	for range 5 {
		fmt.Print(b.Step(), " ")
	}
	fmt.Println("steps left:", b.Steps)
	// Output:
	// 1s 3s 9s 20s 20s steps left: 0
}

// With the reset, somebody who calls now and then does not wait for long.
func ExampleBackoff_DelayWithReset() {
	c := testclock.NewFakeClock(time.Now())
	delay := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10}.DelayWithReset(c, time.Minute)
	fmt.Println(delay(), delay(), delay())
	c.Step(2 * time.Minute)
	fmt.Println(delay(), delay())
	// Output:
	// 1s 2s 4s
	// 1s 2s
}

// A connection that is made again when it breaks, after longer and longer waits. Once a
// minute the waits start over.
func ExampleDelayFunc_Until() {
	ctx, cancel := context.WithCancel(context.Background())
	waits := wait.Backoff{Duration: time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Second}

	tries := 0
	err := waits.DelayWithReset(clock.RealClock{}, time.Minute).Until(ctx, true, true, func(context.Context) (bool, error) {
		tries++
		fmt.Println("connection", tries, "breaks")
		if tries == 3 {
			cancel()
		}
		return false, nil
	})
	fmt.Println(err)
	// Output:
	// connection 1 breaks
	// connection 2 breaks
	// connection 3 breaks
	// context canceled
}

// Every replica of a program looks around once in a while, but not all at the
// same time.
func ExampleJitterUntilWithContext() {
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	wait.JitterUntilWithContext(ctx, func(context.Context) {
		if rounds++; rounds == 3 {
			cancel()
		}
	}, time.Millisecond, 0.5, true)
	fmt.Println(rounds, "rounds")
	// Output:
	// 3 rounds
}
