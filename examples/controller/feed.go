package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	namespace = "default" // where the stream takes place

	sources = 24  // names the stream draws from
	steps   = 250 // steps of the stream
	burst   = 15  // updates in a row that make up a burst

	// settleTimeout is long against the worst backoff of the stream, which is
	// well below a second, and leaves time to a busy machine.
	settleTimeout = time.Minute
)

// feed plays the people and programs that use the cluster. The same seed makes the same
// stream. The order in which workers meet the stream depends on the machine.
type feed struct {
	cluster *cluster
	queue   *countedQueue
	say     func(phase string)
	rng     *rand.Rand

	live     map[string]*corev1.ConfigMap
	revision int
	counts   eventCounts
}

// eventCounts is what a feed did to the cluster.
type eventCounts struct{ creates, updates, deletes, spoilt int }

func newFeed(c *cluster, q *countedQueue, seed uint64, say func(phase string)) *feed {
	return &feed{
		cluster: c,
		queue:   q,
		say:     say,
		rng:     rand.New(rand.NewPCG(seed, 1)),
		live:    make(map[string]*corev1.ConfigMap),
	}
}

// play runs the phases one after the other. When it returns without an error,
// the whole last wave is in the queue or further.
func (f *feed) play(ctx context.Context) error {
	phases := []struct {
		text string
		play func(context.Context) error
	}{
		{"start: the controller lists ConfigMaps and Secrets, and watches them", f.await},
		{fmt.Sprintf("changes: %d steps create, change and delete; 1 write of the controller in 20 fails", steps), f.stream},
		{"gap: the watch breaks, and 3 ConfigMaps go before it is back", f.gap},
		{"outage: each write on 5 of the Secrets fails 5 times in a row", f.outage},
		{"calm: nothing new, until the last retry has succeeded", f.settle},
		{"stop: every ConfigMap changes, and at once the controller is told to stop", f.wave},
	}
	for _, phase := range phases {
		f.say(phase.text)
		if err := phase.play(ctx); err != nil {
			name, _, _ := strings.Cut(phase.text, ":")
			return fmt.Errorf("in phase %s: %w", name, err)
		}
	}
	return nil
}

func (f *feed) await(ctx context.Context) error { return f.cluster.awaitWatches(ctx, 2) }

func (f *feed) stream(ctx context.Context) error {
	f.cluster.set(func(t *trouble) { t.rate = 0.05 })
	defer f.cluster.set(func(t *trouble) { t.rate = 0 })
	for range steps {
		if err := f.step(); err != nil {
			return err
		}
		pause := time.Millisecond + time.Duration(f.rng.IntN(int(6*time.Millisecond)))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// step makes a random change to a random object.
func (f *feed) step() error {
	name := fmt.Sprintf("app-%02d", f.rng.IntN(sources))
	if f.live[name] == nil {
		return f.create(name)
	}
	switch roll := f.rng.IntN(100); {
	case roll < 60:
		return f.update(name, 1)
	case roll < 70:
		return f.update(name, burst)
	case roll < 80:
		return f.delete(name)
	case roll < 90:
		return f.relabel(name)
	default:
		return f.spoil(name)
	}
}

// gap deletes objects without an event on any watch. The informer finds the deletions in
// its next list, and reports tombstones.
func (f *feed) gap(ctx context.Context) error {
	var gone []cache.ObjectName
	for _, name := range f.names()[:3] {
		gone = append(gone, cache.NewObjectName(namespace, name))
		delete(f.live, name)
		f.counts.deletes++
	}
	f.cluster.configMaps.removeUnseen(gone...)
	return f.cluster.awaitWatches(ctx, 1)
}

// outage makes the last change of some objects hard to mirror: a controller
// that forgets to retry never gets them right.
func (f *feed) outage(context.Context) error {
	for _, name := range f.names()[:5] {
		f.cluster.set(func(t *trouble) { t.fails[name] = 5 })
		f.live[name].Labels[wantedLabel] = "true"
		if err := f.update(name, 1); err != nil {
			return err
		}
	}
	return nil
}

// settle returns when the cluster has converged and no item was added between two ticks:
// then no event is on its way any more.
func (f *feed) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for adds := -1; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("not converged in time")
		}
		_, problems := f.cluster.differences()
		now := f.queue.snapshot().adds
		if len(problems) == 0 && now == adds {
			return nil
		}
		adds = now
	}
}

// wave changes every object at once. An informer hands its events to a handler
// in their order: once the object created last has reached the queue, so have
// all the others.
func (f *feed) wave(ctx context.Context) error {
	for _, name := range f.names() {
		if err := f.update(name, 1); err != nil {
			return err
		}
	}
	const last = "last"
	if err := f.create(last); err != nil {
		return err
	}
	for !f.queue.wasAdded(cache.NewObjectName(namespace, last)) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *feed) create(name string) error {
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace,
		Name:      name,
		Labels:    map[string]string{wantedLabel: "true"},
	}}
	f.revise(source)
	f.live[name] = source
	f.counts.creates++
	return f.cluster.configMaps.create(source)
}

func (f *feed) update(name string, times int) error {
	for range times {
		source := f.live[name]
		f.revise(source)
		f.counts.updates++
		if err := f.cluster.configMaps.update(source); err != nil {
			return err
		}
	}
	return nil
}

// relabel switches the wish for a mirror off or on.
func (f *feed) relabel(name string) error {
	labels := f.live[name].Labels
	if labels[wantedLabel] == "true" {
		labels[wantedLabel] = "false"
	} else {
		labels[wantedLabel] = "true"
	}
	return f.update(name, 1)
}

func (f *feed) delete(name string) error {
	delete(f.live, name)
	f.counts.deletes++
	return f.cluster.configMaps.remove(cache.NewObjectName(namespace, name), "")
}

// spoil removes a Secret or writes nonsense into it. The controller may create or remove the
// Secret at the same time, as on a real cluster.
func (f *feed) spoil(name string) error {
	// Drawn first: whether the Secret exists depends on the machine, and the
	// rest of the stream must not.
	removes := f.rng.IntN(2) == 0
	key := cache.NewObjectName(namespace, name)
	var err error
	if secret := f.cluster.secrets.all()[key]; secret == nil {
		return nil
	} else if removes {
		err = f.cluster.secrets.remove(key, "")
	} else {
		secret.Data = map[string][]byte{"revision": []byte("spoilt")}
		err = f.cluster.secrets.update(secret)
	}
	if err == nil { // Otherwise the controller was faster.
		f.counts.spoilt++
	}
	return nil
}

// revise gives a ConfigMap data that no other revision of any object has.
func (f *feed) revise(source *corev1.ConfigMap) {
	f.revision++
	source.Data = map[string]string{"revision": fmt.Sprint(f.revision)}
}

// names returns the live objects in order.
func (f *feed) names() []string { return slices.Sorted(maps.Keys(f.live)) }
