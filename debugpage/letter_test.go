package debugpage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

// The page and the script answer the questions of docs/operating.md alike, and the links of the page lead to
// headings of that file.
func TestLetterOfAStuckQueue(t *testing.T) {
	manual, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	type config = workqueue.TypedRateLimitingQueueConfig[string]
	run := func(t *testing.T, q *queueOf[string], workers int, handle func(context.Context, string) error) {
		quiet := logr.Discard()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- workqueue.Run(ctx, q, handle, workqueue.RunOptions[string]{Workers: workers, Logger: &quiet})
		}()
		t.Cleanup(func() { stop(); <-ended })
	}
	sleep := func(ctx context.Context, _ string) error {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		return nil
	}
	many := func(q *queueOf[string]) {
		for i := range 1000 {
			q.Add(fmt.Sprint("group/", i))
		}
	}
	for _, test := range []struct {
		letter string // "" is none
		config config
		begin  func(t *testing.T, q *queueOf[string])

		pageOnly bool // The series do not tell it.
	}{
		{"", config{}, func(*testing.T, *queueOf[string]) {}, false},
		{"A", config{}, func(_ *testing.T, q *queueOf[string]) { q.Add("a"); time.AfterFunc(15*time.Second, q.ShutDown) }, false},
		{"B", config{}, func(_ *testing.T, q *queueOf[string]) { many(q) }, false},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(context.Context, string) error { return errors.New("down") })
			many(q)
		}, false},
		{"D", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(ctx context.Context, _ string) error { <-ctx.Done(); return nil })
			q.Add("a")
			time.Sleep(time.Minute)
		}, false},
		{"E", config{Pace: rate.NewLimiter(1, 0)}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, sleep)
			q.Add("a")
			synctest.Wait()
		}, false},
		{"E", config{Pace: rate.NewLimiter(0.5, 1)}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(context.Context, string) error { return nil })
			many(q)
		}, false},
		{"F", config{}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); many(q) }, false},
		{"G", config{Order: workqueue.Order[string]{
			Group: func(item string) string { return item[:5] }, MaxInFlight: func(string) int { return 2 },
		}}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); many(q) }, false},
		{"I", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(ctx context.Context, item string) error {
				time.Sleep(100 * time.Millisecond)
				for range 2 { // What the handler writes brings two events.
					q.Add(item)
				}
				return nil
			})
			q.Add("a")
		}, false},
		{"H", config{}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); q.AddAfter("a", time.Hour) }, false},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) { // Some succeed.
			run(t, q, 3, func(_ context.Context, item string) error {
				if strings.HasSuffix(item, "5") {
					return workqueue.RequeueAfter(5 * time.Second)
				}
				return errors.New("not found")
			})
			many(q)
		}, false},
		{"", config{}, func(t *testing.T, q *queueOf[string]) { // As many succeed.
			run(t, q, 3, func(_ context.Context, item string) error {
				if strings.HasSuffix(item, "5") {
					return workqueue.RequeueAfter(time.Second)
				}
				return errors.New("not found")
			})
			many(q)
		}, false},
		{"", config{}, func(t *testing.T, q *queueOf[string]) { // A few fail.
			run(t, q, 3, func(_ context.Context, item string) error {
				if item == "good" {
					return workqueue.RequeueAfter(6 * time.Second)
				}
				return errors.New("not found")
			})
			q.AddAll("good", "bad", "worse", "worst")
		}, false},
		{"H", config{}, func(t *testing.T, q *queueOf[string]) { // Others are done meanwhile.
			run(t, q, 3, func(context.Context, string) error { return nil })
			ended := make(chan struct{})
			t.Cleanup(func() { <-ended })
			go func() {
				defer close(ended)
				for t.Context().Err() == nil {
					q.Debounce("put off", 3*time.Second, 24*time.Hour)
					q.Debounce("other", time.Second, time.Minute)
					select {
					case <-t.Context().Done():
					case <-time.After(2 * time.Second):
					}
				}
			}()
			time.Sleep(15 * time.Minute)
		}, true},
	} {
		t.Run(test.letter, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				test.config.Name, test.config.KeepTimes = "q", true
				registry := prometheus.NewRegistry()
				test.config.MetricsProvider = workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})
				q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 10*time.Second), test.config)
				t.Cleanup(q.ShutDown)
				p := debugpage.New(debugpage.Options{Stuck: time.Minute})
				debugpage.Add(p, "q", q)
				test.begin(t, q)
				for i := range 2 {
					time.Sleep(10 * time.Second)
					report(t, p, "?")
					if err := prometheus.WriteToTextfile(filepath.Join(dir, fmt.Sprint(i)), registry); err != nil {
						t.Fatal(err)
					}
				}
				summary := report(t, p, "?").Queues[0]
				letter := summary.Letter
				if first, _, _ := strings.Cut(letter, "."); first != test.letter {
					t.Fatalf("got %q, want %q", letter, test.letter)
				}
				if next := `<td class="n">1, next in 59 m 40 s</td>`; strings.Contains(get(t, p, "?").Body.String(), next) != (summary.NextDue > 1000) {
					t.Errorf("the first item is due in %v s: want %s for an hour", summary.NextDue, next)
				}
				for _, query := range []string{"?", "?queue=q"} {
					link := fmt.Sprintf(`>%s</a>`, letter)
					if strings.Contains(get(t, p, query).Body.String(), link) != (letter != "") {
						t.Errorf("%s: want the link %s where there is a letter", query, link)
					}
				}
				if !strings.Contains(string(manual), "\n### "+letter+"\n") && letter != "" {
					t.Errorf("the manual has no heading %q", letter)
				}
			})
			want := test.letter
			switch {
			case runtime.GOOS == "windows": // It has no bash.
				return
			case test.letter == "", test.pageOnly:
				want = "-"
			}
			if out := script(t, dir); !strings.Contains(out, "\nq "+strings.Repeat(" ", 23)+want+" ") {
				t.Errorf("want %q of the script, got\n%s", want, out)
			}
		})
	}
}

// script runs monitoring/queues.sh on the readings 0 and 1 in dir.
func script(t *testing.T, dir string) string {
	t.Helper()
	for name, text := range map[string]string{
		"curl":  "cd '" + dir + "' && cat 0 && cp 1 0",
		"sleep": "[ $1 = 10 ]",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("bash", "../monitoring/queues.sh", "address")
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// A panickyQueue panics once it is told to.
type panickyQueue struct {
	*queueOf[string]
	panics bool
}

func (q *panickyQueue) Stats() workqueue.QueueStats {
	if q.panics {
		panic("no stats")
	}
	return q.queueOf.Stats()
}

// The letter of the requests before stood beside the error of a queue that panics.
func TestQueueThatPanicsHasNoLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &panickyQueue{queueOf: newQueue[string](t)}
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		q.AddAfter("a", time.Hour)
		for _, want := range []string{"", "H. The items wait for a time", ""} {
			if got := report(t, p, "?").Queues[0]; got.Letter != want {
				t.Errorf("got the letter %q with the error %q, want %q", got.Letter, got.Error, want)
			}
			q.panics = want != ""
			time.Sleep(10 * time.Second)
		}
		q.ShutDown()
	})
}
