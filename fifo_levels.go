package workqueue

import "time"

// This file has what the metrics show of the levels of ranks.

// levels returns the state of each level that has a place in the metrics, in the order
// in which they came into use, and of all others together. It takes time in proportion
// to the number of levels and of held items.
func (f *fifo[T]) levels(now time.Duration) []LevelStats {
	if f.storage == nil || f.storage.ranks == nil {
		return nil
	}
	r := f.storage.ranks
	// What is in line or was added again may have no level yet, but counts.
	for i := range f.line.all() {
		r.use(r.priorities.of(i))
	}
	f.eachAgain(func(i uint32) { r.use(r.priorities.of(i)) })
	stats := make([]LevelStats, 0, len(r.first)+1)
	for _, p := range r.first {
		stats = append(stats, LevelStats{Priority: p})
	}
	for _, v := range r.up {
		s := levelOf(&stats, v.priority)
		s.Depth += v.content.len()
		s.OldestItem = max(s.OldestItem, now-r.elders.oldest(&v.content))
	}
	for i := range f.line.all() {
		s := levelOf(&stats, r.priorities.of(i))
		s.Depth++
		s.OldestItem = max(s.OldestItem, now-f.stamps.at(i).added)
	}
	f.eachAgain(func(i uint32) { levelOf(&stats, r.priorities.of(i)).Depth++ })
	return stats
}

// eachAgain calls visit for the held records that were added again.
func (f *fifo[T]) eachAgain(visit func(i uint32)) {
	for _, i := range f.held {
		if f.items.records.at(i).state == reprocess {
			visit(i)
		}
	}
}

// levelOf returns the stats that a priority belongs to, and adds those of the others
// when the first of them comes.
func levelOf(stats *[]LevelStats, priority int) *LevelStats {
	for i := range *stats {
		if s := &(*stats)[i]; s.Priority == priority || s.Others {
			return s
		}
	}
	*stats = append(*stats, LevelStats{Others: true})
	return &(*stats)[len(*stats)-1]
}

// oldestRanked returns the age of the oldest item of all levels.
func (f *fifo[T]) oldestRanked(now time.Duration) (age time.Duration) {
	r := f.storage.ranks
	for _, v := range r.up {
		age = max(age, now-r.elders.oldest(&v.content))
	}
	return age
}
