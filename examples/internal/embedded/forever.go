package embedded

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

// runForever creates ConfigMaps until ctx ends, and makes some writes of the controller
// fail. It returns the controller's error. A write that was cut off is an error too: at
// the end, a controller must let every started write finish.
func runForever(ctx context.Context, out io.Writer, q Queue, opts Options, serve Serve) error {
	cluster := NewCluster(opts.Seed)
	cluster.faults.setRate(0.05)
	loading := make(chan error, 1)
	go func() { loading <- load(ctx, out, cluster) }()
	err := serve(ctx, cluster.Config(), q, NewLogger(io.Discard, false))
	if e := <-loading; err == nil {
		err = e
	}
	if e := cluster.Close(); err == nil {
		err = e
	}
	written, cut := cluster.faults.ended()
	fmt.Fprintf(out, "ended with %d writes, %d of them cut off, and %d keys queued\n", written, cut, q.Len())
	if cut > 0 && err == nil {
		err = fmt.Errorf("%d writes were cut off", cut)
	}
	return err
}

// backlog is how many ConfigMaps load may be ahead of the controller. Without a bound,
// the drain of a slow controller would take as long as the load.
const backlog = 500

// load creates ConfigMaps until ctx ends. It prints a line after the controller's first
// write, so a test knows when the controller is busy.
func load(ctx context.Context, out io.Writer, cluster *Cluster) error {
	busy := false
	for n := 0; ; n++ {
		if written, _ := cluster.faults.ended(); written > 0 && !busy {
			busy = true
			fmt.Fprintln(out, "busy")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Millisecond):
		}
		if written, _ := cluster.faults.ended(); n > written+backlog {
			n--
			continue // The controller is too far behind.
		}
		err := cluster.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: fmt.Sprintf("app-%d", n), Labels: map[string]string{mirror.Label: "true"}},
			Data:       map[string]string{"revision": "1"},
		})
		if err != nil {
			return err
		}
	}
}
