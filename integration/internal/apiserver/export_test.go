package apiserver

import "testing"

// SetFree makes every disk have that many bytes left, for a test.
func SetFree(t *testing.T, bytes uint64) {
	t.Cleanup(func() { free = freeSpace })
	free = func(string) (uint64, error) { return bytes, nil }
}
