package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

// play runs the program on virtual time: the seconds of its latencies, backoffs and pauses
// cost none.
func play(ctx context.Context, q *queue, seed uint64, verbose bool) (string, error) {
	var out bytes.Buffer
	err := run(ctx, &out, q, seed, verbose)
	return out.String(), err
}

func TestConverges(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			out, err := play(t.Context(), newQueue(), seed, true)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, out)
			}
			for _, want := range []string{
				"\nCONVERGED: ",
				"a key failed up to 5 times",
				`msg="deletion found by a new list"`,
				`msg="Handler failed, the item will be retried" queue=mirror after=`,
				"msg=ready",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("seed %d: no %q in\n%s", seed, want, out)
				}
			}
			// The signal finds the last changes in the queue. With an empty queue the drain
			// would have nothing to do.
			if strings.Contains(out, "drain    0 keys") {
				t.Errorf("seed %d: nothing to drain in\n%s", seed, out)
			}
		})
	}
}

// The output for a newcomer fits a screen, has no log lines, and ends with the verdict.
func TestOutputFitsAScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := play(t.Context(), newQueue(), 1, false)
		if err != nil {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := len(lines); got > 35 {
			t.Errorf("%d lines, want at most 35", got)
		}
		for _, line := range lines {
			if strings.Contains(line, "msg=") || len(line) > 100 {
				t.Errorf("a log line, or more than 100 characters: %s", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "CONVERGED: ") {
			t.Errorf("the last line is %s", last)
		}
	})
}

// never is a limiter that puts every retry off until the end of time.
type never struct {
	workqueue.TypedRateLimiter[cache.ObjectName]
}

func (never) When(cache.ObjectName) time.Duration { return math.MaxInt64 }

func TestForgottenRetryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := never{workqueue.DefaultTypedItemBasedRateLimiter[cache.ObjectName]()}
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{})
		out, err := play(t.Context(), q, 1, false)
		if err == nil || !strings.Contains(err.Error(), "did not converge") {
			t.Errorf("got error %v, want one about names that did not converge", err)
		}
		if strings.Contains(out, "\nCONVERGED") || !strings.Contains(out, "\nNOT CONVERGED: ") || !strings.Contains(out, " default/app-") {
			t.Errorf("wrong verdict in\n%s", out)
		}
	})
}

// A queue that hands a key to two workers is reported. The second hand-out is made up: the
// queue makes none.
func TestSecondHandOutIsReported(t *testing.T) {
	q := newCountedQueue(newQueue(), quiet)
	key := cache.NewObjectName(namespace, "twice")
	for _, want := range []int{0, 1, 1} {
		q.handOut(key)
		r := report{counts: q.snapshot()}
		if err := r.judge(&bytes.Buffer{}, nil); r.counts.overlaps != want || (err != nil) != (want > 0) {
			t.Errorf("got %d overlaps and the error %v, want %d", r.counts.overlaps, err, want)
		}
		if want == 1 {
			q.Done(key)
		}
	}
}

// The verdict finds each difference between a ConfigMap and its Secret.
func TestDifferences(t *testing.T) {
	c := newCluster(1)
	defer c.close()
	foreign := managed("foreign", "6")
	foreign.Labels = nil
	for _, source := range []*corev1.ConfigMap{wanted("equal"), wanted("lacks"), wanted("other"), wanted("foreign")} {
		if err := c.configMaps.create(source); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []*corev1.Secret{managed("equal", "7"), managed("other", "6"), managed("over", "7"), foreign} {
		if err := c.secrets.create(secret); err != nil {
			t.Fatal(err)
		}
	}
	n, problems := c.differences()
	const want = `default/foreign: no Secret
default/lacks: no Secret
default/other: the Secret has revision "6", the ConfigMap has "7"
default/over: a Secret without a ConfigMap`
	if got := strings.Join(problems, "\n"); got != want || n != 4 {
		t.Errorf("of %d ConfigMaps got\n%s\nwant\n%s", n, got, want)
	}
}

func TestInterruptedRunEndsSoonAndWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		out, err := play(ctx, newQueue(), 1, false)
		if err != nil || !strings.Contains(out, " 0 were cut off, and 0 keys are queued") {
			t.Errorf("got error %v after\n%s", err, out)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v to end after 300ms", took)
		}
	})
}

// A write that does not end must not hold the process longer than drainTimeout. The error
// names its item.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unstarted(t)
		c.cluster.set(func(t *trouble) { t.latency = time.Hour })
		if err := c.cluster.configMaps.create(wanted("stuck")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx, 2) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		left, ok := errors.AsType[*workqueue.DrainError[cache.ObjectName]](<-ended)
		if !ok || left.Left.QueuedTotal != 1 || left.Left.Queued[0].Item.Name != "stuck" {
			t.Errorf("got %v, want that one item is left", left)
		}
		if got := time.Since(start); got != drainTimeout {
			t.Errorf("drained for %v, want %v", got, drainTimeout)
		}
		var r report
		c.cluster.set(func(t *trouble) { r.writes = *t })
		if err := r.judgeStopped(&bytes.Buffer{}, nil); err == nil {
			t.Error("a write was cut off, and the verdict is that of a graceful end")
		}
	})
}

