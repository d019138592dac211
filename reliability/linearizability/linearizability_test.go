package linearizability

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

var (
	histories = flag.Int("histories", 3000, "how many histories to check in all")
	firstSeed = flag.Uint64("seed", 0, "seed of the histories; 0 for another one each time")
)

// An implementation makes queues, each of which serves one history.
type implementation struct {
	name  string
	lacks method // not called
	open  func() queue
}

// All of these take different paths through the same queue.
var ours = []implementation{
	{"Typed", nothing, func() queue { return workqueue.NewTyped[int8]() }},
	// An item that is removed keeps its place in a Queue, and has it again when it is added soon
	// enough, as documented.
	{"Typed with a Queue", remove, func() queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Queue: workqueue.DefaultQueue[int8]()})
	}},
	{"Typed with metrics", nothing, func() queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Name: "q", MetricsProvider: workqueue.NoMetrics{}})
	}},
	{"TypedDelaying", nothing, func() queue {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{})
	}},
	// TryGet finds no item while a pace keeps the items back.
	{"Typed with a Pace", tryGet, func() queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Pace: rate.NewLimiter(50_000, 2)})
	}},
	// An item has tokens for a second of hand-outs. AddAll is several Adds here.
	{"TypedDelaying with an ItemPace", addAll, func() queue {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{ItemPace: workqueue.Rate{Limit: 1e9, Burst: 1 << 30}})
	}},
	{"TypedRateLimiting", nothing, func() queue {
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
			n := *histories / (3 * len(impls))
			all.add(runHistories(t, name, impl, processors, n, seed+uint64(i*len(impls)+j)))
		}
	}
	t.Logf("%d histories of %d calls, of which %d were made while another was, in %v",
		all.histories, all.calls, all.concurrent, time.Since(started).Round(time.Millisecond))
	if all.concurrent < all.calls/50 {
		t.Error("hardly any calls are concurrent: this shows nothing")
	}
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
	l.lacks = impl.lacks
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
	file, err := os.CreateTemp("", "history-*.html")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, info := porcupine.CheckOperationsVerbose(model, ops, time.Minute)
	if err := porcupine.Visualize(model, info, file); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}
