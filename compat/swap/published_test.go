package swap_test

// published are modules of the proxy for these tests alone: a client-go whose queue is only its
// names, and a dependency that makes such a queue.
var published = []struct {
	path, version string
	files         map[string]string
}{
	{clientGo, "v0.27.9", clientGoFiles("1.20", "")},
	{clientGo, "v0.28.9", clientGoFiles("1.20", "")},
	{clientGo, "v0.29.9", withModules(clientGoFiles("1.21", ""))},
	{clientGo, "v0.30.9", withOther(withModules(clientGoFiles("1.21", "")))},
	{clientGo, "v0.36.0", clientGoFiles("1.24", "")},
	{clientGo, "v0.37.0", clientGoFiles("1.25", "")},
	{clientGo, "v0.38.0", clientGoFiles("1.25", "")},
	{clientGo, "v0.38.0-alpha.2", clientGoFiles("1.25", "")},
	{clientGo, "v0.0.0-20260102030405-abcdefabcdef", clientGoFiles("1.25", "")},
	{clientGo, "v0.0.0-20270102030405-abcdefabcdef", withMore(clientGoFiles("1.25", ""))},
	{"example.com/fork", "v0.36.7", clientGoFiles("1.24", "package forked\n")},
	{"example.com/other", "v1.0.0", map[string]string{
		"go.mod": "module example.com/other\n\ngo 1.20\n", "other.go": "package other\n",
	}},
	// No package of the program needs example.com/gone, which the proxy does not have.
	{"example.com/unpruned", "v1.0.0", map[string]string{
		"go.mod": "module example.com/unpruned\n\ngo 1.16\n\nrequire example.com/gone v1.0.0\n", "unpruned.go": "package unpruned\n",
	}},
	{dependency, "v1.0.0", map[string]string{
		"go.mod": "module " + dependency + "\n\ngo 1.20\n\nrequire " + clientGo + " v0.28.9\n",
		"dep.go": `package dep

import "` + theirs + `"

// Queue is the queue of a dependency.
func Queue() any { return workqueue.NewNamed("dep") }
`}},
}

const (
	clientGo   = "k8s.io/client-go"
	dependency = "example.com/dep"
)

func clientGoFiles(language, forked string) map[string]string {
	files := map[string]string{
		"go.mod":                    "module " + clientGo + "\n\ngo " + language + "\n",
		"LICENSE":                   "a licence\n",
		"README.md":                 "text\n",
		"third_party/fork/LICENSE":  "another licence\n",
		"examples/main.go":          "package main\n\nfunc main() {}\n",
		"tools/watch/watch.go":      "package watch\n\nimport _ \"" + theirs + "\"\n",
		"tools/watch/watch_test.go": "package watch\n",
		"tools/watch/testdata/a":    "a\n",
		"openapi/openapi.go":        "package openapi\n\nimport _ \"embed\"\n\n//go:embed testdata/a.json\nvar A string\n",
		"openapi/testdata/a.json":   "{}\n",
		"util/workqueue/queue.go": `package workqueue

// Type is a queue.
type Type struct{ name string }

// NewNamed returns a queue.
func NewNamed(name string) *Type { return &Type{name} }

// MetricsProvider is a part of client-go's.
type MetricsProvider interface{ NewAddsMetric(name string) CounterMetric }

// CounterMetric is a count.
type CounterMetric interface{ Inc() }

// SetProvider does nothing here.
func SetProvider(MetricsProvider) {}
`,
		"util/workqueue/queue_test.go": "package workqueue\n",
	}
	if forked != "" {
		files["forked/forked.go"] = forked
	}
	return files
}

// withMore adds a name that is not in client-go.
func withMore(files map[string]string) map[string]string {
	files["util/workqueue/more.go"] = "package workqueue\n\n// More is not in client-go.\nfunc More() {}\n"
	return files
}

// withModules requires modules older than the requirements of the library: logr, oauth2, which
// needs one module less since, and testify for a test alone.
func withModules(files map[string]string) map[string]string {
	files["go.mod"] += "\nrequire (\n\tgithub.com/go-logr/logr v1.3.0\n\tgithub.com/stretchr/testify v1.8.4\n\tgolang.org/x/oauth2 v0.10.0\n)\n"
	files["util/logging/logging.go"] = "package logging\n\nimport (\n\t_ \"github.com/go-logr/logr\"\n\t_ \"golang.org/x/oauth2\"\n)\n"
	files["util/logging/logging_test.go"] = "package logging\n\nimport _ \"github.com/stretchr/testify/assert\"\n"
	return files
}

// withOther needs one more module.
func withOther(files map[string]string) map[string]string {
	files["go.mod"] += "\nrequire example.com/other v1.0.0\n"
	files["util/logging/other.go"] = "package logging\n\nimport _ \"example.com/other\"\n"
	return files
}

// mainFiles are the files of a program on the dependency.
func mainFiles(clientGoVersion string, more string) map[string]string {
	return map[string]string{
		"go.mod": "module example.com/program\n\ngo 1.25\n\nrequire " + dependency + " v1.0.0\n\nrequire " + clientGo + " " + clientGoVersion + " // indirect\n" + more,
		"main.go": `package main

import (
	"fmt"
	"reflect"

	"` + dependency + `"
)

func main() { fmt.Println(queue()) }

func queue() string { return reflect.TypeOf(dep.Queue()).Elem().PkgPath() }
`,
		"main_test.go": `package main

import "testing"

func TestQueueIsOurs(t *testing.T) {
	if got := queue(); got != "` + ours + `" {
		t.Errorf("the queues of dependencies are those of %s: is the swap in force?", got)
	}
}
`,
	}
}
