package debugpage_test

import (
	"cmp"
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

// Page and script answer the questions of monitoring/README.md alike, and the links of the page lead to
// headings of docs/operating.md.
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
		letter string // "-" is none
		config config
		begin  func(t *testing.T, q *queueOf[string])
		script string // "" is the same letter; the series tell less
	}{
		{"-", config{}, func(*testing.T, *queueOf[string]) {}, ""},
		{"A", config{}, func(_ *testing.T, q *queueOf[string]) { q.Add("a"); time.AfterFunc(15*time.Second, q.ShutDown) }, ""},
		{"B", config{}, func(_ *testing.T, q *queueOf[string]) { many(q) }, ""},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(context.Context, string) error { return errors.New("down") })
			many(q)
		}, ""},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) { // A loop by hand.
			for range 3 {
				go func() {
					for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
						q.AddRateLimited(item)
						q.Done(item)
					}
				}()
			}
			many(q)
		}, ""},
		{"D", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(ctx context.Context, _ string) error { <-ctx.Done(); return nil })
			q.Add("a")
			time.Sleep(time.Minute)
		}, ""},
		{"E", config{Pace: rate.NewLimiter(1, 0)}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, sleep)
			q.Add("a")
			synctest.Wait()
		}, ""},
		{"E", config{Pace: rate.NewLimiter(0.5, 1)}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(context.Context, string) error { return nil })
			many(q)
		}, ""},
		{"-", config{Pace: rate.NewLimiter(0.4, 1)}, func(t *testing.T, q *queueOf[string]) { // A slow Pace has a token now and then.
			run(t, q, 3, func(context.Context, string) error { return nil })
			for i := range 3 {
				time.AfterFunc(time.Duration(10*i+8)*time.Second, func() { q.AddAll("a", "b") })
			}
		}, ""},
		{"-", config{Pace: rate.NewLimiter(10, 1)}, func(t *testing.T, q *queueOf[string]) { // The Pace works bursts off.
			run(t, q, 3, func(context.Context, string) error { return nil })
			for second, items := range map[int]int{5: 100, 16: 60} {
				time.AfterFunc(time.Duration(second)*time.Second, func() {
					for i := range items {
						q.Add(fmt.Sprint(second, i))
					}
				})
			}
		}, ""},
		{"F", config{}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); many(q) }, ""},
		{"G", config{Order: workqueue.Order[string]{
			Group: func(item string) string { return item[:5] }, MaxInFlight: func(string) int { return 2 },
		}}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); many(q) }, ""},
		{"I", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(ctx context.Context, item string) error {
				time.Sleep(100 * time.Millisecond)
				for range 2 { // Two events for each write.
					q.Add(item)
				}
				return nil
			})
			q.Add("a")
		}, ""},
		{"-", config{}, func(t *testing.T, q *queueOf[string]) { // 40 items come again, and each call takes 10 us more than the call before.
			calls := 0
			run(t, q, 1, func(ctx context.Context, item string) error {
				calls++
				time.Sleep(40*time.Millisecond + time.Duration(calls)*10*time.Microsecond)
				q.Add(item)
				return nil
			})
			for i := range 40 {
				q.Add(fmt.Sprint(i))
			}
		}, ""},
		{"-", config{}, func(t *testing.T, q *queueOf[string]) { // Many keys with two events each, beside two slow ones.
			run(t, q, 3, func(ctx context.Context, item string) error {
				if strings.HasPrefix(item, "slow") {
					<-ctx.Done()
				}
				return nil
			})
			q.AddAll("slow", "slower")
			for i := range 3000 {
				time.AfterFunc(time.Duration(i)*10*time.Millisecond, func() { q.AddAll(fmt.Sprint(i), fmt.Sprint(i)) })
			}
		}, "I"},
		{"H", config{}, func(t *testing.T, q *queueOf[string]) { run(t, q, 3, sleep); q.AddAfter("a", time.Hour) }, ""},
		{"H", config{}, func(t *testing.T, q *queueOf[string]) {
			run(t, q, 3, func(context.Context, string) error { return workqueue.RetryAfter(2*time.Minute, errors.New("down")) })
			q.Add("a")
			time.Sleep(11 * time.Minute) // The failures are no longer recent.
			q.Add("a")
			time.Sleep(time.Minute)
		}, ""},
		{"-", config{}, func(t *testing.T, q *queueOf[string]) { // An ordinary resync.
			run(t, q, 3, func(context.Context, string) error { return workqueue.RequeueAfter(10 * time.Minute) })
			q.Add("a")
		}, "H"},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) { // Some succeed.
			run(t, q, 3, func(_ context.Context, item string) error {
				if strings.HasSuffix(item, "5") {
					return workqueue.RequeueAfter(5 * time.Second)
				}
				return errors.New("not found")
			})
			many(q)
		}, ""},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) { // The retries keep all workers busy.
			run(t, q, 1, func(_ context.Context, item string) error {
				time.Sleep(100 * time.Millisecond)
				if strings.HasSuffix(item, "5") {
					return nil
				}
				return errors.New("one of the batch is bad")
			})
			many(q)
		}, ""},
		{"C", config{}, func(t *testing.T, q *queueOf[string]) { // One was given up, and all others succeed.
			run(t, q, 3, func(_ context.Context, item string) error {
				if item == "bad" {
					return workqueue.Permanent(errors.New("gone"))
				}
				return workqueue.RequeueAfter(time.Second)
			})
			q.Add("good")
			time.AfterFunc(15*time.Second, func() { q.Add("bad") })
		}, ""},
		{"-", config{}, func(t *testing.T, q *queueOf[string]) { // As many succeed.
			run(t, q, 3, func(_ context.Context, item string) error {
				if strings.HasSuffix(item, "5") {
					return workqueue.RequeueAfter(time.Second)
				}
				return errors.New("not found")
			})
			many(q)
		}, ""},
		{"-", config{}, func(t *testing.T, q *queueOf[string]) { // A few fail.
			run(t, q, 3, func(_ context.Context, item string) error {
				if item == "good" {
					return workqueue.RequeueAfter(6 * time.Second)
				}
				return errors.New("not found")
			})
			q.AddAll("good", "bad", "worse", "worst")
		}, ""},
		{"H", config{}, func(t *testing.T, q *queueOf[string]) { // Retries are far off, and others are done.
			run(t, q, 3, func(_ context.Context, item string) error {
				if item == "far" {
					return workqueue.RetryAfter(time.Hour, errors.New("down"))
				}
				return nil
			})
			for i := range 100 {
				time.AfterFunc(time.Duration(i)*time.Second, func() { q.AddAll("good", "far") })
				time.AfterFunc(time.Duration(i)*time.Second, func() { q.Add("better") })
			}
		}, "-"},
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
		}, "-"},
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
				if first, _, _ := strings.Cut(letter, "."); cmp.Or(first, "-") != test.letter {
					t.Fatalf("got %q, want %q", letter, test.letter)
				}
				if next := `next in 59 m `; strings.Contains(get(t, p, "?").Body.String(), next) != (summary.NextDue > 1000) {
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
			if runtime.GOOS == "windows" { // Windows has no bash.
				return
			}
			want := cmp.Or(test.script, test.letter)
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

// A page that is loaded every 2 seconds gave the letters F and I to each burst of a queue that is well.
func TestBurstHasNoLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t)
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		go func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				time.Sleep(100 * time.Millisecond)
				q.Done(item)
			}
		}()
		for second := range 120 {
			if second%14 == 0 {
				for i := range 80 {
					q.Add(fmt.Sprint(i))
				}
			}
			synctest.Wait()
			if second%2 == 1 {
				if letter := report(t, p, "?").Queues[0].Letter; letter != "" && second > 14 { // The first burst could be anything.
					t.Errorf("after %d s: got the letter %q", second, letter)
				}
			}
			time.Sleep(time.Second)
		}
		q.ShutDown()
	})
}

