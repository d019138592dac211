package debugpage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

type queueOf[T comparable] = workqueue.TypedRateLimiting[T]

func newQueue[T comparable](t testing.TB) *queueOf[T] {
	t.Helper()
	q := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](30*time.Second, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[T]{KeepTimes: true})
	t.Cleanup(q.ShutDown)
	return q
}

func get(t testing.TB, p http.Handler, query string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/anywhere"+query, nil))
	return w
}

func report(t testing.TB, p http.Handler, query string) debugpage.Report {
	t.Helper()
	var r debugpage.Report
	body := get(t, p, query+"&format=json").Body.Bytes()
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r
}

// fill gives a queue two items in flight, and of the other states what the golden file has.
func fill(q *queueOf[string]) {
	q.AddAll("slow", "again", "next", "last")
	q.Get()
	q.Get()
	time.Sleep(2 * time.Minute)
	q.Add("again")
	q.AddRateLimited("failing")
	q.AddAfter("later", 3*time.Hour)
	five := 5
	q.AddWith(workqueue.AddOptions{Priority: &five}, "urgent")
	time.Sleep(10 * time.Second)
}

// The golden file is the schema as programs see it: a change other than a new field breaks them.
func TestJSONOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t)
		fill(q)
		p := debugpage.New(debugpage.Options{Title: "golden"})
		debugpage.Add(p, "a queue", q)
		got := get(t, p, "?queue=a+queue&search=a&format=json")
		if got.Header().Get("Content-Type") != "application/json" {
			t.Error("got", got.Header())
		}
		compareGolden(t, "testdata/queue.json", got.Body.String())
		compareGolden(t, "testdata/queues.json", get(t, p, "?format=json").Body.String())
		q.ShutDown()
	})
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err == nil && string(want) == got {
		return
	}
	t.Errorf("%s differs: %v; the test has written what it got. It got\n%s", file, err, got)
	if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
		t.Error(err)
	}
}

// A title with other bytes made a page that is not UTF-8, as its header says it is.
func TestTitleThatIsNotUTF8(t *testing.T) {
	p := debugpage.New(debugpage.Options{Title: "caf\xe9 <b>"})
	for _, query := range []string{"", "?format=json"} {
		if body := get(t, p, query).Body.String(); !utf8.ValidString(body) || !strings.Contains(body, "caf\uFFFD ") {
			t.Errorf("%q: got %q", query, body)
		}
	}
}

// The page says which groups are held back, that Pace pauses a queue, and why a queue with a provider is not
// counted.
func TestPageSaysWhatKeepsAQueue(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: struct{ workqueue.MetricsProvider }{workqueue.NoMetrics{}}, Pace: rate.NewLimiter(0.05, 0),
		Order: workqueue.Order[string]{
			Group:       func(item string) string { return item[:1] },
			MaxInFlight: func(group string) int { return map[string]int{"a": workqueue.HoldBack}[group] },
		},
	})
	defer q.ShutDown()
	debugpage.Add(p, "q", q)
	q.AddAll("a1", "b1")
	body := get(t, p, "?queue=q").Body.String()
	for _, want := range []string{"<td>a (held back)</td>", "<td>b</td>", "Pace has a limit or a burst of 0", `<dd id="pace">0.05/s, burst 0</dd>`, "no StateProvider"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	r := report(t, p, "?queue=q")
	if r.Queue.Pace != (workqueue.PaceStats{Limit: 0.05}) || !r.Queue.Paused || !r.Queue.Pushed || r.Queue.Counted || !r.Queue.ByGroup[0].HeldBack || r.Queue.ByGroup[1].HeldBack {
		t.Errorf("got %+v", r.Queue)
	}
}

// An operator saw two queues starve each other, and nothing on their pages named the other one.
func TestPageNamesWhoSharesThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := debugpage.New(debugpage.Options{})
		shared := rate.NewLimiter(0, 0)
		for name, limiter := range map[string]*rate.Limiter{"orders": shared, "refunds": shared, "alone": rate.NewLimiter(0, 0), "free": nil} {
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
			defer q.ShutDown()
			q.Add("a")
			go q.GetContext(t.Context())
			debugpage.Add(p, name, q)
		}
		synctest.Wait()
		overview := get(t, p, "?").Body.String()
		if n := strings.Count(overview, ", shared with"); n != 2 || !strings.Contains(overview, "The Pace has no token</a>, shared with refunds<") {
			t.Errorf("the overview names %d neighbours, want 2:\n%s", n, overview)
		}
		for name, want := range map[string]string{"orders": "0/s, burst 0, shared with refunds<", "refunds": "0/s, burst 0, shared with orders<", "alone": "0/s, burst 0<"} {
			if body := get(t, p, "?queue="+name).Body.String(); !strings.Contains(body, want) {
				t.Errorf("the page of %s lacks %q:\n%s", name, want, body)
			}
		}
		if r := report(t, p, "?queue=orders"); !slices.Equal(r.Queue.PaceSharedWith, []string{"refunds"}) {
			t.Errorf("got %+v", r.Queue.PaceSharedWith)
		}
		if body := get(t, p, "?queue=free").Body.String(); strings.Contains(body, "burst") {
			t.Errorf("a queue without a Pace:\n%s", body)
		}
	})
}

