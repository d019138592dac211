package workqueuetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

// The code of docs/testing.md is that of the tests here, line by line.
func TestPageHasTheCodeOfTests(t *testing.T) {
	lines := make(map[string]bool)
	for _, file := range []string{"page_test.go", "example_test.go"} {
		for _, line := range strings.Split(read(t, file), "\n") {
			lines[strings.TrimSpace(line)] = true
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/testing.md"), -1)
	if len(blocks) < 3 {
		t.Fatalf("the page has %d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		for _, line := range strings.Split(block[1], "\n") {
			if !lines[strings.TrimSpace(line)] {
				t.Errorf("no test has the line %q", line)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An object is what the controller of the page is about.
type object struct{ name, owner string }

// onUpdate is an event handler.
func onUpdate(queue workqueue.TypedRateLimitingInterface[string], before, after object) {
	if before == after {
		return
	}
	queue.Add(after.name)
	if after.owner != "" {
		queue.AddAfter(after.owner, time.Second)
	}
}

func TestOnUpdate(t *testing.T) {
	queue := workqueuetest.New(t, workqueuetest.Options[string]{})
	onUpdate(queue, object{"web", ""}, object{"web", "shop"})
	if got, want := fmt.Sprint(queue.Take()), "[Add web AddAfter shop 1s]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	onUpdate(queue, object{"web", "shop"}, object{"web", "shop"})
	if got := queue.Take(); len(got) > 0 {
		t.Errorf("nothing has changed, got %v", got)
	}
}

// reconcile fails until the third attempt.
func reconcile(attempts *int) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		if *attempts++; *attempts < 3 {
			return errors.New("not yet")
		}
		return nil
	}
}

func TestReconcileIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueuetest.New(t, workqueuetest.Options[string]{
			Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
		})
		attempts := 0
		go workqueue.Run(t.Context(), queue, reconcile(&attempts), workqueue.RunOptions[string]{})
		start := time.Now()
		queue.Add("default/web")
		if err := queue.WaitEmpty(t.Context()); err != nil {
			t.Fatal(err)
		}
		// One minute, then two: they pass at once.
		if took := time.Since(start); attempts != 3 || took != 3*time.Minute {
			t.Errorf("%d attempts in %v, want 3 in 3m", attempts, took)
		}
	})
}
