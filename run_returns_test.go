package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A returned is a value that a handler can return. The text is that of the page.
type returned struct {
	text string
	err  func() error
}

// returneds are all kinds of values: a plain error, each that has a meaning for Run,
// and twice the one with a time, as two times may meet.
var returneds = []returned{
	{"nil", func() error { return nil }},
	{"err", fails},
	{"RequeueAfter(5s)", requeues(5 * time.Second)},
	{"RequeueAfter(9s)", requeues(9 * time.Second)},
	{"RetryAfter(7s, err)", func() error { return workqueue.RetryAfter(7*time.Second, errFailed) }},
	{"Requeue()", workqueue.Requeue},
	{"Permanent(err)", permanently},
}

// handled is what became of an item with one failure before, whose limiter says 2 s for
// the next one.
type handled struct {
	outcome  workqueue.Outcome
	again    string // when it comes again
	failures int    // for MaxAttempts
	limiter  int    // what the limiter counts
	logged   string // the level of the line that is logged
}

func (h handled) String() string {
	logged := h.logged
	if logged == "" {
		logged = "no"
	}
	return fmt.Sprintf("%s | %s | %d | %d | %s", h.outcome, h.again, h.failures, h.limiter, logged)
}

// handleOnce has a handler fail once and return what f does then.
func handleOnce(t *testing.T, f func() error) (got handled) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue.Add("a")
		calls := 0
		s.run(runOptions{MaxAttempts: 9, OnResult: func(_ context.Context, item string, result workqueue.Result) {
			if calls != 2 {
				return
			}
			got = handled{outcome: result.Outcome, again: "-", failures: result.Failures, limiter: s.queue.NumRequeues(item)}
			if result.Again {
				got.again = fmt.Sprint(result.After)
			}
		}}, func(context.Context, string) error {
			switch calls++; calls {
			case 1:
				return errFailed
			case 2:
				s.log.Reset()
				return f()
			}
			return nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if level, ok := strings.CutPrefix(s.log.String(), "time="); ok {
			_, level, _ = strings.Cut(level, "level=")
			got.logged, _, _ = strings.Cut(level, " ")
		}
		second := time.Since(s.start)
		time.Sleep(time.Minute)
		s.stop()
		s.end()
		came := "-"
		if calls > 2 {
			came = s.at(3).String()
		}
		if want := got.again; came != "-" {
			if d, _ := time.ParseDuration(want); s.at(3) != second+d {
				t.Errorf("the item has come again at %v, not after %v", came, want)
			}
		} else if want != "-" {
			t.Errorf("the item has not come again after %v", want)
		}
	})
	return got
}

// at returns when the handler was called for the n-th time.
func (s *show) at(n int) time.Duration {
	for _, event := range s.events {
		at, what, _ := strings.Cut(event, ":")
		if what == "a" {
			if n--; n == 0 {
				d, _ := time.ParseDuration(at + "s")
				return d
			}
		}
	}
	return -1
}

// tableOfReturns is the table of the page: each value by itself, and each pair of two
// that are not nil, beside each other and one wrapped by fmt.Errorf. Both orders have to
// come to the same.
func tableOfReturns(t *testing.T) (rows []string) {
	for i, one := range returneds {
		got := handleOnce(t, one.err)
		rows = append(rows, fmt.Sprintf("| `%s` | %v |", one.text, got))
		wrapped := handleOnce(t, func() error {
			if err := one.err(); err != nil {
				return fmt.Errorf("in short: %w", err)
			}
			return nil
		})
		if wrapped != got {
			t.Errorf("%s: got %v, and %v if wrapped", one.text, got, wrapped)
		}
		for _, other := range returneds[max(i, 1):] {
			if i > 0 {
				rows = append(rows, pairOfReturns(t, one, other))
			}
		}
	}
	return rows
}

func pairOfReturns(t *testing.T, one, other returned) (row string) {
	got := handleOnce(t, func() error { return errors.Join(one.err(), other.err()) })
	for name, f := range map[string]func() error{
		"the other way round": func() error { return errors.Join(other.err(), one.err()) },
		"two verbs":           func() error { return fmt.Errorf("%w beside %w", one.err(), other.err()) },
		"wrapped":             func() error { return errors.Join(fmt.Errorf("in short: %w", other.err()), one.err()) },
		"twice":               func() error { return errors.Join(errors.Join(one.err(), other.err()), other.err()) },
	} {
		if same := handleOnce(t, f); same != got {
			t.Errorf("Join(%s, %s): got %v, and %v %s", one.text, other.text, got, same, name)
		}
	}
	return fmt.Sprintf("| `Join(%s, %s)` | %v |", one.text, other.text, got)
}

// The page has every value and every pair, and Run does what it says.
func TestRunReturnsByAllPairs(t *testing.T) {
	played := tableOfReturns(t)
	written := rowsOf(section(read(t, "docs/semantics.md"), "What a handler returns"))
	if !slices.Equal(written, played) {
		t.Errorf("the page has\n%s\nand Run does\n%s", strings.Join(written, "\n"), strings.Join(played, "\n"))
	}
}

// An error beside RequeueAfter was not logged and never given up.
func TestRunCountsAnErrorBesideARequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue.Add("a")
		s.run(runOptions{MaxAttempts: 3, OnGiveUp: func(_ context.Context, item string, err error) { s.note("gave up: %q", err) }},
			func(context.Context, string) error {
				return errors.Join(errFailed, workqueue.RequeueAfter(5*time.Second))
			})
		time.Sleep(time.Minute)
		s.want(`0:a 5:a 10:a 10:gave up: "failed\nworkqueue: requeue after 5s"`)
		if got := strings.Count(s.log.String(), "Handler failed, the item will be retried"); got != 2 {
			t.Errorf("%d failures are logged, want 2", got)
		}
		s.stop()
		s.end()
	})
}

// A panic decides by itself, whatever its value or what is wrapped by another error
// with one in it.
func TestRunReturnsAPanicOfAnotherRun(t *testing.T) {
	for _, err := range []error{
		&workqueue.PanicError{Value: permanently()},
		fmt.Errorf("within: %w", &workqueue.PanicError{Value: requeues(time.Hour)()}),
		workqueue.RetryAfter(2*time.Second, workqueue.RequeueAfter(time.Hour)),
		fmt.Errorf("nothing: %w", nil),
	} {
		got := handleOnce(t, func() error { return err })
		if got.outcome != workqueue.OutcomeFailed || got.again != "2s" || got.failures != 2 {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// What RetryAfter is around counts too: the shortest time, and Permanent before all.
func TestRunReturnsWhatIsWithinARetryAfter(t *testing.T) {
	for want, within := range map[string]error{
		"failed | 2s | 2 | 1 | INFO":   workqueue.RequeueAfter(2 * time.Second),
		"failed | 40s | 2 | 1 | INFO":  workqueue.RequeueAfter(2 * time.Hour),
		"given_up | - | 2 | 0 | ERROR": permanently(),
	} {
		got := handleOnce(t, func() error { return workqueue.RetryAfter(40*time.Second, within) })
		if got.String() != want {
			t.Errorf("RetryAfter(40s, %v): got %v, want %s", within, got, want)
		}
	}
}
