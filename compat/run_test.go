package compat_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/seed16c08ea7/workqueue"
)

// Run refuses the queues of others, and ours above them, by their type, and leaves them open.
func TestRunRefusesForeignQueues(t *testing.T) {
	for name, open := range map[string]func() clientgo.TypedRateLimitingInterface[key]{
		"client-go": func() clientgo.TypedRateLimitingInterface[key] {
			return clientgo.NewTypedRateLimitingQueue(theirLimiter())
		},
		"controller-runtime": func() clientgo.TypedRateLimitingInterface[key] {
			return priorityqueue.New("", func(o *priorityqueue.Opts[key]) { o.RateLimiter = theirLimiter() })
		},
		"ours on client-go's delays": func() clientgo.TypedRateLimitingInterface[key] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
				DelayingQueue: clientgo.NewTypedDelayingQueue[key](),
			})
		},
		"client-go's on our delays": func() clientgo.TypedRateLimitingInterface[key] {
			return clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter(), clientgo.TypedRateLimitingQueueConfig[key]{
				DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[key]{}),
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			defer q.ShutDown()
			q.Add("a")
			err := workqueue.Run(t.Context(), q, func(context.Context, key) error { t.Errorf("%s: called", name); return nil }, workqueue.RunOptions[key]{})
			if !errors.Is(err, errors.ErrUnsupported) || q.ShuttingDown() || q.Len() != 1 {
				t.Errorf("%s: got %v with %d items queued", name, err, q.Len())
			}
		})
	}
}

// What client-go calls drained may be queued still. Nothing of it is left out
// by Drain.
func TestDrainOfClientGoWaitsForWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(theirLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: clientgo.NewTypedDelayingQueue[key](),
		})
		q.Add("a")
		q.Add("b")
		q.Get()
		result := make(chan error, 1)
		go func() { result <- q.Drain(t.Context()) }()
		time.Sleep(time.Second)
		for _, item := range []key{"a", "b"} {
			q.Done(item)
			time.Sleep(time.Second)
			if item == "a" {
				q.Get()
			}
			if drained := len(result) > 0; drained != (item == "b") {
				t.Fatalf("after Done(%q): drained: %v", item, drained)
			}
		}
		if err := <-result; err != nil {
			t.Errorf("got %v of a drain that was complete", err)
		}
	})
}

// The failures of a klog program went to slog, as Run knows no klog. The logger of the context of Run counts:
// klog.NewContext is the line that such a program needs. A retry is an INFO, and an item that is given up an
// ERROR.
func TestRunLogsToTheKlogLoggerOfItsContext(t *testing.T) {
	state := klog.CaptureState()
	defer state.Restore()
	was := slog.Default()
	defer slog.SetDefault(was)
	for name, tt := range map[string]struct {
		ctx   func(context.Context) context.Context
		lines []string // of klog, and else of slog
		klogs bool
	}{
		"plain": {func(ctx context.Context) context.Context { return ctx },
			[]string{`level=INFO msg="Handler failed, the item will be retried"`, `level=ERROR msg="Item given up"`}, false},
		"klog.NewContext": {func(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Background()) },
			[]string{`] "Handler failed, the item will be retried"`, `] "Item given up"`}, true},
	} {
		var inKlog, inSlog bytes.Buffer
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
		klog.SetOutputBySeverity("INFO", &inKlog) // It has the lines of all severities.
		slog.SetDefault(slog.New(slog.NewTextHandler(&inSlog, nil)))
		q := workqueue.NewTypedRateLimiting[key](workqueue.NewTypedItemExponentialFailureRateLimiter[key](0, 0), workqueue.TypedRateLimitingQueueConfig[key]{})
		q.Add("a")
		ctx, stop := context.WithCancel(tt.ctx(t.Context()))
		err := workqueue.Run(ctx, q, func(context.Context, key) error { return errors.New("busy") }, workqueue.RunOptions[key]{
			MaxAttempts: 2,
			OnResult: func(_ context.Context, _ key, r workqueue.HandlerResult) {
				if r.Outcome == workqueue.OutcomeGivenUp {
					stop()
				}
			},
		})
		stop()
		klog.Flush()
		used, unused := inSlog.String(), inKlog.String()
		if tt.klogs {
			used, unused = unused, used
		}
		for i, line := range strings.SplitAfter(strings.TrimSpace(used), "\n") {
			if i >= len(tt.lines) || !strings.Contains(line, tt.lines[i]) || tt.klogs && line[0] != "IE"[i] {
				t.Errorf("%s: line %d is %q, want %q", name, i, line, tt.lines[min(i, len(tt.lines)-1)])
			}
		}
		if err != nil || unused != "" || used == "" {
			t.Errorf("%s: Run returned %v, and the other log has %q", name, err, unused)
		}
	}
}
