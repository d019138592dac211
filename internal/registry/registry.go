// Package registry lets a collector have series in the families of another package, in one
// registry of Prometheus. The other package is the host, the collector is the guest.
//
// A registry refuses a collector that describes a family which is there. It takes a collector
// that describes nothing, and merges the series of that collector into the families of their
// names at each scrape. Nothing of the host is replaced or written to. To set the values of the
// host's vectors instead would leave gauges as old as the last scrape, as a registry collects
// in any order.
//
// Two things fail the scrape of the whole registry: two help texts in one family, and two
// series of equal labels. So a guest uses the texts and labels of the host, see [Shared.Find].
// At each scrape it leaves out a family that the host has registered meanwhile with another
// text, and the series of an owner that has series of the host, see [Shared.Scrape].
package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A Family is what all series of a name have in common.
type Family struct {
	Kind   dto.MetricType
	Help   string
	Labels []string
}

func (f Family) desc(name string) *prometheus.Desc {
	return prometheus.NewDesc(name, f.Help, f.Labels, nil)
}

// A Host is what is known of a package that has families.
type Host struct {
	Families map[string]Known // by their full names

	// Labels are the sets of labels that a family may have, the smallest first. The last one
	// has all labels.
	Labels [][]string

	// Owner is the label that says what a series is of. An owner has one series in a family,
	// or several.
	Owner string

	// Marks reports whether a family of a registry shows that the host registers its families
	// late: with the first of its owners, perhaps after the guest. Such a host would panic if
	// the guest had described them.
	Marks func(f *dto.MetricFamily) bool
}

// Known is a family of a host.
type Known struct {
	Kind  dto.MetricType
	Helps []string // of all versions; the first one is that of a late host
	Index string   // the family that has a series of each owner with series in this one
}

// Shared are the families that a guest has together with the host in one registry. It learns
// more at each scrape, as a late host may register its families at any time.
type Shared struct {
	Families map[string]Family // what the guest describes as the host does, by full names
	Late     bool              // the host registers them late

	host       Host
	registerer prometheus.Registerer
	shown      map[string]Family // families of the host's names that had a series at first
	refusal    string            // what the registry says of an invalid descriptor

	// The fields below are guarded by mu. Only locks of the registry are taken under mu.
	mu      sync.Mutex
	awaited map[string]*prometheus.Desc     // families that the registry did not have so far
	indexes map[string]prometheus.Collector // of the host
	changed map[string]bool                 // families that the host has with another text
	named   map[string]bool                 // owners that a scrape has named
}

// Look looks at what a registry shows, if it does. A family of a version that the host's table
// does not have can be known from its series alone.
func (h Host) Look(registerer prometheus.Registerer) *Shared {
	s := &Shared{
		host: h, registerer: registerer, shown: make(map[string]Family), Families: make(map[string]Family),
		awaited: make(map[string]*prometheus.Desc), indexes: make(map[string]prometheus.Collector),
		changed: make(map[string]bool), named: make(map[string]bool),
	}
	g, ok := registerer.(prometheus.Gatherer)
	if !ok {
		return s
	}
	families, _ := g.Gather() // What cannot be gathered is not there.
	for _, f := range families {
		s.Late = s.Late || h.Marks(f)
		if _, ok := h.Families[f.GetName()]; ok && len(f.GetMetric()) > 0 {
			s.shown[f.GetName()] = Family{f.GetType(), f.GetHelp(), labelsOf(f.GetMetric()[0])}
		}
	}
	return s
}

func labelsOf(m *dto.Metric) (names []string) {
	for _, label := range m.GetLabel() {
		names = append(names, label.GetName())
	}
	return names
}

// Find asks the registry for all families of the host. If it has none of them, and the host
// is late, Families are those which the host will register. Find fails if the registry has
// another family of one of the names.
func (s *Shared) Find() error {
	s.refusal = fmt.Sprint(s.ask(invalid))
	for name := range s.host.Families {
		if s.hasNone(name) {
			continue
		}
		candidates := s.candidates(name)
		i := slices.IndexFunc(candidates, func(f Family) bool { return s.takes(f.desc(name)) })
		if i < 0 {
			return s.unknown(name)
		}
		s.Families[name] = candidates[i]
	}
	if len(s.Families) == 0 && s.Late {
		for name := range s.host.Families {
			s.Families[name] = s.candidates(name)[0]
		}
	}
	for name, f := range s.Families {
		s.awaited[name] = f.desc(name)
	}
	return nil
}

// candidates are what a family may be described as, first of all as the registry shows the
// family. Two types in one family fail each scrape, so there is none if the type is another one.
func (s *Shared) candidates(name string) (all []Family) {
	known := s.host.Families[name]
	shown, ok := s.shown[name]
	switch {
	case ok && shown.Kind != known.Kind:
		return nil
	case ok && s.canShare(shown.Labels):
		all = append(all, shown)
	}
	for _, help := range known.Helps {
		for _, labels := range s.host.Labels {
			all = append(all, Family{known.Kind, help, labels})
		}
	}
	return all
}