// The work became far shorter, as it was no work any more, and the page had no word of its time.
func TestPageShowsTheTimeOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
		})
		defer q.ShutDown()
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		for _, step := range []struct {
			work time.Duration
			want string
		}{{0, "–, ever –"}, {9 * time.Second, "9 s, ever 9 s"}, {time.Second, "1 s, ever 5 s"}} {
			if step.work > 0 {
				time.Sleep(time.Minute)
				q.Add("a")
				q.Get()
				time.Sleep(step.work)
				q.Done("a")
			}
			if body := get(t, p, "?queue=q").Body.String(); !strings.Contains(body, "<dt>Work</dt><dd>"+step.want+"</dd>") {
				t.Errorf("the page lacks %q:\n%s", step.want, body)
			}
		}
	})
}

// One of two sources was lost, and only the rate of the adds told: the queue was well.
func TestPageShowsTheRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
		})
		defer counted.ShutDown()
		for _, row := range []struct {
			queue debugpage.Queue[string]
			want  string
		}{{counted, "3/s|1.5/s"}, {newQueue[string](t), "–|–"}} {
			p := debugpage.New(debugpage.Options{})
			debugpage.Add(p, "q", row.queue)
			get(t, p, "?")
			for i := range 30 {
				if row.queue == counted {
					counted.Add(fmt.Sprint(i))
				}
				if row.queue == counted && i%2 == 0 {
					item, _ := counted.Get()
					counted.Done(item)
				}
			}
			time.Sleep(10 * time.Second)
			adds, done, _ := strings.Cut(row.want, "|")
			want := `<td class="n">` + adds + `</td><td class="n">` + done + `</td>`
			if body := get(t, p, "?").Body.String(); !strings.Contains(body, want) {
				t.Errorf("the page lacks %q:\n%s", want, body)
			}
		}
	})
}

// The page shows the first items of a queue, and before a restart an operator needs all.
func TestAllKeysAsText(t *testing.T) {
	q := newQueue[string](t)
	p := debugpage.New(debugpage.Options{Redact: func(key string) string { return strings.ReplaceAll(key, "secret", "***") }})
	debugpage.Add(p, "q", q)
	long := strings.Repeat("x", 1000)
	q.AddAll("held", long, "secret\nkey", "<b>")
	q.Get()
	q.AddAfter("later", time.Hour)
	w := get(t, p, "?queue=q&format=keys")
	lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	slices.Sort(lines)
	want := []string{"in_flight\theld", "queued\t***\\nkey", "queued\t<b>", "queued\t" + long, "waiting\tlater"}
	if !slices.Equal(lines, want) || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %v\n%q, want\n%q", w.Header(), lines, want)
	}
	if body := get(t, p, "?queue=q&search=x").Body.String(); !strings.Contains(body, `<a href="?format=keys&amp;queue=q">`) {
		t.Errorf("the page of the queue has no link to the keys:\n%s", body)
	}
	if w := get(t, p, "?queue=none&format=keys"); w.Code != http.StatusNotFound {
		t.Errorf("got %d for a queue that is not there", w.Code)
	}
	debugpage.Add(p, "broken", broken{q, "Items"})
	if body := get(t, p, "?queue=broken&format=keys").Body.String(); !strings.Contains(body, "# Reading the queue has panicked: ") {
		t.Errorf("got %q of a queue that panics", body)
	}
}

