package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

// grace is the time between SIGTERM and SIGKILL for a process.
const grace = 10 * time.Second

// processes are the programs that run beside the checks. Each program gets SIGTERM when
// the context of its start ends.
type processes struct {
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

// wait returns when all programs have ended. The error names each program that ended
// before its context did.
func (p *processes) wait() error {
	p.running.Wait()
	return errors.Join(p.errs...)
}

// start starts a command, and returns the first submatch of the pattern in its output.
// The programs listen on a free port, and print the port.
func (p *processes) start(ctx context.Context, command *exec.Cmd, pattern string) (string, error) {
	output, lines := io.Pipe()
	command.Stdout, command.Stderr = lines, lines
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = grace
	if err := command.Start(); err != nil {
		return "", err
	}
	name := filepath.Base(command.Path)
	p.running.Go(func() {
		err := command.Wait()
		err = fmt.Errorf("%s has ended on its own: %s, %w", name, command.ProcessState, cmp.Or(err, io.EOF))
		lines.CloseWithError(err)
		if ctx.Err() == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.errs = append(p.errs, err)
		}
	})
	scanner, said, wanted := bufio.NewScanner(output), "", regexp.MustCompile(pattern)
	for scanner.Scan() {
		said += scanner.Text() + "\n"
		if match := wanted.FindStringSubmatch(scanner.Text()); match != nil {
			go io.Copy(io.Discard, output) // Ends with the process.
			return match[1], nil
		}
	}
	return "", fmt.Errorf("%w\n%s", scanner.Err(), said)
}

// exporters are the addresses of the programs that are scraped.
type exporters struct{ examples, registries, controllers, stuck string }

// startExporters builds all programs, and then starts them, so that they have the same age.
func (p *processes) startExporters(ctx context.Context, root, work string) (e exporters, err error) {
	programs := []struct {
		module, pkg string
		address     *string
	}{
		{"examples", "./metrics", &e.examples},
		{"compat", "./adapted/serve", &e.registries},
		{"ctrlqueue", "./internal/serve", &e.controllers},
	}
	for _, program := range programs {
		build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, program.module), "-o", filepath.Join(work, program.module), program.pkg)
		if output, err := build.CombinedOutput(); err != nil {
			return e, fmt.Errorf("go build: %w\n%s", err, output)
		}
	}
	for _, program := range programs {
		command := exec.CommandContext(ctx, filepath.Join(work, program.module), "-listen", "127.0.0.1:0")
		if *program.address, err = p.start(ctx, command, `^http://([^/]+)/`); err != nil {
			return e, err
		}
	}
	e.stuck, err = p.startStuck(ctx)
	return e, err
}

// The arguments are the addresses of the examples, of the controllers, of the registries and of the
// stuck queues.
const config = `global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs:
  - {job_name: examples, static_configs: [{targets: [%q], labels: {namespace: test}}]}
  - {job_name: controllers, static_configs: [{targets: [%q], labels: {pod: controllers}}]}
  - {job_name: own, metrics_path: /own, static_configs: [{targets: [%[3]q]}]}
  - {job_name: controllerruntime, metrics_path: /controllerruntime, static_configs: [{targets: [%[3]q]}]}
  - {job_name: componentbase, metrics_path: /componentbase, static_configs: [{targets: [%[3]q]}]}
  - {job_name: stuck, static_configs: [{targets: [%[4]q]}]}
`

// startServer starts a Prometheus that scrapes the exporters, with the rules in a faster
// form. A native server reads protobuf and stores native histograms only, others read the
// text format: Prometheus 2.40 to 3.7 has the flag.
func (p *processes) startServer(ctx context.Context, root, work string, e exporters, native bool) (*server, error) {
	binary, err := debian.Program(ctx, "prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput()
	if err != nil {
		return nil, err
	}
	rules, err := os.ReadFile(filepath.Join(root, "monitoring", rulesFile))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(work, "server-*")
	if err == nil {
		err = writeFiles(dir, map[string]string{
			"prometheus.yaml": fmt.Sprintf(config, e.examples, e.controllers, e.registries, e.stuck),
			rulesFile:         faster(string(rules), times),
		})
	}
	if err != nil {
		return nil, err
	}
	args := []string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0"}
	if native {
		args = append(args, "--enable-feature=native-histograms")
	}
	address, err := p.start(ctx, exec.CommandContext(ctx, binary, args...), `Listening on.* address=(\S+)`)
	words := strings.Fields(string(version))
	return &server{address: address, native: native, version: strings.Join(words[:min(3, len(words))], " ")}, err
}

func writeFiles(dir string, contents map[string]string) error {
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
