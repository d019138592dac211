package main

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var port = regexp.MustCompile(`port (\d+)`)

func TestProcessTellsAndEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all processes
	got, err := all.start(ctx, exec.CommandContext(ctx, "sh", "-c", "echo hello; echo port 7; exec sleep 60"), port)
	if got != "7" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	cancel()
	if err := all.wait(); err != nil {
		t.Errorf("ended by the context: %v", err)
	}
}

func TestProcessThatEndsOnItsOwnIsAnError(t *testing.T) {
	for script, want := range map[string][]string{
		"echo no space left; exit 3":      {"exit status 3", "no space left"},
		"echo no space left":              {"exit status 0", "no space left"},
		"echo port 7; exit 3":             {"exit status 3"},
		"echo port 7 >&2; kill -9 \"$$\"": {"signal: killed"},
	} {
		var all processes
		got, err := all.start(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", script), port)
		if ended := all.wait(); err == nil && got == "7" {
			err = ended
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got %v, want %q", script, err, w)
			}
		}
	}
	var all processes
	if _, err := all.start(t.Context(), exec.CommandContext(t.Context(), "/nonexistent"), port); err == nil {
		t.Error("started a program that does not exist")
	}
}
