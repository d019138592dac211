package embedded

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// Cluster is client-go's fake clientset with the two manners of a real API
// server that a controller has to live with: watches break, and writes take
// time and fail.
type Cluster struct {
	*fake.Clientset
	faults *faults

	// watched receives the name of a resource whenever a watch on it opens.
	watched chan string

	mu      sync.Mutex
	watches []watch.Interface // those on ConfigMaps
	severed bool              // between sever and mend
	expired bool              // the next watch on ConfigMaps is refused
}

// NewCluster returns an empty cluster whose faults are those of the seed.
func NewCluster(seed uint64) *Cluster {
	c := &Cluster{
		Clientset: fake.NewSimpleClientset(),
		faults: &faults{
			latency: 5 * time.Millisecond,
			rng:     rand.New(rand.NewPCG(seed, 2)),
			pending: make(map[string]int),
		},
		watched: make(chan string, 16),
	}
	c.PrependWatchReactor("*", c.openWatch)
	return c
}

// openWatch does what the clientset does by itself, but keeps a hand on the
// watch. It runs under the lock that every other request needs: whoever hears
// from c.watched and then writes is sure to be watched.
func (c *Cluster) openWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := action.GetResource()
	if resource.Resource == "configmaps" && c.expired {
		c.expired = c.severed
		return true, nil, apierrors.NewResourceExpired("the watch was away for too long")
	}
	var opts metav1.ListOptions
	if action, ok := action.(clienttesting.WatchActionImpl); ok {
		opts = action.ListOptions
	}
	w, err := c.Tracker().Watch(resource, action.GetNamespace(), opts)
	if err != nil {
		return true, nil, err
	}
	if resource.Resource == "configmaps" {
		c.watches = append(c.watches, w)
	}
	select {
	case c.watched <- resource.Resource:
	default: // Nobody waits for it any more.
	}
	return true, w, nil
}

// awaitWatches returns when n watches were opened since the last call.
func (c *Cluster) awaitWatches(ctx context.Context, n int) error {
	for range n {
		select {
		case <-c.watched:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sever cuts the watches on ConfigMaps and refuses new ones.
func (c *Cluster) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed, c.expired = true, true
	for _, w := range c.watches {
		w.Stop()
	}
	c.watches = nil
}

// mend lets watches open again, after one more refusal: it makes the informer
// list anew, and that list is younger than all that was done since sever.
func (c *Cluster) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed = false
}

// Flaky returns the cluster as the controller sees it. The faults sit in front
// of the clientset and not in one of its reactors because reactors run under
// the clientset's lock, where one slow write would stop the whole cluster.
func (c *Cluster) Flaky() kubernetes.Interface { return flakyClient{c.Clientset, c.faults} }

type flakyClient struct {
	*fake.Clientset
	faults *faults
}

func (c flakyClient) CoreV1() typedcorev1.CoreV1Interface {
	return flakyCore{c.Clientset.CoreV1(), c.faults}
}

type flakyCore struct {
	typedcorev1.CoreV1Interface
	faults *faults
}

func (c flakyCore) Secrets(namespace string) typedcorev1.SecretInterface {
	return flakySecrets{c.CoreV1Interface.Secrets(namespace), c.faults}
}

type flakySecrets struct {
	typedcorev1.SecretInterface
	faults *faults
}

func (s flakySecrets) Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error) {
	if err := s.faults.write(ctx, secret.Name); err != nil {
		return nil, err
	}
	return s.SecretInterface.Create(ctx, secret, opts)
}

func (s flakySecrets) Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error) {
	if err := s.faults.write(ctx, secret.Name); err != nil {
		return nil, err
	}
	return s.SecretInterface.Update(ctx, secret, opts)
}

func (s flakySecrets) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := s.faults.write(ctx, name); err != nil {
		return err
	}
	return s.SecretInterface.Delete(ctx, name, opts)
}

// faults decides how long a write takes and whether it fails.
type faults struct {
	mu       sync.Mutex
	latency  time.Duration // of a write; some take up to three times as long
	rng      *rand.Rand
	rate     float64        // share of all writes that fail
	pending  map[string]int // failures ahead of a name
	injected int
}

// write stands for the way to the API server.
func (f *faults) write(ctx context.Context, name string) error {
	latency, err := f.draw(name)
	select {
	case <-time.After(latency):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *faults) draw(name string) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	latency := f.latency + time.Duration(f.rng.Int64N(2*int64(f.latency)))
	switch {
	case f.pending[name] > 0:
		f.pending[name]--
	case f.rng.Float64() >= f.rate:
		return latency, nil
	}
	f.injected++
	return latency, apierrors.NewServiceUnavailable("injected failure")
}

// SetLatency sets how long a write takes; some take up to three times as long.
func (c *Cluster) SetLatency(d time.Duration) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.latency = d
}

// setRate makes that share of all writes fail from now on.
func (f *faults) setRate(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// failNext makes the next n writes on a name fail.
func (f *faults) failNext(name string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending[name] = n
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}
