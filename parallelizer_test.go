package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func TestParallelizeEachPieceOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 100} {
		for _, pieces := range []int{0, 1, 2, 7, 100, 1001} {
			for _, chunk := range []int{math.MinInt, -1, 0, 1, 2, 7, 1000, 1 << 30, math.MaxInt} {
				counts := make([]atomic.Int64, pieces)
				workqueue.ParallelizeUntil(t.Context(), workers, pieces, func(piece int) {
					counts[piece].Add(1)
				}, workqueue.WithChunkSize(chunk))
				for piece := range counts {
					if n := counts[piece].Load(); n != 1 {
						t.Fatalf("%d workers, %d pieces by %d: piece %d was done %d times", workers, pieces, chunk, piece, n)
					}
				}
			}
		}
	}
}

func TestParallelizeWithoutWork(t *testing.T) {
	for _, row := range []struct{ workers, pieces int }{{0, 10}, {10, 0}, {0, 0}, {10, -5}, {1, math.MinInt}} {
		workqueue.ParallelizeUntil(t.Context(), row.workers, row.pieces, func(piece int) {
			t.Errorf("%d workers, %d pieces: piece %d was done", row.workers, row.pieces, piece)
		})
	}
}

// As many goroutines as workers, but no more than chunks, and each takes
// consecutive pieces.
func TestParallelizeInParallel(t *testing.T) {
	for name, row := range map[string]struct {
		workers, pieces, chunk, atOnce int
	}{
		"fewer workers than pieces": {3, 10, 1, 3},
		"fewer pieces than workers": {10, 3, 1, 3},
		"fewer chunks than workers": {10, 7, 3, 3},
		"a chunk for all":           {10, 7, 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				running, most := 0, 0
				workqueue.ParallelizeUntil(t.Context(), row.workers, row.pieces, func(int) {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					running--
					mu.Unlock()
				}, workqueue.WithChunkSize(row.chunk))
				if running != 0 || most != row.atOnce {
					t.Errorf("%d pieces were done at once, want %d; %d still are", most, row.atOnce, running)
				}
			})
		})
	}
}

func TestParallelizeUntilCanceled(t *testing.T) {
	for _, chunk := range []int{1, 4, 100} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			var done []int
			workqueue.ParallelizeUntil(ctx, 1, 100, func(piece int) {
				time.Sleep(time.Second)
				done = append(done, piece)
			}, workqueue.WithChunkSize(chunk))
			if got := fmt.Sprint(done); got != "[0 1 2]" {
				t.Errorf("chunks of %d: did %s before the end and during it, want [0 1 2]", chunk, got)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	workqueue.ParallelizeUntil(ctx, 5, 5, func(piece int) { t.Errorf("piece %d was done after the end", piece) })
}

func TestParallelizeWithoutContext(t *testing.T) {
	var sum atomic.Int64
	//lint:ignore SA1012 a nil context is documented to be allowed
	workqueue.ParallelizeUntil(nil, 2, 10, func(piece int) { sum.Add(int64(piece)) })
	if sum.Load() != 45 {
		t.Errorf("got a sum of %d, want 45", sum.Load())
	}
}

func TestParallelizeWithNegativeWorkers(t *testing.T) {
	got := goes(func() { workqueue.ParallelizeUntil(t.Context(), -3, 5, func(int) {}) })
	if want := "workqueue: negative number of workers -3"; got != want {
		t.Errorf("got the panic %v, want %s", got, want)
	}
	workqueue.ParallelizeUntil(t.Context(), -3, 0, nil, nil) // There is nothing to do it wrong with.
}
