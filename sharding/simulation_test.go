package sharding

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// TestSimulation plays the life of a set with the code of this package, under virtual time, and
// prints a table. `make simulate` runs the long form, for docs/scaling.md.
var (
	long = flag.Bool("long", false, "TestSimulation with 100 replicas, 1,024 slots and 10,000,000 keys")
	csv  = flag.String("csv", "", "write what TestSimulation samples each second to this file")
)

type simulation struct {
	*world
	replicas, slots, keys int
	weights               []int // keys by slot
	pods                  []*replica
	next                  int // the number of the next pod

	mu      sync.Mutex
	owner   []*replica  // by slot
	since   []time.Time // when the slot lost its owner
	phase   phase
	samples bytes.Buffer // a line for each second, see csv
}

// A phase has the measurements between two moments.
type phase struct {
	number int
	began  time.Time
	writes int64
	gaps   []time.Duration // of slots that had an owner before
	moved  int             // keys
	double int             // gains of a slot that had an owner
}

// sample notes each second until stop is closed. A slot without an owner for less than a second counts by its
// part of the second. The program pictures of compat draws docs/scaling.svg from the samples.
func (s *simulation) sample(stop <-chan struct{}) {
	const parts = 50
	for !isClosed(stop) {
		writes, without := s.writes.Load(), 0
		for range parts {
			time.Sleep(time.Second / parts)
			s.mu.Lock()
			for slot, r := range s.owner {
				if r == nil && !s.since[slot].IsZero() { // Not at the start.
					without++
				}
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		fmt.Fprintf(&s.samples, "%d,%d,%d\n", s.phase.number, (without+parts-1)/parts, s.writes.Load()-writes)
		s.mu.Unlock()
	}
}

// pod starts a replica.
func (s *simulation) pod() *replica {
	s.next++
	r := s.make(fmt.Sprintf("pod-%04d", s.next), func(o *Options, c *client) {
		*o = Options{Name: o.Name, Namespace: o.Namespace, Identity: o.Identity, Slots: s.slots, Force: true}
		c.timeout, c.rtt, c.lag = 10*time.Second, 10*time.Millisecond, 20*time.Millisecond
	})
	r.options.OnGained = func(_ context.Context, slot int, _ int64) { s.gained(r, slot) }
	r.options.OnLost = func(_ context.Context, slot int, _ int64) {
		time.Sleep(rand.N(200 * time.Millisecond)) // The handlers at work.
		s.lost(r, slot)
	}
	r.run()
	return r
}

func (s *simulation) gained(r *replica, slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner[slot] != nil {
		s.phase.double++
	}
	if at := s.since[slot]; !at.IsZero() {
		s.phase.gaps = append(s.phase.gaps, time.Since(at))
		s.phase.moved += s.weights[slot]
	}
	s.owner[slot] = r
}

func (s *simulation) lost(r *replica, slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner[slot] == r {
		s.owner[slot], s.since[slot] = nil, time.Now()
	}
}

// kill ends a replica without a word: its ownership ends here.
func (s *simulation) kill(r *replica) {
	r.cut(false)
	for slot := range s.slots {
		s.lost(r, slot)
	}
	s.pods = slices.DeleteFunc(s.pods, func(p *replica) bool { return p == r })
	r.stop()
}

// play plays a phase, and returns its line of the table. No slot may be without an owner for more than most.
func (s *simulation) play(name string, most time.Duration, do func(*simulation)) string {
	s.mu.Lock()
	s.phase = phase{number: s.phase.number + 1, began: time.Now(), writes: s.writes.Load()}
	s.mu.Unlock()
	do(s)
	s.spread(s.pods...)
	s.mu.Lock()
	defer s.mu.Unlock()
	p, largest := &s.phase, 0
	for _, r := range s.pods {
		load := 0
		for _, slot := range r.Held() {
			load += s.weights[slot]
		}
		largest = max(largest, load)
	}
	took := time.Since(p.began)
	slices.Sort(p.gaps)
	var sum, median, longest time.Duration
	for _, gap := range p.gaps {
		sum += gap
	}
	if n := len(p.gaps); n > 0 {
		median, longest = p.gaps[n/2], p.gaps[n-1]
	}
	if p.double > 0 || longest > most {
		s.Errorf("%s: %d gains of a slot with an owner, and a slot without an owner for %v", name, p.double, longest)
	}
	return fmt.Sprintf("%s\t%.0f s\t%d\t%.1f %%\t%v\t%v\t%.4f %%\t+%.0f %%\t%.1f\n", name, took.Seconds(), len(p.gaps),
		100*float64(p.moved)/float64(s.keys), median.Round(time.Millisecond), longest.Round(time.Millisecond),
		100*sum.Seconds()/took.Seconds()/float64(s.slots),
		100*(float64(largest)*float64(len(s.pods))/float64(s.keys)-1),
		float64(s.writes.Load()-p.writes)/took.Seconds())
}

func TestSimulation(t *testing.T) {
	n, slots, keys := 10, 64, 100_000
	if *long {
		n, slots, keys = 100, 1024, 10_000_000
	}
	const handOver, expiry = 300 * time.Millisecond, 31 * time.Second
	var b strings.Builder
	play(t, func(w *world) {
		s := &simulation{world: w, replicas: n, slots: slots, keys: keys}
		s.weights, s.owner, s.since = make([]int, slots), make([]*replica, slots), make([]time.Time, slots)
		for i := range keys {
			s.weights[hash(fmt.Sprintf("namespace-%d/object-%d", i%1000, i))%uint64(slots)]++
		}
		stop := make(chan struct{})
		w.group.Go(func() { s.sample(stop) })
		out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(out, "%d replicas, %d slots, %d keys\ttook\tslots moved\tkeys moved\tgap, median\tgap, longest\tkeys without an owner, mean\tlargest share\twrites/s\n", n, slots, keys)
		for _, p := range []struct {
			name string
			most time.Duration
			do   func(*simulation)
		}{
			{"start", 0, (*simulation).start},
			{"rest", 0, func(*simulation) { time.Sleep(time.Minute) }},
			{"one replica joins", handOver, func(s *simulation) { s.pods = append(s.pods, s.pod()); time.Sleep(30 * time.Second) }},
			{"one replica leaves", handOver, func(s *simulation) { s.leave(1); time.Sleep(30 * time.Second) }},
			{"5 % of the replicas are killed", expiry, (*simulation).killSome},
			{"as many start again", handOver, (*simulation).refill},
			{"rolling restart, 5 % at a time", handOver, (*simulation).roll},
			{"20 % cut off for 2 minutes", expiry, (*simulation).partition},
		} {
			fmt.Fprint(out, s.play(p.name, p.most, p.do))
		}
		close(stop)
		s.leave(len(s.pods))
		if *csv != "" {
			lines := append([]byte("phase,slots without an owner,writes a second\n"), s.samples.Bytes()...)
			if err := os.WriteFile(*csv, lines, 0o644); err != nil {
				t.Error(err)
			}
		}
		if err := out.Flush(); err != nil {
			t.Error(err)
		}
	})
	t.Log("\n" + b.String())
}

func (s *simulation) start() {
	for range s.replicas {
		s.pods = append(s.pods, s.pod())
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	time.Sleep(time.Minute)
}

// leave stops the oldest replicas.
func (s *simulation) leave(n int) {
	for _, r := range s.pods[:n] {
		r.stop()
	}
	for _, r := range s.pods[:n] {
		<-r.err
	}
	s.pods = s.pods[n:]
}

func (s *simulation) few() int { return max(1, s.replicas/20) }

func (s *simulation) killSome() {
	for range s.few() {
		s.kill(s.pods[0])
	}
	time.Sleep(time.Minute)
}

func (s *simulation) refill() {
	for len(s.pods) < s.replicas {
		s.pods = append(s.pods, s.pod())
	}
	time.Sleep(time.Minute)
}

// roll replaces all replicas, as a Deployment with a surge does: new ones first.
func (s *simulation) roll() {
	for range s.replicas / s.few() {
		for range s.few() {
			s.pods = append(s.pods, s.pod())
		}
		time.Sleep(10 * time.Second) // Until the pods are ready.
		s.leave(s.few())
		time.Sleep(2 * time.Second)
	}
	time.Sleep(30 * time.Second)
}

func (s *simulation) partition() {
	off := s.pods[:s.replicas/5]
	for _, r := range off {
		r.cut(true)
	}
	time.Sleep(2 * time.Minute)
	for _, r := range off {
		r.heal()
	}
	time.Sleep(2 * time.Minute)
}