// The name of a queue as the end of the path showed all queues.
func TestPathBelowThePageLeadsToTheQueue(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	for _, name := range []string{"pods", "a/b c"} {
		q := newQueue[string](t)
		debugpage.Add(p, name, q)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /debug/workqueue/", p)
	mux.Handle("/exact", p)
	mux.Handle("/strip/", http.StripPrefix("/strip", p))
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/debug/workqueue/":                 "<h1>2 queues",
		"/debug/workqueue/pods":             "<h1>pods",
		"/debug/workqueue/pods/":            "<h1>pods",
		"/debug/workqueue/a/b%20c":          "<h1>a/b c",
		"/debug/workqueue/none":             "there is no queue",
		"/exact":                            "<h1>2 queues",
		"/strip/pods":                       "<h1>2 queues",
		"/debug/workqueue?queue=pods":       "<h1>pods",
		"/debug/workqueue/no?queue=pods":    "<h1>pods",
		"/debug/workqueue/pods?format=json": `"name": "pods"`,
	} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, and the page lacks %q:\n%s", path, err, want, body)
		}
	}
}

// A Pace of 1 divided by 0 has a limit that JSON cannot write: all of the page was an error.
func TestPageWithAnInfinitePace(t *testing.T) {
	for _, limit := range []rate.Limit{rate.Limit(math.Inf(1)), rate.Limit(math.NaN())} {
		p := debugpage.New(debugpage.Options{})
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: rate.NewLimiter(limit, 1)})
		debugpage.Add(p, "q", q)
		if got := report(t, p, "?queue=q").Queue.Pace.Limit; got != rate.Inf {
			t.Errorf("the limit %v is shown as %v", limit, got)
		}
		q.ShutDown()
	}
}

// The results are those of Run, and the page leaves out the outcomes that nothing has had.
func TestPageShowsTheResultsOfRun(t *testing.T) {
	provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
	q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: provider})
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	if body := get(t, p, "?queue=q&format=json").Body.String(); strings.Contains(body, "results") {
		t.Errorf("results before a Run:\n%s", body)
	}
	q.AddAll("good", "bad", "worse")
	ctx, cancel := context.WithCancel(t.Context())
	handled := 0
	err := workqueue.Run(ctx, q, func(_ context.Context, item string) error {
		if handled++; handled == 3 {
			cancel()
		}
		if item == "good" {
			return nil
		}
		return workqueue.Permanent(errors.New(item))
	}, workqueue.RunOptions[string]{})
	if err != nil {
		t.Fatal(err)
	}
	later := debugpage.New(debugpage.Options{}) // p has the numbers of less than a second ago.
	debugpage.Add(later, "q", q)
	want := map[workqueue.Outcome]uint64{workqueue.OutcomeSucceeded: 1, workqueue.OutcomeGivenUp: 2}
	for outcome, n := range report(t, later, "?").Queues[0].Results {
		if n != want[outcome] {
			t.Errorf("%v: got %d, want %d", outcome, n, want[outcome])
		}
		delete(want, outcome)
	}
	body := get(t, later, "?queue=q").Body.String()
	if len(want) > 0 || !strings.Contains(body, `<dt>Result given up</dt><dd id="result-given_up">2</dd>`) || strings.Contains(body, "result-failed") {
		t.Errorf("no results %v; the page is\n%s", want, body)
	}
	if format := get(t, later, "?format=json").Body.String(); !strings.Contains(format, `"given_up": 2`) {
		t.Errorf("got %s", format)
	}
}

// The page of the schema names each field, and no other.
func TestTheSchemaIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/debugpage.md")
	if err != nil {
		t.Fatal(err)
	}
	types := []reflect.Type{
		reflect.TypeFor[debugpage.Report](), reflect.TypeFor[debugpage.Summary](), reflect.TypeFor[debugpage.Detail](),
		reflect.TypeFor[debugpage.Part](), reflect.TypeFor[debugpage.Item](), reflect.TypeFor[debugpage.Span](), reflect.TypeFor[debugpage.Point](),
	}
	for _, typ := range types {
		_, section, _ := strings.Cut(string(page), "### "+typ.Name()+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		fields := 0
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			fields++
			if !strings.Contains(section, "\n| `"+name+"` |") {
				t.Errorf("the section %s has no row of %s", typ.Name(), name)
			}
		}
		if rows := strings.Count(section, "\n| `"); rows != fields {
			t.Errorf("the section %s has %d rows for %d fields", typ.Name(), rows, fields)
		}
	}
}

