package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// byTenant groups keys such as "a/1" by what stands before the slash.
func byTenant(key string) string {
	tenant, _, _ := strings.Cut(key, "/")
	return tenant
}

// newFair returns a fair queue of keys by tenant, with weights and limits. Tenants
// that are not named have a weight of 1 and no limit.
func newFair(weights, limits map[string]int) workqueue.Queue[string] {
	options := workqueue.FairOptions[string, string]{Group: byTenant}
	if weights != nil {
		options.Weight = func(tenant string) int { return max(1, weights[tenant]) }
	}
	if limits != nil {
		options.MaxInFlight = func(tenant string) int { return limits[tenant] }
	}
	return workqueue.NewFairQueue(options)
}

func pushAll[T comparable](q workqueue.Queue[T], items ...T) {
	for _, item := range items {
		q.Push(item)
	}
}

// popAll pops until the queue is empty or, being one that holds items, is not ready.
func popAll[T comparable](q workqueue.Queue[T]) (items []T) {
	h, holds := q.(workqueue.HoldingQueue[T])
	for q.Len() > 0 && (!holds || h.Ready()) {
		items = append(items, q.Pop())
	}
	return items
}

// popRanked empties the queue, and returns its items with their priorities.
func popRanked[T comparable](q workqueue.PrioritizedQueue[T]) (items string) {
	for q.Len() > 0 {
		item, priority := q.PopWithPriority()
		items += fmt.Sprint(item, "@", priority, " ")
	}
	return items
}

// keysOf returns "a/0" to "a/n-1" for the tenant a.
func keysOf(tenant string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(tenant, "/", i))
	}
	return keys
}

func TestFairTurns(t *testing.T) {
	for name, test := range map[string]struct {
		weights map[string]int
		push    string
		want    string
	}{
		"one group is a FIFO":                         {push: "a/1 a/2 a/3", want: "a/1 a/2 a/3"},
		"groups take turns":                           {push: "a/1 a/2 a/3 b/1 b/2 c/1", want: "a/1 b/1 c/1 a/2 b/2 a/3"},
		"a turn has as many items as the weight":      {map[string]int{"a": 2}, "a/1 a/2 a/3 b/1 b/2", "a/1 a/2 b/1 a/3 b/2"},
		"a group with fewer items has a shorter turn": {map[string]int{"a": 3}, "a/1 b/1 b/2 b/3", "a/1 b/1 b/2 b/3"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newFair(test.weights, nil)
			pushAll(q, strings.Fields(test.push)...)
			if got := strings.Join(popAll(q), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			checkInvariants(t, 0, q)
		})
	}
}

// The bound of NewFairQueue is reached exactly, and one item less is not enough.
func TestFairBoundIsExact(t *testing.T) {
	weights := map[string]int{"flood": 3, "second": 2, "quiet": 2}
	for before := range 7 {
		q := newFair(weights, nil)
		pushAll(q, keysOf("flood", 100)...)
		pushAll(q, keysOf("second", 100)...)
		pushAll(q, keysOf("quiet", before+1)...)
		seen := map[string]int{}
		for item := ""; item != fmt.Sprint("quiet/", before); {
			item = q.Pop()
			seen[byTenant(item)]++
		}
		turns := before/weights["quiet"] + 1
		if seen["flood"] != 3*turns || seen["second"] != 2*turns || seen["quiet"] != before+1 {
			t.Errorf("behind %d of its own: got %v, want %d turns", before, seen, turns)
		}
	}
}

// However much a group has added, another group's first item waits for one round.
func TestFloodDelaysAnotherGroupByARound(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: newFair(nil, nil)})
	defer q.ShutDown()
	q.AddAll(keysOf("flood", 10_000)...)
	for n := range 100 {
		q.Add(fmt.Sprint("quiet/", n))
		first, second := first(q.TryGet()), first(q.TryGet())
		if byTenant(first) != "flood" || byTenant(second) != "quiet" {
			t.Fatalf("round %d: got %s, %s", n, first, second)
		}
		q.Done(first)
		q.Done(second)
	}
}

