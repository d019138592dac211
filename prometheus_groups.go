package workqueue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// This file has the series that a queue has for each group of a [NewFairQueue].

func (d describer) groups() described {
	return d.desc("depth_by_group", "Items of a group that are queued. The 25 deepest groups have a series each.", "group")
}

// appendGroups makes a series for each group, by its text as fmt prints it. Groups with
// the same text are one: two series of the same labels would fail the scrape.
func (c collector) appendGroups(metrics []prometheus.Metric, total QueueStats, queue string) []prometheus.Metric {
	at := slices.Index(c.groups.labels, "group")
	for group, depth := range depthsByText(total.DepthByGroup) {
		values := c.groups.values(queue)
		values[at] = group
		metrics = append(metrics, prometheus.MustNewConstMetric(c.groups.desc, prometheus.GaugeValue, float64(depth), values...))
	}
	return metrics
}

// depthsByText adds up what several queues of a name have. Of more groups than have a
// series, the deepest keep theirs.
func depthsByText(groups []GroupDepth) map[string]int {
	depths := make(map[string]int)
	others := 0
	for _, g := range groups {
		if g.Groups > 1 || g.Group == nil {
			others += g.Queued
			continue
		}
		depths[validLabel(fmt.Sprint(g.Group))] += g.Queued
	}
	if len(depths) > maxNamed {
		names := slices.SortedFunc(maps.Keys(depths), func(a, b string) int {
			return cmp.Or(cmp.Compare(depths[b], depths[a]), cmp.Compare(a, b))
		})
		for _, name := range names[maxNamed:] {
			others += depths[name]
			delete(depths, name)
		}
	}
	if others > 0 {
		depths[othersLabel] += others
	}
	return depths
}
