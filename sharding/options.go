package sharding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Options configure a [Shards]. Name and Namespace are required. A zero of the others stands
// for the default.
//
// All replicas of a set need the same Name, Namespace, Slots and Key, and the same three times
// of Leases.
type Options struct {
	// Name is the name of the set, and begins the names of its Leases. At most 40 characters.
	Name string

	// Namespace is where the Leases are.
	Namespace string

	// Identity is the name of the replica, usually of its pod. Empty is the host name. UTF-8. Each
	// process adds a UUID, so that equal identities do no harm. Slots are assigned by the
	// Identity alone: a container that is started again under the same name gets its slots back.
	Identity string

	// Owner, usually the pod, has the Lease of the membership collected when the owner is
	// deleted. Without an owner, the other replicas delete the Lease after two LeaseDurations. The owner
	// must be in the Namespace of the Leases: the collector of Kubernetes takes any other for deleted.
	Owner *metav1.OwnerReference

	// Slots is how many parts the keys have; 0 stands for 32. The number cannot change while
	// replicas run: Run returns an error if the Leases of the set have another number, see there.
	// Some 8 slots for each replica keep the largest share within an eighth of the others.
	Slots int

	// LeaseDuration is how long a Lease must stay unchanged, or must be missing, until another
	// replica takes the slot; 0 stands for 30 s. Full seconds, 2 at least. A set that has never run
	// has no Leases, so its first start takes a LeaseDuration.
	LeaseDuration time.Duration

	// RenewDeadline is how long an ownership is valid after its last successful renewal was
	// sent; 0 stands for 20 s.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two renewals of a Lease; 0 stands for 5 s.
	RetryPeriod time.Duration

	// CancelBound is how long handlers may go on after the end of their context; 0 stands for
	// 8 s. RenewDeadline + CancelBound must be less than LeaseDuration. The rest is the
	// margin for clocks that differ in rate, and for the scheduler.
	CancelBound time.Duration

	// DrainTimeout is how long a hand-over waits for handlers before their contexts end;
	// 0 stands for 30 s. The replica renews and owns the slot meanwhile.
	DrainTimeout time.Duration

	// Settle is how long the members must stay the same before slots that are owned are handed
	// over, and how long a new replica waits for others to appear; 0 stands for 5 s. A hand-over also
	// waits until the new owner has renewed its Lease since the change: that of a replica that was killed
	// counts as a member for a while. Slots without an owner do not wait.
	Settle time.Duration

	// MaxMoving is how many slots a replica hands over at a time; 0 stands for 4. The end of Run
	// hands over all slots at once, as nobody works on their keys any more.
	MaxMoving int

	// Key returns the text from which the slot of an item is computed; nil stands for [KeyOf].
	// Key gets the items of Owns, SlotOf and Context, and the objects of Handler and Indexers.
	// For a tombstone of the cache, Key gets the object in the tombstone, if there is one. Key
	// must always return the same text for an object and its item. To keep the keys of a group
	// in one slot, return the name of the group, such as the namespace. Key may be called
	// concurrently.
	Key func(item any) string

	// OnGained is called when a slot was gained, before the first handler of the slot. ctx
	// ends with the ownership. epoch grows with each ownership of the slot, as long as nobody
	// deletes the Lease of the slot: the epoch may begin anew then. Calls for different slots may
	// be concurrent. The slot waits for OnGained, also at its end: OnGained has to return when ctx ends, and
	// no OnOverrun watches it. The same holds for the list of an attached queue.
	OnGained func(ctx context.Context, slot int, epoch int64)

	// OnLost is called when a slot was lost or is handed over, after the last handler of the
	// slot, and before another replica gets a slot that is handed over. OnLost is not called for a
	// slot whose handlers outlive Run: the error of Run names the slot. Run waits for OnLost.
	OnLost func(ctx context.Context, slot int, epoch int64)

	// OnOverrun is called when handlers of a slot go on after the CancelBound, with their
	// items: after the loss of a slot, and at the end of Run. Another replica may start to work
	// on the same keys, so the default logs the items and exits the process with the code 1. If
	// OnOverrun returns, the process does not try for the slot before these handlers have ended.
	OnOverrun func(slot int, items []any)

	// Force admits a configuration in which one replica with all slots makes more than 100 writes
	// a second to the API server. The writes of further replicas are not counted.
	Force bool
}

// maxWrites is how many writes a second to the API server need a Force.
const maxWrites = 100

func orDefault[T comparable](value *T, other T) {
	var zero T
	if *value == zero {
		*value = other
	}
}

// complete fills in the defaults, and reports what makes no sense.
func (o *Options) complete() error {
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("sharding: Identity is empty, and there is no host name: %w", err)
		}
		o.Identity = host
	}
	orDefault(&o.Slots, 32)
	orDefault(&o.LeaseDuration, 30*time.Second)
	orDefault(&o.RenewDeadline, 20*time.Second)
	orDefault(&o.RetryPeriod, 5*time.Second)
	orDefault(&o.CancelBound, 8*time.Second)
	orDefault(&o.DrainTimeout, 30*time.Second)
	orDefault(&o.Settle, 5*time.Second)
	orDefault(&o.MaxMoving, 4)
	if o.Key == nil {
		o.Key = KeyOf
	}
	if o.OnOverrun == nil {
		o.OnOverrun = exit
	}
	return o.check()
}

