package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests of the samples take milliseconds of processor time, and each loop without an end takes all of
// compute. The shell counts whole seconds.
func init() { compute = time.Second }

// The sample has a mutant of each fate, and a test that lets the right ones
// live.
const sample = `package sample

import "errors"

var errFull = errors.New("full")

type Stack struct{ items []int }

func (s *Stack) Push(n int) error {
	if n < 0 && len(s.items) > 10 {
		return errFull
	}
	s.items = append(s.items, n)
	return nil
}

func (s *Stack) Clear() { s.items = s.items[:0] }

func (s *Stack) Wait() {
	for i := 0; i < len(s.items); {
		i++
	}
}

func unused() bool { return true }
`

const sampleTest = `package sample

import "testing"

func TestStack(t *testing.T) {
	s := &Stack{}
	s.Push(1)
	s.Push(2)
	if len(s.items) != 2 {
		t.Error(s.items)
	}
	s.Wait()
	s.Clear()
}
`

// module writes the files of a module, and returns the settings of a run.
func module(t *testing.T, files map[string]string) config {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return config{dir: dir, table: filepath.Join(dir, "living.txt"), files: "*.go", sample: 1, verbose: true}
}

func TestABrokenRunIsNoScore(t *testing.T) {
	c := module(t, map[string]string{
		"go.mod": "module example.com/sample\n\ngo 1.26\n", "sample.go": sample, "living.txt": "",
		"sample_test.go": strings.Replace(sampleTest, "!= 2", "!= 3", 1),
	})
	if ok, err := c.mutate(t.Context(), io.Discard); ok || err == nil || !strings.Contains(err.Error(), "TestStack fails without a mutant") {
		t.Errorf("got %v, %v", ok, err)
	}
}

// The first run is judged by the table. The second writes the table anew, and keeps the files of other
// packages. The tests of the package above notice a mutant that those of its own package let live.
func TestMutantsOfASample(t *testing.T) {
	c := module(t, map[string]string{
		"go.mod":               "module example.com/above\n\ngo 1.26\n",
		"above.go":             "package above\n",
		"inner/sample.go":      sample,
		"inner/sample_test.go": sampleTest,
		"living.txt":           "# comment\ninner/sample.go 17 3 17.6 %\ninner/gone.go 1 0 0.0 %\nother/other.go 5 0 0.0 %\n",
		"above_test.go": `package above

import (
	"testing"

	"example.com/above/inner"
)

func TestClear(t *testing.T) {
	s := &sample.Stack{}
	for n := range 20 {
		s.Push(n)
	}
	s.Clear()
	if s.Push(-1) != nil {
		t.Error("a cleared stack is full")
	}
}
`,
	})
	c.dir, c.also = filepath.Join(c.dir, "inner"), c.dir
	var out strings.Builder
	if ok, err := c.mutate(t.Context(), &out); err != nil || ok {
		t.Errorf("got %v, %v, want false and no error", ok, err)
	}
	for _, text := range []string{
		"sample.go Stack.Push: delete: s.items = append(s.items, n) #1: killed TestStack\n",
		"sample.go Stack.Wait: delete: i++ #1: killed by hang TestStack",
		"sample.go Stack.Clear: delete: s.items = s.items[:0] #1: killed TestClear\n",
		"sample.go:10: lived: sample.go Stack.Push: drop: n < 0 of n < 0 && len(s.items) > 10 #1\n",
		"sample.go:25: not covered: sample.go unused: flip: true in func unused() bool { return true } #1\n",
		"inner/sample.go: 12 of 17 mutants live, 70.6 %; before it was 17.6 %\n",
		"inner/gone.go: in the table, and has no mutants\n",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, &out)
		}
	}
	c.rewrite = true
	if ok, err := c.mutate(t.Context(), io.Discard); err != nil || !ok {
		t.Errorf("got %v, %v", ok, err)
	}
	want := shares{"inner/sample.go": {17, 12}, "other/other.go": {5, 0}}
	if got, err := readShares(c.table); err != nil || !maps.Equal(got, want) {
		t.Errorf("the table is now %v, %v, want %v", got, err, want)
	}
}

func TestShares(t *testing.T) {
	for _, row := range []struct {
		found, before share
		exceeds       bool
	}{
		{share{100, 3}, share{100, 3}, false},
		{share{100, 4}, share{100, 3}, false}, // by chance
		{share{100, 5}, share{100, 3}, true},
		{share{50, 5}, share{100, 8}, false},
		{share{50, 6}, share{100, 8}, true},
		{share{1000, 16}, share{100, 1}, false},
		{share{1000, 17}, share{100, 1}, true},
		{share{10, 2}, share{}, true},
	} {
		if got := row.found.exceeds(row.before); got != row.exceeds {
			t.Errorf("%+v against %+v: got %v", row.found, row.before, got)
		}
	}
}
