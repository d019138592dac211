package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
)

func TestParseOptionsRejects(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-workers 0", "-workers must be at least 1, got 0"},
		{"-seed -1", "invalid value"},
		{"-namespace default", "-namespace needs -kubeconfig"},
		{"extra", `unexpected argument "extra"`},
	} {
		_, err := parseOptions(strings.Fields(test.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.args, err, test.want)
		}
	}
}

func TestEndBeforeTheCachesAreFilledIsNoError(t *testing.T) {
	cluster := embedded.NewCluster(1)
	defer cluster.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := runOn(ended, cluster, newQueue(), quiet, options{workers: 1}); err != nil {
		t.Error(err)
	}
}

func TestMissingKubeconfigIsAnError(t *testing.T) {
	opts := options{kubeconfig: filepath.Join(t.TempDir(), "none"), workers: 1}
	if err := runCluster(t.Context(), io.Discard, opts); !os.IsNotExist(err) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

func TestProbeWithoutAnAddressIsAnError(t *testing.T) {
	cluster := embedded.NewCluster(1)
	defer cluster.Close()
	if err := runOn(t.Context(), cluster, newQueue(), quiet, options{workers: 1, readyz: "127.0.0.1:none"}); err == nil {
		t.Error("got no error")
	}
}

// The client of a real cluster watches the wished namespaces, and makes the requests of the
// API: the server knows one ConfigMap that wants a Secret, an outdated Secret and a Secret
// that is left over.
func TestKubeconfig(t *testing.T) {
	for namespace, prefix := range map[string]string{"": "/api/v1/", "default": "/api/v1/namespaces/default/"} {
		requests := make(chan string, 3)
		record := func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
			requests <- fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)
		}
		outdated, over := managed("outdated", "6"), managed("over", "7")
		outdated.ResourceVersion, over.UID = "17", "uid-of-over"
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+prefix+"configmaps", list("ConfigMapList", *wanted("new"), *wanted("outdated")))
		mux.HandleFunc("GET "+prefix+"secrets", list("SecretList", *outdated, *over))
		mux.HandleFunc("POST /api/v1/namespaces/default/secrets", record)
		mux.HandleFunc("PUT /api/v1/namespaces/default/secrets/outdated", record)
		mux.HandleFunc("DELETE /api/v1/namespaces/default/secrets/over", record)
		server := httptest.NewServer(mux)
		defer server.Close()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- runCluster(ctx, io.Discard, options{kubeconfig: kubeconfig(t, server.URL), namespace: namespace, workers: 3})
		}()
		var got string
		for range 3 {
			select {
			case request := <-requests:
				got += request + "\n"
			case err := <-ended:
				t.Fatalf("ended early: %v", err)
			}
		}
		for _, want := range []string{`POST`, `"revision":"Nw=="`, `PUT`, `"resourceVersion":"17"`, `DELETE`, `"preconditions":{"uid":"uid-of-over"}`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in the requests\n%s", want, got)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// list answers a list, and a watch with silence. A server before Kubernetes 1.27 refuses
// a watch that begins with a list, as this server does.
func list[T corev1.ConfigMap | corev1.Secret](kind string, items ...T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			http.Error(w, "sendInitialEvents is forbidden", http.StatusUnprocessableEntity)
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			answer(w, map[string]any{"kind": kind, "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "20"}, "items": items})
		}
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(fmt.Sprintf("encoding a response: %v", err))
	}
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// SIGTERM at any time is an ordinary end: the exit status is 0, so no write was cut off, and nothing stays
// in the queue of a controller that has begun.
func TestKilledUnderLoad(t *testing.T) {
	program := filepath.Join(t.TempDir(), "controller")
	goCommand(t, "build", "-o", program, ".")
	var early atomic.Int64
	kill := func(n int) (problem string) {
		out := &output{begun: make(chan struct{})}
		command := exec.Command(program, "-seed", fmt.Sprint(n))
		command.Stdout, command.Stderr = out, out
		if err := command.Start(); err != nil {
			return err.Error()
		}
		hung := time.AfterFunc(3*time.Minute, func() { command.Process.Kill() })
		defer hung.Stop()
		select {
		case <-out.begun: // A signal before would find no handler of the program.
		case <-time.After(time.Minute):
		}
		time.Sleep(rand.N(1500 * time.Millisecond))
		command.Process.Signal(syscall.SIGTERM)
		err := command.Wait()
		stopped := strings.Contains(out.String(), "\nSTOPPED early: ")
		if stopped {
			early.Add(1)
		}
		// It converges if the machine is too slow for the signal.
		if err != nil || !stopped && !strings.Contains(out.String(), "\nCONVERGED: ") {
			return fmt.Sprintf("%v\n%s", err, out)
		}
		return ""
	}
	times := 20
	if testing.Short() {
		times = 3
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 8) // So many programs at a time.
	for n := range times {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if problem := kill(n); problem != "" {
				t.Errorf("kill %d: %s", n, problem)
			}
		})
	}
	all.Wait()
	if early.Load() == 0 {
		t.Error("every program had ended before the signal")
	}
}

// An output of a program closes begun at the first line.
type output struct {
	text  bytes.Buffer // Not embedded: its ReadFrom would go past Write.
	once  sync.Once
	begun chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.once.Do(func() { close(o.begun) })
	return o.text.Write(p)
}

func (o *output) String() string { return o.text.String() }

// A first `make run` fetches and compiles this program with empty caches. At 386
// packages and 24 MB of source that took 67 s of processor time (Go 1.26.8, AMD
// EPYC); by the times of its build graph, two idle cores need 35 s. With the
// clientset, at 803 packages and 48 MB, it took 244 s on two cores. The bounds
// leave a tenth of room for the next client-go. 248 of the packages are those of
// the quickstart: the library with Prometheus, and what Go has for it.
func TestFirstBuildStaysSmall(t *testing.T) {
	const maxPackages, maxSourceBytes = 425, 27_000_000
	packages := goCommand(t, "list", "-deps", ".")
	var size int64
	for file := range strings.Lines(goCommand(t, "list", "-deps", "-f", `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}`, ".")) {
		if file = strings.TrimSpace(file); file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	count := strings.Count(packages, "\n")
	t.Logf("%d packages, %d bytes of source", count, size)
	// Packages differ in size by a factor of a thousand, so the source is bounded as well.
	if count > maxPackages || size > maxSourceBytes {
		t.Errorf("%d packages with %d bytes of source, want at most %d with %d", count, size, maxPackages, maxSourceBytes)
	}
	if strings.Contains(packages, "k8s.io/client-go/kubernetes") {
		t.Error("it needs a part of k8s.io/client-go/kubernetes, the clientset, which doubles the time")
	}
}

func goCommand(t *testing.T, args ...string) string {
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

var _ cluster = (*embedded.Cluster)(nil)
