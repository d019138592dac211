package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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
	foreign := fixture.Secret("taken", "")
	foreign.Labels = nil
	for _, source := range []*corev1.ConfigMap{nil, fixture.ConfigMap("taken")} {
		m, client, _ := unstarted(t, foreign, source)
		err := m.Sync(t.Context(), cache.NewObjectName(fixture.Namespace, "taken"))
		if (err != nil) != (source != nil) {
			t.Errorf("source %v: got error %v", source != nil, err)
		}
		if got := len(client.Actions()); got != 0 {
			t.Errorf("source %v: got %d requests, want none", source != nil, got)
		}
	}
}

// unstarted returns a mirror whose caches hold the objects that are not nil, the
// clientset that sees its requests, and what it has queued.
func unstarted(t *testing.T, objects ...metav1.Object) (*Mirror, *fake.Clientset, *names) {
	t.Helper()
	client := fake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	queued := new(names)
	m, err := newMirror(client, factory, queued, fixture.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.ConfigMap:
			if object != nil {
				err = factory.Core().V1().ConfigMaps().Informer().GetStore().Add(object)
			}
		case *corev1.Secret:
			err = factory.Core().V1().Secrets().Informer().GetStore().Add(object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m, client, queued
}
