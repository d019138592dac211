// Package registry lets a collector have series in the families of another package, in one
// registry of Prometheus. The other package is the host, the collector is the guest.
//
// A registry refuses a second collector that describes the same family. It takes a collector
// without descriptions, and at each scrape merges its series into the families of their
// names. Nothing of the host is replaced or written to. To set the values of the
// host's vectors instead would leave gauges as old as the last scrape, as a registry collects
// in any order.
//
// Two things fail the scrape of the whole registry: two help texts in one family, and two
// series of equal labels. So a guest uses the texts and labels of the host, see [Shared.Find].
// At each scrape the guest leaves out a family if the host has registered the family meanwhile
// with another text, and an owner if the host has series of the same owner, see [Shared.Scrape].
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

// A Family is all series of a name.
type Family struct {
	Kind   dto.MetricType
	Help   string
	Labels []string
}

func (f Family) desc(name string) *prometheus.Desc {
	return prometheus.NewDesc(name, f.Help, f.Labels, nil)
}

// A Host is a package with families.
type Host struct {
	Families map[string]Known // by their full names

	// Labels are the possible sets of labels of a family, the smallest first. The last set has
	// all labels.
	Labels [][]string

	// Owner is the label of the owner of a series, such as a queue. An owner has one or several
	// series in a family.
	Owner string

	// Marks reports whether a family of a registry shows that the host registers its families
	// late: with the first of its owners, perhaps after the guest. If the guest described the
	// families, the host would panic.
	Marks func(f *dto.MetricFamily) bool
}

// Known is a family of a host.
type Known struct {
	Kind  dto.MetricType
	Helps []string // the texts of all versions, first the text of a late host
	Index string   // a family with a series of each owner in this family
}

// Shared are the families that a guest has together with the host in a registry. Shared changes
// at each scrape, as a late host may register its families at any time.
type Shared struct {
	Families map[string]Family // described by the guest as by the host, by full names
	Late     bool              // the host registers them late

	host       Host
	registerer prometheus.Registerer
	shown      map[string]Family // families of the host's names with a series at first
	refusal    string            // the registry's error for an invalid descriptor

	// The fields below are guarded by mu. Only locks of the registry are taken under mu.
	mu      sync.Mutex
	awaited map[string]*prometheus.Desc     // families that may still come
	indexes map[string]prometheus.Collector // of the host
	changed map[string]bool                 // families with another text of the host
	named   map[string]bool                 // owners in the result of Left so far
}

// Look gathers a registry, if the registry can be gathered. If the host's table lacks the text
// of a family, only a series of the family shows the text.
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
	families, _ := g.Gather() // A partial result will do.
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

// Find asks the registry for all families of the host. If the registry has none of the families
// and the host is late, Families are the families that the host will register. Find fails if
// the registry has another family of the same name.
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

// candidates are the possible descriptions of a family. If the registry shows the family, its
// description comes first. With another type there are no candidates, as two types in one family
// fail each scrape.
func (s *Shared) candidates(name string) (all []Family) {
	known := s.host.Families[name]
	shown, ok := s.shown[name]
	switch {
	case ok && shown.Kind != known.Kind:
		return nil
	case s.canShare(shown.Labels): // No label, and so false, if the registry does not show the family.
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

// unknown is the error for a family of another package, or of an unknown version.
func (s *Shared) unknown(name string) error {
	what := ""
	if f, ok := s.shown[name]; ok {
		what = fmt.Sprintf(" (%v, help %q, labels %q)", f.Kind, f.Help, f.Labels)
	}
	return fmt.Errorf("the registry has a series %s%s that is not known", name, what)
}

// hasNone reports whether the registry has no family of a name: the registry would then take a
// family with a text that nobody uses.
func (s *Shared) hasNone(name string) bool {
	return s.takes(Family{Help: "A text by which the registry is asked whether there is another one."}.desc(name))
}

// A probe is a collector without series, to ask a registry.
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

// takes reports whether the registry has a family with the text and the labels, or no family of
// the name.
//
// A registry looks at the descriptors of a collector one after the other. The last descriptor is
// invalid, so that the registry registers nothing. Otherwise the registry would keep a text for
// ever, also after Unregister, and the host could not register its own text. The error says
// which of the two descriptors was refused. s.refusal is the error for the invalid descriptor.
func (s *Shared) takes(desc *prometheus.Desc) bool {
	err := s.ask(desc, invalid)
	return err == nil || err.Error() == s.refusal
}

// ask returns the error for the first refused descriptor, or nil if the registerer takes all.
func (s *Shared) ask(descs ...*prometheus.Desc) error {
	asked := probe(descs)
	err := s.registerer.Register(asked)
	if err == nil {
		s.registerer.Unregister(asked)
	}
	return err
}

// A Scrape says which series a guest leaves out of a scrape. The nil Scrape leaves out nothing.
// A Scrape is not safe for concurrent use.
type Scrape struct {
	// Changed are the families registered by the host with another text since the scrape
	// before.
	Changed []string

	shared  *Shared
	omitted map[string]bool            // families
	owners  map[string]map[string]bool // by index
	left    map[string]bool            // owners left out
}

// Scrape asks the registry for new families, and for the owners in all families.
//
// Scrape holds mu throughout, while the registry and its vectors take their own locks. Their
// locks are leaves: a vector does not call the guest when it is collected. The result has copies,
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
			// A registry does not list its collectors, but the error of a second
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

// ownersIn returns the owners with a series in a vector. A collector sends to a channel, on a
// goroutine of its own, which ends with the collection.
func ownersIn(vector prometheus.Collector, label string) map[string]bool {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		vector.Collect(metrics)
	}()
	owners := make(map[string]bool)
	for m := range metrics {
		var written dto.Metric
		if m.Write(&written) != nil { // Without a Write there is no series in the way.
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

// Left returns the owners left out by the scrape for the first time.
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
