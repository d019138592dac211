package compat_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
)

// notes are what a journal has written down.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(words ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, strings.Join(words, " "))
}

// flush returns the notes since its last call.
func (n *notes) flush() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.lines = nil }()
	return strings.Join(n.lines, ", ")
}

// errBroken is what foreign code panics with when it is told to.
var errBroken = errors.New("broken on purpose")

// faults are methods of foreign code that panic when next called.
type faults struct{ next atomic.Pointer[string] }

func (f *faults) set(name string) { f.next.Store(&name) }

func (f *faults) strike(name string) {
	if f == nil {
		return
	}
	if next := f.next.Load(); next != nil && *next == name && f.next.CompareAndSwap(next, nil) {
		panic(errBroken)
	}
}

// A storageJournal notes what a storage is told. How often it is asked for its
// length is left open.
type storageJournal struct {
	itemStorage[string]
	notes  *notes
	faults *faults
}

func (j *storageJournal) Push(item string) {
	j.faults.strike("push")
	j.notes.add("push", item)
	j.itemStorage.Push(item)
}

func (j *storageJournal) Touch(item string) {
	j.faults.strike("touch")
	j.notes.add("touch", item)
	j.itemStorage.Touch(item)
}

func (j *storageJournal) Pop() string {
	j.faults.strike("pop")
	item := j.itemStorage.Pop()
	j.notes.add("pop", item)
	return item
}

// A stack is a storage that hands out the last item first.
type stack struct{ line []string }

func (s *stack) Push(item string) { s.line = append(s.line, item) }
func (s *stack) Touch(string)     {}
func (s *stack) Len() int         { return len(s.line) }

func (s *stack) Pop() (item string) {
	last := len(s.line) - 1
	item, s.line = s.line[last], s.line[:last]
	return item
}
