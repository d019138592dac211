// Package realworld_test runs controllers against a real kube-apiserver and etcd, on our queue
// and on client-go's queue, and prints both as the columns of one table. `make realworld` builds
// the servers and runs the tests; without the servers, which is when KUBEBUILDER_ASSETS is not
// set, the scenarios are skipped.
//
// A scenario is a file of its own:
//
//	func TestChurn(t *testing.T) {
//		play(t, size(churn{1000}, churn{100}).run) // The long and the short form.
//	}
//
//	func TestChurnNoticesFaults(t *testing.T) { // Queues with faults, see implementations_test.go.
//		notices(t, churn{40}.run, control{losing(fleetName(1)), "1 objects are open"})
//	}
//
//	func (s churn) run(t *testing.T, impl implementation) error {
//		w := newWorld(t)                   // A fresh namespace, and clients without limits.
//		c := w.controller(t, impl, b, nil) // Informers, a queue and a journal.
//		stop := c.start(t, workers)        // Until stop, or the end of the test.
//		...
//		err := w.converge(ctx, c, still)   // The API server shows that all is done.
//		err = errors.Join(err, stop())     // The journal has nothing against the queue.
//		results.add("churn", "hand-outs", impl, c.journal.handOuts())
//		return err
//	}
//
// The condition that ends a scenario is read from the API server. A scenario that kills a process
// registers a program in programs, and starts the test binary again with program.
package realworld_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The variables that tell a process of this test binary its part, and where its API server is.
const (
	roleVariable  = "REALWORLD_ROLE"
	hostVariable  = "REALWORLD_HOST"
	tokenVariable = "REALWORLD_TOKEN"
)

// roleTests is the role of the process that runs the tests.
const roleTests = "tests"

// programs are the other roles: what a scenario runs as a process of its own. The function gets
// the arguments of the command, and the process ends when the function returns.
var programs = make(map[string]func(args []string) error)

// program is a command that runs one of programs. The caller starts and ends the command.
func program(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	config := servers.config()
	cmd.Env = append(os.Environ(), roleVariable+"="+role, hostVariable+"="+config.Host, tokenVariable+"="+config.BearerToken)
	cmd.Stderr = os.Stderr
	return cmd
}

// configOfProgram is the API server for one of programs.
func configOfProgram() *rest.Config {
	return configOf(os.Getenv(hostVariable), os.Getenv(tokenVariable))
}

// servers are the servers of the scenarios, or nil.
var servers *cluster

// TestMain runs the tests in a process of its own, as the leader of a process group. The servers,
// and whatever the tests start, are of the same group. So nothing outlives a test process that
// panics, or is over its time, without a call of its deferred functions.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	role := os.Getenv(roleVariable)
	var err error
	switch {
	case programs[role] != nil:
		err = programs[role](os.Args[1:])
	case role == roleTests:
		err = withServers(m)
	case os.Getenv("KUBEBUILDER_ASSETS") == "":
		os.Exit(m.Run())
	default:
		err = inGroup()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inGroup runs this test binary again in a new process group, and ends the group.
func inGroup() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "workqueue-realworld-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), roleVariable+"="+roleTests, "TMPDIR="+dir)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tests.WaitDelay = 10 * time.Second
	endGroup := func() error { return syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	tests.Cancel = endGroup
	if err := tests.Start(); err != nil {
		return err
	}
	// The servers do not have the output of the tests, so Wait does not wait for them.
	err = tests.Wait()
	_ = endGroup() // ESRCH if the tests have ended all they had started.
	if err != nil {
		return fmt.Errorf("the tests: %w", err)
	}
	return nil
}

// withServers runs the tests, and prints the results.
func withServers(m *testing.M) error {
	dir, err := os.MkdirTemp("", "servers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if servers, err = newCluster(dir); err != nil {
		return err
	}
	defer servers.apiserver.kill()
	defer servers.etcd.kill()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := errors.Join(servers.etcd.start(ctx), servers.apiserver.start(ctx), define(ctx, servers.config())); err != nil {
		return err
	}
	code := m.Run()
	if code != 0 {
		*page = "" // A run that has failed is no result.
		err = errors.New("a scenario has failed")
	}
	return errors.Join(results.print(), err)
}

// startTime bounds the start of the servers, far above the usual 5 to 10 seconds.
const startTime = 5 * time.Minute

// A cluster is an etcd and a kube-apiserver on loopback. Each can be killed, and started again on
// the same port and the same data.
type cluster struct {
	etcd, apiserver *server
	token           string
}

func newCluster(dir string) (*cluster, error) {
	key := filepath.Join(dir, "accounts.key")
	tokens := filepath.Join(dir, "tokens.csv")
	c := &cluster{token: rand.Text()}
	if err := errors.Join(writeKey(key), os.WriteFile(tokens, []byte(c.token+",admin,admin,system:masters\n"), 0o600)); err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	store := "http://" + ports[0]
	c.etcd = newServer(dir, "etcd", store+"/health", "",
		"--data-dir="+filepath.Join(dir, "data"), "--listen-client-urls="+store, "--advertise-client-urls="+store,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync")
	_, port, err := net.SplitHostPort(ports[1])
	if err != nil {
		return nil, err
	}
	c.apiserver = newServer(dir, "kube-apiserver", "https://"+ports[1]+"/readyz", c.token,
		"--etcd-servers="+store, "--cert-dir="+filepath.Join(dir, "certificates"), "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--secure-port="+port,
		"--authorization-mode=AlwaysAllow", "--token-auth-file="+tokens, "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://realworld.test", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--disable-admission-plugins=ServiceAccount")
	return c, nil
}

// config has no limit for the requests of a client: the queue is measured, and not the client.
func (c *cluster) config() *rest.Config {
	return configOf("https://"+c.apiserver.health.URL.Host, c.token)
}

// The certificate of the server is its own, made at its first start.
func configOf(host, token string) *rest.Config {
	return &rest.Config{Host: host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
}

// A server is a process that answers when it is ready.
type server struct {
	path    string
	args    []string
	log     string
	health  *http.Request
	client  *http.Client
	process *exec.Cmd
	over    chan struct{} // closed when the process has ended
}

func newServer(dir, name, health, token string, args ...string) *server {
	s := &server{path: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name), args: args, log: filepath.Join(dir, name+".log")}
	s.health, _ = http.NewRequest(http.MethodGet, health, nil)
	transport, _ := rest.TransportFor(configOf("", token))
	s.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return s
}

// start returns when the server is ready.
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process, over := exec.Command(s.path, s.args...), make(chan struct{})
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return err
	}
	s.process, s.over = process, over
	go func() {
		defer close(over)
		_ = process.Wait() // The error of a killed process is that it was killed.
	}()
	for !s.ready(ctx) {
		select {
		case <-over:
			return fmt.Errorf("%s has ended: %s", s.path, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", s.path, ctx.Err(), s.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (s *server) ready(ctx context.Context) bool {
	response, err := s.client.Do(s.health.WithContext(ctx))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// kill ends the process with SIGKILL, so that it has no time to say goodbye to its clients.
func (s *server) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		<-s.over
	}
}

func (s *server) tail() string {
	text, _ := os.ReadFile(s.log)
	return string(text[max(0, len(text)-2000):])
}

// freePorts returns addresses that are free at the moment.
func freePorts(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // At the end, so that the addresses differ.
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// writeKey makes the key that kube-apiserver signs the tokens of service accounts with.
func writeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
