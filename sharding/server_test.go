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

// as returns the change as a watch shows it: an object that matches no more is deleted there, with the
// state in which it matched last.
func (n *change) as(matches func(*coordinationv1.Lease) bool) (e watch.Event, ok bool) {
	switch did := n.last != nil && matches(n.last); {
	case n.Type == watch.Deleted:
		return n.Event, did
	case matches(n.Object.(*coordinationv1.Lease)):
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

// remove deletes a Lease, as by kubectl.
func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commitLocked(watch.Deleted, s.leases[name])
}

// removeAll deletes all Leases.
func (s *server) removeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.leases)) {
		s.commitLocked(watch.Deleted, s.leases[name])
	}
}

// clear takes the holder out of a Lease, as by kubectl.
func (s *server) clear(name string) {
	s.edit(name, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[name]; l != nil {
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

	// before is called when a request is about to be sent, after when it was carried out and
	// the answer is on its way. Either may wait, or return the error of the request.
	before, after func(ctx context.Context, verb, name string) error
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
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.hole, c.fails = hang, !hang
	if !hang {
		c.broken++
	}
	c.server.change.Broadcast()
}

func (c *client) blind() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.mute = true
}

// delay breaks the watches. Lists and watches show everything later by lag from then on, so the first
// list may be older than what was shown before.
func (c *client) delay(lag time.Duration) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.lag = lag
	c.broken++
	c.server.change.Broadcast()
}

func (c *client) heal() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.hole, c.fails, c.mute, c.hides = false, false, false, nil
	c.broken++
	c.server.change.Broadcast()
}

var errRefused = errors.New("connection refused")

// send waits as a request does, and runs do at the moment in which the server acts.
func (c *client) send(ctx context.Context, verb, name string, do func() error) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if c.before != nil {
		if err := c.before(ctx, verb, name); err != nil {
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
		<-ctx.Done()
		return ctx.Err()
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

func (c *client) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (out *coordinationv1.Lease, err error) {
	out = new(coordinationv1.Lease)
	err = c.send(ctx, "create", lease.Name, func() error {
		c.server.writes.Add(1)
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.server.leases[lease.Name] != nil {
			return apierrors.NewAlreadyExists(resource, lease.Name)
		}
		out = c.server.commitLocked(watch.Added, c.amended(lease))
		return nil
	})
	return out, err
}

func (c *client) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (out *coordinationv1.Lease, err error) {
	out = new(coordinationv1.Lease)
	err = c.send(ctx, "update", lease.Name, func() error {
		c.server.writes.Add(1)
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		last := c.server.leases[lease.Name]
		switch {
		case lease.Name == "":
			return errors.New("resource name may not be empty")
		case last == nil:
			return apierrors.NewNotFound(resource, lease.Name)
		case last.ResourceVersion != lease.ResourceVersion:
			return apierrors.NewConflict(resource, lease.Name, errors.New("the object has been modified"))
		}
		out = c.server.commitLocked(watch.Modified, c.amended(lease))
		return nil
	})
	return out, err
}

func (c *client) amended(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if c.amend != nil {
		lease = lease.DeepCopy()
		c.amend(lease)
	}
	return lease
}

func (c *client) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return c.send(ctx, "delete", name, func() error {
		c.server.writes.Add(1)
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		last := c.server.leases[name]
		if last == nil {
			return apierrors.NewNotFound(resource, name)
		}
		c.server.commitLocked(watch.Deleted, last)
		return nil
	})
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (out *coordinationv1.Lease, err error) {
	out = new(coordinationv1.Lease)
	err = c.send(ctx, "get", name, func() error {
		c.server.reads.Add(1)
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		last := c.server.leases[name]
		if last == nil {
			return apierrors.NewNotFound(resource, name)
		}
		out = last.DeepCopy()
		return nil
	})
	return out, err
}

func (c *client) List(ctx context.Context, o metav1.ListOptions) (out *coordinationv1.LeaseList, err error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	out = new(coordinationv1.LeaseList)
	err = c.send(ctx, "list", "", func() error {
		lag, hides := c.sight()
		leases, version := c.server.asOf(lag)
		for _, l := range leases {
			if selector.Matches(labels.Set(l.Labels)) && !hides(l) {
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
	var hides func(*coordinationv1.Lease) bool
	w.lag, hides = c.sight()
	w.matches = func(l *coordinationv1.Lease) bool { return selector.Matches(labels.Set(l.Labels)) && !hides(l) }
	c.server.mu.Lock()
	w.broken = c.broken
	c.server.mu.Unlock()
	go w.pump()
	return w, nil
}

// sight returns what a list or a watch that begins now shows: how late, and without which Leases.
func (c *client) sight() (lag time.Duration, hides func(*coordinationv1.Lease) bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.hides == nil {
		return c.lag, func(*coordinationv1.Lease) bool { return false }
	}
	return c.lag, c.hides
}

type watcher struct {
	client  *client
	from    int
	broken  int
	lag     time.Duration
	matches func(*coordinationv1.Lease) bool
	results chan watch.Event
	once    sync.Once
	stop    chan struct{}
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.stop)
		w.client.server.mu.Lock()
		defer w.client.server.mu.Unlock()
		w.client.server.change.Broadcast()
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
			event, ok := n.as(w.matches)
			if !ok {
				continue
			}
			if d := time.Until(n.at.Add(w.lag)); d > 0 {
				select {
				case <-time.After(d):
				case <-w.stop:
					return
				}
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