func (o *Options) check() error {
	var errs []error
	wrong := func(is bool, format string, values ...any) {
		if is {
			errs = append(errs, fmt.Errorf("sharding: "+format, values...))
		}
	}
	wrong(len(o.Name) > 40 || len(validation.IsDNS1123Label(o.Name)) > 0, "Name %q is no DNS label of at most 40 characters", o.Name)
	wrong(o.Namespace == "", "Namespace is empty")
	wrong(o.Slots < 1 || o.Slots > 1<<16, "Slots is %d: want 1 to 65536", o.Slots)
	wrong(o.MaxMoving < 1, "MaxMoving is %d: want 1 at least", o.MaxMoving)
	wrong(o.LeaseDuration%time.Second != 0, "LeaseDuration is %v: a Lease has full seconds only", o.LeaseDuration)
	wrong(o.LeaseDuration/time.Second == releasedSeconds, "LeaseDuration is %v, as in a Lease that was released: want 2 s at least", o.LeaseDuration)
	wrong(o.LeaseDuration/time.Second > math.MaxInt32, "LeaseDuration is %v: a Lease has 31 bits of seconds", o.LeaseDuration)
	wrong(!utf8.ValidString(o.Identity), "Identity %q is not UTF-8: a Lease would not have the same text", o.Identity)
	for _, d := range []time.Duration{o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound, o.DrainTimeout, o.Settle} {
		wrong(d < 0, "a time is negative: %v", d)
	}
	// Differences of times that are not negative do not overflow, and sums do.
	wrong(o.CancelBound >= o.LeaseDuration-o.RenewDeadline, "RenewDeadline %v + CancelBound %v must be less than LeaseDuration %v", o.RenewDeadline, o.CancelBound, o.LeaseDuration)
	wrong(o.RetryPeriod > o.RenewDeadline/2, "RetryPeriod %v is more than half of RenewDeadline %v: one lost request loses the slot", o.RetryPeriod, o.RenewDeadline)
	if rate := float64(o.Slots+1) / o.RetryPeriod.Seconds(); rate > maxWrites && !o.Force {
		errs = append(errs, fmt.Errorf("sharding: %d slots and a RetryPeriod of %v are %.0f writes a second to the API server: use fewer slots or a longer period, or set Force", o.Slots, o.RetryPeriod, rate))
	}
	return errors.Join(errs...)
}

// New returns the Shards of one replica. Nothing is sent before [Shards.Run]. The error names each option that has
// no meaning, more than 100 writes a second without Force, and a host that has no name.
//
// New makes clients of its own from cfg: the QPS limit of cfg would delay renewals, and a
// renewal must not wait behind the lists of a controller. A request for a Lease times out after
// half of the RenewDeadline, which leaves time for a second one. These requests go through
// HTTP/1.1: a request that times out there closes its connection, while a dead connection of
// HTTP/2 would keep each request for 45 s, longer than a RenewDeadline.
func New(cfg *rest.Config, o Options) (*Shards, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "sharding")
	cfg.QPS, cfg.RateLimiter = -1, nil
	watch := rest.CopyConfig(cfg)
	watch.Timeout = 0 // A timeout would end each watch.
	cfg.Timeout = o.RenewDeadline / 2
	cfg.NextProtos = []string{"http/1.1"}
	writes, err := coordination.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("sharding: %w", err)
	}
	reads, err := coordination.NewForConfig(watch)
	if err != nil {
		return nil, fmt.Errorf("sharding: %w", err)
	}
	return newShards(writes, reads, o), nil
}

// newShards takes complete options.
func newShards(writes, reads coordination.LeasesGetter, o Options) *Shards {
	s := &Shards{
		options: o,
		id:      o.Identity + "_" + string(uuid.NewUUID()),
		writes:  writes, reads: reads,
		slots:  make([]slot, o.Slots),
		runs:   make([]run, o.Slots),
		wake:   make(chan struct{}, 1),
		ending: make(chan struct{}),
	}
	for i := range s.slots {
		s.slots[i] = slot{shards: s, index: i, calls: make(map[*call]struct{})}
	}
	s.view.init(s)
	return s
}

// exit is the default of OnOverrun.
func exit(slot int, items []any) {
	klog.Background().Error(nil, "sharding: handlers go on after the end of their ownership and its CancelBound: the process exits", "slot", slot, "items", items)
	klog.Flush()
	os.Exit(1)
}

// identityOf returns the Identity in the holder of a Lease.
func identityOf(holder string) string {
	if i := strings.LastIndexByte(holder, '_'); i >= 0 {
		return holder[:i]
	}
	return holder
}
