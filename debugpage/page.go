package debugpage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

const (
	maxQueues  = 500
	maxSharing = 10
	maxSearch  = 200         // bytes
	maxRefresh = 3600        // seconds
	fresh      = time.Second // for how long the reading of a queue is shown again
	patience   = 5 * time.Second
)

// Options are the options of a [Page]. The zero value is valid.
type Options struct {
	// Title is the title of the page, such as the name of the program. "" is "Work queues". Bytes that are
	// not UTF-8 are replaced.
	Title string

	// Redact returns what the page may show of a key or of the name of a group. The text of a key
	// is that of [fmt.Sprint], of any length. Redact may be called concurrently: for each key that a request
	// shows, and in a search for each item of the queue. A search finds only what Redact returns. nil shows the
	// keys as they are.
	Redact func(key string) string

	// Stuck is how long an item may be in flight before the page marks the item; 0 is a minute.
	// A queue knows these times if it has metrics or KeepTimes.
	Stuck time.Duration
}

// Queue are the methods of a queue that the page calls. The queues of the package workqueue have
// the methods, and types that embed such a queue.
type Queue[T comparable] interface {
	Stats() workqueue.QueueStats
	Snapshot(limit int) workqueue.Snapshot[T]
	Items() iter.Seq[workqueue.ItemInfo[T]]
	ShuttingDown() bool
}

// A Page is an [http.Handler] that shows queues. [New] makes a Page. All methods may be called
// concurrently. The package comment says what a request costs.
type Page struct {
	title string
	show  shower
	stuck time.Duration

	mu     sync.Mutex
	queues []*entry // guarded by mu, in the order of their names
}

// New returns a page without queues.
func New(options Options) *Page {
	return &Page{
		title: strings.ToValidUTF8(cmp.Or(options.Title, "Work queues"), "\uFFFD"),
		show:  shower{options.Redact},
		stuck: cmp.Or(options.Stuck, time.Minute),
	}
}

// Add puts a queue on the page, until remove is called. remove may be called any number of times.
// A queue stays on the page after its shutdown, and the page keeps the queue in memory.
//
// If the page has a queue of the name, the added queue gets a number behind its name: "name#2". The
// shown name is the name with control characters escaped, cut after 200 characters.
func Add[T comparable](p *Page, name string, q Queue[T]) (remove func()) {
	g := glancer[T]{queue: q}
	e := &entry{
		turn:   make(chan struct{}, 1),
		stats:  q.Stats,
		ending: q.ShuttingDown,
		glance: g.glance,
		look:   func(l *look) { lookAt(q, l) },
		keys:   func(w io.Writer) error { return writeKeys(w, q, p.show) },
	}
	p.show.protect(func() { e.limiter = q.Stats().Pace.Limiter }) // Here and once: a queue keeps its Pace.
	p.add(e, cmp.Or(clean(name), "(no name)"))
	return func() { p.remove(e) }
}

func (p *Page) add(e *entry, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.name = name
	at, taken := p.find(name)
	if taken {
		// A number that is free, behind a number that is taken. The search is binary, as thousands of
		// queues may have one name.
		numbered := func(n int) string { return fmt.Sprintf("%s#%d", name, n+2) }
		e.name = numbered(sort.Search(math.MaxInt32, func(n int) bool {
			_, taken := p.find(numbered(n))
			return !taken
		}))
		at, _ = p.find(e.name)
	}
	p.queues = slices.Insert(p.queues, at, e)
}

func (p *Page) remove(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues = slices.DeleteFunc(p.queues, func(other *entry) bool { return other == e })
}

// find returns the place of a name in queues. The lock is held.
func (p *Page) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(p.queues, name, func(e *entry, name string) int { return cmp.Compare(e.name, name) })
}

// first returns the first queues, and how many queues there are.
func (p *Page) first() (queues []*entry, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.queues[:min(len(p.queues), maxQueues)]), len(p.queues)
}

func (p *Page) named(name string) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, found := p.find(name); found {
		return p.queues[at]
	}
	return nil
}

// sharing returns the names of the first other queues whose Pace is the limiter of this queue.
func (p *Page) sharing(e *entry) (names []string) {
	if e.limiter == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.queues {
		if other != e && other.limiter == e.limiter && len(names) < maxSharing {
			names = append(names, other.name)
		}
	}
	return names
}

// An entry is a queue on the page, of any type of items.
type entry struct {
	name   string
	stats  func() workqueue.QueueStats
	ending func() bool
	glance func(now time.Time) glance
	look   func(l *look)
	keys   func(w io.Writer) error

	limiter *rate.Limiter // of the Pace

	// turn is a lock for which a request waits no longer than its context. The lock guards the
	// fields below.
	turn    chan struct{}
	summary Summary
	detail  Detail
	points  []Point
}