// The table of all queues shows how many of the last items have failed, in red if all have, and which
// queue is paused.
func TestTheTableShowsQueuesThatFailOrArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Inf, 0)
		q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}), Pace: limiter,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		var broken atomic.Bool
		quiet := logr.Discard()
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		check := func(name, want string) {
			t.Helper()
			synctest.Wait()
			body := get(t, p, "?").Body.String()
			if want = `<td class="n">` + want + "</td>"; !strings.Contains(body, ">q</a>"+name+"</td>") || !strings.Contains(body, want) {
				t.Errorf("want %q and %q:\n%s", name, want, body)
			}
		}
		check("", "–")
		if body := get(t, p, "?queue=q").Body.String(); !strings.Contains(body, `<dd id="pace">no limit</dd>`) {
			t.Errorf("want no limit:\n%s", body)
		}
		time.Sleep(time.Second)
		go func() {
			ended <- workqueue.Run(ctx, q, func(context.Context, string) error {
				if broken.Load() {
					return workqueue.Permanent(errors.New("broken"))
				}
				return nil
			}, workqueue.RunOptions[string]{Logger: &quiet})
		}()
		q.AddAll("a", "b")
		check("", "0 of 2 in 1 s")
		broken.Store(true)
		time.Sleep(5 * time.Minute)
		q.AddAll("a", "b", "c")
		check("", `<span class="bad">3 of 5 in 5 m 1 s, 3 given up</span>`)
		time.Sleep(6 * time.Minute)
		q.Add("a")
		check("", `<span class="bad">1 of 1 in 6 m, 1 given up</span>`)
		limiter.SetLimit(0)
		time.Sleep(time.Hour)
		check(" (paused)", "0 of 0 in 1 h")
		other := debugpage.New(debugpage.Options{})
		debugpage.Add(other, "q", q)
		if body := get(t, other, "?").Body.String(); !strings.Contains(body, "4 of 6 ever") {
			t.Errorf("a page without other points has\n%s", body)
		}
		if body := get(t, p, "?queue=q").Body.String(); !strings.Contains(body, "<h1>q (paused)</h1>") {
			t.Errorf("want it paused:\n%s", body)
		}
		if points := report(t, p, "?queue=q").Queue.Points; points[1].Succeeded != 2 || points[1].Failed != 0 || points[4].Succeeded != 2 || points[4].Failed != 4 {
			t.Errorf("got %+v", points)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A queue with 887 items and no worker looked like any other.
func TestPageMarksWhatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true})
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		check := func(when string, workers, oldest bool) {
			t.Helper()
			table, detail := get(t, p, "?").Body.String(), get(t, p, "?queue=q").Body.String()
			for text, want := range map[string]bool{`<span class="bad">0</span>`: workers, `<span class="bad">16 m`: oldest} {
				if strings.Contains(table, text) != want {
					t.Errorf("%s: %s in the table: want %v\n%s", when, text, want, table)
				}
			}
			for text, want := range map[string]bool{`<dd id="workers" class="bad">0</dd>`: workers, `<dd class="bad">16 m`: oldest} {
				if strings.Contains(detail, text) != want {
					t.Errorf("%s: %s on the page of the queue: want %v\n%s", when, text, want, detail)
				}
			}
		}
		check("nothing is queued", false, false)
		q.AddAll("a", "b")
		time.Sleep(15 * time.Minute)
		check("for 15 minutes", true, false)
		time.Sleep(time.Minute)
		check("for 16 minutes", true, true)
		item, _ := q.Get()
		time.Sleep(time.Second) // A report is kept for a moment.
		check("at work", false, true)
		q.Get()
		q.Add(item)
		time.Sleep(time.Second)
		const text = "<p>The depth counts items in flight that were added again.</p>"
		if body := get(t, p, "?queue=q").Body.String(); !strings.Contains(body, text) {
			t.Errorf("want %q:\n%s", text, body)
		}
		q.Done(item)
	})
}

// "No item in the queue has failed" stood beside 901 items that were given up.
func TestPageSaysWhereTheItemsAreThatWereGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
		})
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		const text = "<p>Items given up: 2. They are no more in the queue"
		if body := get(t, p, "?queue=q").Body.String(); strings.Contains(body, "Items given up") {
			t.Errorf("nothing was given up, and the page has\n%s", body)
		}
		q.CountResult(workqueue.OutcomeGivenUp)
		q.CountResult(workqueue.OutcomeGivenUp)
		time.Sleep(time.Second)
		if body := get(t, p, "?queue=q").Body.String(); !strings.Contains(body, text) {
			t.Errorf("want %q:\n%s", text, body)
		}
	})
}

func TestPageShowsTheNumbersOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t)
		fill(q)
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		body := get(t, p, "?queue=q").Body.String()
		for _, want := range []string{
			`<dd id="depth">4</dd>`, `<dd id="in-flight">2</dd>`, `<dd id="waiting">2</dd>`, "2 m 10 s stuck",
			"By priority", "10 s", "7 items were looked at",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("the page has no %s", want)
			}
		}
		r := report(t, p, "?queue=q")
		if n := len(r.Queue.InFlightItems); n != 2 || !r.Queue.InFlightItems[0].Stuck || !r.Queue.Stuck {
			t.Errorf("got in flight %+v", r.Queue.InFlightItems)
		}
		if f := r.Queue.MostFailed; len(f) != 1 || f[0].Key != "failing" || f[0].Failures != 1 {
			t.Errorf("got failures %+v", f)
		}
	})
}

func TestPointsAreTakenByRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[string](t)
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "q", q)
		for i := range 150 {
			q.Add(fmt.Sprint(i))
			get(t, p, "?queue=q")
			get(t, p, "?")
			time.Sleep(time.Second)
		}
		points := report(t, p, "?queue=q").Queue.Points
		if len(points) != 120 || points[119].Depth != 150 || points[0].Depth != 32 {
			t.Errorf("got %d points, %+v to %+v", len(points), points[0], points[len(points)-1])
		}
		body := get(t, p, "?queue=q").Body.String()
		if strings.Count(body, "<polyline") != 6 {
			t.Error("not all charts have a line")
		}
		if want := "There are 120, from 00:00:31 to 00:02:30 UTC."; !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	})
}

var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "'; alert(1); '", "</style></svg></title><script>",
	"javascript:alert(1)", "{{.Title}}", "\x00\x01\x1b[31m\r\n\t", "\xff\xfe\x80", "\u202eevil\u2066", "\ufeff\u200b",
	strings.Repeat("<&>", 1<<19), strings.Repeat("\x00", 1<<20), `back\slash`, "",
}

func TestHostileKeysAndNames(t *testing.T) {
	for _, key := range hostile {
		q := newQueue[string](t)
		q.Add(key)
		q.AddAfter(key, time.Hour)
		q.AddRateLimited(key + "x")
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, key, q)
		name := report(t, p, "?").Queues[0].Name
		if key != "" && len(key) < 100 {
			for _, search := range []string{key, name} { // As in the program, and as on the page.
				if key == `back\slash` && search == key {
					continue // This one only as on the page.
				}
				if r := report(t, p, "?queue="+url.QueryEscape(name)+"&search="+url.QueryEscape(search)); r.Queue.HitsTotal != 3 {
					t.Errorf("%q: a search for %q found %d items, want 3", key, search, r.Queue.HitsTotal)
				}
			}
		}
		short := key[:min(len(key), 100)]
		for _, query := range []string{"?", "?queue=" + url.QueryEscape(name) + "&search=" + url.QueryEscape(short), "?queue=" + url.QueryEscape(short)} {
			for _, format := range []string{"", "&format=json"} {
				w := get(t, p, query+format)
				body := w.Body.String()
				if len(body) > 40_000 {
					t.Errorf("%.20q: an answer of %d bytes", key, len(body))
				}
				for _, bad := range []string{"<script", "<img", `href="java`, "\x00", "\x1b", "\u202e", "\u200b"} {
					if strings.Contains(body, bad) {
						t.Errorf("%.20q: %s%s has %q", key, query, format, bad)
					}
				}
				if !utf8.ValidString(body) {
					t.Errorf("%.20q: an answer that is not UTF-8", key)
				}
			}
		}
	}
}

type panics struct{ n int }

func (panics) String() string { panic("a String that panics") }

func TestKeysThatPanic(t *testing.T) {
	q := newQueue[panics](t)
	q.Add(panics{1})
	p := debugpage.New(debugpage.Options{Redact: func(key string) string { panic("a Redact that panics with " + key) }})
	debugpage.Add(p, "q", q)
	w := get(t, p, "?queue=q")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "(Redact has panicked)") || strings.Contains(w.Body.String(), "a String") {
		t.Errorf("got %d\n%s", w.Code, w.Body)
	}
	p = debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	if w := get(t, p, "?queue=q&search=panics"); w.Code != 200 || !strings.Contains(w.Body.String(), "a String that panics") {
		t.Errorf("got %d\n%s", w.Code, w.Body)
	}
}

// The argument of the panic panics as well when fmt prints the argument.
type panicsAgain struct{ n int }

func (p panicsAgain) String() string { panic(p) }

func TestKeysWhosePanicPanics(t *testing.T) {
	q := newQueue[any](t)
	q.Add(panicsAgain{1})
	q.Add("beside")
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	r := report(t, p, "?queue=q&search=beside")
	if d := r.Queue; d == nil || d.Error != "" || d.HitsTotal != 1 || len(d.QueuedItems) != 2 || d.QueuedItems[0].Key != "(a debugpage_test.panicsAgain whose text panics)" {
		t.Errorf("got %+v", d)
	}
}

