package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

// The cache lags, and other events come all the time. Each ConfigMap gets its two pods and not one
// more, and does not wait for the safety net. The events of a ConfigMap whose pods are refused do not
// end its strict backoff: a Wake for each event that finds no write under way made 1,000 calls.
func TestAControllerWaitsForItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newFake(500 * time.Millisecond)
		refused := 0 // The fake has its lock when it calls a reactor.
		client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod); pod.Labels[poolLabel] == "broken" {
				refused++
				return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("quota"))
			}
			return false, nil, nil
		})
		c, err := newController(client, metav1.NamespaceDefault)
		if err != nil {
			t.Fatal(err)
		}
		c.queue = workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{StrictBackoff: true})
		var names []string
		for n := range 20 {
			names = append(names, fmt.Sprint("pool", n))
			put(t, client, names[n], "2", false)
		}
		put(t, client, "broken", "2", false)

		ctx, stop := context.WithTimeout(logr.NewContext(t.Context(), logr.Discard()), 50*time.Second)
		defer stop()
		var events sync.WaitGroup
		events.Go(func() {
			for ctx.Err() == nil {
				for _, name := range names {
					c.configChanged(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}})
				}
				c.podChanged(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Labels: map[string]string{poolLabel: "broken"}}})
				time.Sleep(50 * time.Millisecond)
			}
		})
		if err := c.run(ctx, always(), 4); err != nil {
			t.Errorf("got %v, want an ordinary end that leaves what is refused", err)
		}
		events.Wait()
		for _, name := range names {
			if n := podsOf(t, client, name); n != 2 {
				t.Errorf("%s has %d pods, want 2", name, n)
			}
		}
		if refused > 15 { // 5 ms, doubled 13 times, is 41 s.
			t.Errorf("%d calls for what is refused, want the 14 of the backoff", refused)
		}
		if len(c.writes.last) > 0 {
			t.Errorf("%d writes are kept", len(c.writes.last))
		}
	})
}

// The number changes up, down and to what is no number, and the ConfigMap goes. The garbage collector
// is not part of the fake.
func TestPodsFollowTheLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newFake(500 * time.Millisecond)
		c, err := newController(client, metav1.NamespaceDefault)
		if err != nil {
			t.Fatal(err)
		}
		put(t, client, "web", "1", false)
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		done := make(chan error)
		go func() { done <- c.run(ctx, always(), 2) }()
		for _, step := range []struct {
			label string
			want  int
		}{{"1", 1}, {"5", 5}, {"2", 2}, {"two", 2}, {"3", 3}, {"0", 0}} {
			put(t, client, "web", step.label, true)
			time.Sleep(10 * time.Second)
			if n := podsOf(t, client, "web"); n != step.want {
				t.Errorf("label %s: %d pods, want %d", step.label, n, step.want)
			}
		}
		if err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The answers of the first two calls are lost, and the server has created both pods. The controller creates
// neither of them again, whatever events come.
func TestAPodWhoseAnswerIsLostIsNotCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newFake(500 * time.Millisecond)
		calls := 0 // The fake has its lock when it calls a reactor.
		client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if calls++; calls > 2 {
				return false, nil, nil
			}
			client.number(action)
			return true, nil, context.DeadlineExceeded
		})
		c, err := newController(client, metav1.NamespaceDefault)
		if err != nil {
			t.Fatal(err)
		}
		put(t, client, "web", "2", false)
		ctx, stop := context.WithTimeout(logr.NewContext(t.Context(), logr.Discard()), time.Minute)
		defer stop()
		var events sync.WaitGroup
		events.Go(func() {
			for ctx.Err() == nil {
				c.queue.Add(cache.ObjectName{Namespace: metav1.NamespaceDefault, Name: "web"})
				time.Sleep(50 * time.Millisecond)
			}
		})
		if err := c.run(ctx, always(), 2); err != nil {
			t.Error(err)
		}
		events.Wait()
		if n := podsOf(t, client, "web"); n != 2 || calls < 3 {
			t.Errorf("%d pods in %d calls, want 2", n, calls)
		}
	})
}

// always returns a term that does not end.
func always() *term {
	lock := &timedLock{}
	lock.until.Store(math.MaxInt64)
	return &term{context.Background(), lock}
}

// put creates or updates a ConfigMap.
func put(t *testing.T, client kubernetes.Interface, name, pods string, update bool) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podsLabel: pods}}}
	configs := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	var err error
	if update {
		_, err = configs.Update(t.Context(), config, metav1.UpdateOptions{})
	} else {
		_, err = configs.Create(t.Context(), config, metav1.CreateOptions{})
	}
	if err != nil {
		t.Error(err)
	}
}

func podsOf(t *testing.T, client kubernetes.Interface, name string) int {
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: poolLabel + "=" + name})
	if err != nil {
		t.Error(err)
	}
	return len(pods.Items)
}
