package sharding

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// A server is the API server for Leases, in memory: with resource versions, conflicts, and
// watches from a version on. client-go's fake clientset has no conflicts.
type server struct {
	mu     sync.Mutex
	change *sync.Cond // of log, or of a client
	leases map[string]*coordinationv1.Lease
	log    []change // the change to version v is log[v-1]

	reads, writes atomic.Int64
}

type change struct {
	watch.Event
	at   time.Time
	last *coordinationv1.Lease // before the change; nil if there was none
}

// as returns the change as a watch shows it: a Lease that is shown no more is deleted there, with the
// state in which it was shown last.
func (n *change) as(shows func(*coordinationv1.Lease) bool) (e watch.Event, ok bool) {
	switch did := n.last != nil && shows(n.last); {
	case n.Type == watch.Deleted:
		return n.Event, did
	case shows(n.Object.(*coordinationv1.Lease)):
		return n.Event, true
	default:
		return watch.Event{Type: watch.Deleted, Object: n.last}, did
	}
}

func newServer() *server {
	s := &server{leases: make(map[string]*coordinationv1.Lease)}
	s.change = sync.NewCond(&s.mu)
	return s
}

// commitLocked makes a change. Objects in the log are never written to.
func (s *server) commitLocked(kind watch.EventType, lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	lease.ResourceVersion = strconv.Itoa(len(s.log) + 1)
	last := s.leases[lease.Name]
	if kind == watch.Deleted {
		delete(s.leases, lease.Name)
	} else {
		s.leases[lease.Name] = lease
	}
	s.log = append(s.log, change{watch.Event{Type: kind, Object: lease}, time.Now(), last})
	s.change.Broadcast()
	return lease.DeepCopy()
}

// add makes a Lease, as by kubectl.
func (s *server) add(lease *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commitLocked(watch.Added, lease)
}

// edit changes a Lease, as by kubectl.
func (s *server) edit(name string, f func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := s.leases[name].DeepCopy()
	f(lease)
	s.commitLocked(watch.Modified, lease)
}

// remove deletes Leases, as by kubectl; without names, all.
func (s *server) remove(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.leases))
	}
	for _, name := range names {
		s.commitLocked(watch.Deleted, s.leases[name])
	}
}

// lease returns a copy of a Lease, or nil.
func (s *server) lease(name string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[name].DeepCopy()
}

// asOf returns the Leases as they were some time ago, and the version of that state.
func (s *server) asOf(ago time.Duration) (leases map[string]*coordinationv1.Lease, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases, version = maps.Clone(s.leases), len(s.log)
	for version > 0 && time.Since(s.log[version-1].at) < ago {
		version--
		if c := &s.log[version]; c.last != nil {
			leases[c.last.Name] = c.last
		} else {
			delete(leases, c.Object.(*coordinationv1.Lease).Name)
		}
	}
	return leases, version
}

func (s *server) holder(name string) string {
	if l := s.lease(name); l != nil {
		return *l.Spec.HolderIdentity
	}
	return ""
}

// A client is one replica's way to the server. Beside an error, a client returns an empty Lease and
// not nil, as the client of client-go does.
type client struct {
	coordination.LeaseInterface // nil: what is not written here panics

	server  *server
	timeout time.Duration // of a request; 0 for none
	rtt     time.Duration
	lag     time.Duration // of the lists and watches that begin from now on

	// before is called when a request is about to be sent, and guarded by server.mu. after is called when
	// the request was carried out and the answer is on its way. Either may be nil.
	before, after hook
	// amend changes what is written.
	amend func(*coordinationv1.Lease)

	broken int // guarded by server.mu; how often the watches were broken
	hole   bool
	fails  bool
	mute   bool                             // watches show nothing, and requests go on
	hides  func(*coordinationv1.Lease) bool // what lists and watches do not show; nil for nothing
}

func (c *client) Leases(string) coordination.LeaseInterface { return c }

// IsWatchListSemanticsUnSupported tells the reflector to list first.
func (c *client) IsWatchListSemanticsUnSupported() bool { return true }

// cut makes requests hang or fail, and watches silent, until heal.
func (c *client) cut(hang bool) {
	c.set(!hang, func() { c.hole, c.fails = hang, !hang })
}

func (c *client) blind() { c.set(false, func() { c.mute = true }) }

// delay breaks the watches. Lists and watches show everything later by lag from then on, so the first
// list may be older than what was shown before.
func (c *client) delay(lag time.Duration) { c.set(true, func() { c.lag = lag }) }

func (c *client) heal() {
	c.set(true, func() { c.hole, c.fails, c.mute, c.hides = false, false, false, nil })
}

// meet has requests that are sent from now on meet a hook before they act.
func (c *client) meet(before hook) { c.set(false, func() { c.before = before }) }

// set changes the client, and breaks its watches or not.
func (c *client) set(breaks bool, f func()) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	f()
	if breaks {
		c.broken++
	}
	c.server.change.Broadcast()
}

// A hook is called for a request, and may wait, or return the error of the request.
type hook func(ctx context.Context, verb, name string) error

var errRefused = errors.New("connection refused")

func refused(context.Context, string, string) error { return errRefused }