// acquire reports whether the request has got its turn. A turn that is free is taken also if the
// context has ended: the request may have waited for another queue.
func (e *entry) acquire(ctx context.Context) bool {
	select {
	case e.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case e.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *entry) release() { <-e.turn }

// summarized returns the numbers of the queue.
func (e *entry) summarized(ctx context.Context, p *Page) Summary {
	if !e.acquire(ctx) {
		return Summary{Name: e.name, Error: errBusy}
	}
	defer e.release()
	if now := time.Now().UTC(); now.Sub(e.summary.read) >= fresh {
		e.summarize(p, now, "")
	}
	return e.summary
}

// detailed returns all about the queue, with the items that the search finds.
func (e *entry) detailed(ctx context.Context, p *Page, search string) (Detail, bool) {
	if !e.acquire(ctx) {
		return Detail{}, false
	}
	defer e.release()
	now := time.Now().UTC()
	if now.Sub(e.detail.read) < fresh && e.detail.Search == search {
		return e.detail, true
	}
	l := e.summarize(p, now, search)
	if failure := p.show.protect(func() { e.look(l) }); failure != "" {
		l.detail.Error = failure
	}
	l.detail.Points = l.detail.points
	e.detail = l.detail
	return e.detail, true
}

// summarize reads the numbers of the queue, and begins the look that reads the items.
func (e *entry) summarize(p *Page, now time.Time, search string) *look {
	l := &look{show: p.show, stuck: p.stuck, now: now, search: search, detail: Detail{Search: search, Timeline: newTimeline()}}
	s := &l.detail.Summary
	s.Name, s.PaceSharedWith = e.name, p.sharing(e)
	s.Error = l.show.protect(func() {
		l.summarize(e.stats(), e.ending())
		s.glance = e.glance(l.now)
		s.PutOff = s.glance.putOff.Seconds()
		if next := s.glance.next; !next.IsZero() {
			s.NextDue = next.Sub(l.now).Seconds()
		}
	})
	if s.Error == "" {
		e.points = record(e.points, pointOf(l.now, s))
	}
	s.points = slices.Clone(e.points)
	if s.Error == "" {
		s.Letter = s.ask()
	}
	s.read = l.now
	e.summary = *s
	return l
}

const errBusy = "the queue is busy with other requests of this page: try again"

// A view is a request's reading of the page.
type view struct {
	Report

	page    *Page
	query   url.Values
	Refresh int // seconds; 0 is none
}

// ServeHTTP answers GET and HEAD, with the queries that the package comment lists. It answers 405 to other
// methods, 404 for a queue that the page does not have, and 400 for a search of more than 200 bytes. A path below that
// of the page, as /debug/workqueue/NAME, leads to the queue of the name.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	if name := below(r); name != "" && !query.Has("queue") {
		query.Set("queue", strings.TrimSuffix(name, "/"))
		up := strings.Repeat("../", strings.Count(name, "/")) // Relative: a proxy may have cut the path.
		w.Header().Set("Location", "./"+up+"?"+query.Encode())
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if query.Get("format") == "keys" {
		p.serveKeys(w, query.Get("queue"))
		return
	}
	v := &view{page: p, query: query}
	status := v.fill(ctx)
	// The whole answer is made before the first byte is written: a slow reader holds nothing.
	var body htmlWriter
	if v.query.Get("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(v.Report); err != nil {
			http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
			return
		}
	} else {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		body.page(v)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// below returns the path of the request below the path at which a ServeMux has the page.
func below(r *http.Request) string {
	at := strings.IndexByte(r.Pattern, '/')
	if at < 0 || !strings.HasSuffix(r.Pattern, "/") {
		return ""
	}
	rest, ok := strings.CutPrefix(r.URL.Path, r.Pattern[at:])
	if !ok { // A handler before this one has cut the path.
		return ""
	}
	return rest
}

// serveKeys writes all keys of a queue, as somebody needs them before a restart. Unlike the page, it writes while it
// reads, takes no turn and has no end of time: the keys may be more than fit into memory twice. A slow reader holds
// the request alone, as no lock is held while a key is written.
func (p *Page) serveKeys(w http.ResponseWriter, name string) {
	e := p.named(name)
	if e == nil {
		http.Error(w, fmt.Sprintf("there is no queue %q", clean(name)), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var err error
	failure := p.show.protect(func() { err = e.keys(w) })
	if failure != "" && err == nil {
		_, _ = fmt.Fprintf(w, "# Reading the queue has panicked: %s\n", failure)
	}
}

func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// fill reads what the request asks for, and returns the status of the answer.
func (v *view) fill(ctx context.Context) (status int) {
	p := v.page
	v.Title, v.Time = p.title, time.Now().UTC()
	if n, err := strconv.Atoi(v.query.Get("refresh")); err == nil && n > 0 {
		v.Refresh = min(n, maxRefresh)
	}
	queues, total := p.first()
	v.QueuesTotal = total
	if len(v.query.Get("search")) > maxSearch { // Each link of the page has the search.
		v.Error = fmt.Sprintf("a search has up to %d bytes", maxSearch)
		return http.StatusBadRequest
	}
	if !v.query.Has("queue") {
		for _, e := range queues {
			v.Queues = append(v.Queues, e.summarized(ctx, p))
		}
		return http.StatusOK
	}
	search := searched(v.query.Get("search"))
	e := p.named(v.query.Get("queue"))
	if e == nil {
		v.Error = fmt.Sprintf("there is no queue %q", clean(v.query.Get("queue")))
		return http.StatusNotFound
	}
	d, ok := e.detailed(ctx, p, search)
	if !ok {
		v.Error = errBusy
		return http.StatusServiceUnavailable
	}
	v.Queue, v.Time = &d, d.read.UTC()
	return http.StatusOK
}
