package sharding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
)

// ErrNotOwned is the error of [Shards.Context] for an item of another replica, and the cause
// with which contexts end when the ownership ends.
var ErrNotOwned = errors.New("sharding: another replica has the slot of the item")

// Shards is one replica of a set. [New] makes Shards; the zero value is not usable. All methods
// may be called concurrently, and before Run too: then nothing is owned. Shards must not be
// copied.
type Shards struct {
	options       Options
	id            string // the holder in Leases: Identity, an underscore, and a UUID
	writes, reads coordination.LeasesGetter
	slots         []slot
	view          view
	wake          chan struct{} // holds a token while the plan is out of date

	ran     sync.Once
	ending  chan struct{}  // closed when the context of Run has ended
	running sync.WaitGroup // the goroutines of slots

	mu        sync.Mutex
	queues    []attached
	runs      []run   // of slots
	abandoned []error // see abandon
}

// SlotOf returns the slot of an item or object, from 0 to Slots-1, see Key in the [Options].
// The slot of a key is the same in all versions of this package.
func (s *Shards) SlotOf(item any) int {
	if tombstone, ok := item.(cache.DeletedFinalStateUnknown); ok && tombstone.Obj != nil {
		item = tombstone.Obj
	}
	return int(hash(s.options.Key(item)) % uint64(len(s.slots)))
}

// KeyOf returns namespace/name of an object or item, or the name alone without a namespace. It
// knows strings, objects with GetNamespace and GetName, [cache.DeletedFinalStateUnknown], and
// what has a String of the form namespace/name: [cache.ObjectName], types.NamespacedName and
// the requests of controller-runtime. KeyOf panics for items of other types, which need a Key
// in the [Options].
func KeyOf(item any) string {
	switch item := item.(type) {
	case string:
		return strings.TrimPrefix(item, "/")
	case interface {
		GetNamespace() string
		GetName() string
	}:
		return strings.TrimPrefix(item.GetNamespace()+"/"+item.GetName(), "/")
	case cache.DeletedFinalStateUnknown:
		return strings.TrimPrefix(item.Key, "/")
	case fmt.Stringer:
		return strings.TrimPrefix(item.String(), "/")
	}
	panic(fmt.Sprintf("sharding: no key for an item of type %T: set Key in the Options", item))
}

// Owns reports whether this replica may begin to work on the item now. It asks the clock: after
// the process was stopped for a while, Owns reports false before any context has ended. Owns
// takes 0.1 us and the lock of the slot.
//
// The answer may be out of date at once. Use [Shards.Context] around the work.
func (s *Shards) Owns(item any) bool {
	return s.slots[s.SlotOf(item)].owns(time.Now())
}

// Context returns a context for the work on an item, which ends with ctx and when the ownership
// of the item ends, then with the cause [ErrNotOwned]. The caller calls done at the end of the
// work, and must have begun nothing that goes on: a hand-over waits for done. If the item is
// another replica's, the error is ErrNotOwned, and the caller drops the item: the replica that
// gains the slot lists the item.
//
// After the end of the context, the caller has the CancelBound of the [Options] to call done.
func (s *Shards) Context(ctx context.Context, item any) (owned context.Context, done context.CancelFunc, err error) {
	sl := &s.slots[s.SlotOf(item)]
	owned, cancel := context.WithCancelCause(ctx)
	c := &call{item, cancel}
	if !sl.begin(c) {
		cancel(ErrNotOwned)
		return nil, nil, ErrNotOwned
	}
	return owned, func() {
		cancel(context.Canceled)
		sl.finish(c)
	}, nil
}

// Held returns the slots that this replica owns, in order.
func (s *Shards) Held() (slots []int) {
	now := time.Now()
	for i := range s.slots {
		if s.slots[i].owns(now) {
			slots = append(slots, i)
		}
	}
	return slots
}

func (s *Shards) slotName(slot int) string { return s.options.Name + "-" + strconv.Itoa(slot) }

func (s *Shards) labels(kind string) map[string]string {
	return map[string]string{labelSet: s.options.Name, labelKind: kind, labelSlots: strconv.Itoa(len(s.slots))}
}

// Run takes slots and keeps them until ctx ends. Then Run hands over all slots at once, and
// returns nil when their handlers have ended and the Leases are released. A Shards can run
// once.
//
// Handlers that go on after the end of ctx for more than DrainTimeout + CancelBound are in the
// error. Run then returns without them.
//
// Run also returns an error if a Lease of the set says another number of slots. A replica that owns no
// slot ends when it sees any such Lease. A replica that owns slots logs and ignores a member with
// another number, but ends all ownerships when it sees such a Lease of a slot: two sets are at work on
// the same keys, and nobody can tell which one is right.
//
// The logger is that of ctx, see [klog.FromContext]. The elector logs two levels deeper.
func (s *Shards) Run(ctx context.Context) error {
	first := false
	s.ran.Do(func() { first = true })
	if !first {
		return errors.New("sharding: Run was called before: make new Shards")
	}
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() { s.view.reflector().RunWithContext(base) })
	if err := s.view.sync(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var member sync.WaitGroup
	ctx, leave := context.WithCancel(ctx)
	member.Go(func() { (&membership{shards: s}).keep(ctx, base) })
	err := s.plan(ctx, base)
	leave()
	member.Wait()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.abandoned, err)...)
}

// Start is Run, under the name that a manager of controller-runtime calls.
func (s *Shards) Start(ctx context.Context) error { return s.Run(ctx) }

// NeedLeaderElection returns false: a manager of controller-runtime starts the Shards in each
// replica.
func (s *Shards) NeedLeaderElection() bool { return false }