// Each call of Stats of a changingQueue has the next number of workers.
type changingQueue struct {
	*queueOf[string]
	workers []int
}

func (q *changingQueue) Stats() workqueue.QueueStats {
	s := workqueue.QueueStats{Depth: 1, Workers: q.workers[0]}
	q.workers = q.workers[1:]
	return s
}

// A worker between two items looked like the end of all workers.
func TestWorkerBetweenTwoItemsHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &changingQueue{newQueue[string](t), []int{0, 0, 1, 0, 0}} // The first call is that of Add.
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		const ended = "B. The workers have ended"
		for n, want := range []string{ended, "", "", ended} {
			if letter := report(t, p, "?").Queues[0].Letter; letter != want {
				t.Errorf("request %d: got the letter %q, want %q", n, letter, want)
			}
			time.Sleep(10 * time.Second)
		}
		q.ShutDown()
	})
}

// A busyQueue has a worker that is busy, and an item that has waited since a time.
type busyQueue struct {
	*queueOf[string]
	since time.Time
}

func (q busyQueue) Stats() workqueue.QueueStats {
	return workqueue.QueueStats{Depth: 1, Workers: 1, InFlight: 1, OldestItem: time.Since(q.since)}
}

// A request in an incident was compared with one of minutes before: the page gave the letter of an outage that was over.
func TestOldRequestIsNotComparedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := busyQueue{newQueue[string](t), time.Now()}
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		for _, pause := range []time.Duration{time.Hour, 10 * time.Second, 3 * time.Minute, 10 * time.Second} {
			time.Sleep(pause)
			want := ""
			if pause == 10*time.Second {
				want = "F. All workers are busy"
			}
			letter := report(t, p, "?").Queues[0].Letter
			for _, query := range []string{"?", "?queue=q"} {
				again := strings.Contains(get(t, p, query).Body.String(), "Load the page again")
				if letter != want || again != (want == "") {
					t.Errorf("after %v: got the letter %q, want %q, and %s asks for another request: %v", pause, letter, want, query, again)
				}
			}
		}
		q.ShutDown()
	})
}

// A panickyQueue panics once panics is true.
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
