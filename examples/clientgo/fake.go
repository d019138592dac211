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

// newFake returns a fake clientset which adds what the fake of client-go leaves out: a server gives
// each created or updated object a version, and a name if there is only a generateName. Without
// versions no controller can know its own write. Events of pods come late, as from a server under
// load.
func newFake(late time.Duration) *fake.Clientset {
	client := fake.NewClientset()
	react := clienttesting.ObjectReaction(client.Tracker())
	// The versions of the lists, which the tracker counts in the same way: by resource, from 1.
	versions := make(map[schema.GroupVersionResource]int) // The fake has its lock when it calls number.
	number := func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := meta.Accessor(action.(interface{ GetObject() runtime.Object }).GetObject())
		if err != nil {
			return true, nil, err
		}
		version := max(versions[action.GetResource()], 1) + 1
		obj.SetResourceVersion(strconv.Itoa(version))
		if obj.GetName() == "" {
			obj.SetName(obj.GetGenerateName() + strconv.Itoa(version))
		}
		handled, written, err := react(action)
		if err == nil {
			versions[action.GetResource()] = version
		}
		return handled, written, err
	}
	client.PrependReactor("create", "*", number)
	client.PrependReactor("update", "*", number)
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		return true, delayed(w, late), nil
	})
	return client
}

// delayed returns a watch whose events come late.
func delayed(w watch.Interface, late time.Duration) watch.Interface {
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer w.Stop()
		for {
			select {
			case e := <-w.ResultChan():
				time.Sleep(late)
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
	client *fake.Clientset
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
