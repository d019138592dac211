package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// probes of a period each take two seconds.
const (
	period = 5 * time.Millisecond
	probes = 400
)

// crowd is the number of distinct items that a flood adds before it starts
// over. The number bounds the memory of a fast queue; a slow queue never gets there.
const crowd = 1 << 22

// BenchmarkLateness reports how long after its due time a delayed item reaches
// the worker, as p50, p99 and maximum.
//
// With flood=n, an item due in 5 ms is added every 5 ms for two seconds while n
// producers add items due in an hour or two as fast as they can. With due=100k,
// 100,000 items come due evenly over two seconds.
//
// The timer shows the part of the lateness that comes from Go's scheduler: nobody is
// handed an item of the flood there, so its producers only keep the CPUs busy.
func BenchmarkLateness(b *testing.B) {
	for _, producers := range []int{0, 1, 2, 8} {
		peers := delayings[int]()
		if producers > 0 {
			// The priority queue collects its items in a buffer without a
			// bound; a flood fills the memory before a probe is due.
			peers = peers[:2]
		}
		peers = append(peers, impl[delaying[int]]{"timer", func() delaying[int] {
			return busy{timers[int]{make(channel[int], probes)}}
		}})
		each(b, fmt.Sprintf("flood=%d", producers), peers, func(b *testing.B, open func() delaying[int]) {
			for b.Loop() {
				reportLateness(b, probe(open(), producers))
			}
		})
	}
	items := scaled(100_000)
	each(b, "due=100k", withTimers[int](items), func(b *testing.B, open func() delaying[int]) {
		for b.Loop() {
			reportLateness(b, rain(open(), items))
		}
	})
}

// busy has timers for the probes and drops the flood.
type busy struct {
	timers[int]
}

func (q busy) AddAfter(item int, d time.Duration) {
	if item >= 0 {
		q.timers.AddAfter(item, d)
	}
}

// probe returns the lateness of the probes, which are the items from 0 on; the
// flood has the negative ones.
func probe(q delaying[int], producers int) []time.Duration {
	var stop atomic.Bool
	var crew sync.WaitGroup
	defer crew.Wait()
	defer q.ShutDown()
	defer stop.Store(true)
	for p := range producers {
		crew.Go(func() {
			for i := p; !stop.Load(); i += producers {
				q.AddAfter(^(i % crowd), spread(i, time.Hour, 2*time.Hour))
			}
		})
	}
	due := make([]time.Time, probes)
	late := make(chan time.Duration, probes)
	crew.Go(func() { watch(q, due, late) })
	return receive(late, sendProbes(q, due))
}

// sendProbes goes by the clock, not by the number: where the flood keeps even
// this goroutine waiting, there are fewer probes.
func sendProbes(q delaying[int], due []time.Time) (sent int) {
	beat := time.NewTicker(period)
	defer beat.Stop()
	end := time.Now().Add(time.Duration(scaled(len(due))) * period)
	for sent < len(due) && time.Now().Before(end) {
		<-beat.C
		due[sent] = time.Now().Add(period)
		q.AddAfter(sent, period)
		sent++
	}
	return sent
}

// rain returns the lateness of n items that come due over two seconds, the
// first when all have been added.
func rain(q delaying[int], n int) []time.Duration {
	var worker sync.WaitGroup
	defer worker.Wait()
	defer q.ShutDown()
	over := time.Duration(scaled(2000)) * time.Millisecond
	due := make([]time.Time, n)
	late := make(chan time.Duration, n)
	for i := range due {
		delay := spread(i, 100*time.Millisecond, 100*time.Millisecond+over)
		due[i] = time.Now().Add(delay)
		q.AddAfter(i, delay)
	}
	worker.Go(func() { watch(q, due, late) })
	return receive(late, n)
}

// watch is the worker. It reports the lateness of each item.
func watch(q delaying[int], due []time.Time, late chan<- time.Duration) {
	for {
		i, shutdown := q.Get()
		if shutdown {
			return
		}
		late <- time.Since(due[i])
		q.Done(i)
	}
}

func receive(late <-chan time.Duration, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = <-late
	}
	return all
}

func reportLateness(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	for unit, q := range map[string]float64{"p50-ns": 0.50, "p99-ns": 0.99, "max-ns": 1} {
		b.ReportMetric(float64(late[int(q*float64(len(late)-1))]), unit)
	}
}
