package linearizability

import (
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
	histories = flag.Int("histories", 9000, "how many histories to check in all")
	firstSeed = flag.Uint64("seed", 0, "seed of the histories; 0 for a random seed")
)

// An implementation makes a queue for each history.
type implementation struct {
	name  string
	lacks method // not called
	open  func() queue
}

// ours take different paths through the same queue.
var ours = []implementation{
	{"Typed", nothing, func() queue { return workqueue.NewTyped[int8]() }},
	// A removed item keeps its place in a Queue until its turn, for a later add, as documented.
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

// The histories must show some of the faults in reliability/planted/faults.
func TestHistoriesAreLinearizable(t *testing.T) {
	seed := newSeed(t)
	impls := slices.Concat(ours, orders())
	for i, processors := range []int{1, 2, 4} {
		for j, impl := range impls {
			name := fmt.Sprintf("%s, GOMAXPROCS %d", impl.name, processors)
			n := *histories / (3 * len(impls))
			t.Run(name, func(t *testing.T) { runHistories(t, impl, processors, n, seed+uint64(i*len(impls)+j)) })
		}
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

func runHistories(t *testing.T, impl implementation, processors, n int, seed uint64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < n && !t.Failed(); i++ {
		check(t, impl, randomLoad(rnd))
	}
}

// check plays a load and reports an illegal history, with a picture of it.
func check(t *testing.T, impl implementation, l load) {
	t.Helper()
	q := impl.open()
	l.lacks = impl.lacks
	model := model(shapeOf(q))
	ops, ended := record(q, l)
	if !ended {
		t.Fatalf("calls of %+v do not return", l)
	}
	if r := porcupine.CheckOperationsTimeout(model, ops, 10*time.Minute); r != porcupine.Ok {
		t.Errorf("the history of %+v is %s, see %s", l, r, picture(t, model, ops))
	}
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