// Somebody writes to what a pointer points to, and the race detector would see a page that reads.
func TestKeysThatArePointers(t *testing.T) {
	type object struct{ secret int }
	q := newQueue[any](t)
	o := &object{secret: 4711}
	q.Add(o)
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	var writer sync.WaitGroup
	writer.Go(func() { o.secret++ })
	body := get(t, p, "?queue=q").Body.String()
	writer.Wait()
	if strings.Contains(body, "471") || !strings.Contains(body, "object") {
		t.Error("the page does not show the type of the pointer alone")
	}
}

// A search for what is hidden finds nothing, or it would tell the secret letter by letter.
func TestRedactionLeavesNoOracle(t *testing.T) {
	q := newQueue[string](t)
	secret := "user?token=abc"
	q.AddAll(secret, "other")
	q.AddAfter(secret, time.Hour)
	q.AddRateLimited(secret)
	redact := func(key string) string { before, _, _ := strings.Cut(key, "?"); return before }
	p := debugpage.New(debugpage.Options{Redact: redact})
	debugpage.Add(p, "q", q)
	for search, want := range map[string]int{"token": 0, "abc": 0, "a": 0, "?": 0, "user": 2, "use": 2} {
		r := report(t, p, "?queue=q&search="+url.QueryEscape(search))
		if r.Queue.HitsTotal != want {
			t.Errorf("a search for %q found %d items, want %d", search, r.Queue.HitsTotal, want)
		}
	}
	if body := get(t, p, "?queue=q&search=user").Body.String(); strings.Contains(body, "token") || strings.Contains(body, "abc") {
		t.Error("the page shows what Redact hides")
	}
	if r := report(t, p, "?queue=q&search="+strings.Repeat("a", 201)); r.Error == "" {
		t.Error("a search of any length is taken")
	}
}

// broken panics in the method of its name.
type broken struct {
	*queueOf[string]
	method string
}

func (b broken) Items() iter.Seq[workqueue.ItemInfo[string]] {
	if b.method == "Items" {
		panic("Items of user?token=abc")
	}
	return b.queueOf.Items()
}

func (b broken) Stats() workqueue.QueueStats {
	switch b.method {
	case "Stats":
		panic("Stats")
	case "again":
		panic(panicsAgain{1})
	}
	return b.queueOf.Stats()
}

func TestQueuesThatPanic(t *testing.T) {
	redact := func(key string) string { before, _, _ := strings.Cut(key, "?"); return before }
	p := debugpage.New(debugpage.Options{Redact: redact})
	debugpage.Add(p, "fine", newQueue[string](t))
	debugpage.Add(p, "items", broken{newQueue[string](t), "Items"})
	debugpage.Add(p, "stats", broken{newQueue[string](t), "Stats"})
	debugpage.Add(p, "text", broken{newQueue[string](t), "again"})
	for name, want := range map[string]string{
		"fine": "", "items": "Items of user", "stats": "Stats", "text": "(a debugpage_test.panicsAgain whose text panics)",
	} {
		for range 2 { // The first leaves no lock behind.
			if r := report(t, p, "?queue="+name); r.Queue == nil || r.Queue.Error != want {
				t.Errorf("%s: got %+v, want the error %q", name, r, want)
			}
		}
	}
	if r := report(t, p, "?"); len(r.Queues) != 4 || r.Queues[2].Error != "Stats" {
		t.Errorf("got %+v", r.Queues)
	}
}

