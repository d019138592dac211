package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	ourImport      = "github.com/seed16c08ea7/workqueue"
	upstreamImport = "k8s.io/client-go/util/workqueue"
)

// TestSwapImport builds the program twice, as it is and with its one import
// line switched to client-go, and runs both.
func TestSwapImport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs two programs")
	}
	t.Run("ours", func(t *testing.T) { buildAndRun(t, ourImport) })
	t.Run("client-go", func(t *testing.T) { buildAndRun(t, upstreamImport, "-overlay", switchImport(t)) })
}

// buildAndRun checks that the program built with the flags converges on the
// queue of that package.
func buildAndRun(t *testing.T, queue string, flags ...string) {
	t.Helper()
	// A second file with the import would show here. The reverse cannot be
	// asked: client-go links its own queue into every program, its transport
	// uses it.
	deps := goCommand(t, append(append([]string{"list", "-deps"}, flags...), "."))
	if got, want := strings.Contains(deps, ourImport+"\n"), queue == ourImport; got != want {
		t.Fatalf("the program depends on %s: %v, want %v", ourImport, got, want)
	}
	program := filepath.Join(t.TempDir(), "controller")
	goCommand(t, append(append([]string{"build", "-o", program}, flags...), "."))

	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"\nqueue=" + queue + "\n", "\nCONVERGED: "} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// switchImport returns the name of a build overlay in which controller.go
// imports client-go's queue. Both exist in a temporary directory only.
func switchImport(t *testing.T) string {
	t.Helper()
	original, err := filepath.Abs("controller.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	ours, upstream := []byte("\t\""+ourImport+"\"\n"), []byte("\t\""+upstreamImport+"\"\n")
	if got := bytes.Count(source, ours); got != 1 {
		t.Fatalf("controller.go has %d lines that import the queue, want 1", got)
	}
	switched := filepath.Join(t.TempDir(), "controller.go")
	writeFile(t, switched, bytes.Replace(source, ours, upstream, 1))

	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: switched}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(switched), "overlay.json")
	writeFile(t, name, overlay)
	return name
}

func writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func goCommand(t *testing.T, args []string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