// A sync before the caches are filled would take each Secret for one that is left over.
func TestStartLeavesGoodSecretsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unstarted(t)
		for n := range 100 {
			name := fmt.Sprint("app-", n)
			if err := errors.Join(c.cluster.configMaps.create(wanted(name)), c.cluster.secrets.create(managed(name, "7"))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.run(ctx, workers); err != nil {
			t.Error(err)
		}
		if c.cluster.trouble.ended > 0 {
			t.Errorf("%d writes, want none", c.cluster.trouble.ended)
		}
	})
}

// unstarted returns a controller of an empty cluster.
func unstarted(t *testing.T) *controller {
	t.Helper()
	cluster, q := newCluster(1), newCountedQueue(newQueue(), quiet)
	t.Cleanup(func() { q.ShutDown(); cluster.close() })
	c, err := newController(cluster, q, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTombstoneIsQueuedByName(t *testing.T) {
	c := unstarted(t)
	c.enqueue(cache.DeletedFinalStateUnknown{Key: "default/gone"})
	c.enqueue("not an object")
	if got, _ := c.queue.Get(); got != cache.NewObjectName("default", "gone") || c.queue.Len() != 0 {
		t.Errorf("got %v and %d more, want default/gone", got, c.queue.Len())
	}
}

// A Secret without the label is left alone. A delete names the Secret by its UID, and an update the version that was
// read: the cluster refuses both if the cache is behind. An update must not change the object in the cache.
func TestSyncLeavesAlone(t *testing.T) {
	foreign := func(s *corev1.Secret) { s.Labels = nil }
	anew := func(s *corev1.Secret) { s.UID = "of one before" }
	older := func(s *corev1.Secret) { s.ResourceVersion = "0" }
	for name, test := range map[string]struct {
		source *corev1.ConfigMap
		cached func(*corev1.Secret)
		err    func(error) bool
	}{
		"a foreign Secret":                    {nil, foreign, func(err error) bool { return err == nil }},
		"a foreign Secret that is in the way": {wanted("app"), foreign, func(err error) bool { return err != nil }},
		"a Secret that was made anew":         {nil, anew, apierrors.IsConflict},
		"a Secret that has changed since":     {wanted("app"), older, apierrors.IsConflict},
	} {
		c := unstarted(t)
		if err := c.cluster.secrets.create(managed("app", "6")); err != nil {
			t.Fatal(err)
		}
		key := cache.NewObjectName(namespace, "app")
		cached := c.cluster.secrets.all()[key]
		test.cached(cached)
		if test.source != nil {
			_ = c.informers[0].GetStore().Add(test.source)
		}
		_ = c.informers[1].GetStore().Add(cached)
		err := c.sync(t.Context(), key)
		if stored := c.cluster.secrets.all()[key]; !test.err(err) || stored == nil || string(stored.Data["revision"]) != "6" || string(cached.Data["revision"]) != "6" {
			t.Errorf("%s: %v, stored is %v, in the cache is %v", name, err, stored, cached)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// wanted returns a ConfigMap at revision 7 whose label asks for a Secret.
func wanted(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{wantedLabel: "true"}},
		Data:       map[string]string{"revision": "7"},
	}
}

// managed returns a Secret of the controller.
func managed(name, revision string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{managedLabel: managedValue}},
		Data:       map[string][]byte{"revision": []byte(revision)},
	}
}

// A first `make run` fetches and compiles this program with empty caches. At 386
// packages and 24 MB of source that took 67 s of processor time (Go 1.26.8, AMD
// EPYC); by the times of its build graph, two idle cores need 35 s. With the
// clientset, at 803 packages and 48 MB, it took 244 s on two cores. The bounds
// leave a tenth of room for the next client-go. 248 of the packages are those of
// the quickstart: the library with Prometheus, and what Go has for it.
func TestFirstBuildStaysSmall(t *testing.T) {
	const maxPackages, maxSourceBytes = 425, 27_000_000
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{$dir := .Dir}}{{.ImportPath}}{{range .GoFiles}} {{$dir}}/{{.}}{{end}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, file := range strings.Fields(string(out)) {
		if info, err := os.Stat(file); err == nil && strings.HasSuffix(file, ".go") {
			size += info.Size()
		}
	}
	count := strings.Count(string(out), "\n")
	t.Logf("%d packages, %d bytes of source", count, size)
	// Packages differ in size by a factor of a thousand, so the source is bounded as well.
	if count > maxPackages || size > maxSourceBytes || size == 0 {
		t.Errorf("%d packages with %d bytes of source, want at most %d with %d", count, size, maxPackages, maxSourceBytes)
	}
}
