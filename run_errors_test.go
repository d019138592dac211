package workqueue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Each error counts for itself: to what a handler returns, the methods of
// errors apply.
func TestRunErrors(t *testing.T) {
	permanent, requeue := workqueue.Permanent(errFailed), workqueue.RequeueAfter(time.Second)
	panicked := &workqueue.PanicError{Value: errFailed}
	for _, tt := range []struct {
		err  error
		text string
		is   bool
	}{
		{permanent, "failed", true},
		{requeue, "workqueue: requeue after 1s", false},
		{workqueue.RequeueAfter(-1), "workqueue: requeue after 0s", false},
		{workqueue.RetryAfter(time.Second, errFailed), "failed", true},
		{panicked, "workqueue: panic: failed", true},
		{&workqueue.PanicError{Value: "boom"}, "workqueue: panic: boom", false},
		{workqueue.ErrReAdded, "workqueue: item was added again", false},
	} {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("got %q, want %q", got, tt.text)
		}
		if errors.Is(tt.err, errFailed) != tt.is {
			t.Errorf("%q: errors.Is is %v, want %v", tt.text, !tt.is, tt.is)
		}
	}
	if err := workqueue.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil): got %v, want nil", err)
	}
	if err := workqueue.RetryAfter(time.Second, nil); err != nil {
		t.Errorf("RetryAfter(1s, nil): got %v, want nil", err)
	}
}
