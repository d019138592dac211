package embedded

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// serve adds the handlers for a resource: list, watch, create, update and delete. A
// controller needs no more of Kubernetes' API.
func serve[T object](mux *http.ServeMux, s *store[T], c *Cluster, empty func() T) {
	const namespaced, one = "/api/v1/namespaces/{namespace}/", "/{name}"
	resource := s.resource.Resource
	mux.HandleFunc("GET /api/v1/"+resource, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			serveList(w, s)
		} else {
			serveWatch(w, r, s, c.watched)
		}
	})
	mux.HandleFunc("POST "+namespaced+resource, func(w http.ResponseWriter, r *http.Request) {
		obj := empty()
		serveWrite(w, r, c.faults, obj, obj.GetName, func() error { return s.create(obj) })
	})
	mux.HandleFunc("PUT "+namespaced+resource+one, func(w http.ResponseWriter, r *http.Request) {
		obj := empty()
		serveWrite(w, r, c.faults, obj, obj.GetName, func() error { return s.update(obj) })
	})
	mux.HandleFunc("DELETE "+namespaced+resource+one, func(w http.ResponseWriter, r *http.Request) {
		var options metav1.DeleteOptions
		name := cache.NewObjectName(r.PathValue("namespace"), r.PathValue("name"))
		serveWrite(w, r, c.faults, &options, func() string { return name.Name }, func() error {
			var uid types.UID
			if options.Preconditions != nil && options.Preconditions.UID != nil {
				uid = *options.Preconditions.UID
			}
			return s.remove(name, uid)
		})
	})
}

// serveWrite reads the body, waits and fails as the faults decide for the name, and then
// writes. A failed write leaves the store unchanged, because the fault comes first.
func serveWrite(w http.ResponseWriter, r *http.Request, f *faults, body any, name func() string, write func() error) {
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, body)
	}
	if err != nil {
		err = apierrors.NewBadRequest(err.Error())
	}
	if err == nil {
		err = f.write(r.Context(), name())
	}
	if err == nil {
		if err = write(); err != nil {
			f.refuse()
		}
	}
	serveStatus(w, err)
}

func serveStatus(w http.ResponseWriter, err error) {
	status := statusOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	// Ignored: the client may have gone.
	_ = json.NewEncoder(w).Encode(status)
}

func serveList[T object](w http.ResponseWriter, s *store[T]) {
	objects, revision := s.list()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": s.kind + "List", "apiVersion": "v1",
		"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(revision)},
		"items":    objects,
	})
}

// serveWatch sends changes until the client leaves. If the history no longer reaches back
// to the client's revision, serveWatch sends an error, and the client has to list again.
func serveWatch[T object](w http.ResponseWriter, r *http.Request, s *store[T], watched chan<- string) {
	w.Header().Set("Content-Type", "application/json")
	flusher := http.NewResponseController(w)
	// A missing or invalid revision is 0, the beginning.
	revision, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		revision = sendInitial(w, s)
	}
	for first := true; ; first = false {
		changes, more, err := s.since(revision)
		if err != nil {
			_, _ = w.Write(eventOf(watch.Error, statusOf(err)))
			return
		}
		for _, change := range changes {
			_, _ = w.Write(change.event)
			revision = change.revision
		}
		_ = flusher.Flush()
		if first {
			announce(watched, s.resource.Resource)
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// sendInitial starts a watch with a list, and returns the revision of the list.
func sendInitial[T object](w http.ResponseWriter, s *store[T]) int {
	objects, revision := s.list()
	for _, obj := range objects {
		_, _ = w.Write(eventOf(watch.Added, obj))
	}
	_, _ = w.Write(eventOf(watch.Bookmark, map[string]any{
		"kind": s.kind, "apiVersion": corev1.SchemeGroupVersion.Version,
		"metadata": metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(revision),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}))
	return revision
}

func announce(watched chan<- string, resource string) {
	select {
	case watched <- resource:
	default: // Nobody waits for watches any more.
	}
}

// statusOf returns the answer to the client for an error, or for nil.
func statusOf(err error) metav1.Status {
	status := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	if failed, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = failed.Status()
	} else if err != nil {
		status = apierrors.NewInternalError(err).Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}
