package envtest_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var columns = []column{
	{"theirs", func(mgr manager.Manager) manager.Manager { return mgr }},
	{"ours", func(mgr manager.Manager) manager.Manager {
		return ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{AtEnd: workqueue.EndDrain, Grace: drain})
	}},
}

// figures are what is measured of a column.
type figures struct {
	urgent     []time.Duration // from an update during the initial list to its reconcile
	backlog    int             // objects of the initial list that were still to be looked at then
	goroutines int             // those that the queues have started
	heap       uint64
	reconciles int
	afterLoss  int           // reconciles that began more than a second after the leadership was lost
	end        time.Duration // of the manager
	left       int           // objects that were queued at the end and not reconciled
	cancelled  int           // reconciles at the end that began with a context that had ended
}

// TestManager takes a manager through its life, once with each queue.
func TestManager(t *testing.T) {
	c := populate(t)
	var all []figures
	for _, col := range columns {
		t.Run(col.name, func(t *testing.T) { all = append(all, life(t, c, col)) })
	}
	if len(all) < 2 {
		return
	}
	t.Log("\n" + table(all))
	if all[0].left == 0 {
		t.Error("controller-runtime's queue has left nothing at the end, and the row of the README goes")
	}
}

func life(t *testing.T, c client.Client, col column) (f figures) {
	w := newWorld(t, col)
	w.initialList(c, &f)
	w.idle(&f)
	w.loseTheLeadership(c, &f)
	w.check()
	f.reconciles += w.total()

	w = newWorld(t, col) // As a program that is started again.
	until(t, "all objects looked at again", func() bool { _, n := w.looks.count(); return n == objects })
	until(t, "all objects handled again", func() bool { _, n := w.writes.count(); return n == objects })
	w.gracefulEnd(&f)
	w.check()
	f.reconciles += w.total()
	return f
}

func (w *world) total() int {
	looks, _ := w.looks.count()
	writes, _ := w.writes.count()
	return looks + writes
}

// initialList changes objects while the backlog of the initial list is worked off, and
// measures how long it takes until the change was seen.
func (w *world) initialList(c client.Client, f *figures) {
	const updates = 20
	until(w.t, "200 objects looked at", func() bool { n, _ := w.looks.count(); return n >= 200 })
	changed := make(map[int]string)
	for n := range updates {
		if _, seen := w.looks.count(); objects-seen < 1000 { // The server is slow: something is to be left.
			w.slow.Store(int64(50 * time.Millisecond))
		}
		i := rand.IntN(objects)
		began := time.Now()
		version, err := touch(w.t.Context(), c, i, fmt.Sprint(w.column.name, n))
		if err != nil {
			w.t.Fatal(err)
		}
		// A later version is that of the controller that writes.
		until(w.t, "the change looked at", func() bool { v := w.looks.version(i); return v == version || len(v) > 0 && newer(v, version) })
		f.urgent = append(f.urgent, time.Since(began))
		changed[i] = fmt.Sprint(w.column.name, n)
	}
	_, seen := w.looks.count()
	if f.backlog = objects - seen; f.backlog == 0 {
		w.t.Error("the initial list was worked off before the last update: nothing was measured")
	}
	w.slow.Store(int64(time.Millisecond))
	slices.Sort(f.urgent)
	w.converge(c, changed)
}

// newer compares two resource versions, which are numbers without leading zeros.
func newer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// converge waits until all objects were seen, and each change was handled and seen.
func (w *world) converge(c client.Client, changed map[int]string) {
	until(w.t, "all objects looked at", func() bool { _, n := w.looks.count(); return n == objects })
	until(w.t, "all objects handled", func() bool { _, n := w.writes.count(); return n == objects })
	for i, spec := range changed {
		until(w.t, "a change handled", func() bool {
			var o corev1.ConfigMap
			if err := c.Get(w.t.Context(), client.ObjectKeyFromObject(object(i)), &o); err != nil {
				w.t.Fatal(err)
			}
			return o.Data["status"] == spec && w.looks.version(i) == o.ResourceVersion && w.writes.version(i) == o.ResourceVersion
		})
	}
}

