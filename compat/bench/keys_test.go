package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// population is the number of distinct items of most scenarios: more than the
// caches close to the CPU hold, no more than the objects of a kind in a large cluster.
// For a constant power of two, the wrap-around of an index is free.
const population = 1 << 16

// million is the size of the large scenarios. Not a power of two: just
// below, containers that double show their best side, just above their
// worst.
const million = 1_000_000

// objectKey is the shape of a namespaced name.
type objectKey struct {
	namespace, name string
}

// scaled is the size n, or a small part of it under -short.
func scaled(n int) int {
	if testing.Short() {
		return max(n/1000, 64)
	}
	return n
}

func stringKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/name-%d", i%100, i)
	}
	return keys
}

func objectKeys(n int) []objectKey {
	keys := make([]objectKey, n)
	for i := range keys {
		keys[i] = objectKey{fmt.Sprintf("namespace-%d", i%100), fmt.Sprintf("name-%d", i)}
	}
	return keys
}

func anyKeys(n int) []any {
	keys := make([]any, n)
	for i, key := range stringKeys(n) {
		keys[i] = key
	}
	return keys
}

// copies returns keys that are equal to the given ones but do not share their
// memory, as the keys of two events of one object do not. Comparing a string
// with itself would be cheaper than for users.
func copies(keys []string) []string {
	others := make([]string, len(keys))
	for i, key := range keys {
		others[i] = strings.Clone(key)
	}
	return others
}

// spread returns the delay of item i: between least and most, in an order that
// looks random but is the same for every run.
func spread(i int, least, most time.Duration) time.Duration {
	const prime = 7919
	const steps = 100_003
	return least + time.Duration(i*prime%steps)*(most-least)/steps
}

// perItem reports the time of one item of a benchmark whose operation takes n.
func perItem(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/item")
}
