// Package envtest_test runs replicas of examples/controller, each a process of its own, against a
// real kube-apiserver and etcd: they are killed, stopped, cut off, ended and added. `make
// apiserver-test` builds the servers and runs the tests. Without the servers, which is when
// KUBEBUILDER_ASSETS is not set, the test is skipped.
package envtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	objects   = 2000
	namespace = "default"

	// kubeconfig is the variable that tells the tests of their cluster, in a file.
	kubeconfig = "SHARDING_ENVTEST_KUBECONFIG"

	lease, renew, retry, bound, settle = 6 * time.Second, 4 * time.Second, time.Second, time.Second, time.Second
)

// TestMain starts the servers and runs the tests in another process: one that panics, or is over
// its time, ends without a word, and the servers would go on for ever.
func TestMain(m *testing.M) {
	if os.Getenv(kubeconfig) != "" || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		os.Exit(m.Run())
	}
	if err := withCluster(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func withCluster() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "sharding-envtest-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e := &envtest.Environment{ControlPlaneStartTimeout: 5 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	defer func() { err = errors.Join(err, e.Stop()) }()
	if _, err := e.Start(); err != nil {
		return err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, e.KubeConfig, 0o600); err != nil {
		return err
	}
	tests := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), kubeconfig+"="+file)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	return tests.Run()
}

// A cluster has the replicas, and what they have told of their work.
type cluster struct {
	*testing.T
	client   *kubernetes.Clientset
	config   *rest.Config
	program  string
	replicas map[string]*replica

	mu   sync.Mutex
	work []span

	stops []stop // of the test's goroutine alone
}

// A stop is a time in which a replica has stopped, in Unix nanoseconds.
type stop struct {
	replica  string
	from, to int64
}

// A span is the work of a replica on an object.
type span struct {
	replica, object string
	begin, end      int64 // as Unix time in nanoseconds; the end is 0 while the work goes on
}

type replica struct {
	name  string
	cmd   *exec.Cmd
	proxy *proxy
	over  chan error
}

// start runs a replica behind a proxy of its own.
func (c *cluster) start(name string) *replica {
	c.Helper()
	p := newProxy(c.T, strings.TrimPrefix(c.config.Host, "https://"))
	file := filepath.Join(c.TempDir(), name)
	config, err := clientcmd.LoadFromFile(os.Getenv(kubeconfig))
	if err != nil {
		c.Fatal(err)
	}
	for _, cl := range config.Clusters {
		cl.Server = "https://" + p.Addr().String()
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.Fatal(err)
	}
	cmd := exec.Command(c.program, "-trace", "-kubeconfig", file, "-namespace", namespace, "-identity", name, "-work", "20ms",
		"-lease-duration", lease.String(), "-renew-deadline", renew.String(), "-retry-period", retry.String(), "-cancel-bound", bound.String(), "-settle", settle.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	r := &replica{name, cmd, p, make(chan error, 1)}
	c.replicas[name] = r
	go func() {
		c.follow(name, out)
		r.over <- cmd.Wait()
		close(r.over)
	}()
	c.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.over
		if c.Failed() {
			c.Logf("%s wrote:\n%s", name, log.String()[max(0, log.Len()-2000):])
		}
	})
	return r
}

// follow reads what a replica tells of its work.
func (c *cluster) follow(name string, out io.Reader) {
	open := make(map[string]int) // objects at work, by their place in c.work
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var verb, object string
		var at int64
		if n, err := fmt.Sscan(lines.Text(), &verb, &object, &at); n != 3 {
			c.Errorf("%s wrote %q: %v", name, lines.Text(), err)
			continue
		}
		c.mu.Lock()
		if verb == "begin" {
			open[object] = len(c.work)
			c.work = append(c.work, span{name, object, at, 0})
		} else {
			c.work[open[object]].end = at
		}
		c.mu.Unlock()
	}
}

func (r *replica) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stop stops a replica for two LeaseDurations. The kernel stops a process some time after the signal,
// and work that begins in between is stopped in the middle too: the stop begins when it has stopped.
//
// Handlers of a replica that was stopped at work have outlived their slots, unless they return before
// anybody looks. For the first, the replica exits, and is started again, as a kubelet would. A replica
// that looks at rest may be at work: a slot that it has just taken brings all objects of the slot.
func (c *cluster) stop(name string) {
	c.Helper()
	r := c.replicas[name]
	r.signal(c.T, syscall.SIGSTOP)
	status := fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid)
	for text := ""; !strings.Contains(text, "State:\tT"); {
		read, err := os.ReadFile(status)
		if err != nil {
			c.Fatal(err)
		}
		text = string(read)
	}
	from := time.Now().UnixNano()
	time.Sleep(2 * lease)
	c.stops = append(c.stops, stop{name, from, time.Now().UnixNano()})
	r.signal(c.T, syscall.SIGCONT)
	select {
	case err := <-r.over:
		c.Logf("replica %s, which was stopped: %v", name, err)
		c.start(name)
	case <-time.After(lease):
		c.Logf("replica %s, which was stopped, goes on", name)
	}
}

// each calls f for all objects, 32 at a time.
func (c *cluster) each(f func(ctx context.Context, name string) error) {
	c.Helper()
	group, ctx := errgroup.WithContext(c.Context())
	group.SetLimit(32)
	for i := range objects {
		group.Go(func() error { return f(ctx, fmt.Sprintf("object-%04d", i)) })
	}
	if err := group.Wait(); err != nil {
		c.Fatal(err)
	}
}

