package workqueue

import "iter"

// This file has what only reads a fair queue, for snapshots and metrics.

// all returns the groups in no order.
func (f *fair[T, G]) all() iter.Seq[*fairGroup[T, G]] {
	return func(yield func(*fairGroup[T, G]) bool) {
		if f.odd != nil && !yield(f.odd) {
			return
		}
		for place := range uint32(f.groups.places.n) {
			if !yield(*f.groups.notes.at(*f.groups.places.at(place))) {
				return
			}
		}
	}
}
