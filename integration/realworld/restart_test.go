package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// A restart runs the controller as a process of its own. The process is killed without warning in
// the midst of its work, some times, and at last gets a SIGTERM. The work on an object is two
// writes: the Deployment, and then the status. After a SIGTERM no object shall have the first
// write without the second.
type restart struct{ objects, kills int }

// grace is for how long handlers go on after a SIGTERM.
const grace = 20 * time.Second

// graceful is our implementation as a program with a SIGTERM has it.
var graceful = implementation{name: ours.name, queue: ours.queue, work: running(workqueue.RunOptions[key]{Grace: grace})}

// running works with Run.
func running(o workqueue.RunOptions[key]) func(context.Context, queue, int, handler) error {
	logger := logr.Discard()
	o.Logger = &logger
	return func(ctx context.Context, q queue, workers int, handle handler) error {
		o.Workers = workers
		return workqueue.Run(ctx, q, handle, o)
	}
}

// graceless is a control: its handlers end with the SIGTERM.
var graceless = implementation{name: "has no grace", queue: ours.queue, work: ours.work}

// forgetful is a control: a new process forgets what it loses, so the queue loses each add of a key.
var forgetful = faulty("loses a key from its start", func(q queue) queue {
	return &losingQueue{queue: q, lost: fleetName(1), adds: 1}
})

// processes are the implementations that a process may have.
var processes = []implementation{graceful, theirs, graceless, forgetful}

func init() {
	programs["controller"] = func(args []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		config := configOfProgram()
		config.Wrap(slowStatus)
		for _, impl := range processes {
			if impl.name == args[1] {
				c, err := newController(config, args[0], impl, backoff{5 * time.Millisecond, time.Second})
				if err != nil {
					return err
				}
				err = c.run(ctx, workers)
				return errors.Join(err, c.journal.err())
			}
		}
		return fmt.Errorf("there is no implementation %q", args[1])
	}
}

// slowStatus holds the writes of a status up, so that most work is between its two writes.
func slowStatus(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if isWrite(r) && strings.HasSuffix(r.URL.Path, "/status") {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
				if r.Body != nil {
					_ = r.Body.Close() // RoundTrip must close the body.
				}
				return nil, r.Context().Err()
			}
		}
		return next.RoundTrip(r)
	})
}

func TestRestart(t *testing.T) {
	play(t, size(restart{300, 3}, restart{60, 1}).run)
}

func TestRestartNoticesFaults(t *testing.T) {
	notices(t, restart{40, 0}.run,
		control{forgetful, "1 objects are open: [" + fleetName(1)},
		control{graceless, "are half done after the SIGTERM"})
}

func (s restart) run(t *testing.T, impl implementation) error {
	w := newWorld(t)
	var fromStart time.Duration
	open := 0
	for revision := range s.kills {
		if err := s.revise(t.Context(), w, revision); err != nil {
			t.Fatal(err)
		}
		cmd := s.start(t, w, impl)
		left, err := s.midway(t.Context(), w)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // The error says that the process was killed.
		if err != nil {
			return err
		}
		open += left
	}
	began := time.Now()
	cmd := s.start(t, w, impl)
	if err := s.revise(t.Context(), w, s.kills); err != nil {
		t.Fatal(err)
	}
	if err := w.done(t.Context()); err != nil {
		return err
	}
	fromStart = time.Since(began)

	if err := s.revise(t.Context(), w, s.kills+1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.midway(t.Context(), w); err != nil {
		return err
	}
	began = time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the controller after a SIGTERM: %w", err)
	}
	ended := time.Since(began)
	half, err := w.halfDone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The usual loop promises nothing: its handlers have a context that the SIGTERM ends.
	if promised := impl.name == graceful.name || impl.name == graceless.name; promised && len(half) > 0 {
		return fmt.Errorf("%d objects are half done after the SIGTERM: %v", len(half), half[:min(len(half), 5)])
	}
	s.start(t, w, impl)
	err = w.done(t.Context())

	name := fmt.Sprintf("restart, %d objects", s.objects)
	results.add(name, fmt.Sprintf("objects open when killed, of %d kills", s.kills), impl, open)
	results.add(name, "from the start after the last kill to convergence", impl, fromStart)
	results.add(name, "from a SIGTERM to the end of the process", impl, ended)
	results.add(name, "objects half done after the SIGTERM", impl, len(half))
	return err
}

// start starts a process with the controller. The process is killed at the end of the test.
func (s restart) start(t *testing.T, w *world, impl implementation) *exec.Cmd {
	t.Helper()
	cmd := program("controller", w.namespace, impl.name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// revise gives each Fleet the revision.
func (s restart) revise(ctx context.Context, w *world, revision int) error {
	return outage{objects: s.objects}.update(ctx, w, revision)
}

// midway waits until the controller has done some of the objects and returns how many are open.
func (s restart) midway(ctx context.Context, w *world) (open int, err error) {
	err = w.until(ctx, func(now []string) bool {
		open = len(now)
		return open < s.objects*9/10
	})
	return open, err
}

// done waits until the API server shows nothing open. The controller is another process.
func (w *world) done(ctx context.Context) error {
	return w.until(ctx, func(open []string) bool { return len(open) == 0 })
}

// until waits until the open objects are as enough says. It gives up when the number of open
// objects has stayed the same for a time.
func (w *world) until(ctx context.Context, enough func(open []string) bool) error {
	last, since := -1, time.Now()
	for {
		open, err := w.open(ctx)
		switch {
		case err != nil:
			return err
		case enough(open):
			return nil
		case len(open) != last:
			last, since = len(open), time.Now()
		case time.Since(since) > still:
			return fmt.Errorf("nothing has changed for %v, and %d objects are open: %v", still, len(open), open[:min(len(open), 5)])
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// halfDone lists the Fleets whose Deployment is new and whose status is old.
func (w *world) halfDone(ctx context.Context) (half []string, err error) {
	open, err := w.open(ctx)
	for _, o := range open {
		if strings.Contains(o, "and observed is") {
			half = append(half, o)
		}
	}
	return half, err
}
