package embedded

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
)

// started returns a cluster with one ConfigMap and one Secret, named app.
func started(t *testing.T) *Cluster {
	c := NewCluster(1)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	fill(t, c, []object{fixture.ConfigMap("app"), fixture.Secret("app", "7")})
	return c
}

// ask returns the answer of the cluster to a request.
func ask(t *testing.T, c *Cluster, method, path, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://embedded"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// The server refuses what Kubernetes refuses, with the same codes: a controller
// that is well here only because its writes always pass is not well.
func TestServerAnswers(t *testing.T) {
	const secrets = "/api/v1/namespaces/default/secrets"
	for _, test := range []struct {
		name, method, path, body string
		code                     int
		want                     string
	}{
		{"list", "GET", "/api/v1/configmaps", "", 200, `"kind":"ConfigMapList"`},
		{"create", "POST", secrets, `{"metadata":{"namespace":"default","name":"new"}}`, 200, `"Success"`},
		{"create of what exists", "POST", secrets, `{"metadata":{"namespace":"default","name":"app"}}`, 409, `"AlreadyExists"`},
		{"update", "PUT", secrets + "/app", `{"metadata":{"namespace":"default","name":"app","resourceVersion":"1"}}`, 200, `"Success"`},
		{"update of an old state", "PUT", secrets + "/app", `{"metadata":{"namespace":"default","name":"app","resourceVersion":"0"}}`, 409, `"Conflict"`},
		{"update of nothing", "PUT", secrets + "/no", `{"metadata":{"namespace":"default","name":"no"}}`, 404, `"NotFound"`},
		{"delete", "DELETE", secrets + "/app", `{"preconditions":{"uid":"Secret-1"}}`, 200, `"Success"`},
		{"delete of another", "DELETE", secrets + "/app", `{"preconditions":{"uid":"Secret-0"}}`, 409, `"Conflict"`},
		{"delete of nothing", "DELETE", secrets + "/no", `{}`, 404, `"NotFound"`},
		{"not JSON", "POST", secrets, `{`, 400, `"BadRequest"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := ask(t, started(t), test.method, test.path, test.body)
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != test.code || !strings.Contains(string(body), test.want) {
					t.Errorf("got %d %s and error %v, want %d with %s", answer.StatusCode, body, err, test.code, test.want)
				}
			})
		})
	}
}

// next returns what the next event of a watch is about.
func next(t *testing.T, events *json.Decoder) string {
	t.Helper()
	var event struct {
		Type   string
		Object struct {
			Reason   string
			Metadata struct{ Name, ResourceVersion string }
		}
	}
	if err := events.Decode(&event); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(event.Type+" "+event.Object.Metadata.Name+" "+event.Object.Metadata.ResourceVersion+" "+event.Object.Reason), " ")
}

func TestWatchFollowsUntilItMissedSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := started(t)
		name := nameOf(fixture.ConfigMap("app"))
		events := json.NewDecoder(ask(t, c, "GET", "/api/v1/configmaps?watch=true&sendInitialEvents=true", "").Body)
		late := json.NewDecoder(ask(t, c, "GET", "/api/v1/configmaps?watch=true&resourceVersion=2", "").Body)
		if err := c.configMaps.update(fixture.ConfigMap("app")); err != nil {
			t.Fatal(err)
		}
		if err := c.configMaps.remove(name, types.UID("ConfigMap-1")); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ADDED app 1", "BOOKMARK 1", "MODIFIED app 2", "DELETED app 3"} {
			if got := next(t, events); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if got := next(t, late); got != "DELETED app 3" {
			t.Errorf("got %s from revision 2", got)
		}
		c.configMaps.removeUnseen(name)
		if got := next(t, events); got != "ERROR Expired" {
			t.Errorf("got %s after the history was cut", got)
		}
	})
}
