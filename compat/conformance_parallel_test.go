package compat_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// The workers of both packages begin the same pieces, wait for the pieces under way after a cancel,
// and do the same pieces in the end.
func TestDivisionOfWork(t *testing.T) {
	r := generator(t)
	for range 500 {
		d := division{workers: r.IntN(9), pieces: r.IntN(20), chunk: r.IntN(12) - 1, canceled: r.IntN(3)}
		if want, got := d.play(t, clientGo()), d.play(t, ours()); want != got {
			t.Fatalf("%+v: theirs %s, ours %s", d, want, got)
		}
	}
}

// A division of work is canceled before the start, while each worker has a piece, or not at all.
type division struct{ workers, pieces, chunk, canceled int }

// play lets every piece wait until all workers have one. It returns the pieces that are begun then,
// whether the call has returned, and the pieces that are done in the end.
func (d division) play(t *testing.T, impl implementation) (journal string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if d.canceled == 0 {
			cancel()
		}
		var mu sync.Mutex
		var begun []int
		gate, returned := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(returned)
			impl.parallelize(ctx, d.workers, d.pieces, func(piece int) {
				mu.Lock()
				begun = append(begun, piece)
				mu.Unlock()
				<-gate
			}, d.chunk)
		}()
		note := func() {
			synctest.Wait()
			slices.Sort(begun)
			over := false
			select {
			case <-returned:
				over = true
			default:
			}
			journal += fmt.Sprintln(begun, over)
		}
		note()
		if d.canceled == 1 {
			cancel()
			note()
		}
		close(gate)
		note()
	})
	return journal
}
