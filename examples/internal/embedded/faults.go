package embedded

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// faults decides how long a write takes and whether it fails.
type faults struct {
	mu       sync.Mutex
	latency  time.Duration // of a write; some take up to three times as long
	rng      *rand.Rand
	rate     float64        // share of all writes that fail
	pending  map[string]int // failures ahead of a name
	injected int            // writes failed on purpose
	refused  int            // writes refused by the store, for example for a conflict
	written  int            // writes that came to an end, with or without an error
	cut      int            // writes whose client left before the end
}

// write takes as long as the way to the API server, and fails as often.
func (f *faults) write(ctx context.Context, name string) error {
	latency, err := f.draw(name)
	select {
	case <-time.After(latency):
		f.end(false)
		return err
	case <-ctx.Done():
		f.end(true)
		return ctx.Err()
	}
}

func (f *faults) end(cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cut {
		f.cut++
	} else {
		f.written++
	}
}

// ended returns how many writes have ended, and how many were cut off.
func (f *faults) ended() (written, cut int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written, f.cut
}

func (f *faults) draw(name string) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	latency := f.latency + time.Duration(f.rng.Int64N(2*int64(f.latency)))
	switch {
	case f.pending[name] > 0:
		f.pending[name]--
	case f.rng.Float64() >= f.rate:
		return latency, nil
	}
	f.injected++
	return latency, apierrors.NewServiceUnavailable("injected failure")
}

// setRate sets the share of writes that fail from now on.
func (f *faults) setRate(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// failNext makes the next n writes on a name fail.
func (f *faults) failNext(name string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending[name] = n
}

// refuse counts a write refused by the store.
func (f *faults) refuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused++
}

func (f *faults) count() (injected, refused int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected, f.refused
}
