package linearizability

import (
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The control of the checks: a queue whose Order has another shape than the specification has illegal histories. Bugs of ours that must have
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
			const enough = 10_000 // On one processor some faults show in one history of a hundred.
			for i := range enough {
				l := randomLoad(rand.New(rand.NewPCG(3, uint64(i))), true)
				if ops, ended := record(newOrdered(test.got), l); !ended || !porcupine.CheckOperations(model(test.want), ops) {
					return
				}
			}
			t.Errorf("none of %d histories is illegal", enough)
		})
	}
}
