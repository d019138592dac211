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

// store holds the objects of one kind, and the history that watches read. An
// object in it is never changed: writes put a copy in its place.
type store[T object] struct {
	kind     string
	resource schema.GroupResource

	mu       sync.Mutex
	objects  map[cache.ObjectName]T
	revision int // of the youngest change; each change has one of its own
	history  []change
	oldest   int           // a watch that saw no more than less than this has missed something
	changed  chan struct{} // closed, and replaced, when the history grows or is cut
}

// change is one event of a watch, as it goes over the wire.
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

// list returns the objects in the order of their names, and the revision that
// a watch goes on from.
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

// update refuses an object that was read before the last change, unless it does
// not say when it was read.
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

// remove deletes the object of that name if it has that UID; "" is any.
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

// removeUnseen deletes objects and cuts the history off behind them, as an API
// server does that was out of reach for long: whoever watches has to list anew.
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

// since returns the changes after a revision, and a channel that is closed when
// there are more.
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
		panic(err) // Objects are made of strings and bytes.
	}
	return append(event, '\n')
}
