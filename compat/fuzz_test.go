package compat_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzDifferential looks for a sequence of calls after which a caller could tell
// our queue from client-go's, other than by the differences that are documented.
// The notation of the corpus is explained at op.
func FuzzDifferential(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		if err := duels(t, script, arenas()...); err != nil {
			t.Error(err)
		}
	})
}

// TestDifferentialRandom is the part of the search that every test run makes. The
// scripts are always the same, each in one arena: a failure here repeats, and the fuzzer is there
// for new ones.
func TestDifferentialRandom(t *testing.T) {
	in := arenas()
	for seed := range uint64(rounds(5000)) {
		if err := duels(t, randomScript(seed), in[seed%uint64(len(in))]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomScript(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	script := make([]byte, 20+random.IntN(200))
	for i := range script {
		script[i] = byte(random.Uint32())
	}
	return script
}
