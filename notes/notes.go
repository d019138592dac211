// Package notes keeps what a queue loses when it drops duplicates: why a key was added, who asked,
// and in which trace. A queue holds a key once, and nothing but the key.
//
// A [Notes] stands beside a queue. A producer puts a note with each add, and the notes of one key are
// merged. The worker that gets the key takes the merged note, and forgets it when the work is done:
//
//	var why = notes.New[string](func(older, newer []string) []string { return slices.Concat(older, newer) })
//
//	func producer(key, reason string) {
//		why.Put(key, []string{reason}, func() bool {
//			return queue.AddWith(workqueue.AddOptions{}, key) > 0
//		})
//	}
//
//	func handler(ctx context.Context, key string) error {
//		reasons, _ := why.Take(key)
//		if err := sync(ctx, key, reasons); err != nil {
//			return err // The retry takes the note again.
//		}
//		why.Forget(key)
//		return nil
//	}
//
// # The life of a note
//
// A key has at most one pending note, and at most one taken note. A dash means no change:
//
//	          pending note            taken note
//	Put       merge(pending, note)    -
//	Take      none                    merge(taken, pending), which Take returns
//	Forget    -                       none
//	Remove    none                    none
//
// merge is called only if both notes exist. So these rules hold:
//
//   - A worker finds the note of the add that it has got the key for: Take waits for a Put at work.
//   - A note whose add was refused is never seen. Older notes of the key stay as they were.
//   - A failure loses no note. A taken note stays until Forget, also if the handler panics, and the
//     next Take returns the note together with newer notes, the older ones first.
//   - A success loses no newer note. Forget drops only what Take has returned.
//   - A hand-out can come without a note. An add between a hand-out and its Take adds its note to
//     that hand-out, and the key is handed out once more.
//
// # Who drops a note
//
// A note takes memory until a caller drops the note. Each way by which a key leaves the queue has a
// caller who knows:
//
//	the handler has succeeded     Forget in the handler
//	Run has given the item up     Forget in OnGiveUp; the note of an add since stays
//	the queue refuses the add     nobody: Put has not kept the note
//	somebody removes the item     Remove, which removes the item and its notes
//	the item is left at the end   Take and Forget in OnStop, for each item of Queued, Waiting and Failed
package notes

import "sync"

// Notes has notes for the keys of one queue. Make a Notes with [New]: the zero value is not usable.
// All methods may be called concurrently. They take constant time, and wait only for each other
// and for the functions of the caller that they call.
//
// Only the worker that holds a key may call Take and Forget for the key. The queue has one such
// worker at a time.
//
// A key with a note takes the memory of the key, of two V and of an entry of a map. When the last
// note is gone, the memory of a burst is given back. A key that differs from itself, such as a NaN,
// cannot be found again, so Put panics for such a key.
type Notes[K comparable, V any] struct {
	merge func(older, newer V) V // immutable

	mu   sync.Mutex
	keys map[K]entry[V] // guarded by mu; each entry has a note
	most int            // guarded by mu; the most entries that the map has had
}

// An entry has the notes of a key.
type entry[V any] struct{ pending, taken note[V] }

type note[V any] struct {
	value V
	there bool
}

// keepRoom is how many entries a map may have had and still be used again when it is empty. A Go map
// never shrinks.
const keepRoom = 1024

// New returns an empty Notes. merge makes one note of two notes of a key.
//
// merge is called with the lock of the Notes held, so merge must not call the Notes, and should be
// fast. If merge panics, nothing has changed. A worker may read the older note at the same time, so
// merge must not change its arguments. A key can be added any number of times before a worker gets
// the key: bound what merge returns.
//
// New panics if merge is nil.
func New[K comparable, V any](merge func(older, newer V) V) *Notes[K, V] {
	if merge == nil {
		panic("notes: merge is nil")
	}
	return &Notes[K, V]{merge: merge}
}

// Put keeps a note for the key and calls add, which adds the key to the queue. If add reports false
// or panics, the queue has refused the key, and nothing has changed. Put returns what add returns.
//
// add is called with the lock of the Notes held, so that no Take or Remove of the key comes between the
// note and the add. add must not call the Notes, nor may the functions that the queue calls for an
// add, such as those of its Order.
func (n *Notes[K, V]) Put(key K, value V, add func() bool) (added bool) {
	if same := key; key != same { // A NaN, also within a struct.
		panic("notes: Put of a key that differs from itself")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.keys[key]
	e.pending = n.join(e.pending, note[V]{value, true})
	if added = add(); added {
		n.set(key, e)
	}
	return added
}

// Take returns the note of the key, and keeps the note until Forget. Call Take after the hand-out of
// the key. ok is false if the key has no note.
//
// If the key has a taken note that nobody has forgotten, Take merges both: a second Take without a
// Put in between returns the same note.
func (n *Notes[K, V]) Take(key K) (value V, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.keys[key]
	e = entry[V]{taken: n.join(e.taken, e.pending)}
	n.set(key, e)
	return e.taken.value, e.taken.there
}

// Forget drops and returns the note that Take has returned for the key. A note that was put since
// stays for the next Take. ok is false if there was no taken note. Call Forget before Done of the
// queue: when the handler succeeds, in OnGiveUp, and in OnStop.
func (n *Notes[K, V]) Forget(key K) (value V, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.keys[key]
	n.set(key, entry[V]{pending: e.pending})
	return e.taken.value, e.taken.there
}

// Remove calls remove, which removes the key from the queue. If remove reports true, Remove drops
// both notes of the key. Remove returns what remove returns.
//
// remove is called with the lock of the Notes held, like add in [Notes.Put].
func (n *Notes[K, V]) Remove(key K, remove func() bool) (removed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if removed = remove(); removed {
		n.set(key, entry[V]{})
	}
	return removed
}

// Len returns the number of keys that have a note.
func (n *Notes[K, V]) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.keys)
}

// join returns a note of two notes, each of which may be missing.
func (n *Notes[K, V]) join(older, newer note[V]) note[V] {
	switch {
	case !older.there:
		return newer
	case !newer.there:
		return older
	}
	return note[V]{n.merge(older.value, newer.value), true}
}

// set writes the entry of a key. It is called with the lock held.
func (n *Notes[K, V]) set(key K, e entry[V]) {
	if e.pending.there || e.taken.there {
		if n.keys == nil {
			n.keys = make(map[K]entry[V])
		}
		n.keys[key] = e
		n.most = max(n.most, len(n.keys))
		return
	}
	delete(n.keys, key)
	if len(n.keys) == 0 && n.most > keepRoom {
		n.keys, n.most = nil, 0
	}
}
