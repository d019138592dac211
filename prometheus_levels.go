package workqueue

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// This file has the series that a queue has for each of its priorities. Only queues with
// an order by priority have them.

// othersLabel is the label of all priorities that have none of their own.
const othersLabel = "other"

// A levelRow is a series with a label for the priority.
type levelRow struct {
	described
	value func(LevelStats) float64
}

func (d describer) levels() []levelRow {
	return []levelRow{
		{d.desc("depth_by_priority", "Items of a priority that are queued, or held by a worker and marked for another run.", "priority"),
			func(s LevelStats) float64 { return float64(s.Depth) }},
		{d.desc("oldest_item_age_by_priority_seconds", "Seconds since the oldest queued item of a priority was added, 0 if there is none.", "priority"),
			func(s LevelStats) float64 { return s.OldestItem.Seconds() }},
	}
}

func (r levelRow) metric(s LevelStats, queue string) prometheus.Metric {
	values := r.values(queue)
	priority := &values[slices.Index(r.labels, "priority")]
	*priority = othersLabel
	if !s.Others {
		*priority = strconv.Itoa(s.Priority)
	}
	return prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, r.value(s), values...)
}

func (c collector) appendLevels(metrics []prometheus.Metric, total QueueStats, queue string) []prometheus.Metric {
	for _, r := range c.levels {
		for _, l := range total.Levels {
			metrics = append(metrics, r.metric(l, queue))
		}
	}
	return metrics
}

// addLevels adds the levels of another queue of the name. What has no place any more
// goes to the others.
func (s *QueueStats) addLevels(levels []LevelStats) {
	if levels != nil && s.Levels == nil {
		s.Levels = []LevelStats{} // An order by priority, though nothing has come yet.
	}
	for _, other := range levels {
		sum := s.level(other)
		sum.Depth += other.Depth
		sum.OldestItem = max(sum.OldestItem, other.OldestItem)
	}
}

// level returns the stats of a level, and makes them if there is a place.
func (s *QueueStats) level(l LevelStats) *LevelStats {
	own := 0
	for i := range s.Levels {
		known := &s.Levels[i]
		if known.Others == l.Others && (l.Others || known.Priority == l.Priority) {
			return known
		}
		if !known.Others {
			own++
		}
	}
	if !l.Others && own == maxNamed {
		return s.level(LevelStats{Others: true})
	}
	s.Levels = append(s.Levels, LevelStats{Priority: l.Priority, Others: l.Others})
	return &s.Levels[len(s.Levels)-1]
}
