package linearizability

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
	cg "k8s.io/client-go/util/workqueue"
)

// The tests of this file are controls: queues of which the checks must find illegal histories.

// client-go fails the same check when somebody calls Done for an item that nobody holds
// (kubernetes/kubernetes#79934), and when it drains (#141079).
func TestClientGoHasIllegalHistories(t *testing.T) {
	for name, load := range map[string]func(rnd *rand.Rand) load{
		"spurious Done": func(rnd *rand.Rand) load {
			l := randomLoad(rnd, true)
			l.drains = 0
			return l
		},
		"drain": func(rnd *rand.Rand) load {
			l := randomLoad(rnd, false)
			l.drains = 1
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, illegal := 0, 0
			for ; n < manyHistories() && illegal < enough; n++ {
				illegal += illegalHistory(t, cg.NewTyped[int8](), load(rand.New(rand.NewPCG(1, uint64(n)))))
			}
			if t.Logf("%d of %d histories are illegal", illegal, n); illegal == 0 {
				t.Error("no history is illegal: client-go now does as documented, or this check does not look")
			}
		})
	}
}

// A queue whose Order has another shape than the specification has illegal histories. Bugs of ours that must have
// some are in the lists of reliability/planted.
func TestOtherOrdersHaveIllegalHistories(t *testing.T) {
	weighted := shape{groups: 3, weights: true}
	limited := shape{groups: 3, weights: true, limits: true}
	everything := shape{every: 2, groups: 2, weights: true, limits: true, groupsFirst: true}
	as := func(k shape, change func(*shape)) shape {
		change(&k)
		return k
	}
	for name, test := range map[string]struct{ want, got shape }{
		"the oldest comes too late":  {shape{every: 2}, as(shape{}, func(k *shape) { k.every = 3 })},
		"the oldest comes too early": {shape{every: 4}, as(shape{}, func(k *shape) { k.every = 3 })},
		"the oldest of a group comes too late": {
			everything, as(everything, func(k *shape) { k.every = 3 })},
		"the function is not asked":    {shape{asks: true}, as(shape{}, func(*shape) {})},
		"the groups are others":        {weighted, as(weighted, func(k *shape) { k.groups = 2 })},
		"the groups do not come first": {shape{groups: 2, groupsFirst: true}, as(shape{groups: 2}, func(*shape) {})},
		"the groups come first":        {shape{groups: 2}, as(shape{groups: 2}, func(k *shape) { k.groupsFirst = true })},
		"a weight is not heard":        {weighted, as(weighted, func(k *shape) { k.weights = false })},
		"a weight is not heard, groups first": {
			everything, as(everything, func(k *shape) { k.weights = false })},
		"a limit is not heard": {limited, as(limited, func(k *shape) { k.limits = false })},
		"a limit is not heard, groups first": {
			everything, as(everything, func(k *shape) { k.limits = false })},
		"a limit that nobody has set": {weighted, as(weighted, func(k *shape) { k.limits = true })},
	} {
		t.Run(name, func(t *testing.T) {
			n, illegal := manyHistories(), 0
			for i := range n {
				l := randomLoad(rand.New(rand.NewPCG(3, uint64(i))), true)
				ops, ended := record(newOrdered(test.got), l)
				if !ended || !porcupine.CheckOperations(model(test.want), ops) {
					illegal++
				}
				if illegal == enough {
					t.Logf("the fourth illegal history is number %d", i)
					return
				}
			}
			t.Errorf("%d of %d histories are illegal", illegal, n)
		})
	}
}

// A control ends after enough illegal histories: more histories of the same fault show nothing new.
const enough = 4

// manyHistories is enough on any machine. On one processor some faults show in one history of a hundred.
func manyHistories() int {
	if raceEnabled {
		return 10_000
	}
	return 40_000
}

func illegalHistory(t *testing.T, q queue, l load) int {
	t.Helper()
	ops, ended := record(q, l)
	if !ended {
		t.Fatalf("calls of %+v do not return", l)
	}
	if porcupine.CheckOperations(model(shape{}), ops) {
		return 0
	}
	return 1
}
