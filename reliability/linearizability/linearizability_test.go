package linearizability

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/time/rate"
	cg "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

var (
	histories = flag.Int("histories", 0, "how many histories to check in all; 0 for some seconds' worth")
	firstSeed = flag.Uint64("seed", 0, "seed of the histories; 0 for another one each time")
	pictures  = flag.String("pictures", "", "directory for the picture of an illegal history; empty for that of temporary files")
)

// An implementation makes queues, each of which serves one history.
type implementation struct {
	name string
	open func() queue
}

// All of these take different paths through the same queue.
var ours = []implementation{
	{"Typed", func() queue { return workqueue.NewTyped[int8]() }},
	// An item that is removed keeps its place in a Queue, and has it again when
	// it is added soon enough, as is documented; so Remove is not called there.
	{"Typed with a Queue", func() queue {
		return struct {
			*workqueue.Typed[int8]
			noRemove
		}{Typed: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Queue: workqueue.DefaultQueue[int8]()})}
	}},
	{"Typed with metrics", func() queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Name: "q", MetricsProvider: workqueue.NoMetrics{}})
	}},
	{"TypedDelaying", func() queue {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{})
	}},
	{"Typed with a Pace", func() queue {
		return struct {
			*workqueue.Typed[int8]
			noTryGet
		}{Typed: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Pace: rate.NewLimiter(50_000, 2)})}
	}},
	// An item has tokens for a second of hand-outs. AddAll is several Adds here.
	{"TypedDelaying with an ItemPace", func() queue {
		return struct {
			*workqueue.TypedDelaying[int8]
			noAddAll
		}{TypedDelaying: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{ItemPace: workqueue.Rate{Limit: 1e9, Burst: 1 << 30}})}
	}},
	{"TypedRateLimiting", func() queue {
		return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedItemBasedRateLimiter[int8](), workqueue.TypedRateLimitingQueueConfig[int8]{})
	}},
}

func TestHistoriesAreLinearizable(t *testing.T) {
	seed := newSeed(t)
	started, all := time.Now(), tally{}
	impls := slices.Concat(ours, orders())
	for i, processors := range []int{1, 2, 4} {
		for j, impl := range impls {
			name := fmt.Sprintf("%s, GOMAXPROCS %d", impl.name, processors)
			n := wanted() / (3 * len(impls))
			all.add(runHistories(t, name, impl, processors, n, seed+uint64(i*len(impls)+j)))
		}
	}
	t.Logf("%d histories of %d calls, of which %d were made while another was, in %v",
		all.histories, all.calls, all.concurrent, time.Since(started).Round(time.Millisecond))
	if all.concurrent < all.calls/50 {
		t.Error("hardly any calls are concurrent: this shows nothing")
	}
}

// client-go's queue meets the specification as long as nobody calls Done for
// what he does not hold, and nobody drains: so the specification is not one
// that only our own queue can meet.
func TestHistoriesOfClientGoAreLinearizable(t *testing.T) {
	impl := implementation{"client-go", func() queue { return cg.NewTyped[int8]() }}
	seed := newSeed(t)
	for i := range wanted() / 20 {
		l := randomLoad(rand.New(rand.NewPCG(seed, uint64(i))), false)
		l.drains = 0
		if _, r := check(t, impl, l); r != porcupine.Ok {
			return
		}
	}
}

// wanted is how many histories to check. The race detector slows them down
// more than it adds: the history is what tells.
func wanted() int {
	switch {
	case *histories > 0:
		return *histories
	case raceEnabled:
		return 3000
	}
	return 10_000
}

func newSeed(t *testing.T) uint64 {
	seed := *firstSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -seed %d; schedules differ all the same", seed)
		}
	})
	return seed
}

// A tally counts what has been checked.
type tally struct{ histories, calls, concurrent int }

func (t *tally) add(other tally) {
	t.histories += other.histories
	t.calls += other.calls
	t.concurrent += other.concurrent
}

// tallyOf counts the calls of one history.
func tallyOf(ops []porcupine.Operation) tally {
	ops = slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	n, last := tally{histories: 1, calls: len(ops)}, int64(-1)
	for _, op := range ops {
		if op.Call <= last {
			n.concurrent++
		}
		last = max(last, op.Return)
	}
	return n
}

func runHistories(t *testing.T, name string, impl implementation, processors, n int, seed uint64) (all tally) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Run(name, func(t *testing.T) {
		for range n {
			one, r := check(t, impl, randomLoad(rnd, true))
			if all.add(one); r != porcupine.Ok {
				return
			}
		}
	})
	return all
}

// check plays a load and reports an illegal history, with a picture of it.
func check(t *testing.T, impl implementation, l load) (tally, porcupine.CheckResult) {
	t.Helper()
	q := impl.open()
	model := model(shapeOf(q))
	ops, ended := record(q, l)
	if !ended {
		t.Errorf("%s: calls of %+v do not return", impl.name, l)
		return tally{}, porcupine.Unknown
	}
	r := porcupine.CheckOperationsTimeout(model, ops, 10*time.Minute)
	if r != porcupine.Ok {
		t.Errorf("%s: the history of %+v is %s, see %s", impl.name, l, r, picture(t, model, ops))
	}
	return tallyOf(ops), r
}

// picture draws a history for a browser and returns the name of the file.
func picture(t *testing.T, model porcupine.Model, ops []porcupine.Operation) string {
	dir := *pictures
	if dir == "" {
		dir = os.TempDir()
	}
	file, err := os.CreateTemp(dir, "history-*.html")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, info := porcupine.CheckOperationsVerbose(model, ops, time.Minute)
	if err := porcupine.Visualize(model, info, file); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// noRemove hides two methods of an embedded queue, by being second ones at the
// same depth.
type noRemove struct{}

func (noRemove) Remove(int8) bool               { return false }
func (noRemove) RemoveFunc(func(int8) bool) int { return 0 }

type noAddAll struct{}

func (noAddAll) AddAll(...int8) int { return 0 }

// noTryGet hides the method, which is false while a pace keeps items back.
type noTryGet struct{}

func (noTryGet) TryGet() (int8, bool) { return 0, false }
