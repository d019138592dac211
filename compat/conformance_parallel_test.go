package compat_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// A parallelCase is a way to divide work. As every piece waits until all
// workers have one, started tells how it was divided.
type parallelCase struct {
	workers, pieces int
	chunk           *int
	started         []int
}

var parallelCases = []parallelCase{
	{workers: 1, pieces: 1, started: []int{0}},
	{workers: 1, pieces: 5, started: []int{0}},
	{workers: 3, pieces: 10, started: []int{0, 1, 2}},
	{workers: 4, pieces: 4, started: []int{0, 1, 2, 3}},
	{workers: 16, pieces: 3, started: []int{0, 1, 2}},
	{workers: 16, pieces: 0},
	{workers: 0, pieces: 3},
	{workers: 2, pieces: 10, chunk: new(0), started: []int{0, 1}},
	{workers: 2, pieces: 10, chunk: new(-1), started: []int{0, 1}},
	{workers: 2, pieces: 10, chunk: new(1), started: []int{0, 1}},
	{workers: 2, pieces: 10, chunk: new(3), started: []int{0, 3}},
	{workers: 8, pieces: 10, chunk: new(3), started: []int{0, 3, 6, 9}},
	{workers: 2, pieces: 10, chunk: new(5), started: []int{0, 5}},
	{workers: 8, pieces: 10, chunk: new(10), started: []int{0}},
	{workers: 8, pieces: 10, chunk: new(1000), started: []int{0}},
	{workers: 8, pieces: 0, chunk: new(3)},
}

func (c parallelCase) String() string {
	name := fmt.Sprintf("workers=%d/pieces=%d", c.workers, c.pieces)
	if c.chunk != nil {
		name += fmt.Sprintf("/chunk=%d", *c.chunk)
	}
	return name
}

// A ledger counts how often each piece was begun.
type ledger struct {
	mu    sync.Mutex
	begun map[int]int
}

func (l *ledger) begin(piece int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun == nil {
		l.begun = make(map[int]int)
	}
	l.begun[piece]++
}

// pieces returns those begun, in order, each as often as it was.
func (l *ledger) pieces() (all []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for piece, n := range l.begun {
		all = append(all, slices.Repeat([]int{piece}, n)...)
	}
	slices.Sort(all)
	return all
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestDivisionOfWork(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, c := range parallelCases {
			t.Run(c.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, impl, context.Background()) })
			})
		}
		t.Run("no_context", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { parallelCases[2].run(t, impl, nil) })
		})
	})
}

func (c parallelCase) run(t *testing.T, impl implementation, ctx context.Context) {
	var l ledger
	gate := make(chan struct{})
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		impl.parallelize(ctx, c.workers, c.pieces, func(piece int) {
			l.begin(piece)
			<-gate
		}, c.chunk)
	}()
	synctest.Wait()
	if got := l.pieces(); !slices.Equal(got, c.started) {
		t.Errorf("with every worker busy, %v are begun, want %v", got, c.started)
	}
	select {
	case <-returned:
		if len(c.started) > 0 {
			t.Error("returned before the pieces")
		}
	default:
	}
	close(gate)
	<-returned
	want := upTo(c.pieces)
	if c.workers == 0 {
		want = nil
	}
	if got := l.pieces(); !slices.Equal(got, want) {
		t.Errorf("did %v, want each of %v once", got, want)
	}
}

// TestDivisionOfWorkAtScale has the workers race for pieces.
func TestDivisionOfWorkAtScale(t *testing.T) {
	const pieces = 10007
	onEach(t, func(t *testing.T, impl implementation) {
		for _, chunk := range []int{1, 2, 64, 10006, pieces + 1} {
			done := make([]int, pieces) // Each written by one worker, or the race detector tells.
			impl.parallelize(context.Background(), 8, pieces, func(piece int) { done[piece]++ }, &chunk)
			for piece, n := range done {
				if n != 1 {
					t.Fatalf("chunk=%d: piece %d was done %d times", chunk, piece, n)
				}
			}
		}
	})
}

// TestDivisionOfWorkCancelled ends the context in the middle of a piece. The
// pieces under way are finished, others of the same chunk are not begun.
func TestDivisionOfWorkCancelled(t *testing.T) {
	for _, c := range []struct {
		parallelCase
		cancelAt int   // the piece that cancels; -1 is before the start
		done     []int // in the end
	}{
		{parallelCase{workers: 1, pieces: 10}, -1, nil},
		{parallelCase{workers: 4, pieces: 10, chunk: new(2)}, -1, nil},
		{parallelCase{workers: 1, pieces: 10}, 0, []int{0}},
		{parallelCase{workers: 1, pieces: 10}, 3, []int{0, 1, 2, 3}},
		{parallelCase{workers: 1, pieces: 10}, 9, upTo(10)},
		{parallelCase{workers: 1, pieces: 10, chunk: new(5)}, 3, []int{0, 1, 2, 3}},
		{parallelCase{workers: 1, pieces: 10, chunk: new(5)}, 4, []int{0, 1, 2, 3, 4}},
		{parallelCase{workers: 1, pieces: 10, chunk: new(100)}, 6, []int{0, 1, 2, 3, 4, 5, 6}},
	} {
		t.Run(fmt.Sprintf("%v/at=%d", c.parallelCase, c.cancelAt), func(t *testing.T) {
			onEach(t, func(t *testing.T, impl implementation) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.cancelAt < 0 {
					cancel()
				}
				var l ledger
				impl.parallelize(ctx, c.workers, c.pieces, func(piece int) {
					l.begin(piece)
					if piece == c.cancelAt {
						cancel()
					}
				}, c.chunk)
				if got := l.pieces(); !slices.Equal(got, c.done) {
					t.Errorf("did %v, want %v", got, c.done)
				}
			})
		})
	}
}

// TestCancellationWaitsForPiecesUnderWay is about the return after a
// cancellation: not before the workers are out of the caller's function.
func TestCancellationWaitsForPiecesUnderWay(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var l ledger
			gate := make(chan struct{})
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				impl.parallelize(ctx, 3, 100, func(piece int) {
					l.begin(piece)
					<-gate
				}, nil)
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			select {
			case <-returned:
				t.Error("returned with pieces under way")
			default:
			}
			close(gate)
			<-returned
			if got, want := l.pieces(), upTo(3); !slices.Equal(got, want) {
				t.Errorf("did %v, want %v", got, want)
			}
		})
	})
}
