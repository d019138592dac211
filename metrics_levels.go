package workqueue

// depthByPriority returns how many items are queued, or held and added again, with each
// priority: nil if the order knows no priorities, or is a storage of its own, which is
// not asked. It takes time in proportion to the levels and to the held items, as a
// scrape must not hold up a queue with a million items.
func (f *fifo[T]) depthByPriority() map[int]int {
	if f.storage == nil || f.storage.ranks == nil {
		return nil
	}
	depths := make(map[int]int)
	for _, v := range f.storage.ranks.up {
		depths[v.priority] += v.content.len()
	}
	for _, i := range f.held {
		if f.items.records.at(i).state == reprocess {
			depths[f.storage.priorities.of(i)]++
		}
	}
	// What is in line is before all levels, because its Of has panicked.
	if n := f.line.len(); n > 0 {
		depths[0] += n
	}
	return depths
}
