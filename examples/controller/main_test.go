package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
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

func TestMissingKubeconfigIsAnError(t *testing.T) {
	opts := options{kubeconfig: filepath.Join(t.TempDir(), "none"), workers: 1}
	if err := runCluster(t.Context(), io.Discard, newQueue(), opts); !os.IsNotExist(err) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

// TestKubeconfig runs the controller over HTTP against a server that knows one
// ConfigMap, until its mirror arrives.
func TestKubeconfig(t *testing.T) {
	t.Run("all namespaces", func(t *testing.T) { mirrorOverHTTP(t, "", "/api/v1/") })
	t.Run("one namespace", func(t *testing.T) { mirrorOverHTTP(t, "default", "/api/v1/namespaces/default/") })
}

// mirrorOverHTTP expects that the controller watches below prefix.
func mirrorOverHTTP(t *testing.T, namespace, prefix string) {
	t.Helper()
	created := make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+prefix+"configmaps", serveList("ConfigMap", fixture.ConfigMap("app")))
	mux.HandleFunc("GET "+prefix+"secrets", serveList("Secret"))
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/secrets", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		writeJSON(w, typed("Secret", fixture.Secret("app", "7")))
		if bytes.Contains(body, []byte(mirror.ManagedValue)) {
			created <- r.PathValue("namespace")
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- runCluster(ctx, io.Discard, newQueue(), options{kubeconfig: writeKubeconfig(t, server.URL), namespace: namespace, workers: 1})
	}()
	select {
	case got := <-created:
		if got != fixture.Namespace {
			t.Errorf("created a mirror in %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	case err := <-ended:
		t.Errorf("ended early: %v", err)
	}
	cancel()
}

// serveList answers a list with the objects, and a watch with the same and
// then with silence.
func serveList(kind string, objects ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		items := make([]any, 0, len(objects))
		for _, object := range objects {
			items = append(items, typed(kind, object))
		}
		if r.URL.Query().Get("watch") == "" {
			list := typed(kind+"List", map[string]any{"items": items})
			list["metadata"] = map[string]any{"resourceVersion": "1"}
			writeJSON(w, list)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			for _, item := range items {
				writeJSON(w, map[string]any{"type": "ADDED", "object": item})
			}
			end := typed(kind, map[string]any{"metadata": map[string]any{
				"resourceVersion": "1",
				"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			}})
			writeJSON(w, map[string]any{"type": "BOOKMARK", "object": end})
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// typed returns an object as it looks on the wire, with its kind.
func typed(kind string, object any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	fields["apiVersion"], fields["kind"] = "v1", kind
	return fields
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(fmt.Sprintf("encoding a response: %v", err))
	}
}

func writeKubeconfig(t *testing.T, server string) string {
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
