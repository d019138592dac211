package realworld_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed16c08ea7/workqueue"
)

// A stale world shows the controller each event of a Deployment late, so the cache lags behind the
// controller's own writes (KEP-5647). A controller that works from such a cache repeats its
// writes, and the API server refuses them until the cache has caught up. Our controller knows the
// versions of its writes. After a write it defers the key, and the event that shows the last write wakes
// the key. The usual loop fails and retries.
type stale struct {
	objects, rounds int
	lag             time.Duration
}

func TestStale(t *testing.T) {
	play(t, size(stale{100, 5, 500 * time.Millisecond}, stale{30, 2, 300 * time.Millisecond}).run)
}

func TestStaleNoticesFaults(t *testing.T) {
	hot := ours
	hot.name = "retries from a stale cache"
	notices(t, stale{10, 2, 300 * time.Millisecond}.run,
		control{hot, "refused, want none"},
		control{hot, "hand-outs, want up to 60"},
		control{losing(fleetName(1)), "1 objects are open: [" + fleetName(1)})
}

func (s stale) run(t *testing.T, impl implementation) error {
	w, f := newWorld(t), &faults{fate: func(*http.Request) fate { return 0 }}
	c := w.controller(t, impl, backoff{5 * time.Millisecond, time.Second}, func(next http.RoundTripper) http.RoundTripper {
		return f.wrap(s.delayed(next))
	})
	if impl.name == ours.name {
		newExpectations(c)
	}
	stop := c.start(t, workers)
	var err error
	began := time.Now()
	for revision := range s.rounds {
		if err := (outage{objects: s.objects}).update(t.Context(), w, revision); err != nil {
			t.Fatal(err)
		}
		if err = w.converge(t.Context(), c, still); err != nil {
			break
		}
	}
	took := time.Since(began)
	err = errors.Join(err, stop())
	refused := f.conflicts.Load()
	if impl.name != theirs.name && refused > 0 {
		err = errors.Join(err, fmt.Errorf("%d writes were refused, want none", refused))
	}
	changes, handOuts := s.objects*s.rounds, c.journal.handOuts()
	if impl.name != theirs.name && handOuts > 3*changes {
		err = errors.Join(err, fmt.Errorf("%d hand-outs, want up to %d", handOuts, 3*changes))
	}
	name := fmt.Sprintf("stale cache, %v behind, %d changes", s.lag, changes)
	results.add(name, "hand-outs", impl, handOuts)
	results.add(name, "writes that the API server has accepted", impl, f.succeeded.Load())
	results.add(name, "writes that it has refused: the object exists, or has changed", impl, refused)
	results.add(name, "until all changes had converged, one after the other", impl, took)
	return err
}

// delayed passes the events of a watch of Deployments on after the lag.
func (s stale) delayed(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/deployments") {
			response.Body = newDelayed(response.Body, s.lag)
		}
		return response, err
	})
}

// A delayedBody returns each part of the body after the lag.
type delayedBody struct {
	io.ReadCloser // the body
	pieces        chan piece
	rest          bytes.Reader
	lag           time.Duration
}

type piece struct {
	sent time.Time
	text []byte
}

func newDelayed(body io.ReadCloser, lag time.Duration) *delayedBody {
	d := &delayedBody{ReadCloser: body, pieces: make(chan piece, 1<<16), lag: lag}
	go func() { // Until Close.
		defer close(d.pieces)
		for {
			text := make([]byte, 1<<16)
			n, err := body.Read(text)
			d.pieces <- piece{time.Now(), text[:n]}
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *delayedBody) Read(p []byte) (int, error) {
	for d.rest.Len() == 0 {
		next, ok := <-d.pieces
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.sent.Add(d.lag)))
		d.rest.Reset(next.text)
	}
	return d.rest.Read(p)
}

// expectations are the versions of the objects that the controller has written. Versions of one kind
// of object can be compared as numbers.
type expectations struct {
	mu      sync.Mutex
	written map[key]versions
}

type versions struct{ fleet, deployment int64 }

// newExpectations changes the handler and the events of a controller that does not run yet. If the last event of
// a key is lost, the scenario ends before the wait does.
func newExpectations(c *controller) {
	e := &expectations{written: make(map[key]versions)}
	c.onWrite = e.wrote
	c.onEvent = func(k key) {
		if e.met(c, k) {
			c.queue.(waker).Wake(k)
		}
		c.queue.Add(k)
	}
	handle := c.handle
	c.handle = func(ctx context.Context, k key) error {
		if e.met(c, k) {
			if err := handle(ctx, k); err != nil {
				return err
			}
		}
		if !e.met(c, k) {
			return workqueue.DeferFor(time.Minute)
		}
		return nil
	}
}

func (e *expectations) wrote(object metav1.Object) {
	k := key{Namespace: object.GetNamespace(), Name: object.GetName()}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.written[k]
	if _, ok := object.(*appsv1.Deployment); ok {
		v.deployment = version(object)
	} else {
		v.fleet = version(object)
	}
	e.written[k] = v
}

func (e *expectations) met(c *controller, k key) bool {
	e.mu.Lock()
	v := e.written[k]
	e.mu.Unlock()
	fleet, deployment := cached[*Fleet](c.fleets, k), cached[*appsv1.Deployment](c.deployments, k)
	return (v.fleet == 0 || fleet != nil && version(fleet) >= v.fleet) &&
		(v.deployment == 0 || deployment != nil && version(deployment) >= v.deployment)
}

func version(object metav1.Object) int64 {
	v, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}
