package main

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// writes has the resource version of the last write for each key, until the cache shows the
// write. A controller that works for the key before would see the world without the write, and
// would write a second time.
//
// The handler asks look first, and defers its key while the write is not there. When it has written,
// it notes the version and returns nil: if the event was faster, the event has added the key again. The
// event handlers ask look too, and wake the key when the write arrives. The zero value is ready. All
// methods may be called concurrently.
type writes[K comparable] struct {
	mu   sync.Mutex
	last map[K]string // guarded by mu
}

// note notes the version of the last write; "" is none.
func (w *writes[K]) note(key K, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = make(map[K]string)
	}
	if w.last[key] = version; version == "" {
		delete(w.last, key)
	}
}

// look reports whether the store does not show the last write yet, and whether it shows the write
// for the first time. It compares with the whole store, so an object that somebody has deleted
// meanwhile counts as shown.
//
// LastStoreSyncResourceVersion is of client-go v0.36. With an older version, compare with the
// object in the store.
func (w *writes[K]) look(key K, store cache.Store) (waits, arrived bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.last[key]
	if !ok {
		return false, false
	}
	order, err := resourceversion.CompareResourceVersion(store.LastStoreSyncResourceVersion(), written)
	if err == nil && order < 0 {
		return true, false
	}
	delete(w.last, key)
	return false, true
}
