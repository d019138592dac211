package workqueue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// DoWorkPieceFunc does one piece of the work, named by its number.
type DoWorkPieceFunc func(piece int)

type options struct {
	chunkSize int
}

// Options change how [ParallelizeUntil] divides the work.
type Options func(*options)

// WithChunkSize makes workers take c consecutive pieces at a time instead of
// one, which pays when a piece takes about as long as taking it: some tens of
// nanoseconds. A size below 1 counts as 1.
func WithChunkSize(c int) func(*options) {
	return func(o *options) { o.chunkSize = c }
}

// ParallelizeUntil calls doWorkPiece once for each piece from 0 to pieces-1,
// on as many goroutines as there are workers, but no more than there are
// chunks. It returns when all calls have. Once ctx is done, no further call
// begins; the context may be nil.
//
// With no piece it returns at once, and with no worker too. It panics if workers
// is negative and there is a piece. A panic in doWorkPiece ends the program.
func ParallelizeUntil(ctx context.Context, workers, pieces int, doWorkPiece DoWorkPieceFunc, opts ...Options) {
	if pieces <= 0 {
		return
	}
	if workers < 0 {
		panic(fmt.Sprintf("workqueue: negative number of workers %d", workers))
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	w := parallelWork{piece: doWorkPiece, pieces: pieces, size: max(1, o.chunkSize)}
	w.chunks = pieces / w.size
	if pieces%w.size > 0 {
		w.chunks++
	}
	if ctx != nil {
		w.done = ctx.Done()
	}
	var running sync.WaitGroup
	for range min(workers, w.chunks) {
		running.Go(w.run)
	}
	running.Wait()
}

// A parallelWork is what the workers of a call share. All but next is immutable.
type parallelWork struct {
	piece        DoWorkPieceFunc
	pieces       int
	size, chunks int // of a chunk in pieces, and their number
	done         <-chan struct{}

	next atomic.Int64 // the chunk to be taken next
}

// run takes chunks until there are none, or done is closed.
func (w *parallelWork) run() {
	for {
		chunk := int(w.next.Add(1)) - 1
		if chunk >= w.chunks {
			return
		}
		first := chunk * w.size
		for piece := first; piece < first+min(w.size, w.pieces-first); piece++ {
			select {
			case <-w.done:
				return
			default:
				w.piece(piece)
			}
		}
	}
}
