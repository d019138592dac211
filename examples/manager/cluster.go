package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	framework "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster is an API server within the process: lists, watches and updates of three kinds, and as
// much of the discovery as a manager asks for. client-go's source for tests keeps the objects.
type cluster struct {
	kinds map[string]kind // by resource

	mu     sync.Mutex
	writes []string // resource/namespace of each update, in their order; guarded by mu
	quiet  int      // objects of the namespace quiet without the label; guarded by mu
	done   func(labelled int)
}

type kind struct {
	name   string
	make   func() client.Object
	source *framework.FakeControllerSource
}

func newCluster() *cluster {
	return &cluster{done: func(int) {}, kinds: map[string]kind{
		"configmaps":      {"ConfigMap", func() client.Object { return new(corev1.ConfigMap) }, framework.NewFakeControllerSource()},
		"secrets":         {"Secret", func() client.Object { return new(corev1.Secret) }, framework.NewFakeControllerSource()},
		"serviceaccounts": {"ServiceAccount", func() client.Object { return new(corev1.ServiceAccount) }, framework.NewFakeControllerSource()},
	}}
}

// fill adds n objects of each kind.
func (c *cluster) fill(namespace string, n int) {
	for _, k := range c.kinds {
		for i := range n {
			object := k.make()
			object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(k.name))
			object.SetNamespace(namespace)
			object.SetName(fmt.Sprintf("%s-%03d", namespace, i))
			k.source.Add(object)
			if namespace == "quiet" {
				c.quiet++
			}
		}
	}
}

// onQuiet calls done once, when each object of the namespace quiet has the label. It must be called before
// the cluster is served.
func (c *cluster) onQuiet(done func(labelled int)) { c.done = done }

// labelled returns how many objects have the label.
func (c *cluster) labelled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.writes)
}

// serve serves until close is called. close ends all watches.
func (c *cluster) serve(listener net.Listener) (close func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", answer(metav1.APIVersions{Versions: []string{"v1"}}))
	mux.HandleFunc("GET /apis", answer(metav1.APIGroupList{}))
	mux.HandleFunc("GET /api/v1", answer(c.resources()))
	mux.HandleFunc("GET /api/v1/{resource}", c.list)
	mux.HandleFunc("PUT /api/v1/namespaces/{namespace}/{resource}/{name}", c.update)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(listener)
	return func() { server.Close() }
}

// restConfig returns the way to the cluster.
func restConfig(listener net.Listener) *rest.Config {
	return &rest.Config{
		Host:          "http://" + listener.Addr().String(),
		QPS:           -1, // No limit in the client.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
}

func (c *cluster) resources() metav1.APIResourceList {
	list := metav1.APIResourceList{GroupVersion: "v1"}
	for resource, k := range c.kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: resource, Kind: k.name, Namespaced: true, Verbs: metav1.Verbs{"list", "watch", "update"},
		})
	}
	return list
}

func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	k, found := c.kinds[r.PathValue("resource")]
	query := r.URL.Query()
	switch {
	case !found:
		http.NotFound(w, r)
	case query.Get("sendInitialEvents") == "true": // The client lists then, as on an old server.
		http.Error(w, "sendInitialEvents is not supported", http.StatusUnprocessableEntity)
	case query.Get("watch") != "":
		k.watch(w, r, query.Get("resourceVersion"))
	default:
		found, err := k.source.List(metav1.ListOptions{})
		if err != nil {
			panic(err) // Only with a ListError.
		}
		list := found.(*corev1.List)
		answer(map[string]any{"kind": k.name + "List", "apiVersion": "v1", "metadata": list.ListMeta, "items": list.Items})(w, r)
	}
}

func (k kind) watch(w http.ResponseWriter, r *http.Request, version string) {
	changes, err := k.source.Watch(metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		http.Error(w, err.Error(), http.StatusGone)
		return
	}
	defer changes.Stop()
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	flush := http.NewResponseController(w).Flush
	for encode := json.NewEncoder(w).Encode; flush() == nil; {
		var change watch.Event
		select {
		case change = <-changes.ResultChan():
		case <-r.Context().Done():
			return
		}
		if encode(metav1.WatchEvent{Type: string(change.Type), Object: runtime.RawExtension{Object: change.Object}}) != nil {
			return
		}
	}
}

func (c *cluster) update(w http.ResponseWriter, r *http.Request) {
	k, found := c.kinds[r.PathValue("resource")]
	if !found {
		http.NotFound(w, r)
		return
	}
	object := k.make()
	if err := json.NewDecoder(r.Body).Decode(object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(2 * time.Millisecond) // A real server is no faster.
	k.source.Modify(object)
	c.written(r.PathValue("resource"), object.GetNamespace())
	answer(object)(w, r)
}

// written counts an update. Each update of a labeler gives an object the label.
func (c *cluster) written(resource, namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, resource+"/"+namespace)
	if namespace == "quiet" {
		if c.quiet--; c.quiet == 0 {
			c.done(len(c.writes))
		}
	}
}

func answer(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(value) // Of our own types; the client may be gone.
	}
}