// Each Add tried all numbers of the name, and made a text of each number: 8,000 queues took 8 s or
// more, with the lock of the page held.
func TestThousandsOfQueuesOfOneName(t *testing.T) {
	p, q := debugpage.New(debugpage.Options{}), newQueue[string](t)
	const queues = 2000
	for range queues {
		debugpage.Add(p, "q", q)
	}
	for name, want := range map[string]int{"q": 200, "q#2": 200, fmt.Sprint("q#", queues): 200, fmt.Sprint("q#", queues+1): 404} {
		if got := get(t, p, "?queue="+url.QueryEscape(name)).Code; got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	if allocations := testing.AllocsPerRun(10, func() { debugpage.Add(p, "q", q) }); allocations > queues/4 {
		t.Errorf("an Add to %d queues makes %v allocations", queues, allocations)
	}
}

// The numbers of removed queues may be given again, and no number is given twice.
func TestNumbersBesideRemovedQueues(t *testing.T) {
	p, q := debugpage.New(debugpage.Options{}), newQueue[string](t)
	for i := range 300 {
		if remove := debugpage.Add(p, "q", q); i%3 != 0 {
			defer remove()
		} else if i%2 != 0 {
			remove()
		}
	}
	for range 100 {
		debugpage.Add(p, "q", q)
	}
	names := map[string]bool{}
	for _, q := range report(t, p, "?").Queues {
		names[q.Name] = true
	}
	if len(names) != 350 {
		t.Errorf("350 queues have %d names", len(names))
	}
}

func TestQueuesComeAndGo(t *testing.T) {
	synctest.Test(t, testQueuesComeAndGo)
}

func testQueuesComeAndGo(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	if body := get(t, p, "?").Body.String(); !strings.Contains(body, "0 queues") {
		t.Error("an empty page does not say so")
	}
	first, second := newQueue[string](t), newQueue[int](t)
	first.Add("a")
	removeFirst := debugpage.Add(p, "q", first)
	removeSecond := debugpage.Add(p, "q", second)
	names := func() (names []string) {
		for _, q := range report(t, p, "?").Queues {
			names = append(names, fmt.Sprint(q.Name, " ", q.Depth, " ", q.ShuttingDown))
		}
		return names
	}
	if got, want := fmt.Sprint(names()), "[q 1 false q#2 0 false]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	removeFirst()
	removeFirst()
	if w := get(t, p, "?queue=q"); w.Code != http.StatusNotFound {
		t.Errorf("a queue that was removed is shown: %d", w.Code)
	}
	debugpage.Add(p, "q", first)
	removeSecond()
	first.ShutDown()
	time.Sleep(1100 * time.Millisecond) // The numbers of a second ago are shown again.
	if got, want := fmt.Sprint(names()), "[q 1 true]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if w := get(t, p, "?queue=q"); w.Code != 200 || !strings.Contains(w.Body.String(), "(shut down)") {
		t.Errorf("a queue that was shut down: %d\n%s", w.Code, w.Body)
	}
}

func TestRequestsOnlyRead(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", newQueue[string](t))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "FOO"} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(method, "/?queue=q", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s got %d", method, w.Code)
		}
	}
	w := get(t, p, "?queue=q")
	for header, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; style-src 'sha256-",
	} {
		if !strings.HasPrefix(w.Header().Get(header), want) {
			t.Errorf("%s is %q", header, w.Header().Get(header))
		}
	}
	body := w.Body.String()
	for _, bad := range []string{"<script", "http://", "https://", "src=", "style=", "url(", "ZgotmplZ"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	server := httptest.NewServer(p)
	defer server.Close()
	answer, err := http.Head(server.URL + "?queue=q")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if rest, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || len(rest) != 0 {
		t.Errorf("HEAD got %d and %d bytes", answer.StatusCode, len(rest))
	}
}