// idle measures a manager that has nothing to do.
func (w *world) idle(f *figures) {
	time.Sleep(time.Second)
	f.goroutines = started()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap = m.HeapAlloc
}

// started returns how many goroutines there are that a queue has started: not the
// workers, which are the controller's.
func started() (n int) {
	stacks := make([]byte, 1<<22)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		if strings.HasPrefix(creator, "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.") ||
			strings.HasPrefix(creator, "github.com/seed16c08ea7/workqueue.") {
			n++
		}
	}
	return n
}

// flood adds objects at once, as a burst of events does.
func (w *world) flood(n int) {
	for i := range n {
		w.lookQueue.Add(request(i))
	}
}

// loseTheLeadership gives the lease to somebody else while there is a backlog. The
// manager ends with an error, and no reconcile may begin after that: another replica
// has the lead.
func (w *world) loseTheLeadership(c client.Client, f *figures) {
	w.slow.Store(int64(20 * time.Millisecond))
	w.flood(objects)
	key := client.ObjectKey{Namespace: namespace, Name: lease(w.column)}
	until(w.t, "the lease stolen", func() bool {
		var l coordinationv1.Lease
		if err := c.Get(w.t.Context(), key, &l); err != nil {
			w.t.Fatal(err)
		}
		l.Spec.HolderIdentity = new("somebody else")
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		return c.Update(w.t.Context(), &l) == nil // Or the manager was first to renew it.
	})
	err := <-w.over
	w.stop() // As errgroup does when Start returns an error.
	lost := time.Now()
	if err == nil || !strings.Contains(err.Error(), "leader election lost") {
		w.t.Errorf("the manager ended with %v, want that the leader election was lost", err)
	}
	time.Sleep(time.Second)
	atFirst, _ := w.looks.count()
	time.Sleep(time.Second)
	later, _ := w.looks.count()
	if f.afterLoss = later - atFirst; f.afterLoss > 0 {
		w.t.Errorf("%d reconciles began more than a second after the leadership was lost, the last %v after it",
			f.afterLoss, w.looks.last.Sub(lost))
	}
	if err := c.Delete(w.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		w.t.Fatal(err)
	}
}

// gracefulEnd stops the manager while there is a backlog.
func (w *world) gracefulEnd(f *figures) {
	const burst = 500
	w.slow.Store(int64(5 * time.Millisecond))
	before, _ := w.looks.count()
	w.flood(burst)
	began := time.Now()
	w.stop()
	if err := <-w.over; err != nil {
		w.t.Errorf("the manager ended with %v", err)
	}
	f.end = time.Since(began)
	after, _ := w.looks.count()
	f.left = max(0, burst-(after-before))
	f.cancelled = w.looks.ended
	if w.column.name == "ours" && (f.left > 0 || f.cancelled > 0) {
		w.t.Errorf("the drain has left %d objects, and %d reconciles had a context that had ended", f.left, f.cancelled)
	}
}

// table has the columns side by side.
func table(all []figures) string {
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, value func(figures) any) {
		fmt.Fprint(out, name)
		for _, f := range all {
			fmt.Fprintf(out, "\t%v", value(f))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "\tcontroller-runtime\tworkqueue")
	row("urgent change during the initial list, median", func(f figures) any { return f.urgent[len(f.urgent)/2].Round(100 * time.Microsecond) })
	row("the same, longest of 20", func(f figures) any { return f.urgent[len(f.urgent)-1].Round(100 * time.Microsecond) })
	row("objects still to be looked at then", func(f figures) any { return f.backlog })
	row("goroutines of the two idle queues", func(f figures) any { return f.goroutines })
	row("heap of the idle program, MB", func(f figures) any { return fmt.Sprintf("%.1f", float64(f.heap)/1e6) })
	row("reconciles in total", func(f figures) any { return f.reconciles })
	row("reconciles begun a second after the leadership was lost", func(f figures) any { return f.afterLoss })
	row("end of the manager with 500 objects queued", func(f figures) any { return f.end.Round(time.Millisecond) })
	row("of these not reconciled", func(f figures) any { return f.left })
	row("reconciled with a context that had ended", func(f figures) any { return f.cancelled })
	if err := out.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}
