package main

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A fakeServer adds to the fake clientset what a server does and the fake of client-go does not: each object
// that is created, updated or deleted gets a version, and a name if there is only a generateName. Without
// versions no controller can know its own write. Patches keep the version. Events come late, as from a server
// under load.
type fakeServer struct {
	*fake.Clientset
	late time.Duration

	mu       sync.Mutex
	versions map[schema.GroupVersionResource]int // of the lists too, which the tracker counts from 1; guarded by mu
	deleted  map[string]string                   // versions of deletions, by resource, namespace and name; guarded by mu
}

func newFake(late time.Duration) *fakeServer {
	s := &fakeServer{
		Clientset: fake.NewClientset(),
		late:      late,
		versions:  make(map[schema.GroupVersionResource]int),
		deleted:   make(map[string]string),
	}
	for _, verb := range []string{"create", "update", "delete"} {
		s.PrependReactor(verb, "*", s.number)
	}
	s.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := s.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		return true, s.delayed(w, action.GetResource()), nil
	})
	return s
}

// number numbers an object before it is in the tracker. The fake has its lock meanwhile.
func (s *fakeServer) number(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := max(s.versions[action.GetResource()], 1) + 1
	if a, ok := action.(interface{ GetObject() runtime.Object }); ok {
		obj, err := meta.Accessor(a.GetObject())
		if err != nil {
			return true, nil, err
		}
		obj.SetResourceVersion(strconv.Itoa(version))
		if obj.GetName() == "" {
			obj.SetName(obj.GetGenerateName() + strconv.Itoa(version))
		}
	} else {
		name := action.(clienttesting.DeleteAction).GetName()
		s.deleted[nameOf(action.GetResource(), action.GetNamespace(), name)] = strconv.Itoa(version)
	}
	handled, obj, err := clienttesting.ObjectReaction(s.Tracker())(action)
	if err == nil {
		s.versions[action.GetResource()] = version
	}
	return handled, obj, err
}

func nameOf(resource schema.GroupVersionResource, namespace, name string) string {
	return resource.Resource + "/" + namespace + "/" + name
}

// delayed returns a watch whose events come late, and whose deletions have their version.
func (s *fakeServer) delayed(w watch.Interface, resource schema.GroupVersionResource) watch.Interface {
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer w.Stop()
		for {
			select {
			case e := <-w.ResultChan():
				if obj, err := meta.Accessor(e.Object); err == nil && e.Type == watch.Deleted {
					s.mu.Lock()
					obj.SetResourceVersion(s.deleted[nameOf(resource, obj.GetNamespace(), obj.GetName())])
					s.mu.Unlock()
				}
				select {
				case <-time.After(s.late):
				case <-proxy.StopChan():
					return
				}
				select {
				case events <- e:
				case <-proxy.StopChan():
					return
				}
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy
}
