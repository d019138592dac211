package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

func name(n string) cache.ObjectName { return cache.NewObjectName(Namespace, n) }

func configMap(n, revision string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: n, Labels: labels},
		Data:       map[string]string{"revision": revision},
	}
}

func secret(n, revision string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: n, Labels: labels},
		Data:       map[string][]byte{"revision": []byte(revision)},
	}
}

var (
	wanted  = map[string]string{wantedLabel: "true"}
	managed = map[string]string{managedLabel: managedValue}
)

// The cluster refuses what Kubernetes refuses. Otherwise a controller that fails on a real
// cluster would do well here.
func TestWritesAreRefusedAsByKubernetes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCluster(1)
		defer c.Close()
		ctx := t.Context()
		if err := c.CreateSecret(ctx, secret("app", "7", managed)); err != nil {
			t.Fatal(err)
		}
		stored := c.Secret(name("app"))
		old := stored.DeepCopy()
		old.ResourceVersion = "0"
		for what, test := range map[string]struct {
			err  error
			want metav1.StatusReason
		}{
			"create of what exists":  {c.CreateSecret(ctx, stored), metav1.StatusReasonAlreadyExists},
			"update of an old state": {c.UpdateSecret(ctx, old), metav1.StatusReasonConflict},
			"update of nothing":      {c.UpdateSecret(ctx, secret("no", "7", nil)), metav1.StatusReasonNotFound},
			"delete of another":      {c.DeleteSecret(ctx, name("app"), "another"), metav1.StatusReasonConflict},
			"delete of nothing":      {c.DeleteSecret(ctx, name("no"), ""), metav1.StatusReasonNotFound},
		} {
			if got := apierrors.ReasonForError(test.err); got != test.want {
				t.Errorf("%s: got %v, want %s", what, test.err, test.want)
			}
		}
		stored.Data["revision"] = []byte("8")
		if err := c.UpdateSecret(ctx, stored); err != nil {
			t.Error(err)
		}
		got := c.Secret(name("app"))
		if string(got.Data["revision"]) != "8" || got.UID != stored.UID || got.ResourceVersion == stored.ResourceVersion {
			t.Errorf("after the update: %v", got)
		}
		if err := c.DeleteSecret(ctx, name("app"), stored.UID); err != nil || c.Secret(name("app")) != nil {
			t.Errorf("after the delete: %v, %v", err, c.Secret(name("app")))
		}
		if got, want := c.counts(), (writeCounts{ended: 8, refused: 5}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.failNext("app", 1)
		if err := c.CreateSecret(ctx, secret("app", "7", managed)); !apierrors.IsServiceUnavailable(err) || c.Secret(name("app")) != nil {
			t.Errorf("a failed write: %v", err)
		}
	})
}

