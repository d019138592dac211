package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue/examples/internal/killed"
)

// A SIGTERM at any time is an ordinary end: the exit status is 0, no write is cut off, and
// nothing is queued any more. That of the loop by hand is in ../controller.
func TestKilledUnderLoad(t *testing.T) {
	program := filepath.Join(t.TempDir(), "run")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	killed.Busy(t, func(out string) string {
		if !strings.Contains(out, " writes, 0 of them cut off, and 0 keys queued") {
			return "it has not ended well"
		}
		return ""
	}, program, "-forever")
}
