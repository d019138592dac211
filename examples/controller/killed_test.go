package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue/examples/internal/killed"
)

// The loop by hand, on the queue of client-go, ends as well by a SIGTERM as that of Run in
// ../run, but for what is queued: the drain of client-go does not wait for that.
func TestKilledUnderLoad(t *testing.T) {
	program := filepath.Join(t.TempDir(), "controller")
	goCommand(t, append([]string{"build", "-o", program, "-overlay", switchImport(t)}, "."))
	killed.Busy(t, func(out string) string {
		if !strings.Contains(out, " writes, 0 of them cut off") {
			return "it has not ended well"
		}
		return ""
	}, program, "-forever")
}
