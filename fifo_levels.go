package workqueue

import (
	"slices"
	"time"
)

// This file has what the metrics show of the priorities of a fifo.

// firstUsed are the priorities that were in use first: metrics must not have too many
// labels. They stay the same, so that a series has no gaps.
type firstUsed []int

// use gives a priority a place, while there are any.
func (f *firstUsed) use(priority int) {
	if len(*f) < maxNamed && !slices.Contains(*f, priority) {
		*f = append(*f, priority)
	}
}

// levels returns the state of each priority that has a place in the metrics, in the order
// in which they came into use, and of all others together. It is nil if the order knows no
// priorities. It takes time in proportion to the number of levels and of held items,
// and beside a storage to that of all items.
func (f *fifo[T]) levels(now time.Duration) []LevelStats {
	switch {
	case f.storage == nil:
		return nil
	case f.storage.ranks != nil:
		return f.levelsOfRanks(now)
	case f.storage.ranker != nil:
		return f.levelsOfStorage(now)
	}
	return nil
}

func (f *fifo[T]) levelsOfRanks(now time.Duration) []LevelStats {
	r := f.storage.ranks
	stats := f.beginLevels(&r.first, now)
	for _, v := range r.up {
		s := levelOf(&stats, v.priority)
		s.Depth += v.content.len()
		s.OldestItem = max(s.OldestItem, now-r.elders.oldest(&v.content))
	}
	return stats
}

// levelsOfStorage looks at each record, as the storage does not know the times.
func (f *fifo[T]) levelsOfStorage(now time.Duration) []LevelStats {
	stats := f.beginLevels(&f.storage.first, now)
	for i := range uint32(f.items.records.n) {
		if f.items.records.at(i).state == inStorage {
			f.countInLevel(&stats, i, now)
		}
	}
	return stats
}

// beginLevels returns the levels with what is queued or added again, and in no level of the
// order. Its priorities may be in no use there yet.
func (f *fifo[T]) beginLevels(first *firstUsed, now time.Duration) []LevelStats {
	priorities := f.storage.priorities
	for i := range f.line.all() {
		first.use(priorities.of(i))
	}
	f.eachAgain(func(i uint32) { first.use(priorities.of(i)) })
	stats := make([]LevelStats, 0, len(*first)+1)
	for _, p := range *first {
		stats = append(stats, LevelStats{Priority: p})
	}
	for i := range f.line.all() {
		f.countInLevel(&stats, i, now)
	}
	f.eachAgain(func(i uint32) { levelOf(&stats, priorities.of(i)).Depth++ })
	return stats
}

// countInLevel counts a record that is queued.
func (f *fifo[T]) countInLevel(stats *[]LevelStats, i uint32, now time.Duration) {
	s := levelOf(stats, f.storage.priorities.of(i))
	s.Depth++
	s.OldestItem = max(s.OldestItem, now-f.stamps.at(i).added)
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