func TestFairQueuePanicsForAMistake(t *testing.T) {
	type options = workqueue.FairOptions[string, string]
	for want, mistake := range map[string]func(){
		"workqueue: FairOptions.Group is nil": func() { workqueue.NewFairQueue(options{}) },
		"workqueue: FairOptions.Within returned nil": func() {
			workqueue.NewFairQueue(options{Group: byTenant, Within: func() workqueue.Queue[string] { return nil }})
		},
		"workqueue: FairOptions.Weight is 0 for group a, want 1 at least": func() {
			workqueue.NewFairQueue(options{Group: byTenant, Weight: func(string) int { return 0 }}).Push("a/1")
		},
		"workqueue: FairOptions.MaxInFlight is -1 for group a, want 0 at least": func() {
			workqueue.NewFairQueue(options{Group: byTenant, MaxInFlight: func(string) int { return -1 }}).Push("a/1")
		},
	} {
		if got := goes(mistake); got != want {
			t.Errorf("got the panic %v, want %s", got, want)
		}
	}
}

// A function that does not return loses no item, whichever it is, and the order goes on.
func TestFairFunctionThatDoesNotReturn(t *testing.T) {
	for _, end := range []func(){func() { panic("function") }, runtime.Goexit} {
		for _, fails := range []string{"Group", "Weight", "MaxInFlight", "Within"} {
			failing := ""
			fail := func(function string) {
				if function == failing {
					end()
				}
			}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
				Group:       func(item string) string { fail("Group"); return byTenant(item) },
				Weight:      func(string) int { fail("Weight"); return 1 },
				MaxInFlight: func(string) int { fail("MaxInFlight"); return 0 },
				Within:      func() workqueue.Queue[string] { fail("Within"); return workqueue.DefaultQueue[string]() },
			})})
			q.AddAll("a/1", "a/2")
			failing = fails
			for _, item := range []string{"b/1", "a/1"} { // New, and known.
				goes(func() { q.Add(item) })
				checkInvariants(t, 0, q)
			}
			failing = ""
			q.AddAll("c/1", "b/1")
			if got := takeAll(q); got[0] != "b/1" || fmt.Sprint(slices.Sorted(slices.Values(got))) != "[a/1 a/2 b/1 c/1]" {
				t.Errorf("%s: got %s", fails, got)
			}
			q.ShutDownWithDrain()
		}
	}
}

// Groups and items that differ from themselves, or whose type cannot be compared.
func TestFairQueueOfStrangeValues(t *testing.T) {
	limit := 1
	q := workqueue.NewFairQueue(workqueue.FairOptions[float64, float64]{
		Group:       func(item float64) float64 { return math.Sqrt(item) },
		MaxInFlight: func(float64) int { return limit },
	}).(workqueue.HoldingQueue[float64])
	q.Ready()
	pushAll(q, -1, -2, math.NaN(), math.NaN())
	checkInvariants(t, 0, q)
	var got []float64
	for range 4 {
		got = append(got, popAll[float64](q)...)
		checkInvariants(t, 1, q)
		q.Done(-1)
		q.Done(-2)
	}
	if fmt.Sprint(got) != "[-1 -2 NaN NaN]" {
		t.Errorf("got %v: what has the group NaN is one group, and a NaN takes no slot", got)
	}
	anything := workqueue.NewFairQueue(workqueue.FairOptions[string, any]{Group: func(item string) any {
		if item == "bad" {
			return []int{1}
		}
		return item
	}})
	typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: anything})
	typed.Add("a")
	if goes(func() { typed.Add("bad") }) == nil {
		t.Error("a group that cannot be compared made no panic")
	}
	if got := fmt.Sprint(takeAll(typed)); got != "[bad a]" {
		t.Errorf("got %s, want [bad a]", got)
	}
}
