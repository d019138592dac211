package sharding

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

func init() {
	klog.SetLogger(logr.Discard())
	// One of the handlers sleeps until a time that another bubble may have set, in its own time.
	utilruntime.ErrorHandlers = nil
}

// A world is a server with replicas, under virtual time, and an audit of who works on what.
type world struct {
	*testing.T
	*server
	audit    audit
	group    sync.WaitGroup
	replicas []*replica
	isNew    bool     // the set has never run. Else its Leases are those that an earlier run has released
	keys     []string // the items of labour; nil for one item of each slot
}

// play runs a test under virtual time. At its end, all replicas end.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: newServer()}
		w.audit.init()
		defer synctest.Wait()
		defer w.group.Wait()
		defer func() {
			for _, r := range w.replicas { // A test that fails leaves some.
				r.stop()
			}
		}()
		f(w)
	})
}

// A replica is a Shards with its client.
type replica struct {
	*Shards
	*client
	world *world
	stop  func() // ends Run, and does not wait
	err   chan error

	overruns journal[any]
	log      journal[string] // the lines of the logger

	listed func(items []string) // called for each list of labour; may be nil
	late   atomic.Bool          // see life
}

// A journal is a list that several goroutines write.
type journal[T any] struct {
	mu   sync.Mutex
	list []T
}

func (j *journal[T]) add(entries ...T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, entries...)
}

func (j *journal[T]) all() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// quick are the times of the tests: client-go's defaults.
func quick(name string) Options {
	return Options{
		Name: "set", Namespace: "ns", Identity: name,
		Slots: 8, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		CancelBound: 3 * time.Second, DrainTimeout: 10 * time.Second,
	}
}

// make makes a replica that does not run.
func (w *world) make(name string, set func(*Options, *client)) *replica {
	w.Helper()
	o := quick(name)
	r := &replica{world: w, err: make(chan error, 1)}
	r.client = &client{server: w.server, rtt: 5 * time.Millisecond, lag: 5 * time.Millisecond}
	o.OnOverrun = func(_ int, items []any) { r.overruns.add(items...) }
	r.client.timeout = o.RenewDeadline / 2
	if set != nil {
		set(&o, r.client)
	}
	if err := o.complete(); err != nil {
		w.Fatal(err)
	}
	r.Shards = newShards(r.client, r.client, o)
	w.release(r.Shards)
	return r
}

// release makes the Leases of a set that has run before, unless the set is new or there are Leases.
func (w *world) release(s *Shards) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isNew || len(w.log) > 0 {
		return
	}
	for i := range s.slots {
		w.commitLocked(watch.Added, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: s.slotName(i), Labels: s.labels(kindSlot)},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(0)),
				AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
			},
		})
	}
}

// start runs a replica.
func (w *world) start(name string, set func(*Options, *client)) *replica {
	w.Helper()
	r := w.make(name, set)
	r.run()
	return r
}

func (r *replica) run() {
	logger := funcr.New(func(_, line string) { r.log.add(line) }, funcr.Options{})
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
	r.stop = stop
	r.world.replicas = append(r.world.replicas, r)
	r.world.group.Go(func() { r.err <- r.Run(ctx) })
}

// end ends a replica, and waits for it.
func (r *replica) end() {
	r.world.Helper()
	r.stop()
	if err := <-r.err; err != nil {
		r.world.Errorf("Run of %s: %v", r.id, err)
	}
}

// leaseOf returns the name of the Lease of a member.
func leaseOf(r *replica) string { return (&membership{shards: r.Shards}).name() }

// work runs a replica with handlers, see labour.
func (r *replica) work(heedless time.Duration) *replica {
	r.labour(heedless)
	r.run()
	return r
}

// labour has a handler at work on one item of each slot that the replica owns, until the
// ownership ends. A heedless handler goes on after its context for as long.
func (r *replica) labour(heedless time.Duration) {
	queue := adder(func(item string) {
		r.world.group.Go(func() {
			ctx, done, err := r.Context(context.Background(), item)
			if err != nil {
				return
			}
			r.world.audit.enter(item, r.id)
			<-ctx.Done()
			time.Sleep(heedless)
			r.world.audit.leave(item, r.id)
			done()
		})
	})
	if err := Attach(context.Background(), r.Shards, queue, func(_ context.Context, slot int) ([]string, error) {
		items := r.items(slot)
		if r.listed != nil {
			r.listed(items)
		}
		return items, nil
	}); err != nil {
		r.world.Error(err)
	}
}