func TestVerify(t *testing.T) {
	wider := secret("a", "7", managed)
	wider.Data["key"] = []byte{2}
	for _, test := range []struct {
		name   string
		source *corev1.ConfigMap
		secret *corev1.Secret
		want   string // the one problem, if there is one
	}{
		{"nothing", nil, nil, ""},
		{"equal", configMap("a", "7", wanted), secret("a", "7", managed), ""},
		{"not wanted", configMap("a", "7", nil), nil, ""},
		{"foreign Secret", nil, secret("a", "7", nil), ""},
		{"no Secret", configMap("a", "7", wanted), nil, "default/a: no Secret"},
		{"foreign Secret in the way", configMap("a", "7", wanted), secret("a", "7", nil), "default/a: no Secret"},
		{"no ConfigMap", nil, secret("a", "7", managed), "default/a: a Secret without a ConfigMap"},
		{"no longer wanted", configMap("a", "7", nil), secret("a", "7", managed), "default/a: a Secret without a ConfigMap"},
		{"other value", configMap("a", "7", wanted), secret("a", "6", managed), `default/a: the Secret has map["revision":"6"], the ConfigMap has map["revision":"7"]`},
		{"one value more", configMap("a", "7", wanted), wider, `default/a: the Secret has map["key":"\x02" "revision":"7"], the ConfigMap has map["revision":"7"]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := NewCluster(1)
			defer c.Close()
			// A pair without a problem stands beside.
			err := errors.Join(c.configMaps.create(configMap("b", "7", wanted)), c.secrets.create(secret("b", "7", managed)))
			if test.source != nil {
				err = errors.Join(err, c.configMaps.create(test.source))
			}
			if test.secret != nil {
				err = errors.Join(err, c.secrets.create(test.secret))
			}
			if got := strings.Join(verify(c).problems, "\n"); got != test.want || err != nil {
				t.Errorf("got %q and error %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		report report
		err    error
		want   string // the line
		wrong  bool   // whether an error is returned
	}{
		{"well", report{verdict: verdict{sources: 3}}, nil, "CONVERGED: each of the 3 ", false},
		{"a Secret differs", report{verdict: verdict{problems: []string{"a"}}}, nil, "NOT CONVERGED: 1 names", true},
		{"the controller failed", report{}, errors.New("failed"), "FAILED: ", true},
		{"two workers", report{counts: counts{overlaps: 1}}, nil, "FAILED: ", true},
	} {
		var out bytes.Buffer
		err := test.report.judge(&out, test.err)
		if got := out.String(); !strings.HasPrefix(got, test.want) || (err != nil) != test.wrong {
			t.Errorf("%s: got %q and error %v, want %q", test.name, got, err, test.want)
		}
	}
	for _, test := range []struct {
		report report
		err    error
		wrong  bool
	}{
		{report{writes: writeCounts{ended: 3}}, nil, false},
		{report{writes: writeCounts{ended: 3, cut: 1}}, nil, true},
		{report{left: 1}, nil, false},
		{report{left: 1, counts: counts{handOuts: 1}}, nil, true},
		{report{}, errors.New("failed"), true},
	} {
		var out bytes.Buffer
		if err := test.report.judgeStopped(&out, test.err); (err != nil) != test.wrong || !strings.HasPrefix(out.String(), "STOPPED early: ") {
			t.Errorf("%+v: got error %v and %q", test.report, err, &out)
		}
	}
}

func newQueue() *RateLimiting {
	return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{})
}

// A queue that hands an item to two workers is reported. The second hand-out is made up:
// the queue makes none.
func TestSecondHandOutIsCounted(t *testing.T) {
	q := observe(newQueue(), slog.New(slog.DiscardHandler))
	q.Add(name("twice"))
	info, err := q.GetInfo(t.Context())
	if got := q.snapshot().overlaps; got != 0 || err != nil {
		t.Errorf("got %d overlaps and error %v after a hand-out", got, err)
	}
	q.recordHandOut(info.Item)
	if got := q.snapshot().overlaps; got != 1 {
		t.Errorf("got %d overlaps after two hand-outs, want 1", got)
	}
	q.Done(info.Item)
	q.recordHandOut(info.Item)
	if got := q.snapshot().overlaps; got != 1 {
		t.Errorf("got %d overlaps with a Done between, want 1", got)
	}
}

// The feed shuts the controller down after awaitAdd. The item must be in the queue by then.
func TestAwaitAddReturnsAfterTheAdd(t *testing.T) {
	for range 100 {
		q := observe(newQueue(), slog.New(slog.DiscardHandler))
		go q.Add(name("late"))
		if err := q.awaitAdd(t.Context(), name("late")); err != nil || q.Len() != 1 {
			t.Fatalf("got error %v and %d items, want 1", err, q.Len())
		}
	}
}

// The same seed makes the same changes, whatever the controller does.
func TestSeedDecidesTheFeed(t *testing.T) {
	played := func() map[cache.ObjectName]string {
		c := NewCluster(7)
		defer c.Close()
		f := newFeed(c, observe(newQueue(), slog.New(slog.DiscardHandler)), 7, func(string) {})
		for range steps {
			if err := f.step(); err != nil {
				t.Fatal(err)
			}
		}
		all := make(map[cache.ObjectName]string)
		for n, source := range c.configMaps.all() {
			all[n] = source.Data["revision"]
		}
		return all
	}
	if a, b := played(), played(); !maps.Equal(a, b) || len(a) == 0 {
		t.Errorf("got %v and %v", a, b)
	}
}
