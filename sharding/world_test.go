package sharding

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
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
	stops    []func()
	isNew    bool     // the set has never run. Else an earlier run has released its Leases
	keys     []string // the items of labour; nil for an item of each slot
}

// play runs a test under virtual time. At its end, all replicas end without an error, unless the test has
// received the error.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: newServer(), audit: audit{at: make(map[string]map[string]time.Time)}}
		defer synctest.Wait()
		defer func() {
			for _, stop := range w.stops {
				stop()
			}
			w.group.Wait()
			for _, r := range w.replicas {
				if len(r.err) > 0 {
					r.end()
				}
			}
		}()
		f(w)
	})
}

// playAs plays a subtest.
func playAs(t *testing.T, name string, f func(w *world)) {
	t.Run(name, func(t *testing.T) { play(t, f) })
}

// A replica is a Shards with its client.
type replica struct {
	*Shards
	*client
	world *world
	stop  func() // ends Run, and does not wait
	err   chan error

	gained, lost journal[ownership] // unless the test has functions of its own
	overruns     journal[any]
	log          journal[string] // the lines of the logger

	listed func(items []string) // called for each list of labour; may be nil
}

type ownership struct {
	slot  int
	epoch int64
}

// A journal is a list for several goroutines.
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

// make makes a replica without running the replica.
func (w *world) make(name string, set func(*Options, *client)) *replica {
	w.Helper()
	o := quick(name)
	r := &replica{world: w, err: make(chan error, 1)}
	r.client = &client{server: w.server, rtt: 5 * time.Millisecond, lag: 5 * time.Millisecond}
	o.OnGained = func(_ context.Context, slot int, epoch int64) { r.gained.add(ownership{slot, epoch}) }
	o.OnLost = func(_ context.Context, slot int, epoch int64) { r.lost.add(ownership{slot, epoch}) }
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

// release makes the Leases of a set after its last run, unless the set is new or there are Leases.
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
	r.world.stops = append(r.world.stops, stop)
	r.world.replicas = append(r.world.replicas, r)
	r.world.group.Go(func() { r.err <- r.Run(ctx) })
}

// end ends a replica, and waits for the end of Run.
func (r *replica) end() {
	r.world.Helper()
	r.stop()
	if err := <-r.err; err != nil {
		r.world.Errorf("Run of %s: %v", r.id, err)
	}
}

// slow are the times of a program: the defaults of this package.
func slow(o *Options, c *client) {
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound, o.DrainTimeout = 0, 0, 0, 0, 0
	c.timeout = 10 * time.Second
}

// one makes a replica with a single slot, without running the replica.
func (w *world) one(name string, set func(*Options, *client)) *replica {
	w.Helper()
	return w.make(name, func(o *Options, c *client) {
		o.Slots = 1
		if set != nil {
			set(o, c)
		}
	})
}

// owner starts a replica with a single slot, and waits until the replica owns the slot.
func (w *world) owner(set func(*Options, *client)) *replica {
	w.Helper()
	r := w.one("a", set)
	r.run()
	time.Sleep(8 * time.Second)
	return r
}

// loser is an Identity without the slot, in a set of a single slot beside "a".
var loser = func() string {
	for i := 0; ; i++ {
		if name := "b" + strconv.Itoa(i); assign([]string{"a", name}, 1)[0] == "a" {
			return name
		}
	}
}()

// pair starts A with a handler at work, and B, which has seen everything and owns nothing.
func (w *world) pair(heedless time.Duration) (a, b *replica) {
	w.Helper()
	a = w.one("a", nil).work(heedless)
	time.Sleep(8 * time.Second)
	b = w.one(loser, nil).work(heedless)
	time.Sleep(8 * time.Second)
	if got := w.leaders(); !slices.Equal(got, []string{"a"}) || len(a.Held()) != 1 {
		w.Fatalf("%v are at work, want the first replica", got)
	}
	return a, b
}

// leaseOf returns the name of the Lease of a member.
func leaseOf(r *replica) string { return (&membership{shards: r.Shards}).name() }

// work runs a replica with handlers, see labour.
func (r *replica) work(heedless time.Duration) *replica {
	r.labour(heedless)
	r.run()
	return r
}

// labour has a handler at work on an item of each slot of the replica, until the
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
	attach(r, queue, func(slot int) ([]string, error) {
		items := r.items(slot)
		if r.listed != nil {
			r.listed(items)
		}
		return items, nil
	})
}

// attach attaches a queue. The test fails if Attach does.
func attach[T comparable](r *replica, queue Queue[T], list func(slot int) ([]T, error)) {
	r.world.Helper()
	err := Attach(r.world.Context(), r.Shards, queue, func(_ context.Context, slot int) ([]T, error) { return list(slot) })
	if err != nil {
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
	overlap time.Duration                   // the longest
	enters  int
}

func (a *audit) enter(item, who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at[item] == nil {
		a.at[item] = make(map[string]time.Time)
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
	for _, since := range a.at[item] {
		if since.Before(mine) {
			since = mine
		}
		a.overlap = max(a.overlap, time.Since(since), time.Nanosecond)
	}
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

// leaders returns the contenders at work.
func (w *world) leaders() (names []string) {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	for _, at := range w.audit.at {
		for name := range at {
			names = append(names, identityOf(name))
		}
	}
	slices.Sort(names)
	return names
}

// phases calls f with times of one RetryPeriod: two replicas renew at any distance from each other.
func phases(f func(phase time.Duration)) {
	for phase := time.Duration(0); phase < 2*time.Second; phase += 100 * time.Millisecond {
		f(phase)
	}
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("pod-%d", i))
	}
	return list
}