func hung(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// each has do meet the requests of a verb for a Lease. An empty verb stands for all, and an empty name.
func each(verb, name string, do hook) hook {
	return func(ctx context.Context, v, n string) error {
		if (verb == "" || v == verb) && (name == "" || n == name) {
			return do(ctx, v, n)
		}
		return nil
	}
}

// once has do meet only the first of the requests.
func once(verb, name string, do hook) hook {
	var met atomic.Bool
	return each(verb, name, func(ctx context.Context, v, n string) error {
		if met.CompareAndSwap(false, true) {
			return do(ctx, v, n)
		}
		return nil
	})
}

// send waits as a request does, and runs do at the moment in which the server acts.
func (c *client) send(ctx context.Context, verb, name string, do func() error) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	c.server.mu.Lock()
	before := c.before
	c.server.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb, name); err != nil {
			return err
		}
	}
	if err := c.path(ctx); err != nil {
		return err
	}
	if err := pause(ctx, c.rtt/2); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if c.after != nil {
		if err := c.after(ctx, verb, name); err != nil {
			return err
		}
	}
	if err := c.path(ctx); err != nil { // The answer is lost too.
		return err
	}
	return pause(ctx, c.rtt/2)
}

func (c *client) path(ctx context.Context) error {
	c.server.mu.Lock()
	hole, fails := c.hole, c.fails
	c.server.mu.Unlock()
	switch {
	case hole:
		return hung(ctx, "", "")
	case fails:
		return errRefused
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// act sends a request for a Lease. do is called with the Lease, or nil, while the server is locked.
func (c *client) act(ctx context.Context, verb, name string, do func(last *coordinationv1.Lease) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	out := new(coordinationv1.Lease)
	return out, c.send(ctx, verb, name, func() error {
		if verb == "get" {
			c.server.reads.Add(1)
		} else {
			c.server.writes.Add(1)
		}
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		last := c.server.leases[name]
		if last == nil && verb != "create" {
			return apierrors.NewNotFound(resource, name)
		}
		lease, err := do(last)
		if err == nil {
			lease.DeepCopyInto(out)
		}
		return err
	})
}

func (c *client) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.act(ctx, "create", lease.Name, func(last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		if last != nil {
			return nil, apierrors.NewAlreadyExists(resource, lease.Name)
		}
		return c.server.commitLocked(watch.Added, c.amended(lease)), nil
	})
}

func (c *client) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if lease.Name == "" {
		return new(coordinationv1.Lease), errors.New("resource name may not be empty")
	}
	return c.act(ctx, "update", lease.Name, func(last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		if last.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(resource, lease.Name, errors.New("the object has been modified"))
		}
		return c.server.commitLocked(watch.Modified, c.amended(lease)), nil
	})
}

func (c *client) amended(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if c.amend != nil {
		lease = lease.DeepCopy()
		c.amend(lease)
	}
	return lease
}

func (c *client) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	_, err := c.act(ctx, "delete", name, func(last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return c.server.commitLocked(watch.Deleted, last), nil
	})
	return err
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.act(ctx, "get", name, func(last *coordinationv1.Lease) (*coordinationv1.Lease, error) { return last, nil })
}

func (c *client) List(ctx context.Context, o metav1.ListOptions) (out *coordinationv1.LeaseList, err error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	out = new(coordinationv1.LeaseList)
	err = c.send(ctx, "list", "", func() error {
		lag, shows := c.sight(selector)
		leases, version := c.server.asOf(lag)
		for _, l := range leases {
			if shows(l) {
				out.Items = append(out.Items, *l.DeepCopy())
			}
		}
		slices.SortFunc(out.Items, func(a, b coordinationv1.Lease) int { return cmp.Compare(a.Name, b.Name) })
		out.ResourceVersion = strconv.Itoa(version)
		return nil
	})
	return out, err
}

func (c *client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	// A watch has no timeout of its own. HTTP/2 closes a silent connection after 45 s.
	sending, sent := context.WithTimeout(ctx, 45*time.Second)
	defer sent()
	if err := c.path(sending); err != nil {
		return nil, err
	}
	from, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{client: c, from: from, results: make(chan watch.Event), stop: make(chan struct{})}
	w.lag, w.shows = c.sight(selector)
	c.server.mu.Lock()
	w.broken = c.broken
	c.server.mu.Unlock()
	go w.pump()
	return w, nil
}

// sight returns what a list or a watch that begins now shows: how late, and which Leases.
func (c *client) sight(selector labels.Selector) (lag time.Duration, shows func(*coordinationv1.Lease) bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	hides := c.hides
	return c.lag, func(l *coordinationv1.Lease) bool {
		return selector.Matches(labels.Set(l.Labels)) && (hides == nil || !hides(l))
	}
}

type watcher struct {
	client  *client
	from    int
	broken  int
	lag     time.Duration
	shows   func(*coordinationv1.Lease) bool
	results chan watch.Event
	once    sync.Once
	stop    chan struct{}
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) Stop() {
	w.once.Do(func() {
		w.client.set(false, func() { close(w.stop) })
	})
}

func (w *watcher) pump() {
	defer close(w.results)
	for {
		news, ok := w.next()
		if !ok {
			return
		}
		for _, n := range news {
			event, ok := n.as(w.shows)
			if !ok {
				continue
			}
			select {
			case <-time.After(time.Until(n.at.Add(w.lag))):
			case <-w.stop:
				return
			}
			select {
			case w.results <- event:
			case <-w.stop:
				return
			}
		}
	}
}

// next waits for changes.
func (w *watcher) next() (news []change, ok bool) {
	s := w.client.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case isClosed(w.stop) || w.broken != w.client.broken:
			return nil, false
		case !w.client.hole && !w.client.fails && !w.client.mute && w.from < len(s.log):
			news, w.from = s.log[w.from:len(s.log):len(s.log)], len(s.log)
			return news, true
		}
		s.change.Wait()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