// canShare reports whether a family can have series of the guest. Without the label of the
// owner, all series of the guest would have the same labels.
func (s *Shared) canShare(labels []string) bool {
	all := s.host.Labels[len(s.host.Labels)-1]
	return slices.Contains(labels, s.host.Owner) &&
		!slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(all, label) })
}

// unknown is the error for a family that is not the host's, or of an unknown version.
func (s *Shared) unknown(name string) error {
	what := ""
	if f, ok := s.shown[name]; ok {
		what = fmt.Sprintf(" (%v, help %q, labels %q)", f.Kind, f.Help, f.Labels)
	}
	return fmt.Errorf("the registry has a series %s%s that is not known", name, what)
}

// hasNone reports whether the registry has no family of a name: it would take one with a text
// that nobody uses.
func (s *Shared) hasNone(name string) bool {
	return s.takes(Family{Help: "A text by which the registry is asked whether there is another one."}.desc(name))
}

// A probe is a collector without series, by which a registry is asked.
type probe []*prometheus.Desc

// Describe implements [prometheus.Collector].
func (p probe) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range p {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (probe) Collect(chan<- prometheus.Metric) {}

// invalid is a descriptor that each registry refuses, by itself and after others.
var invalid = prometheus.NewDesc("question", "", []string{"\xff"}, nil)

// takes reports whether the registry has a family with this text and these labels, or none
// of its name.
//
// A registry compares the descriptors of a collector with what it has, one after the other. The
// last descriptor is invalid, so that the registry registers nothing: the registry would keep
// a text for ever, also after Unregister, and the host could not register its own. The error
// says which of the two descriptors was refused. s.refusal is the error for the invalid one.
func (s *Shared) takes(desc *prometheus.Desc) bool {
	err := s.ask(desc, invalid)
	return err == nil || err.Error() == s.refusal
}

// ask returns the error for descriptors of which one is refused, or nil if the registerer takes
// anything.
func (s *Shared) ask(descs ...*prometheus.Desc) error {
	asked := probe(descs)
	err := s.registerer.Register(asked)
	if err == nil {
		s.registerer.Unregister(asked)
	}
	return err
}

// A Scrape says what a guest leaves out of one scrape. The nil Scrape leaves out nothing. A
// Scrape is not safe for concurrent use.
type Scrape struct {
	// Changed are the families that the host has registered with another text since the
	// scrape before.
	Changed []string

	shared  *Shared
	omitted map[string]bool            // families
	owners  map[string]map[string]bool // by the index that has them
	left    map[string]bool            // owners that were left out
}

// Scrape asks the registry which families it has got since, and which owners are in them.
//
// Scrape holds mu throughout, while the registry and its vectors take their own locks. Those
// are leaves: a vector that is collected does not come back to the guest. The result has copies,
// as two scrapes may go on at once without mu.
func (s *Shared) Scrape() *Scrape {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Scrape{shared: s, owners: make(map[string]map[string]bool), left: make(map[string]bool)}
	for name, desc := range s.awaited {
		switch {
		case s.hasNone(name):
			continue
		case !s.takes(desc):
			s.changed[name] = true
			c.Changed = append(c.Changed, name)
		case s.host.Families[name].Index == name:
			// A registry does not show what is in it, but the error of a second
			// registration has the first collector.
			var there prometheus.AlreadyRegisteredError
			if errors.As(s.ask(desc), &there) {
				s.indexes[name] = there.ExistingCollector
			}
		}
		delete(s.awaited, name)
	}
	c.omitted = maps.Clone(s.changed)
	for name, vector := range s.indexes {
		c.owners[name] = ownersIn(vector, s.host.Owner)
	}
	return c
}

// ownersIn returns the owners with a series in a vector. A collector sends to a channel, so it
// needs a goroutine beside the one that receives, which ends with the collection.
func ownersIn(vector prometheus.Collector, label string) map[string]bool {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		vector.Collect(metrics)
	}()
	owners := make(map[string]bool)
	for m := range metrics {
		var written dto.Metric
		if m.Write(&written) != nil { // What fails is no series, and in nobody's way.
			continue
		}
		for _, l := range written.GetLabel() {
			if l.GetName() == label {
				owners[l.GetValue()] = true
			}
		}
	}
	return owners
}

// Omits reports whether the series of an owner is left out of a family.
func (c *Scrape) Omits(family, owner string) bool {
	if c == nil {
		return false
	}
	if c.owners[c.shared.host.Families[family].Index][owner] {
		c.left[owner] = true
		return true
	}
	return c.omitted[family]
}

// Left returns the owners that this scrape has left out, and no scrape before.
func (c *Scrape) Left() (owners []string) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	for owner := range c.left {
		if !c.shared.named[owner] {
			c.shared.named[owner] = true
			owners = append(owners, owner)
		}
	}
	return owners
}
