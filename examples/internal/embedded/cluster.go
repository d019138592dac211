package embedded

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Cluster is an API server with ConfigMaps and Secrets, within the process. It makes the
// two troubles that a controller must survive on a real API server: watches break, and
// writes take time and fail.
type Cluster struct {
	configMaps *store[*corev1.ConfigMap]
	secrets    *store[*corev1.Secret]
	faults     *faults

	// watched receives the name of a resource whenever a watch on it opens.
	watched chan string

	server    *http.Server
	transport *http.Transport
	served    chan error
}

// NewCluster starts an empty cluster. The seed decides its faults. The caller must close
// the cluster.
func NewCluster(seed uint64) *Cluster {
	c := &Cluster{
		configMaps: newStore[*corev1.ConfigMap]("ConfigMap", "configmaps"),
		secrets:    newStore[*corev1.Secret]("Secret", "secrets"),
		faults: &faults{
			latency: 5 * time.Millisecond,
			rng:     rand.New(rand.NewPCG(seed, 2)),
			pending: make(map[string]int),
		},
		watched: make(chan string, 16),
		served:  make(chan error, 1),
	}
	mux := http.NewServeMux()
	serve(mux, c.configMaps, c, func() *corev1.ConfigMap { return new(corev1.ConfigMap) })
	serve(mux, c.secrets, c, func() *corev1.Secret { return new(corev1.Secret) })
	network := newWire()
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	c.transport = &http.Transport{DialContext: network.Dial, DisableCompression: true, MaxIdleConnsPerHost: 16}
	go func() { c.served <- c.server.Serve(network) }()
	return c
}

// Close stops the server and cuts all connections.
func (c *Cluster) Close() error {
	err := c.server.Close()
	c.transport.CloseIdleConnections()
	if served := <-c.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Config is the way to the cluster, as a kubeconfig is for a real cluster. Writes through
// the config suffer the faults.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:      "http://embedded",
		Transport: c.transport,
		QPS:       -1, // No limit in the client: the example shows the limits of the queue.
	}
}

// Create adds a ConfigMap without faults.
func (c *Cluster) Create(source *corev1.ConfigMap) error { return c.configMaps.create(source) }

// SetLatency sets how long a write takes; some take up to three times as long.
func (c *Cluster) SetLatency(d time.Duration) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.latency = d
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
