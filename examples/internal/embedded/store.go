package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// An object is a *corev1.ConfigMap or a *corev1.Secret.
type object interface {
	metav1.Object
	runtime.Object
}

// store holds the objects of a kind, and the history for watches. A stored object never
// changes, because a write replaces the object by a copy. So readers need no lock.
type store[T object] struct {
	kind     string
	resource schema.GroupResource

	mu       sync.Mutex
	objects  map[cache.ObjectName]T
	revision int // of the youngest change; every change adds 1
	history  []change
	oldest   int           // a watch at a lower revision has missed changes
	changed  chan struct{} // closed, and replaced, when the history grows or is cut
}

// change is an event of a watch, as sent over the wire.
type change struct {
	revision int
	event    []byte
}

func newStore[T object](kind, resource string) *store[T] {
	return &store[T]{
		kind:     kind,
		resource: schema.GroupResource{Resource: resource},
		objects:  make(map[cache.ObjectName]T),
		changed:  make(chan struct{}),
	}
}

// list returns the objects in the order of their names, and the revision for a watch to
// start from.
func (s *store[T]) list() ([]T, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := make([]T, 0, len(s.objects))
	for _, obj := range s.objects {
		objects = append(objects, obj)
	}
	slices.SortFunc(objects, func(a, b T) int { return strings.Compare(nameOf(a).String(), nameOf(b).String()) })
	return objects, s.revision
}

// get returns a copy that the caller may change.
func (s *store[T]) get(name cache.ObjectName) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[name]
	if !ok {
		return obj, apierrors.NewNotFound(s.resource, name.Name)
	}
	return obj.DeepCopyObject().(T), nil
}

func (s *store[T]) create(obj T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[nameOf(obj)]; ok {
		return apierrors.NewAlreadyExists(s.resource, obj.GetName())
	}
	obj = obj.DeepCopyObject().(T)
	obj.SetUID(types.UID(fmt.Sprint(s.kind, "-", s.revision+1)))
	s.putLocked(watch.Added, obj)
	return nil
}

// update returns a conflict if the object's resource version is not the stored version:
// somebody has changed the object since. An object without a resource version always
// passes.
func (s *store[T]) update(obj T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[nameOf(obj)]
	if !ok {
		return apierrors.NewNotFound(s.resource, obj.GetName())
	}
	if read := obj.GetResourceVersion(); read != "" && read != old.GetResourceVersion() {
		return apierrors.NewConflict(s.resource, obj.GetName(), errors.New("it was changed since it was read"))
	}
	obj = obj.DeepCopyObject().(T)
	obj.SetUID(old.GetUID())
	s.putLocked(watch.Modified, obj)
	return nil
}

// remove deletes the named object if its UID is uid. An empty uid stands for any.
func (s *store[T]) remove(name cache.ObjectName, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[name]
	if !ok {
		return apierrors.NewNotFound(s.resource, name.Name)
	}
	if uid != "" && uid != obj.GetUID() {
		return apierrors.NewConflict(s.resource, name.Name, fmt.Errorf("it has the UID %s", obj.GetUID()))
	}
	s.putLocked(watch.Deleted, obj.DeepCopyObject().(T))
	delete(s.objects, name)
	return nil
}

// removeUnseen deletes objects without an event, and drops the history. So every watch
// has to list again, as after a long time without connection to the API server.
func (s *store[T]) removeUnseen(names ...cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.objects, name)
	}
	s.revision++
	s.oldest, s.history = s.revision, nil
	s.wakeLocked()
}

// putLocked gives an object the next revision and records its change.
func (s *store[T]) putLocked(what watch.EventType, obj T) {
	s.revision++
	obj.SetResourceVersion(strconv.Itoa(s.revision))
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.kind))
	s.objects[nameOf(obj)] = obj
	s.history = append(s.history, change{s.revision, eventOf(what, obj)})
	s.wakeLocked()
}

func (s *store[T]) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// since returns the changes after a revision, and a channel. The channel is closed at the
// next change.
func (s *store[T]) since(revision int) ([]change, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision < s.oldest {
		return nil, nil, apierrors.NewResourceExpired(fmt.Sprintf("revision %d is too old, the history starts at %d", revision, s.oldest))
	}
	first, _ := slices.BinarySearchFunc(s.history, revision+1, func(c change, r int) int { return c.revision - r })
	return s.history[first:], s.changed, nil
}

func nameOf(obj metav1.Object) cache.ObjectName { return cache.MetaObjectToName(obj) }

func eventOf(what watch.EventType, obj any) []byte {
	event, err := json.Marshal(map[string]any{"type": what, "object": obj})
	if err != nil {
		panic(err) // Never: the objects consist of strings and bytes.
	}
	return append(event, '\n')
}
