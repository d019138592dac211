package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

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
