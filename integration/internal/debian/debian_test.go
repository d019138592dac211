package debian_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

// Stand-ins for the programs of Debian. They are alone on the PATH and append
// what they were asked to a log.
const (
	aptGet = `#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in
*" download tool") echo archive >tool_1.0_amd64.deb ;;
*" install "*" chromium") echo archive >archives/archives/chromium_1.0_amd64.deb; echo archive >archives/archives/library_1.0_amd64.deb ;;
*" download gone") echo "E: no such package" >&2; exit 100 ;;
esac
`
	dpkgDeb = `#!/bin/sh
echo "dpkg-deb $*" >>"$LOG"
/bin/mkdir -p "$3/usr/bin"
echo '#!/bin/sh' >"$3/usr/bin/tool"
/bin/chmod +x "$3/usr/bin/tool"
/bin/mkdir -p "$3/usr/lib/chromium" "$3/usr/lib/x86_64-linux-gnu"
echo '#!/bin/sh' >"$3/usr/lib/chromium/chromium"
/bin/chmod +x "$3/usr/lib/chromium/chromium"
`
)

func machine(t *testing.T) (bin, cache, log string) {
	t.Helper()
	bin, cache, log = t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "log")
	write(t, filepath.Join(bin, "apt-get"), aptGet)
	write(t, filepath.Join(bin, "dpkg-deb"), dpkgDeb)
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("LOG", log)
	return bin, cache, log
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestProgramOfTheMachineIsPreferred(t *testing.T) {
	bin, _, log := machine(t)
	write(t, filepath.Join(bin, "tool"), "#!/bin/sh\n")
	got, err := debian.Program(t.Context(), "tool", "tool")
	if want := filepath.Join(bin, "tool"); got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Error("something was downloaded all the same")
	}
}

func TestPackageIsDownloadedOnceAndNotInstalled(t *testing.T) {
	_, cache, log := machine(t)
	for range 2 {
		got, err := debian.Program(t.Context(), "tool", "tool")
		if err != nil || !strings.HasPrefix(got, cache) {
			t.Fatalf("got %q, %v; want a file in %s", got, err, cache)
		}
		if info, err := os.Stat(got); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%v, %v is not a program", info, err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(calls) != 3 || !strings.HasSuffix(calls[0], " update") ||
		!strings.HasSuffix(calls[1], " download tool") || !strings.HasPrefix(calls[2], "dpkg-deb -x ") {
		t.Errorf("want one update, one download and one extraction, got\n%s", text)
	}
	// Neither archives nor lists are left, nor the directory they were in.
	left, err := filepath.Glob(filepath.Join(cache, "workqueue-integration", "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

func TestBrowserComesWithItsLibraries(t *testing.T) {
	_, cache, log := machine(t)
	for range 2 {
		path, env, err := debian.Browser(t.Context())
		if err != nil || !strings.HasPrefix(path, cache) || len(env) != 1 || !strings.Contains(env[0], "/usr/lib/x86_64-linux-gnu") {
			t.Fatalf("got %q, %q, %v", path, env, err)
		}
	}
	text, err := os.ReadFile(log)
	if calls := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(calls) != 4 || !strings.Contains(calls[1], "--download-only") {
		t.Errorf("want one update, one download and two extractions, got %v\n%s", err, text)
	}
}

func TestFailureSaysWhatWasTried(t *testing.T) {
	_, cache, _ := machine(t)
	_, err := debian.Program(t.Context(), "gone", "gone")
	for _, want := range []string{"gone is not on the PATH", "Debian package gone", "download gone", "E: no such package"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "workqueue-integration", "*")); len(left) != 0 {
		t.Errorf("left in the cache: %v", left)
	}
	if _, err := debian.Program(t.Context(), "tool", "other"); err == nil {
		t.Error("found a program that the package does not have")
	}
}
