package compat_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each of these breaks one promise of the queue it wraps.
type (
	dropsReAdd      struct{ holding }
	overtakes       struct{ queue }
	delaysMore      struct{ queue }
	losesDelayed    struct{ queue }
	skipsLimiter    struct{ queue }
	neverForgets    struct{ queue }
	hidesShutDown   struct{ queue }
	dropsAtShutDown struct{ holding }
	drainsEarly     struct{ queue }
	drainsForever   struct {
		queue
		forced chan struct{}
	}
	queuesStrangers struct{ holding }
)

// holding knows what is in flight.
type holding struct {
	queue
	held map[string]bool
}

func hold(q queue) holding { return holding{queue: q, held: make(map[string]bool)} }

func (h holding) Get() (string, bool) {
	item, down := h.queue.Get()
	h.held[item] = !down
	return item, down
}

func (h holding) Done(item string) {
	delete(h.held, item)
	h.queue.Done(item)
}

func (f dropsReAdd) Add(item string) {
	if !f.held[item] {
		f.queue.Add(item)
	}
}

func (f overtakes) Get() (string, bool) {
	item, down := f.queue.Get()
	if down || f.Len() == 0 {
		return item, down
	}
	f.Add(item)
	f.Done(item)
	return f.queue.Get()
}

func (f delaysMore) AddAfter(item string, d time.Duration) {
	if 0 < d && d < time.Hour {
		d++
	}
	f.queue.AddAfter(item, d)
}

func (f losesDelayed) AddAfter(item string, d time.Duration) {
	if d <= 0 {
		f.Add(item)
	}
}

func (f skipsLimiter) AddRateLimited(item string) { f.Add(item) }

func (f neverForgets) Forget(string) {}

func (f hidesShutDown) ShuttingDown() bool { return false }

func (f dropsAtShutDown) ShutDown() {
	for f.Len() > 0 {
		item, _ := f.queue.Get()
		f.queue.Done(item)
	}
	f.queue.ShutDown()
}

func (f drainsEarly) ShutDownWithDrain() { f.queue.ShutDown() }

func (f drainsForever) ShutDownWithDrain() {
	f.queue.ShutDown()
	<-f.forced
}

func (f drainsForever) ShutDown() {
	close(f.forced)
	f.queue.ShutDown()
}

func (f queuesStrangers) Done(item string) {
	if !f.held[item] {
		f.queue.Add(item)
	}
	f.holding.Done(item)
}

var brokenQueues = []struct {
	fault  string
	wrap   func(queue) queue
	script string
	want   string
}{
	{"drops a re-add while processing", func(q queue) queue { return dropsReAdd{hold(q)} },
		"+a g +a da", "Done(a): Len: want 1, got 0"},
	{"hands out the second first", func(q queue) queue { return overtakes{q} },
		"+a +b g", `Get: want "a", got "b"`},
	{"hands out the second first of two delayed", func(q queue) queue { return overtakes{q} },
		">aI >bJ tF g", `Get: want "a", got "b"`},
	{"delivers AddAfter a nanosecond late", func(q queue) queue { return delaysMore{q} },
		">aI tD", "step 1ms: Len: want 1, got 0"},
	{"loses what is delayed", func(q queue) queue { return losesDelayed{q} },
		">aI", "working off what is left: Len: want 1, got 0"},
	{"adds at once instead of asking the limiter", func(q queue) queue { return skipsLimiter{q} },
		"^a", "AddRateLimited(a): want a delay of 2ms, got 0s"},
	{"never forgets", func(q queue) queue { return neverForgets{q} },
		"^a -a", "Forget(a): NumRequeues(a): want 0, got 1"},
	{"does not tell that it shuts down", func(q queue) queue { return hidesShutDown{q} },
		"!", "ShutDown: ShuttingDown: want true, got false"},
	{"drops what is queued at ShutDown", func(q queue) queue { return dropsAtShutDown{hold(q)} },
		"+a !", "ShutDown: Len: want 1, got 0"},
	{"drains early, D1", func(q queue) queue { return drainsEarly{q} },
		"+a ~", "ShutDownWithDrain returned: want false, got true"},
	{"drains for ever, D3", func(q queue) queue { return drainsForever{q, make(chan struct{})} },
		"+a g ~ da", "ShutDownWithDrain returned: want true, got false"},
	{"queues what nobody holds, D2", func(q queue) queue { return queuesStrangers{hold(q)} },
		"da", "Done(a): Len: want 0, got 1"},
}

