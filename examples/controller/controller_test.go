package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
)

// play runs the embedded cluster on virtual time: the seconds of its latencies, backoffs and
// pauses cost none.
func play(ctx context.Context, q *embedded.RateLimiting, seed uint64, verbose bool) (string, error) {
	var out bytes.Buffer
	err := runEmbedded(ctx, &out, q, options{workers: 4, seed: seed, verbose: verbose})
	return out.String(), err
}

func TestEmbeddedClusterConverges(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			out, err := play(t.Context(), newQueue(), seed, true)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, out)
			}
			for _, want := range []string{
				"\nCONVERGED: ",
				"readded=true",
				"failures=5 backoff=80ms",
				`msg="deletion found by a new list"`,
				`msg="Handler failed, the item will be retried" queue=mirror item=default/app-`,
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
		cluster := embedded.NewCluster(1)
		cluster.SetLatency(time.Hour)
		cluster.Put(wanted("stuck"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runOn(ctx, cluster, newQueue(), quiet, options{workers: 2}) }()
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
		cluster.Close()
	})
}

// The probe fails until each object of the initial list was synced once, with or without
// success.
func TestReadyAfterTheInitialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		defer q.ShutDown()
		c := &controller{queue: q, log: quiet}
		probe := func() int {
			synctest.Wait()
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			return w.Code
		}
		for _, name := range []string{"a", "b"} {
			q.Add(cache.ObjectName{Name: name})
		}
		go c.reportReady(t.Context())
		for _, want := range []int{503, 503, 200} {
			if got := probe(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			item, _ := q.TryGet()
			q.AddRateLimited(item)
			q.Add(cache.ObjectName{Name: "later"})
			q.Done(item)
		}
	})
}

// asked is a cluster that remembers the writes and makes none.
type asked struct {
	cluster
	writes  []string
	written *corev1.Secret
	uid     types.UID
}

func (a *asked) CreateSecret(_ context.Context, secret *corev1.Secret) error {
	a.writes, a.written = append(a.writes, "create"), secret
	return nil
}

func (a *asked) UpdateSecret(_ context.Context, secret *corev1.Secret) error {
	a.writes, a.written = append(a.writes, "update"), secret
	return nil
}

func (a *asked) DeleteSecret(_ context.Context, _ cache.ObjectName, uid types.UID) error {
	a.writes, a.uid = append(a.writes, "delete"), uid
	return nil
}

// unstarted returns a controller with these objects in its caches, the writes that it asks
// for, and its queue.
func unstarted(t *testing.T, source *corev1.ConfigMap, secret *corev1.Secret) (*controller, *asked, queue) {
	t.Helper()
	a, q := &asked{cluster: embedded.NewCluster(1)}, newQueue()
	t.Cleanup(func() { q.ShutDown(); a.cluster.(*embedded.Cluster).Close() })
	c, err := newController(a, q, quiet)
	if err == nil && source != nil {
		err = c.informers[0].GetStore().Add(source)
	}
	if err == nil && secret != nil {
		err = c.informers[1].GetStore().Add(secret)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, a, q
}

func TestTombstoneIsQueuedByName(t *testing.T) {
	c, _, q := unstarted(t, nil, nil)
	c.enqueue(cache.DeletedFinalStateUnknown{Key: "default/gone"})
	c.enqueue("not an object")
	if got, _ := q.Get(); got != cache.NewObjectName("default", "gone") || q.Len() != 0 {
		t.Errorf("got %v and %d more, want default/gone", got, q.Len())
	}
}

func TestSyncLeavesForeignSecretsAlone(t *testing.T) {
	for _, source := range []*corev1.ConfigMap{nil, wanted("app")} {
		foreign := managed("app", "6")
		foreign.Labels = nil
		c, a, _ := unstarted(t, source, foreign)
		err := c.sync(t.Context(), cache.NewObjectName(embedded.Namespace, "app"))
		if (err != nil) != (source != nil) || len(a.writes) != 0 {
			t.Errorf("source %v: got error %v and the writes %q", source != nil, err, a.writes)
		}
	}
}

// A delete names the Secret by its UID, and an update the version that was read: the cache
// may be behind. An update must not change the object in the cache.
func TestWritesGuardAgainstAStaleCache(t *testing.T) {
	for _, test := range []struct {
		source *corev1.ConfigMap
		write  string
	}{{nil, "delete"}, {wanted("app"), "update"}} {
		stale := managed("app", "6")
		stale.UID, stale.ResourceVersion = "uid-of-the-secret", "17"
		c, a, _ := unstarted(t, test.source, stale)
		err := c.sync(t.Context(), cache.MetaObjectToName(stale))
		if err != nil || len(a.writes) != 1 || a.writes[0] != test.write {
			t.Fatalf("got %v and the writes %q, want %s", err, a.writes, test.write)
		}
		if test.write == "delete" && a.uid != stale.UID {
			t.Errorf("the delete has the UID %q", a.uid)
		}
		if test.write == "update" && (a.written.ResourceVersion != "17" || string(a.written.Data["revision"]) != "7") {
			t.Errorf("the update is %v", a.written)
		}
		if got := string(stale.Data["revision"]); got != "6" {
			t.Errorf("the cache has revision %s", got)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// wanted returns a ConfigMap at revision 7 whose label asks for a Secret.
func wanted(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: embedded.Namespace, Name: name, Labels: map[string]string{wantedLabel: "true"}},
		Data:       map[string]string{"revision": "7"},
	}
}

// managed returns a Secret of the controller.
func managed(name, revision string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: embedded.Namespace, Name: name, Labels: map[string]string{managedLabel: managedValue}},
		Data:       map[string][]byte{"revision": []byte(revision)},
	}
}