func TestRefreshAndLinks(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "a&b", newQueue[string](t))
	body := get(t, p, "?queue=a%26b&refresh=5").Body.String()
	for _, want := range []string{`http-equiv="refresh" content="5"`, `href="?format=json&amp;queue=a%26b"`, `href="?refresh=5"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, refresh := range []string{"0", "-1", "x", ""} {
		if strings.Contains(get(t, p, "?refresh="+refresh).Body.String(), "http-equiv") {
			t.Errorf("refresh=%s refreshes", refresh)
		}
	}
	if !strings.Contains(get(t, p, "?refresh=99999999").Body.String(), `content="3600"`) {
		t.Error("a refresh has no bound")
	}
}

// The page of all queues has a link for each queue. Parameters without a bound would make the answer
// 500 times as large as the request.
func TestLongParametersAreNotRepeated(t *testing.T) {
	p := debugpage.New(debugpage.Options{})
	for range 500 {
		debugpage.Add(p, "q", newQueue[string](t))
	}
	usual := get(t, p, "?refresh=5&search=s").Body.Len()
	for _, name := range []string{"search", "refresh", "format", "other"} {
		if n := get(t, p, "?"+name+"="+strings.Repeat("5", 1<<16)).Body.Len(); n > usual+4<<16 {
			t.Errorf("a parameter %s of 64 KiB makes a page of %d bytes, want %d and the parameter four times", name, n, usual)
		}
	}
}

// slow holds up a request that reads its items until release is closed.
type slow struct {
	*queueOf[string]
	walking, release chan struct{}
}

func (s slow) Items() iter.Seq[workqueue.ItemInfo[string]] {
	s.walking <- struct{}{}
	<-s.release
	return s.queueOf.Items()
}

func TestRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := slow{newQueue[string](t), make(chan struct{}, 9), make(chan struct{})}
		p := debugpage.New(debugpage.Options{})
		debugpage.Add(p, "slow", q)
		debugpage.Add(p, "other", newQueue[string](t))
		debugpage.Add(p, "z, behind the slow", newQueue[string](t))
		var requests sync.WaitGroup
		requests.Go(func() { get(t, p, "?queue=slow") })
		synctest.Wait()
		codes := make(chan int, 20)
		for range 20 {
			requests.Go(func() { codes <- get(t, p, "?queue=slow").Code })
		}
		if w := get(t, p, "?queue=other"); w.Code != 200 {
			t.Errorf("the other queue: %d", w.Code)
		}
		start := time.Now()
		if r := report(t, p, "?"); r.Queues[1].Error == "" || r.Queues[0].Error+r.Queues[2].Error != "" || time.Since(start) > 6*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), r.Queues)
		}
		for range 20 {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("got %d", code)
			}
		}
		close(q.release)
		requests.Wait()
		if n := len(q.walking); n != 1 {
			t.Errorf("%d requests have walked at once", n)
		}
		// A result serves all requests of a second.
		time.Sleep(time.Minute)
		for range 30 {
			requests.Go(func() { get(t, p, "?queue=slow") })
		}
		requests.Wait()
		if n := len(q.walking); n != 2 {
			t.Errorf("30 requests in a second have walked %d times", n-1)
		}
	})
}

func TestConcurrentRequests(t *testing.T) {
	q := newQueue[int](t)
	p := debugpage.New(debugpage.Options{})
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 200 {
				q.Add(i*4 + n)
				q.AddRateLimited(i)
				if item, ok := q.TryGet(); ok {
					q.Done(item)
				}
			}
		})
		all.Go(func() {
			for i := range 20 {
				remove := debugpage.Add(p, "q", q)
				get(t, p, fmt.Sprintf("?queue=q&search=%d", i%3))
				get(t, p, "?")
				remove()
			}
		})
	}
	all.Wait()
}

func TestManyItems(t *testing.T) {
	const n = 100_000 // BenchmarkBeside has a million.
	q := queueOfMany(t, n)
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	for _, query := range []string{"?", "?queue=q", "?queue=q&search=9"} {
		if size := get(t, p, query).Body.Len(); size > 200_000 {
			t.Errorf("%s answers with %d bytes", query, size)
		}
	}
	r := report(t, p, "?queue=q&search=9").Queue
	if len(r.Hits) > 100 || len(r.InFlightItems) > 100 || len(r.QueuedItems) > 20 || len(r.WaitingItems) > 20 || len(r.MostFailed) > 20 {
		t.Error("a list has more items than its bound")
	}
	if r.Depth+r.InFlight+r.Waiting != n || !r.Cut && r.LookedAt != n {
		t.Errorf("looked at %d of %d items, cut %v", r.LookedAt, n, r.Cut)
	}
}

// queueOfMany returns a queue with n items: half of them queued, 1,000 in flight, the others waiting.
func queueOfMany(t testing.TB, n int) *queueOf[string] {
	t.Helper()
	q := newQueue[string](t)
	for i := range n / 2 {
		q.Add(fmt.Sprintf("namespace-%d/object-%d", i%100, i))
	}
	for range 1000 {
		q.Get()
	}
	for i := range n - n/2 {
		q.AddAfter(fmt.Sprintf("namespace-%d/waiting-%d", i%100, i), time.Hour+time.Duration(i)*time.Millisecond)
	}
	return q
}

// The page says why an item waits, and why a queued item is not handed out: its group is full, or held back.
func TestWhyAnItemIsNotHandedOut(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Order: workqueue.Order[string]{
			Group: func(item string) string { return item[:1] }, MaxInFlight: func(group string) int {
				return map[string]int{"a": 1, "b": workqueue.HoldBack}[group]
			},
		}})
	defer q.ShutDown()
	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "q", q)
	q.AddAll("a1", "a2", "b")
	q.Get()
	q.AddRateLimited("failed")
	q.AddAfter("planned", 2*time.Hour)
	d := report(t, p, "?queue=q").Queue
	var got []string
	for _, i := range append(d.QueuedItems, d.WaitingItems...) {
		got = append(got, i.Key+" "+i.Why)
	}
	if want := "a2 group_full, b held_back, failed retry, planned delay"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
	if page := get(t, p, "?queue=q").Body.String(); !strings.Contains(page, "<td>group full</td>") {
		t.Errorf("the page does not say that the group of an item is full: %s", page)
	}
}
