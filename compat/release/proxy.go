package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// staged is the version of all modules in the proxy of the check.
const staged = "v0.99.0-rc.1"

// program uses modules of users, and is the only module in its build: a replace of ours has no
// effect for a user. A second file imports all of the modules.
const program = `package main

import (
	"context"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	_ = ctrlqueue.For(ctrlqueue.Options[reconcile.Request]{})
	q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: otelqueue.NewProducer(otelqueue.ProducerOptions{}),
	})
	q.Add("a")
	handle := otelqueue.Handler(func(context.Context, string) error { q.ShutDown(); return nil }, otelqueue.HandlerOptions[string]{Name: "q"})
	if err := workqueue.Run(context.Background(), q, handle, workqueue.RunOptions[string]{}); err != workqueue.ErrShutDown {
		panic(err)
	}
}
`

// checkProxy builds and runs a program with the modules as a proxy serves them. The versions
// are in a module cache of their own, which goes with the check: a version in the real cache
// would hide the next one of the same name.
func checkProxy(t tree) (err error) {
	temp, err := os.MkdirTemp("", "release-proxy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	release, proxy, user := filepath.Join(temp, "tree"), filepath.Join(temp, "proxy"), filepath.Join(temp, "user")
	if err := copyTracked(t, tree(release)); err != nil {
		return err
	}
	for _, dir := range modules {
		if err := stage(tree(release), dir, proxy); err != nil {
			return err
		}
	}
	settings, err := command(string(t), nil, "go", "env", "GOPROXY", "GOMODCACHE")
	if err != nil {
		return err
	}
	lines := strings.Split(settings, "\n")
	env := []string{
		"GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE=" + filepath.Join(temp, "cache"), "GOPRIVATE=", "GONOPROXY=none",
		"GONOSUMDB=" + root + "," + root + "/*",
		"GOPROXY=" + sources(proxy, filepath.Join(lines[1], "cache", "download"), lines[0]),
	}
	if err := write(user, "main.go", program); err != nil {
		return err
	}
	if err := write(user, "imports.go", imports()); err != nil {
		return err
	}
	if err := write(user, "go.mod", requirements()); err != nil {
		return err
	}
	// Sums spare questions to the sum database. The go command checks each module against them.
	if err := copySums(t, user); err != nil {
		return err
	}
	// Paths of the temporary cache would keep the build cache from being used again.
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-trimpath", "-o", "user", "."}} {
		if _, err := command(user, env, "go", args...); err != nil {
			return err
		}
	}
	if _, err := command(user, nil, "./user"); err != nil {
		return err
	}
	return report(user, env)
}

// sources is a GOPROXY: our modules, what was downloaded already, and then the usual proxy. With |
// any error asks the next source.
func sources(proxy, downloaded, usual string) string {
	return "file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(downloaded) + "," + usual
}

// requirements is the go.mod of the program.
func requirements() string {
	text := "module example.com/user\n\ngo 1.26.0\n\n"
	for _, dir := range modules {
		text += fmt.Sprintf("require %s %s\n", modulePath(dir), staged)
	}
	return text
}

// imports is a file of the program with the package of each module.
func imports() string {
	text := "package main\n\n"
	for _, dir := range modules {
		text += fmt.Sprintf("import _ %q\n", modulePath(dir))
	}
	return text
}

// report says which versions the program was built with, and fails if one is not ours.
func report(user string, env []string) error {
	text, err := command(user, env, "go", "version", "-m", "user")
	if err != nil {
		return err
	}
	for _, dir := range modules {
		if !strings.Contains(text, "\tdep\t"+modulePath(dir)+"\t"+staged+"\t") {
			return fmt.Errorf("the program has no %s %s:\n%s", modulePath(dir), staged, text)
		}
		fmt.Printf("   %s %s: fetched, built and run\n", modulePath(dir), staged)
	}
	return nil
}

// copyTracked copies the files that git has, as they are in the tree.
func copyTracked(from, to tree) error {
	names, err := command(string(from), nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(names, "\x00"), "\x00") {
		content, err := os.ReadFile(from.at(name))
		if os.IsNotExist(err) {
			continue // It was removed, and git still has it.
		}
		if err != nil {
			return err
		}
		if err := write(string(to), name, string(content)); err != nil {
			return err
		}
	}
	return nil
}

func copySums(t tree, user string) error {
	var all strings.Builder
	for _, dir := range modules {
		text, err := os.ReadFile(t.at(dir + "/go.sum"))
		if err != nil {
			return err
		}
		all.Write(text)
	}
	return write(user, "go.sum", all.String())
}

// stage writes the files of a module that a proxy serves. As for a release, the module requires
// the version of the root. The replace stays: for users it has no effect.
func stage(t tree, dir, proxy string) error {
	if dir != "." {
		if _, err := command(t.at(dir), nil, "go", "mod", "edit", "-require="+root+"@"+staged); err != nil {
			return err
		}
	}
	version := module.Version{Path: modulePath(dir), Version: staged}
	at := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	mod, err := os.ReadFile(t.at(dir + "/go.mod"))
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, staged, time.Now().UTC().Format(time.RFC3339))
	for name, text := range map[string]string{"list": staged + "\n", staged + ".info": info, staged + ".mod": string(mod)} {
		if err := write(at, name, text); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(at, staged+".zip"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := zip.CreateFromDir(file, version, t.at(dir)); err != nil {
		return err
	}
	return file.Close()
}

// write writes a file and the directories above.
func write(dir, name, text string) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
