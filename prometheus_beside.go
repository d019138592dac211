package workqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// This file is the provider in a registry that has the series of client-go's queues.
//
// The registry refuses a collector that describes a series of a name that is there. It
// takes one that describes nothing, and merges what that collects into the families
// of these names, if the help texts agree. So nothing of theirs is replaced or written
// to, and ours are read at each scrape as anywhere else. Setting the values of their
// vectors instead would leave gauges as old as the last scrape, since a registry
// collects in any order.
//
// Two things fail the scrape of the whole registry, and must not happen: two series
// of the same labels, and two texts of one family. So a queue of ours that has the
// name of one of theirs is left out, and so is a series whose text turns out to be
// another one when the registry gets it later.

// A beside is what a provider knows of the registry that it shares. It learns more with each
// scrape, as vectors of others may be registered at any time, before and after ours.
type beside struct {
	registry registry

	// The fields below are guarded by mu. Only locks of the registry are taken under it.
	mu     sync.Mutex
	open   map[string]*prometheus.Desc // series that the registry has not got yet
	theirs map[seriesPart]prometheus.Collector
	omit   omissions
	warned map[string]bool
}

// Omissions are what a provider leaves out because the registry has it.
type omissions struct {
	series map[string]bool                // in which the texts differ
	queues map[seriesPart]map[string]bool // names of queues that are not ours, by a part that they have
}

// has reports whether a series of a queue is left out: the series for all queues, or the
// queue with all series of a part.
func (o omissions) has(d described, p seriesPart, queue string) bool {
	return o.series[d.name] || o.queues[p][queue]
}

// register registers the provider, alone or beside the series of others.
//
// It tries to be alone first, except in a registry of component-base, which makes its
// vectors only when they are used and so would let us in before them. If it is refused, the
// counter of abandoned items goes first. No other package has that name, so a refusal of it
// means a second provider of ours, and its descriptor is the anchor by which the registry
// can be asked about others. It is taken back if the rest fails.
func (p *PrometheusProvider) register(registerer prometheus.Registerer, options PrometheusOptions) error {
	r := registry{registerer: registerer, shown: gathered(registerer)}
	lazy := r.shown.componentBase
	var refused error
	if !lazy {
		if refused = registerer.Register(collector{p}); refused == nil {
			return nil
		}
	}
	if err := registerer.Register(p.abandoned); err != nil {
		return fmt.Errorf("the registry has a provider of this package: %w", err)
	}
	r.anchor = describedBy(p.abandoned)
	theirs, err := r.neighbours()
	switch {
	case err != nil:
	case len(theirs) == 0 && lazy:
		theirs = componentBaseLater()
	case len(theirs) == 0:
		err = refused
	}
	if err != nil {
		registerer.Unregister(p.abandoned)
		return err
	}
	p.describe(options, theirs)
	p.beside = &beside{
		registry: r, open: theirs.descs(), theirs: make(map[seriesPart]prometheus.Collector), warned: make(map[string]bool),
		omit: omissions{make(map[string]bool), make(map[seriesPart]map[string]bool)},
	}
	return registerer.Register(besideCollector{collector{p}})
}

// describedBy returns the first descriptor of a collector that has one and no more: the
// channel has room for it, so that Describe does not block.
func describedBy(c prometheus.Collector) *prometheus.Desc {
	descs := make(chan *prometheus.Desc, 1)
	c.Describe(descs)
	return <-descs
}

// A besideCollector describes nothing, and leaves out what the registry has.
type besideCollector struct{ collector }

// Describe implements [prometheus.Collector]. To describe nothing makes the registry check
// each metric when it is collected, and not the series when they are registered.
func (besideCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. The registry collects abandoned itself.
func (c besideCollector) Collect(ch chan<- prometheus.Metric) {
	metrics, left := c.read(c.beside.update())
	for _, m := range metrics {
		ch <- m
	}
	c.beside.warn(left)
}

// update asks the registry what it has got since, and which queues are in it.
//
// It holds mu throughout, while the registry and its vectors take their own locks. These
// are leaves: a vector that is collected does not come back to us. The caller gets copies,
// as a scrape goes on without the lock, and two scrapes may come at once.
func (b *beside) update() omissions {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, desc := range b.open {
		switch b.registry.ask(desc) {
		case hasSame:
			delete(b.open, name)
			b.foundLocked(name, desc)
		case hasOther:
			delete(b.open, name)
			b.omit.series[name] = true
			slog.Default().Warn("workqueue: the registry has got a series of the same name with another text, ours is left out", "series", name)
		}
	}
	for p, c := range b.theirs {
		b.omit.queues[p] = queuesOf(c)
	}
	return omissions{copyMap(b.omit.series), copyMap(b.omit.queues)}
}

func copyMap[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// foundLocked notes a vector that tells which queues there are. Each queue of theirs
// has its counters from its construction on. A registry does not show what is in it, but
// the error of a second registration of the same descriptor has the first collector.
func (b *beside) foundLocked(name string, desc *prometheus.Desc) {
	p, tells := map[string]seriesPart{"adds_total": partQueue, "retries_total": partRetries}[name]
	if !tells {
		return
	}
	var there prometheus.AlreadyRegisteredError
	if errors.As(b.registry.registerer.Register(probe{desc}), &there) {
		b.theirs[p] = there.ExistingCollector
	}
}

// queuesOf returns the names of the queues in a vector. A collector sends to a channel, so it
// needs a goroutine beside the one that receives, which ends with the collection.
func queuesOf(c prometheus.Collector) map[string]bool {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		c.Collect(metrics)
	}()
	names := make(map[string]bool)
	for m := range metrics {
		var text dto.Metric
		if m.Write(&text) == nil { // What fails is no series, and has no name in the way of ours.
			names[valueOf("name", &text)] = true
		}
	}
	return names
}

// valueOf returns the value of a label, or nothing if the metric has no such label.
func valueOf(label string, m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == label {
			return l.GetValue()
		}
	}
	return ""
}

// warn says once for each queue that it is left out. Each scrape finds it anew.
func (b *beside) warn(queues []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range queues {
		if !b.warned[name] {
			b.warned[name] = true
			slog.Default().Warn("workqueue: the registry has series of another queue of this name, ours are left out", "name", name)
		}
	}
}

// inTheWay is the error about a series that is not one of client-go's queues.
func (r registry) inTheWay(name string) error {
	there := ""
	if n, ok := r.shown.families[name]; ok {
		there = fmt.Sprintf(" (%v, help %q, labels %q)", n.kind, n.help, n.labels)
	}
	return fmt.Errorf("the registry has a series %s_%s%s that is not known to be that of client-go's queues: "+
		"unregister it, or give the provider a registry of its own that is served at a path of its own, "+
		"or pass the provider of that series to AdaptMetricsProvider", subsystem, name, there)
}
