package workqueue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code of the README is that of an example, line by line, so that it
// compiles and runs.
func TestReadmeCodeIsThatOfAnExample(t *testing.T) {
	files, err := filepath.Glob("example*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d examples, %v", len(files), err)
	}
	lines := map[string]bool{}
	for _, file := range files {
		for _, line := range strings.Split(read(t, file), "\n") {
			lines[strings.TrimSpace(line)] = true
		}
	}
	_, code, found := strings.Cut(read(t, "README.md"), "```go\n")
	if !found {
		t.Fatal("the README has no code")
	}
	code, _, _ = strings.Cut(code, "```")
	for _, line := range strings.Split(code, "\n") {
		if !lines[strings.TrimSpace(line)] {
			t.Errorf("no example has the line %q", line)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
