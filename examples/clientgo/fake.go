package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A demo has three ConfigMaps that ask for two pods each. When the first pod is created, the program
// gets a SIGTERM, or loses its lease.
type demo struct {
	client *fakeServer
	out    io.Writer
	begun  sync.Once
}

func newDemo(out io.Writer, lose bool, sigterm func()) *demo {
	d := &demo{client: newFake(100 * time.Millisecond), out: out}
	var cut bool // The fake has its lock when it calls a reactor.
	d.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if cut = lose; lose {
			return false, nil, nil
		}
		d.begun.Do(func() {
			fmt.Fprintln(out, "SIGTERM")
			sigterm()
		})
		return false, nil, nil
	})
	d.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if cut {
			return true, nil, errors.New("no route to the server")
		}
		if update, ok := action.(clienttesting.UpdateAction); ok {
			if holder := update.GetObject().(*coordinationv1.Lease).Spec.HolderIdentity; holder == nil || *holder == "" {
				fmt.Fprintln(out, "the lease is given back")
			}
		}
		return false, nil, nil
	})
	for _, name := range []string{"bills", "orders", "users"} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podsLabel: "2"}}}
		if _, err := d.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(context.Background(), config, metav1.CreateOptions{}); err != nil {
			panic(err) // The fake refuses nothing.
		}
	}
	return d
}

// report prints how many pods each ConfigMap has.
func (d *demo) report() {
	for _, name := range []string{"bills", "orders", "users"} {
		pods, err := d.client.CoreV1().Pods(metav1.NamespaceDefault).List(context.Background(), metav1.ListOptions{LabelSelector: poolLabel + "=" + name})
		if err != nil {
			panic(err) // The fake refuses nothing.
		}
		fmt.Fprintln(d.out, name, "has", len(pods.Items), "pods of 2")
	}
}
