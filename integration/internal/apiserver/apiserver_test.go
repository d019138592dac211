package apiserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/apiserver"
)

// A shell script stands in for the command go. It is alone on the PATH, builds a file for each
// program, and appends its arguments to a log.
const fakeGo = `#!/bin/sh
echo "go $*" >>"$LOG"
case "$*" in
"mod download"*) echo "{\"Dir\": \"$MODULES\", \"GoMod\": \"$MODULES/go.mod\"}" ;;
"mod edit -json"*) echo "$REQUIRES" ;;
env*) echo "{\"GOCACHE\": \"$HOME/no/such/cache\", \"GOMODCACHE\": \"$MODULES\"}" ;;
list*)
	if [ -n "$SLOW" ]; then
		trap 'echo "go was interrupted" >>"$LOG"; kill $!; exit 1' INT
		/bin/sleep 600 >/dev/null 2>&1 &
		echo "go hangs" >>"$LOG"
		wait
	fi ;;
build*)
	if [ -n "$FAIL" ]; then echo "no space left" >&2; exit 1; fi
	while [ "$1" != -o ]; do shift; done
	/bin/mkdir -p "$(/usr/bin/dirname "$2")" && echo program >"$2" ;;
esac
`

// prepare puts the stand-in on the PATH, and returns the log.
func prepare(t *testing.T) (log string) {
	t.Helper()
	apiserver.SetFree(t, 1e12)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	modules := t.TempDir()
	if err := os.WriteFile(filepath.Join(modules, "go.sum"), []byte("sums\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "log")
	for name, value := range map[string]string{
		"PATH": dir, "LOG": log, "MODULES": modules, "HOME": dir, "XDG_CACHE_HOME": filepath.Join(dir, "cache"),
		"REQUIRES": `{"Require": [{"Path": "k8s.io/api", "Version": "v0.0.0"}, {"Path": "k8s.io/utils", "Version": "v0.9.1"}]}`,
	} {
		t.Setenv(name, value)
	}
	return log
}

func TestProgramsAreBuiltOnce(t *testing.T) {
	log := prepare(t)
	dir, err := apiserver.Programs(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	asked, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mod edit -require k8s.io/kubernetes@v1.35.4\n",
		"mod edit -replace k8s.io/api=k8s.io/api@v0.35.4\n", // And no line for k8s.io/utils.
		"list -mod=mod -deps k8s.io/kubernetes/cmd/kube-apiserver\n",
		"-X k8s.io/component-base/version.gitVersion=v1.35.4 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35 ",
		"mod edit -require go.etcd.io/etcd/server/v3@v3.6.5\n",
	} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("go was not asked for %q:\n%s", want, asked)
		}
	}
	again, err := apiserver.Programs(t.Context(), io.Discard)
	if err != nil || again != dir {
		t.Errorf("the second call returns %s, %v, want %s", again, err, dir)
	}
	if after, err := os.ReadFile(log); err != nil || len(after) != len(asked) {
		t.Errorf("the second call has asked go again: %s, %v", after, err)
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	prepare(t)
	t.Setenv("FAIL", "1")
	if _, err := apiserver.Programs(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the error is %v, want the message of go", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(cache, "workqueue-integration")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestKubernetesWithoutModulesToReplace(t *testing.T) {
	prepare(t)
	t.Setenv("REQUIRES", `{"Require": [{"Path": "k8s.io/api", "Version": "v0.36.0"}]}`)
	if _, err := apiserver.Programs(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "none is to be replaced") {
		t.Errorf("the error is %v", err)
	}
}

// An interrupted command go deletes its temporary files, a killed one does not.
func TestAFetchThatHangsIsInterruptedWhenTheTimeIsOver(t *testing.T) {
	log := prepare(t)
	t.Setenv("SLOW", "1")
	tooLong := errors.New("it has taken too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for text := ""; !strings.Contains(text, "go hangs"); time.Sleep(time.Millisecond) {
			read, _ := os.ReadFile(log)
			text = string(read)
		}
		cancel(tooLong)
	}()
	if _, err := apiserver.Programs(ctx, io.Discard); !errors.Is(err, tooLong) {
		t.Errorf("the error is %v, want the cause of the end of the context", err)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "go was interrupted") {
		t.Errorf("the command was not interrupted: %s, %v", text, err)
	}
}

// The real command go asks a proxy that has no modules, or refuses them.
func TestAProxyThatRefusesIsNamedInTheError(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not for you", http.StatusForbidden)
	}))
	defer proxy.Close()
	apiserver.SetFree(t, 1e12)
	for name, value := range map[string]string{
		"GOPROXY": proxy.URL, "GOMODCACHE": t.TempDir(), "GOTOOLCHAIN": "local", "XDG_CACHE_HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	_, err := apiserver.Programs(t.Context(), io.Discard)
	for _, want := range []string{"go.etcd.io/etcd/server/v3@v3.6.5", proxy.URL, "403 Forbidden", "not for you"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestADiskThatIsNearlyFullIsNamedBeforeTheBuild(t *testing.T) {
	log := prepare(t)
	apiserver.SetFree(t, 1_500_000_000)
	_, err := apiserver.Programs(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no/such/cache has 1.5 GB left: make room") {
		t.Errorf("the error is %v", err)
	}
	if asked, err := os.ReadFile(log); err != nil || strings.Contains(string(asked), "go mod") {
		t.Errorf("the build was begun: %s, %v", asked, err)
	}
}
