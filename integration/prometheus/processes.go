package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
	"github.com/seed16c08ea7/workqueue/integration/internal/rulefile"
)

// grace is the time between SIGTERM and SIGKILL for a process.
const grace = 10 * time.Second

// processes are the programs that run beside the tests. Each program gets SIGTERM when
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
func (p *processes) start(ctx context.Context, command *exec.Cmd, pattern *regexp.Regexp) (string, error) {
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
	scanner, said := bufio.NewScanner(output), ""
	for scanner.Scan() {
		said += scanner.Text() + "\n"
		if match := pattern.FindStringSubmatch(scanner.Text()); match != nil {
			go io.Copy(io.Discard, output) // Ends with the process.
			return match[1], nil
		}
	}
	return "", fmt.Errorf("%w\n%s", scanner.Err(), said)
}

// startExample builds and starts examples/metrics, and returns its address.
func (p *processes) startExample(ctx context.Context, root, work string) (address string, err error) {
	binary := filepath.Join(work, "metrics")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "examples"), "-o", binary, "./metrics")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	return p.start(ctx, exec.CommandContext(ctx, binary, "-listen", "127.0.0.1:0"),
		regexp.MustCompile(`^http://(\S+)/metrics$`))
}

// histograms is the form in which a server stores histograms.
type histograms string

const (
	classic histograms = "classic"
	native  histograms = "native"
)

// storeNative makes a server ask for protobuf too. Prometheus 2.40 to 3.7 has the flag,
// and then stores native histograms only.
const storeNative = "--enable-feature=native-histograms"

// server is a running Prometheus.
type server struct {
	store   histograms
	address string
	version string
	age     func() time.Duration // since the example was started

	patience time.Duration // how much longer an alert may take
}

const config = `global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: examples
    static_configs: [{targets: ["%s"], labels: {namespace: test}}]
`

// startServer starts a Prometheus that scrapes the target, with the rules in a faster
// form.
func (p *processes) startServer(ctx context.Context, root, work, target string, store histograms) (*server, error) {
	binary, err := debian.Program(ctx, "prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput()
	if err != nil {
		return nil, err
	}
	rules, err := os.ReadFile(filepath.Join(root, "monitoring", "rules.yaml"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(work, string(store))
	if err := writeFiles(dir, map[string]string{
		"prometheus.yaml": fmt.Sprintf(config, target),
		"rules.yaml":      rulefile.Faster(string(rules), times),
	}); err != nil {
		return nil, err
	}
	args := []string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0"}
	if store == native {
		args = append(args, storeNative)
	}
	address, err := p.start(ctx, exec.CommandContext(ctx, binary, args...),
		regexp.MustCompile(`Listening on.* address=(\S+)`))
	words := strings.Fields(string(version))
	return &server{store: store, address: address, version: strings.Join(words[:min(3, len(words))], " ")}, err
}

func writeFiles(dir string, contents map[string]string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lint asks promtool about the text exposition.
func lint(ctx context.Context, out io.Writer, target string) error {
	tool, err := debian.Program(ctx, "prometheus", "promtool")
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var exposition bytes.Buffer
	if _, err := exposition.ReadFrom(response.Body); err != nil {
		return err
	}
	size, series := exposition.Len(), bytes.Count(exposition.Bytes(), []byte("\nworkqueue_"))
	check := exec.CommandContext(ctx, tool, "check", "metrics")
	check.Stdin = &exposition
	output, err := check.CombinedOutput()
	if err != nil || len(output) > 0 || series == 0 {
		return fmt.Errorf("promtool check metrics: %d series, error %v\n%s", series, err, output)
	}
	_, err = fmt.Fprintf(out, "promtool check metrics: nothing to say about %d bytes with %d series of queues\n", size, series)
	return err
}
