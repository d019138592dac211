package main

import (
	"fmt"
	"strings"
)

// A scenario is a row of the table: a unit of a benchmark, measured for several
// implementations.
type scenario struct {
	section string
	title   string
	bench   string // as in Cycle/keys=string, without the implementation
	unit    string // as reported by the benchmark
	peers   []string
	slow    bool
	goals   []goal
}

const (
	ours     = "workqueue"
	clientGo = "client-go"
	priority = "priorityqueue"
	channel  = "channel"
	timer    = "timer"
)

var (
	all      = []string{ours, clientGo, priority}
	withChan = append(all[:3:3], channel)
	withTime = append(all[:3:3], timer)
	orders   = []string{ours, priority}
	noPrio   = []string{ours, clientGo}
	flooded  = []string{ours, clientGo, timer}
)

// A section of the table has a note on the meaning of its numbers.
type section struct {
	name, note string
}

var sections = []section{
	{"One goroutine", "Time of one operation."},
	{"Delays and retries", "Time of one item; for items that come due, CPU time of the whole process."},
	{"Many goroutines", "Time of one item, or of one call, by the clock on the wall."},
	{"Priorities", "Time of one item, beside controller-runtime's priority queue."},
	{"Memory", "Bytes of heap and stacks, without the text of the keys."},
	{"Lateness", "How long after its due time an item reaches a worker."},
}

// looks have no place on a page: `make slower` compares them with an earlier commit.
var looks = []scenario{
	{title: "Snapshot(100) of 1M items", bench: "Look/call=Snapshot/items=1M", unit: "ns/op", peers: []string{ours}},
	{title: "Stats of 1M items", bench: "Look/call=Stats/items=1M", unit: "ns/op", peers: []string{ours}},
}

