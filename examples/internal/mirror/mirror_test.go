package mirror

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
)

// names is a queue that nobody works off.
type names []cache.ObjectName

func (n *names) Add(name cache.ObjectName) { *n = append(*n, name) }

func TestTombstoneIsQueuedByName(t *testing.T) {
	m, _, queued := unstarted(t)
	m.enqueue(cache.DeletedFinalStateUnknown{Key: "default/gone"})
	m.enqueue("not an object")
	if got := *queued; len(got) != 1 || got[0] != cache.NewObjectName("default", "gone") {
		t.Errorf("got %v, want default/gone", got)
	}
}

func TestSyncLeavesForeignSecretsAlone(t *testing.T) {
	for _, source := range []*corev1.ConfigMap{nil, fixture.ConfigMap("taken")} {
		m, requests, _ := unstarted(t)
		foreign := fixture.Secret("taken", "")
		foreign.Labels = nil
		must(t, m.informers[1].GetStore().Add(foreign))
		if source != nil {
			must(t, m.informers[0].GetStore().Add(source))
		}
		err := m.Sync(t.Context(), cache.NewObjectName(fixture.Namespace, "taken"))
		if (err != nil) != (source != nil) {
			t.Errorf("source %v: got error %v", source != nil, err)
		}
		if got := len(*requests); got != 0 {
			t.Errorf("source %v: got %d requests, want none", source != nil, got)
		}
	}
}

// requests are those that somebody made. None is answered.
type requests []*http.Request

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	*r = append(*r, request)
	return nil, errors.New("nobody answers")
}

// A delete says which Secret it means, and an update which state it has read:
// the cache may be behind.
func TestWritesGuardAgainstAStaleCache(t *testing.T) {
	stale := fixture.Secret("app", "6")
	stale.UID, stale.ResourceVersion = "uid-of-the-secret", "17"
	for _, test := range []struct {
		source       *corev1.ConfigMap
		method, want string
	}{
		{nil, http.MethodDelete, `"preconditions":{"uid":"uid-of-the-secret"}`},
		{fixture.ConfigMap("app"), http.MethodPut, `"resourceVersion":"17"`},
	} {
		m, requests, _ := unstarted(t)
		must(t, m.informers[1].GetStore().Add(stale))
		if test.source != nil {
			must(t, m.informers[0].GetStore().Add(test.source))
		}
		if m.Sync(t.Context(), cache.MetaObjectToName(stale)) == nil || len(*requests) != 1 {
			t.Fatalf("got %d requests, want 1 that fails", len(*requests))
		}
		request := (*requests)[0]
		body, err := io.ReadAll(request.Body)
		must(t, err)
		if request.Method != test.method || !strings.Contains(string(body), test.want) {
			t.Errorf("got %s %s, want %s with %s", request.Method, body, test.method, test.want)
		}
	}
}

// unstarted returns a mirror with empty caches, the requests that it makes, and
// what it has queued.
func unstarted(t *testing.T) (*Mirror, *requests, *names) {
	t.Helper()
	requests, queued := new(requests), new(names)
	client, err := NewClient(&rest.Config{Host: "http://nobody", Transport: requests})
	must(t, err)
	m, err := newMirror(client, "", queued, fixture.Quiet())
	must(t, err)
	return m, requests, queued
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
