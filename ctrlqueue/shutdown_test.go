package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A reconcile that begins when the Grace is over gets an ended context. The contexts of running
// reconciles ended before the hand-outs did: their workers took the queued items one after the other,
// and each began with a live context. The log then said that nothing was left.
func TestNothingBeginsAfterTheGrace(t *testing.T) {
	const workers, items, grace = 8, 2000, 20 * time.Second
	for name, row := range map[string]struct {
		graceful time.Duration // GracefulShutdownTimeout
		lose     func(*lock)
		lasts    func(stopped time.Time, l *lock) time.Time
		log      string
	}{
		"Grace": {30 * time.Second, nil, func(stopped time.Time, _ *lock) time.Time { return stopped.Add(grace) }, "Grace is over"},
		"Lock": {30 * time.Second, func(l *lock) { l.stolen.Store(true) }, func(_ time.Time, l *lock) time.Time {
			return l.renewed().Add(10 * time.Second)
		}, "the leadership is over"},
		"GracefulShutdownTimeout": {5 * time.Second, nil, func(stopped time.Time, _ *lock) time.Time {
			return stopped.Add(5 * time.Second)
		}, "set a longer GracefulShutdownTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards began and lines
				var began []time.Time
				var lines []string
				logger := funcr.New(func(_, line string) {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, line)
				}, funcr.Options{})
				l := new(lock)
				var watched resourcelock.Interface = l
				o := draining(grace)
				o.Logger = &logger
				if row.lose != nil {
					o.Lock = ctrlqueue.NewLock(l)
					watched = o.Lock
				}
				mgr := ctrlqueue.WrapManager(newElected(t, watched, row.graceful), o)
				do := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					if ctx.Err() == nil {
						mu.Lock()
						began = append(began, time.Now())
						mu.Unlock()
					}
					select {
					case <-time.After(730 * time.Millisecond): // No reconcile ends by itself at the end of the Grace.
					case <-ctx.Done():
					}
					return reconcile.Result{}, ctx.Err()
				})
				addController(t, mgr, "ends", controller.Options{Reconciler: do, MaxConcurrentReconciles: workers}, func(q *requestQueue) {
					for i := range items {
						q.Add(request(fmt.Sprint(i)))
					}
				})
				ctx, stop := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					defer close(over)
					_ = mgr.Start(ctx) // Its error depends on the row.
				}()
				time.Sleep(time.Minute)
				stopped := time.Now()
				stop()
				if row.lose != nil {
					row.lose(l)
				}
				<-over
				time.Sleep(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				late, end := 0, row.lasts(stopped, l)
				for _, at := range began {
					if !at.Before(end) {
						late++
					}
				}
				if late > 0 {
					t.Errorf("%d reconciles began with a live context after the Grace", late)
				}
				want := fmt.Sprintf("drain left %d queued, %d in flight", items-len(began), workers)
				if len(lines) != 1 || !strings.Contains(lines[0], row.log) || !strings.Contains(lines[0], want) {
					t.Errorf("logged are %q, want %q and %q", lines, row.log, want)
				}
			})
		})
	}
}

// A worker gets its item, and the Grace is over before the reconcile begins. The new context heard of
// the end on another goroutine, and was live at the start of the reconcile.
func TestContextOfAReconcileThatBeginsAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *running){
		"Grace":               func(c *running) { c.stop() },
		"the leadership lost": func(c *running) { c.mgr.lost <- errors.New("leader election lost") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var atStart []error
				opts := controller.Options{
					LogConstructor: func(r *reconcile.Request) logr.Logger {
						if r != nil { // After the hand-out, before the reconcile.
							time.Sleep(time.Minute)
						}
						return logr.Discard()
					},
					Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
						atStart = append(atStart, ctx.Err())
						return reconcile.Result{}, nil
					}),
				}
				s := newStandIn()
				c := startIn(t, s, ctrlqueue.WrapManager(s, draining(20*time.Second)), "late", opts)
				c.q.Add(request("a"))
				c.q.Add(request("b"))
				time.Sleep(time.Second)
				end(c)
				<-c.over
				c.mgr.running.Wait() // Start returns before the controllers when the leadership is lost.
				if fmt.Sprint(atStart) != "[context canceled]" {
					t.Errorf("the contexts had %v, want one, and ended", atStart)
				}
			})
		})
	}
}

// The waiting objects were dropped without a name at each end, and the queued ones were only counted.
func TestOnStopNamesWhatIsLeft(t *testing.T) {
	for name, row := range map[string]struct {
		options options
		want    string
	}{
		"stop":                    {options{}, "queued[b] held[a] waiting[w]"},
		"drain that is too short": {draining(time.Second), "queued[b] held[a] waiting[w]"},
		"drain":                   {draining(10 * time.Second), "queued[] held[] waiting[w]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				row.options.OnStop = func(controller string, left workqueue.Snapshot[reconcile.Request]) {
					time.Sleep(time.Millisecond) // The manager waits.
					var text strings.Builder
					for i, infos := range [][]workqueue.ItemInfo[reconcile.Request]{left.Queued, left.InFlight, left.Waiting} {
						fmt.Fprint(&text, []string{"queued[", " held[", " waiting["}[i])
						for _, info := range infos {
							fmt.Fprint(&text, info.Item.Name)
						}
						fmt.Fprint(&text, "]")
					}
					told = append(told, controller+": "+text.String())
				}
				mgr := ctrlqueue.WrapManager(newElected(t, new(lock), 30*time.Second), row.options)
				do := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					time.Sleep(3 * time.Second)
					return reconcile.Result{}, nil
				})
				addController(t, mgr, "left", controller.Options{Reconciler: do, MaxConcurrentReconciles: 1}, func(q *requestQueue) {
					q.Add(request("a"))
					q.Add(request("b"))
					q.AddAfter(request("w"), time.Hour)
				})
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, stop)
				if err := mgr.Start(ctx); err != nil {
					t.Error(err)
				}
				if want := []string{"left: " + row.want}; !slices.Equal(told, want) {
					t.Errorf("OnStop was told %q, want %q", told, want)
				}
			})
		})
	}
}

// The end lets go of a worker whose first Get comes beside it, whether or not it calls OnStop for the
// controller. OnStop may end the queue once more.
func TestFirstGetBesideTheEnd(t *testing.T) {
	for range 300 {
		var q *ctrlqueue.Queue[string]
		left := func(string, workqueue.Snapshot[string]) { q.ShutDown() }
		q = ctrlqueue.For(ctrlqueue.Options[string]{OnStop: left}).NewQueue("", nil).(*ctrlqueue.Queue[string])
		start, ended := make(chan struct{}), make(chan bool)
		go func() {
			<-start
			_, shutdown := q.Get()
			ended <- shutdown
		}()
		close(start)
		q.ShutDown()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the worker has not ended")
		}
	}
}