// items returns the items of a slot.
func (r *replica) items(slot int) (items []string) {
	if r.world.keys == nil {
		return []string{itemOf(r.Shards, slot)}
	}
	for _, key := range r.world.keys {
		if r.SlotOf(key) == slot {
			items = append(items, key)
		}
	}
	return items
}

type adder = adderOf[string]

type adderOf[T any] func(item T)

func (f adderOf[T]) Add(item T) { f(item) }

// itemOf returns an item of a slot.
func itemOf(s *Shards, slot int) string {
	for i := 0; ; i++ {
		if item := "ns/" + strconv.Itoa(i); s.SlotOf(item) == slot {
			return item
		}
	}
}

// An audit notes who works on which item, and for how long two did so.
type audit struct {
	mu      sync.Mutex
	at      map[string]map[string]time.Time // who works on an item, and since when
	left    map[string]time.Time            // when the last one stopped
	overlap time.Duration                   // the longest
	mixed   time.Duration                   // the longest of replicas with different numbers of slots
	gap     time.Duration                   // the longest time in which nobody had an item that somebody has now
	enters  int
}

func (a *audit) init() {
	a.at, a.left = make(map[string]map[string]time.Time), make(map[string]time.Time)
}

func (a *audit) enter(item, who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at[item] == nil {
		a.at[item] = make(map[string]time.Time)
	}
	if left, ok := a.left[item]; ok && len(a.at[item]) == 0 {
		a.gap = max(a.gap, time.Since(left))
	}
	a.at[item][who] = time.Now()
	a.enters++
}

// count returns how often somebody began.
func (a *audit) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.enters
}

func (a *audit) leave(item, who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := a.at[item][who]
	delete(a.at[item], who)
	for other, since := range a.at[item] {
		if since.Before(mine) {
			since = mine
		}
		longest := &a.overlap
		if isOther(who) != isOther(other) {
			longest = &a.mixed
		}
		*longest = max(*longest, time.Since(since), time.Nanosecond)
	}
	a.left[item] = time.Now()
}

// spread fails unless each slot has exactly one owner, and no replica has more than one slot
// more than another.
func (w *world) spread(replicas ...*replica) {
	w.Helper()
	owners, low, high := make(map[int]string), 1<<30, 0
	for _, r := range replicas {
		held := r.Held()
		for _, slot := range held {
			if other, ok := owners[slot]; ok {
				w.Errorf("%v and %v own slot %d", other, r.id, slot)
			}
			owners[slot] = r.id
		}
		low, high = min(low, len(held)), max(high, len(held))
	}
	if len(owners) != len(replicas[0].slots) || high-low > 1 {
		w.Errorf("%d of %d slots have an owner, %d to %d each", len(owners), len(replicas[0].slots), low, high)
	}
}

// alone fails if two have worked on an item at a time.
func (w *world) alone() {
	w.Helper()
	if overlap := w.overlap(); overlap > 0 {
		w.Errorf("two replicas have worked on an item for %v", overlap)
	}
}

func (w *world) overlap() time.Duration {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	return w.audit.overlap
}

// gap fails if the longest time in which an item had nobody is not within bounds, and begins a new
// one.
func (w *world) gap(when string, least, most time.Duration) {
	w.Helper()
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	w.within("the longest time without an owner "+when, w.audit.gap, least, most)
	w.audit.gap = 0
}

// await waits until the condition holds, and fails after five minutes.
func (w *world) await(condition func() bool) {
	w.Helper()
	for end := time.Now().Add(5 * time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("the condition does not hold after five minutes")
		}
	}
}

func (w *world) within(what string, got, least, most time.Duration) {
	w.Helper()
	if got < least || got > most {
		w.Errorf("%s took %v, want %v to %v", what, got, least, most)
	}
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("pod-%d", i))
	}
	return list
}
