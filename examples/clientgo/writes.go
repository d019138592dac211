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
// The handler asks look first, and defers its key while the write is not there. The event
// handlers ask look too, and wake the key when the write arrives. The zero value is ready.
// All methods may be called concurrently.
type writes struct {
	mu   sync.Mutex
	last map[cache.ObjectName]string // guarded by mu
}

const writing = "writing" // is noted while a write is under way

// note notes the version of a write, or [writing] before it; "" is no write.
func (w *writes) note(key cache.ObjectName, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = make(map[cache.ObjectName]string)
	}
	if w.last[key] = version; version == "" {
		delete(w.last, key)
	}
}

// look reports whether the store does not show the last write yet, and whether it shows the write
// for the first time. While the write is under way, any event may be that of the write: the event
// can arrive before the response. look compares with the whole store, so an object that somebody
// has deleted meanwhile counts as shown.
//
// LastStoreSyncResourceVersion is of client-go v0.36. With an older version, compare with the
// object in the store.
func (w *writes) look(key cache.ObjectName, store cache.Store) (waits, arrived bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.last[key]
	if ok && written != writing {
		order, err := resourceversion.CompareResourceVersion(store.LastStoreSyncResourceVersion(), written)
		if waits = err == nil && order < 0; !waits {
			delete(w.last, key)
		}
	}
	return waits, ok && !waits
}