// TestDuelReportsBrokenQueues is the control of the differential tests: a duel
// which reports nothing would let any queue pass. Every fault must be found twice,
// in a script made for it and by the random scripts that look for real ones.
func TestDuelReportsBrokenQueues(t *testing.T) {
	for _, tt := range brokenQueues {
		t.Run(tt.fault, func(t *testing.T) {
			for _, a := range arenas()[:2] { // Without metrics, which show some of the faults sooner.
				err := runDuel(t, a, decode([]byte(tt.script)), tt.wrap)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v: %s: got %v, want %s", a, tt.script, err, tt.want)
				}
			}
			const budget = 300
			in := arenas()
			for seed := range uint64(budget) {
				if duels(t, randomScript(seed), tt.wrap, in[seed%uint64(len(in))]) != nil {
					return
				}
			}
			t.Errorf("not found in %d random scripts", budget)
		})
	}
}

// uncounted makes no call of AddAfter without a delay, so nobody counts a retry.
type uncounted struct{ queue }

func (f uncounted) AddAfter(item string, d time.Duration) {
	if d <= 0 {
		f.Add(item)
	} else {
		f.queue.AddAfter(item, d)
	}
}

func TestDuelReportsMetrics(t *testing.T) {
	const want = `AddAfter(a, 0s): metrics: want "adds +1, depth +1, retries +1", got "adds +1, depth +1"`
	for _, a := range arenas()[2:] {
		err := runDuel(t, a, decode([]byte(">aD")), func(q queue) queue { return uncounted{q} })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", a, err, want)
		}
	}
}

// TestDuelExcusesOrderOfTies pins the one tolerance that get has. D7: theirs hands
// out five items which are due together in an order of its own, and that is no
// difference. Ours may not do the same.
func TestDuelExcusesOrderOfTies(t *testing.T) {
	tests := []struct {
		situation, script string
		wrap              func(queue) queue
		want              string
	}{
		{"theirs in any order", ">aI >bI >cI >dI >eI tI g g g g g", nil, ""},
		{"theirs in any order, ours by AddAfter", ">bI >aI >dI >cI >eI tI g", nil, ""},
		{"ours out of order", ">aI >bI >cI tI g", func(q queue) queue { return overtakes{q} }, `Get: want "a", got "b"`},
		{"ours out of order a nanosecond apart", ">aH >bI tI g", func(q queue) queue { return overtakes{q} }, `Get: want "a", got "b"`},
		{"ours out of order when added again", ">aI >bI tI g g da db +a +b g",
			func(q queue) queue { return &overtakesLater{queue: q, gets: 2} }, `Get: want "a", got "b"`},
	}
	for _, tt := range tests {
		t.Run(tt.situation, func(t *testing.T) {
			got := ""
			if err := runDuel(t, arenas()[0], decode([]byte(tt.script)), tt.wrap); err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("%s: got %q, want %q", tt.script, got, tt.want)
			}
		})
	}
}

// overtakesLater behaves for a number of Gets.
type overtakesLater struct {
	queue
	gets int
}

func (f *overtakesLater) Get() (string, bool) {
	if f.gets--; f.gets >= 0 {
		return f.queue.Get()
	}
	return overtakes{f.queue}.Get()
}

// TestScriptsSurviveSpelling lets a reported script be run again as it is printed.
func TestScriptsSurviveSpelling(t *testing.T) {
	seen := make(map[byte]bool)
	for seed := range uint64(200) {
		ops := decode(randomScript(seed))
		if got := decode([]byte(spell(ops))); !slices.Equal(got, ops) && len(spell(ops)) <= maxScript {
			t.Fatalf("seed %d: got %v, want %v", seed, got, ops)
		}
		for _, o := range ops {
			seen[o.verb] = true
		}
	}
	for _, verb := range []byte(spelled) {
		if !seen[verb] || !bytes.ContainsRune([]byte(weights), rune(verb)) {
			t.Errorf("random scripts never do %v", op{verb: verb})
		}
	}
}