var scenarios = []scenario{
	{"One goroutine", "cycle of Add, Get and Done, string key", "Cycle/keys=string", "ns/op", withChan, false, []goal{{2.3, clientGo}, {1.5, channel}}},
	{"One goroutine", "cycle, struct key of two strings", "Cycle/keys=struct", "ns/op", withChan, false, []goal{{2.2, clientGo}}},
	{"One goroutine", "cycle, `any` key and the untyped API", "Cycle/keys=any", "ns/op", withChan, false, []goal{{2.0, clientGo}}},
	{"One goroutine", "cycle behind 32k queued items", "Backlog/items=32k", "ns/op", withChan, false, []goal{{2.7, clientGo}}},
	{"One goroutine", "cycle with Prometheus metrics", "Metrics/provider=shipped", "ns/op", all, false, []goal{{2.1, clientGo}}},
	{"One goroutine", "the same, each change pushed as client-go does", "Metrics/provider=pushed", "ns/op", all, false, nil},
	{"One goroutine", "Add of the one queued item", "Duplicate/items=1", "ns/op", all, false, []goal{{1.25, clientGo}}},
	{"One goroutine", "Add of one of 64k queued items", "Duplicate/items=64k", "ns/op", all, false, []goal{{1.25, clientGo}}},
	{"One goroutine", "64k items, a loop of Add", "AddAll/how=Add", "ns/item", withChan, false, nil},
	{"One goroutine", "64k items, AddAll by 1024 (client-go: a loop)", "AddAll/how=AddAll", "ns/item", all, false, nil},

	{"Delays and retries", "AddAfter, 64k distinct items, not due", "AddAfter/items=64k", "ns/item", all, false, []goal{{3, clientGo}}},
	{"Delays and retries", "AddAfter, 1M distinct items, not due", "AddAfter/items=1M", "ns/item", all, false, []goal{{3, clientGo}}},
	{"Delays and retries", "64k items due in 1 to 20 ms, until done", "Delayed/items=64k", "cpu-ns/item", withTime, false, []goal{{2, clientGo}}},
	{"Delays and retries", "AddRateLimited, Get, Forget, Done; no delay", "RateLimited/delay=0ns/items=1", "ns/op", all, false, nil},
	{"Delays and retries", "AddRateLimited, Get, Forget, Done; 1 ns", "RateLimited/delay=1ns/items=1", "ns/op", all, false, []goal{{3, clientGo}}},
	{"Delays and retries", "the same, 64k items through one worker", "RateLimited/delay=1ns/items=64k", "ns/item", all, false, nil},

	{"Many goroutines", "wake-up of a parked worker and back", "WakeUp/workers=1", "ns/op", withChan, false, []goal{{1.5, clientGo}}},
	{"Many goroutines", "1 producer, 1 worker, distinct items", "Contended/producers=1/workers=1/items=distinct", "ns/item", withChan, false, []goal{{2.2, clientGo}}},
	{"Many goroutines", "1 producer, 1 worker, 16 hot items", "Contended/producers=1/workers=1/items=hot", "ns/item", all, false, []goal{{1, clientGo}}},
	{"Many goroutines", "1 producer, 8 workers, distinct items", "Contended/producers=1/workers=8/items=distinct", "ns/item", withChan, false, []goal{{2.5, clientGo}}},
	{"Many goroutines", "1 producer, 8 workers, 16 hot items", "Contended/producers=1/workers=8/items=hot", "ns/item", all, false, []goal{{1, clientGo}}},
	{"Many goroutines", "4 producers, 4 workers, distinct items", "Contended/producers=4/workers=4/items=distinct", "ns/item", withChan, false, []goal{{1.5, clientGo}}},
	{"Many goroutines", "4 producers, 4 workers, 16 hot items", "Contended/producers=4/workers=4/items=hot", "ns/item", all, false, []goal{{1, clientGo}}},
	{"Many goroutines", "16 producers, 100 workers, distinct items", "Contended/producers=16/workers=100/items=distinct", "ns/item", withChan, false, []goal{{2.5, clientGo}}},
	{"Many goroutines", "16 producers, 100 workers, 16 hot items", "Contended/producers=16/workers=100/items=hot", "ns/item", all, false, []goal{{1, clientGo}}},
	{"Many goroutines", "Add by 1000 goroutines, GOMAXPROCS=8, p99", "Tail/calls=Add/procs=8/goroutines=1000", "p99-ns", noPrio, false, []goal{{1, clientGo}}},
	{"Many goroutines", "AddAfter by 1000, p99", "Tail/calls=AddAfter/procs=8/goroutines=1000", "p99-ns", noPrio, false, []goal{{1, clientGo}}},

	{"Priorities", "cycle, 1 priority", "Priority/do=cycle/levels=1", "ns/op", orders, false, nil},
	{"Priorities", "cycle, 3 priorities", "Priority/do=cycle/levels=3", "ns/op", orders, false, nil},
	{"Priorities", "cycle, 25 priorities", "Priority/do=cycle/levels=25", "ns/op", orders, false, nil},
	{"Priorities", "cycle, each item the only one of its group", "Fair/do=cycle/order=groups", "ns/op", []string{ours}, false, nil},
	{"Priorities", "behind 64k items of 1000 groups", "Fair/do=backlog/order=groups", "ns/op", []string{ours}, false, nil},
	{"Priorities", "the same, each group with a limit", "Fair/do=backlog/order=limits", "ns/op", []string{ours}, false, nil},

	{"Memory", "an item queued, of 1M", "Memory/of=queued", "B/item", all, true, []goal{{60, ""}}},
	{"Memory", "an item waiting, of 1M", "Memory/of=waiting", "B/item", all, true, []goal{{80, ""}}},
	{"Memory", "kept per item after 1M were queued and done", "Memory/of=drained", "B/item", all, true, []goal{{1, ""}}},
	{"Memory", "kept per item after 1M waited and were done", "Memory/of=fired", "B/item", all, true, []goal{{1, ""}}},
	{"Memory", "kept per item after 1M failures were forgotten", "Memory/of=forgotten", "B/item", noPrio, true, []goal{{1, ""}}},
	{"Memory", "an idle named queue with metrics, of 10k", "Idle/queues=10k", "B/queue", all, true, []goal{{1536, ""}}},
	{"Memory", "goroutines of such a queue", "Idle/queues=10k", "goroutines/queue", all, true, []goal{{0, ""}}},

	{"Lateness", "quiet, p50", "Lateness/flood=0", "p50-ns", withTime, true, nil},
	{"Lateness", "quiet, p99", "Lateness/flood=0", "p99-ns", withTime, true, nil},
	{"Lateness", "quiet, maximum", "Lateness/flood=0", "max-ns", withTime, true, nil},
	{"Lateness", "1 producer floods AddAfter, p50", "Lateness/flood=1", "p50-ns", flooded, true, nil},
	{"Lateness", "1 producer floods AddAfter, p99", "Lateness/flood=1", "p99-ns", flooded, true, []goal{{1e-3, ""}}},
	{"Lateness", "1 producer floods AddAfter, maximum", "Lateness/flood=1", "max-ns", flooded, true, nil},
	{"Lateness", "8 producers, p50", "Lateness/flood=8", "p50-ns", flooded, true, nil},
	{"Lateness", "8 producers, p99", "Lateness/flood=8", "p99-ns", flooded, true, []goal{{2e-3, ""}}},
	{"Lateness", "8 producers, maximum", "Lateness/flood=8", "max-ns", flooded, true, nil},
	{"Lateness", "100k items due within 2 s, p50", "Lateness/due=100k", "p50-ns", withTime, true, nil},
	{"Lateness", "100k items due within 2 s, p99", "Lateness/due=100k", "p99-ns", withTime, true, nil},
	{"Lateness", "100k items due within 2 s, maximum", "Lateness/due=100k", "max-ns", withTime, true, nil},
}

// A goal is what the project set itself for the median of a row. With client-go as the peer, we are
// at least so many times as fast. With another peer, we take at most so many times as long. Without a
// peer, the median is at most the limit.
type goal struct {
	limit float64
	peer  string
}

// certain is the margin from which another run will hardly miss the goal. Between
// two runs of the report, the medians of the shorter rows differ by as much.
const certain = 1.05

// verdicts says of each goal whether the medians reach it. It is for the reader: no exit code
// depends on the goals.
func (r result) verdicts() string {
	var all []string
	for _, g := range r.goals {
		text, margin := "≤ "+quantity(g.limit, r.unit), g.limit/r.median(ours)
		switch g.peer {
		case clientGo:
			text, margin = fmt.Sprintf("≥ %g×", g.limit), r.median(clientGo)/r.median(ours)/g.limit
		case channel:
			text, margin = fmt.Sprintf("≤ %g× the channel", g.limit), g.limit*r.median(channel)/r.median(ours)
		}
		switch {
		case !(margin >= 1) && r.median(ours) > 0:
			text += ": **missed**"
		case margin < certain:
			text += ": reached, barely"
		default:
			text += ": reached"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