// round changes all objects, does something meanwhile, and waits until all have converged.
func (c *cluster) round(spec string, meanwhile func()) {
	c.Helper()
	began := time.Now()
	patch := fmt.Appendf(nil, `{"data":{"spec":%q}}`, spec)
	var both errgroup.Group
	both.Go(func() error {
		c.each(func(ctx context.Context, name string) error {
			_, err := c.client.CoreV1().ConfigMaps(namespace).Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
			return err
		})
		return nil
	})
	meanwhile()
	_ = both.Wait()
	c.until("all objects converged on "+spec, func() bool {
		list, err := c.client.CoreV1().ConfigMaps(namespace).List(c.Context(), metav1.ListOptions{LabelSelector: "sharding=test"})
		if err != nil {
			c.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].Data["status"] != spec {
				return false
			}
		}
		return len(list.Items) == objects
	})
	c.Logf("%s: converged after %v", spec, time.Since(began).Round(100*time.Millisecond))
}

func (c *cluster) until(what string, f func() bool) {
	c.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !f(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("not within 3 minutes: %s", what)
		}
	}
}

// spread waits until the replicas have all slots, and none has more than one slot more than another.
func (c *cluster) spread(names ...string) {
	c.Helper()
	began := time.Now()
	c.until(fmt.Sprintf("the slots spread over %v", names), func() bool {
		leases, err := c.client.CoordinationV1().Leases(namespace).List(c.Context(), metav1.ListOptions{LabelSelector: "workqueue.sharding/kind=slot"})
		if err != nil {
			c.Fatal(err)
		}
		held := make(map[string]int)
		for _, l := range leases.Items {
			name, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
			held[name]++
		}
		low, high, sum := 1000, 0, 0
		for _, name := range names {
			low, high, sum = min(low, held[name]), max(high, held[name]), sum+held[name]
		}
		return sum == 32 && high-low <= 1
	})
	c.Logf("spread over %v after %v", names, time.Since(began).Round(100*time.Millisecond))
}

// alone fails for two replicas that worked on an object at a time. A replica that was stopped in the
// middle of its work is known to continue beside the next owner.
func (c *cluster) alone() {
	c.Helper()
	stale := func(w span) bool {
		return slices.ContainsFunc(c.stops, func(s stop) bool {
			return w.replica == s.replica && w.begin <= s.from && w.end >= s.to
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	byObject := make(map[string][]span)
	for _, w := range c.work {
		if w.end == 0 { // Killed in the middle.
			continue
		}
		byObject[w.object] = append(byObject[w.object], w)
	}
	overlaps, stales := 0, 0
	for object, spans := range byObject {
		for i, a := range spans {
			for _, b := range spans[:i] {
				switch {
				case a.replica == b.replica || a.end <= b.begin || b.end <= a.begin:
				case stale(a) || stale(b):
					stales++
				default:
					overlaps++
					c.Errorf("%s and %s have both worked on %s", a.replica, b.replica, object)
				}
			}
		}
	}
	c.Logf("%d pieces of work, %d of two replicas at a time, and %d beside a replica that was stopped in the middle", len(c.work), overlaps, stales)
}

func TestReplicas(t *testing.T) {
	if os.Getenv(kubeconfig) == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: use make apiserver-test")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c := &cluster{T: t, config: config, client: kubernetes.NewForConfigOrDie(config), program: filepath.Join(t.TempDir(), "controller"), replicas: make(map[string]*replica)}
	if out, err := exec.Command("go", "build", "-o", c.program, "../examples/controller").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.each(func(ctx context.Context, name string) error {
		_, err := c.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"sharding": "test"}}, Data: map[string]string{"spec": "0"},
		}, metav1.CreateOptions{})
		return err
	})
	for _, name := range []string{"a", "b", "c"} {
		c.start(name)
	}
	c.round("started", func() {})
	c.spread("a", "b", "c")

	c.round("killed", func() { c.replicas["c"].signal(t, syscall.SIGKILL) })
	c.spread("a", "b")
	c.round("added", func() { c.start("d") })
	c.spread("a", "b", "d")

	c.round("stopped at work", func() {
		time.Sleep(100 * time.Millisecond)
		c.stop("a")
	})
	c.spread("a", "b", "d")

	c.stop("a") // Without work, as a rule.
	c.round("stopped at rest", func() {})
	c.spread("a", "b", "d")

	c.round("cut off", func() {
		c.replicas["b"].proxy.cut()
		time.Sleep(2 * lease)
		c.replicas["b"].proxy.heal()
	})
	c.spread("a", "b", "d")

	c.round("ended", func() { c.replicas["d"].signal(t, syscall.SIGTERM) })
	if err := <-c.replicas["d"].over; err != nil {
		t.Errorf("the replica that was ended: %v", err)
	}
	c.spread("a", "b")
	c.alone()
}

// A proxy passes connections on, until it is cut: then it accepts connections, and nothing comes
// through.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	holed bool
	conns []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	t.Cleanup(func() { l.Close(); p.heal() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, to)
			p.mu.Unlock()
			go p.pass(from, to)
			go p.pass(to, from)
		}
	}()
	return p
}

func (p *proxy) pass(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		holed := p.holed
		p.mu.Unlock()
		if holed {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holed = true
}

// heal lets new connections pass, and breaks the old ones, which lack bytes.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holed = false
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
