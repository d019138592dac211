package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shoot writes pictures of examples/debug.
func shoot(browser context.Context, root, dir string) error {
	program := filepath.Join(os.TempDir(), fmt.Sprintf("debug-%d", os.Getpid()))
	defer os.Remove(program)
	build := exec.CommandContext(browser, "go", "build", "-C", filepath.Join(root, "examples"), "-o", program, "./debug")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	run := exec.CommandContext(browser, program)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGINT) }
	out, err := run.StdoutPipe()
	if err != nil {
		return err
	}
	if err := run.Start(); err != nil {
		return err
	}
	defer func() { _ = run.Process.Signal(syscall.SIGINT); _ = run.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	url, _, _ := strings.Cut(line, " ")
	for range 20 { // Points for the charts.
		if err := open(browser, url+"?queue=webhooks"); err != nil {
			return err
		}
		time.Sleep(1100 * time.Millisecond)
	}
	for _, scheme := range []string{"light", "dark"} {
		var picture []byte
		err := chromedp.Run(browser,
			emulation.SetDeviceMetricsOverride(900, 900, 1, false),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.Navigate(url+"?queue=webhooks"),
			chromedp.CaptureScreenshot(&picture))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "debugpage-"+scheme+".png"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
