package workqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// This file finds out what the series of client-go's queues are called in a registry.
// The names are the same everywhere. Help texts and labels are those of who registered
// them, and of the version.

// A neighbour is a series that the registry has.
type neighbour struct {
	kind   dto.MetricType
	help   string
	labels []string
}

// neighbours are the series that a registry has of client-go's queues, by their names
// without the subsystem.
type neighbours map[string]neighbour

// helpTexts are those of component-base and of controller-runtime. The first of each
// is that of component-base v0.37.
var helpTexts = map[string][]string{
	"depth": {
		"Current depth of workqueue",
		"Current depth of workqueue by workqueue and priority",
	},
	"adds_total": {"Total number of adds handled by workqueue"},
	"queue_duration_seconds": {
		"How long in seconds an item stays in workqueue before being requested.",
		"How long in seconds an item stays in workqueue before being requested",
	},
	"work_duration_seconds": {"How long in seconds processing an item from workqueue takes."},
	"unfinished_work_seconds": {
		"How many seconds of work has done that is in progress and hasn't been observed by work_duration. " +
			"Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
		"How many seconds of work has been done that is in progress and hasn't been observed by work_duration. " +
			"Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
	},
	"longest_running_processor_seconds": {"How many seconds has the longest running processor for workqueue been running."},
	"retries_total": {
		"Total number of retries handled by workqueue",
		"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)",
	},
}

// stabilities are what component-base puts before a text.
var stabilities = []string{"[BETA] ", "[ALPHA] ", "[STABLE] ", ""}

// labelSets are those of component-base and of controller-runtime.
var labelSets = [][]string{{"name"}, {"name", "controller"}, {"name", "controller", "priority"}}

// kindOf returns the type of a series of client-go's queues, which is the same everywhere.
func kindOf(name string) dto.MetricType {
	switch {
	case strings.HasSuffix(name, "_total"):
		return dto.MetricType_COUNTER
	case strings.HasSuffix(name, "_duration_seconds"):
		return dto.MetricType_HISTOGRAM
	}
	return dto.MetricType_GAUGE
}

// componentBaseLater are the series that component-base registers when the first queue
// of client-go is made. It panics if something of these names is there. What is there
// must be described by nothing, and with the same texts.
func componentBaseLater() neighbours {
	theirs := make(neighbours)
	for name, texts := range helpTexts {
		theirs[name] = neighbour{kindOf(name), stabilities[0] + texts[0], labelSets[0]}
	}
	return theirs
}

// haveController reports whether they have the label of controller-runtime.
func (n neighbours) haveController() bool {
	return slices.Contains(n["adds_total"].labels, "controller")
}

// decades is the number of classic buckets. Those of component-base end at 10 s.
func (n neighbours) decades() int {
	if strings.HasPrefix(n["work_duration_seconds"].help, "[") {
		return 10
	}
	return 12
}

// descs returns the descriptors that they are registered with.
func (n neighbours) descs() map[string]*prometheus.Desc {
	descs := make(map[string]*prometheus.Desc)
	for name, there := range n {
		descs[name] = there.desc(name)
	}
	return descs
}

func (n neighbour) desc(name string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), n.help, n.labels, nil)
}

// A registry can be asked what it has.
type registry struct {
	registerer prometheus.Registerer
	shown      shown
	anchor     *prometheus.Desc // registered by us
}

// shown is what a registry shows, if it does.
type shown struct {
	families      neighbours // those that have a series
	componentBase bool       // it is a registry of component-base
}

// gathered returns what a registry shows. That is all there is to know of a version
// that is not in helpTexts.
func gathered(registerer prometheus.Registerer) shown {
	g, ok := registerer.(prometheus.Gatherer)
	if !ok {
		return shown{}
	}
	s := shown{families: make(neighbours)}
	families, _ := g.Gather() // What cannot be gathered is not there.
	for _, f := range families {
		if f.GetName() == "registered_metrics_total" && strings.HasPrefix(f.GetHelp(), "[") {
			s.componentBase = true
		}
		if name, ok := strings.CutPrefix(f.GetName(), subsystem+"_"); ok && len(f.GetMetric()) > 0 {
			s.families[name] = neighbour{f.GetType(), f.GetHelp(), labelsOf(f.GetMetric()[0])}
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

// neighbours returns the series that the registry has of client-go's queues, and an
// error if it has another one of their names.
func (r registry) neighbours() (neighbours, error) {
	theirs := make(neighbours)
	for name := range helpTexts {
		there, has := r.find(name)
		switch has {
		case hasSame:
			theirs[name] = there
		case hasOther:
			return nil, r.inTheWay(name)
		}
	}
	return theirs, nil
}

// find tries what a series may be described by. Two types in one family fail each scrape,
// so a series of another type is another one, even with the text of client-go's.
func (r registry) find(name string) (neighbour, answer) {
	if there, ok := r.shown.families[name]; ok && there.kind != kindOf(name) {
		return neighbour{}, hasOther
	}
	for _, there := range r.candidates(name) {
		if has := r.ask(there.desc(name)); has != hasOther {
			return there, has
		}
	}
	return neighbour{}, hasOther
}

func (r registry) candidates(name string) (all []neighbour) {
	if there := r.shown.families[name]; areOfAQueue(there.labels) {
		all = append(all, there)
	}
	for _, stability := range stabilities {
		for _, text := range helpTexts[name] {
			for _, labels := range labelSets {
				all = append(all, neighbour{kindOf(name), stability + text, labels})
			}
		}
	}
	return all
}

// areOfAQueue reports whether labels can be those of a queue's series. Without the name, all
// queues would have the same labels, and each scrape would fail.
func areOfAQueue(labels []string) bool {
	isForeign := func(label string) bool { return !slices.Contains(labelSets[len(labelSets)-1], label) }
	return slices.Contains(labels, "name") && !slices.ContainsFunc(labels, isForeign)
}

// An answer is what a registry has by the name of a series.
type answer uint8

const (
	hasNone  answer = iota
	hasSame         // with the same text and labels
	hasOther        // with others
)

// ask asks the registry for a series, and registers nothing. A registry never forgets
// the text of what was registered once, so a try that succeeds would spoil the name
// for its owner. The anchor, which is there, makes each try fail. Which descriptor it
// has failed with is in the message alone.
func (r registry) ask(desc *prometheus.Desc) answer {
	try := probe{r.anchor, desc}
	err := r.registerer.Register(try)
	if err == nil { // It takes anything.
		r.registerer.Unregister(try)
		return hasNone
	}
	switch text := err.Error(); {
	case strings.Contains(text, "different label names or a different help string"):
		return hasOther
	case strings.Contains(text, fmt.Sprint(r.anchor)):
		return hasNone
	}
	return hasSame
}

// A probe describes series and has none.
type probe []*prometheus.Desc

// Describe implements [prometheus.Collector].
func (p probe) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range p {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (probe) Collect(chan<- prometheus.Metric) {}
