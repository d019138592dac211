package debugpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file writes the page. It does without html/template, because of which the linker keeps all exported
// methods of a program: 15 MB of an operator, and 40 MB of a program with the clientset of client-go.

// A markup is HTML. Only constants of this package become markup, without a conversion of a text: what a queue
// says cannot be one.
type markup string

// An htmlWriter writes HTML.
type htmlWriter struct{ bytes.Buffer }

// put writes markup with values in the place of its verbs. Each value is escaped, for a text and for an
// attribute in quotes: a verb may stand nowhere else. Attributes that run scripts or load files are not on the
// page, and a link is made by view.link.
func (w *htmlWriter) put(m markup, values ...any) {
	if len(values) == 0 {
		w.WriteString(string(m))
		return
	}
	for i, v := range values {
		values[i] = html.EscapeString(fmt.Sprint(v))
	}
	fmt.Fprintf(w, string(m), values...)
}

// putIf is put if the condition is true.
func (w *htmlWriter) putIf(condition bool, m markup, values ...any) {
	if condition {
		w.put(m, values...)
	}
}

var (
	//go:embed page.css
	style string

	// policy lets the browser load nothing and run nothing. The style of the page is named by
	// its hash.
	policy = func() string {
		sum := sha256.Sum256([]byte(style))
		return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			base64.StdEncoding.EncodeToString(sum[:]))
	}()
)

// link returns the link to this page with some parameters set to other values; "" leaves a
// parameter out. A link is relative, as the page does not know where it is mounted.
func (v *view) link(pairs ...string) string {
	query := url.Values{}
	for _, name := range []string{"queue", "search"} {
		if value := v.query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	if v.Refresh > 0 {
		query.Set("refresh", strconv.Itoa(v.Refresh))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if query.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			query.Del(pairs[i])
		}
	}
	return "?" + query.Encode()
}

func (w *htmlWriter) page(v *view) {
	w.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
`)
	w.putIf(v.Refresh > 0, `<meta http-equiv="refresh" content="%s">
`, v.Refresh)
	title := v.Title
	if v.Queue != nil {
		title = v.Queue.Name + " – " + title
	}
	w.put(`<title>%s</title>
<style>`, title)
	w.WriteString(style)
	w.put(`</style>
</head>
<body>
`)
	w.header(v)
	w.put("<main>\n")
	switch {
	case v.Error != "":
		w.put(`<h1>Nothing to show</h1>
<p class="note">%s</p>
`, v.Error)
	case v.Queue != nil:
		w.queue(v)
	default:
		w.queues(v)
	}
	w.put(`</main>
</body>
</html>
`)
}

func (w *htmlWriter) header(v *view) {
	w.put(`<header>
<strong>%s</strong>
`, v.Title)
	w.putIf(v.Queue != nil || v.Error != "", `<a href="%s">all queues</a>
`, v.link("queue", "", "search", ""))
	w.put(`<time datetime="%s">%s UTC</time>
<nav>
`, v.Time.UTC().Format("2006-01-02T15:04:05.000Z"), v.Time.UTC().Format("2006-01-02 15:04:05"))
	if v.Refresh > 0 {
		w.put(`<span>every %s s</span> <a href="%s">stop</a>
`, v.Refresh, v.link("refresh", ""))
	} else {
		w.put(`<a href="%s">every 2 s</a> <a href="%s">every 10 s</a>
`, v.link("refresh", "2"), v.link("refresh", "10"))
	}
	w.put(`<a href="%s">JSON</a>
</nav>
</header>
`, v.link("format", "json", "refresh", ""))
}

// queues writes the table of all queues.
func (w *htmlWriter) queues(v *view) {
	noun := "queues"
	if v.QueuesTotal == 1 {
		noun = "queue"
	}
	w.put("<h1>%s %s</h1>\n", group(v.QueuesTotal), noun)
	if len(v.Queues) == 0 {
		w.put("<p>The program has added no queue to this page, or all are removed.</p>\n")
		return
	}
	w.put(`<div class="wide"><table id="queues">
<tr><th>Queue</th><th class="n">Depth</th><th>&nbsp;</th><th class="n">In flight</th><th class="n">Workers</th><th class="n">Waiting</th><th class="n">Adds</th><th class="n">Done</th><th class="n">Failed</th><th class="n">Oldest queued</th><th class="n">Longest in flight</th><th>See</th></tr>
`)
	for _, s := range v.Queues {
		w.row(s.Stuck || s.Error != "")
		w.put(`<td class="key"><a href="%s">%s</a>`, v.link("queue", s.Name), s.Name)
		w.ending(&s)
		w.putIf(s.Error != "", `<br>%s`, s.Error)
		w.put(`</td>
<td class="n">%s</td><td>`, group(s.Depth))
		w.spark(spark(s))
		w.put(`</td><td class="n">%s</td><td class="n">`, group(s.InFlight))
		w.marked(s.lacksWorkers(), group(s.Workers))
		w.put(`</td><td class="n">%s`, group(s.Waiting))
		if s.NextDue >= 60 {
			w.put(`, `)
			w.marked(s.retriesAreFar(), "next in "+shortDuration(s.NextDue))
		}
		w.put(`</td><td class="n">`)
		t := stretchOf(s.points)
		w.put(`%s</td><td class="n">%s</td><td class="n">`, t.rate(s.Counted, t.now.Adds-t.before.Adds), t.rate(s.Counted, t.now.Done-t.before.Done))
		failed := failuresOf(s)
		w.marked(failed.All() || failed.GivenUp > 0, failed)
		w.put(`</td>
<td class="n">`)
		w.marked(s.isLate(), age(s.OldestItem))
		w.put(`</td><td class="n">`)
		if s.Stuck {
			w.marked(true, "stuck "+age(s.LongestRunning))
		} else {
			w.marked(false, age(s.LongestRunning))
		}
		w.put("</td><td>")
		w.letter(&s)
		w.put("</td></tr>\n")
	}
	w.put("</table></div>\n")
	w.putIf(slices.ContainsFunc(v.Queues, func(s Summary) bool { return stretchOf(s.points).isEmpty() }), again)
	w.putIf(v.QueuesTotal > len(v.Queues), "<p>The first %s are shown.</p>\n", len(v.Queues))
}

const again markup = "<p>Load the page again: some answers under See compare two requests.</p>\n"

// row begins the row of a table.
func (w *htmlWriter) row(bad bool) {
	w.put(`<tr`)
	w.put(class(bad))
	w.put(`>`)
}

// class marks an element that is bad.
func class(bad bool) markup {
	if bad {
		return ` class="bad"`
	}
	return ``
}

// marked writes a text, and marks a bad one.
func (w *htmlWriter) marked(bad bool, text any) {
	if bad {
		w.put(`<span class="bad">%s</span>`, text)
	} else {
		w.put(`%s`, text)
	}
}

func (w *htmlWriter) ending(s *Summary) {
	w.putIf(s.ShuttingDown, " (shut down)")
	w.putIf(s.Paused, " (paused)")
}

// letter writes what to read about the state of a queue.
func (w *htmlWriter) letter(s *Summary) {
	w.putIf(s.Letter != "", `<a href="%s">%s</a>`, addressOf(s.Letter), s.Letter)
	w.putIf(s.Letter == letterNoTokens, `%s`, s.shared())
}

// shared names the queues that take the tokens of the Pace too.
func (s *Summary) shared() string {
	if len(s.PaceSharedWith) == 0 {
		return ""
	}
	return ", shared with " + strings.Join(s.PaceSharedWith, ", ")
}

func (w *htmlWriter) spark(c chart) {
	w.putIf(c.Line != "", `<svg class="spark" viewBox="0 0 300 60" preserveAspectRatio="none" aria-hidden="true"><polygon points="%s"/><polyline points="%s"/></svg>`, c.Area, c.Line)
}

// bar writes a number of many as the cell of a table.
func (w *htmlWriter) bar(n, most int) {
	w.put(`<td class="fill"><svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="%s" height="1"/></svg></td>`, bar(n, most))
}

// queue writes all about a queue.
func (w *htmlWriter) queue(v *view) {
	d := v.Queue
	w.put("<h1>%s", d.Name)
	w.ending(&d.Summary)
	w.put("</h1>\n")
	w.putIf(d.Error != "", `<p class="note">Reading the queue has panicked: %s</p>
`, d.Error)
	if d.Letter != "" {
		w.put("<p>See ")
		w.letter(&d.Summary)
		w.put(".</p>\n")
	} else {
		w.putIf(stretchOf(d.points).isEmpty(), again)
	}
	w.numbers(d)
	w.putIf(d.Paused, `<p class="note">The queue is paused: the limiter of its Pace has a limit or a burst of 0, and hands out nothing.</p>
`)
	switch {
	case d.Pushed:
		w.put(`<p>Adds, retries and rates are not counted: the queue has a metrics provider, but no StateProvider, which reads queues. A wrapper around a StateProvider needs a method Unwrap.</p>
`)
	case !d.Counted:
		w.put(`<p>Adds, retries and rates are not counted: no provider such as NewPrometheusProvider reads the queue.</p>
`)
	}
	w.charts(d)
	w.search(d)
	w.lists(d)
	w.put(`<footer>%s items were looked at`, group(d.LookedAt))
	w.putIf(d.Cut, `, and then the time for a request was over: the time line, the failures and the search miss the others`)
	w.put(`. <a href="%s">All keys as text</a></footer>
`, v.link("format", "keys", "search", "", "refresh", ""))
}

func (w *htmlWriter) numbers(d *Detail) {
	named := func(id markup, name, value string) {
		w.put(`<div><dt>%s</dt><dd`, name)
		w.put(id)
		w.put(">%s</dd></div>\n", value)
	}
	w.put("<dl>\n")
	named(` id="depth"`, "Depth", group(d.Depth))
	named(` id="in-flight"`, "In flight", group(d.InFlight))
	named(` id="workers"`+class(d.lacksWorkers()), "Workers", group(d.Workers))
	named(` id="waiting"`, "Waiting", group(d.Waiting))
	named(class(d.isLate()), "Oldest queued", age(d.OldestItem))
	longest := age(d.LongestRunning)
	if d.Stuck {
		longest += " stuck"
	}
	named(class(d.Stuck), "Longest in flight", longest)
	if d.Counted {
		named(` id="adds"`, "Adds", group(d.Adds))
		named(``, "Duplicates", group(d.Duplicates))
		named(` id="done"`, "Done", group(d.Done))
		named(``, "Work", work(&d.Summary))
		named(` id="retries"`, "Retries", group(d.Retries))
	}
	for _, outcome := range slices.Sorted(maps.Keys(d.Results)) {
		if n := d.Results[outcome]; n > 0 {
			w.put(`<div><dt>Result %s</dt><dd id="result-%s">%s</dd></div>
`, words(outcome.String()), outcome, group(n))
		}
	}
	if d.Pace != (workqueue.PaceStats{}) {
		named(` id="pace"`, "Pace", pace(d.Pace)+d.shared())
	}
	if d.Paced > 0 {
		named(``, "Kept back by Pace", shortDuration(d.Paced))
	}
	w.put("</dl>\n")
}

// words returns a name of snake case as words.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func (w *htmlWriter) charts(d *Detail) {
	w.put(`<div class="charts">
`)
	for _, c := range charts(d) {
		w.put(`<figure><figcaption><span>%s <b>%s</b></span><span>up to %s</span></figcaption>
<svg class="chart" viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label="%s, now %s, up to %s">`, c.Name, c.Now, c.Most, c.Name, c.Now, c.Most)
		w.putIf(c.Line != "", `<polygon points="%s"/><polyline points="%s"/>`, c.Area, c.Line)
		w.put("</svg></figure>\n")
	}
	w.put(`</div>
<p>Each request of this page adds a point. `)
	if n := len(d.Points); n > 1 {
		w.put("There are %s, from %s to %s UTC.", n, d.Points[0].Time.Format(time.TimeOnly), d.Points[n-1].Time.Format(time.TimeOnly))
	} else {
		w.put("There is %s.", n)
	}
	w.put("</p>\n")
}

func (w *htmlWriter) search(d *Detail) {
	w.put(`
<h2 id="search">Search</h2>
<form action="?#search">
<input type="hidden" name="queue" value="%s">
<input type="search" name="search" value="%s" maxlength="200" aria-label="a part of a key" placeholder="a part of a key">
<button>Search</button>
</form>
`, d.Name, d.Search)
	if d.Search == "" {
		return
	}
	if len(d.Hits) > 0 {
		w.items(`<div id="hits">`, d.Hits)
	}
	w.put(`<p>%s found`, group(d.HitsTotal))
	w.putIf(d.HitsTotal > len(d.Hits), `, the first %s are shown`, len(d.Hits))
	w.put(".</p>\n")
}

// lists writes the tables of a queue.
func (w *htmlWriter) lists(d *Detail) {
	list := func(title, open markup, items []Item, none markup) {
		w.put("\n<h2>")
		w.put(title)
		w.put("</h2>\n")
		if len(items) > 0 {
			w.items(open, items)
		} else {
			w.put(none)
		}
	}
	list("In flight", `<div id="in-flight-items">`, d.InFlightItems, "<p>Nothing is in flight.</p>\n")
	w.putIf(d.InFlight > len(d.InFlightItems) && len(d.InFlightItems) > 0,
		"<p>%s of %s, held longest first.</p>\n", len(d.InFlightItems), group(d.InFlight))
	if d.Waiting > 0 {
		w.timeline(d.Timeline)
		list("Due next", `<div id="waiting-items">`, d.WaitingItems, "")
	} else {
		list("Waiting", "", nil, "<p>Nothing waits for its time.</p>\n")
	}
	list("Next in line", `<div id="queued-items">`, d.QueuedItems, "<p>Nothing is queued.</p>\n")
	w.putIf(d.Depth > 0 && len(d.QueuedItems) == 0, "<p>The depth counts items in flight that were added again.</p>\n")
	w.parts(`<h2>By priority</h2><div id="by-priority">`, d.ByPriority)
	w.parts(`<h2>By group</h2><div id="by-group">`, d.ByGroup)
	list("Failed most", `<div id="most-failed">`, d.MostFailed, "<p>No item that is queued, in flight or waiting has failed.</p>\n")
	if n := d.Results[workqueue.OutcomeGivenUp]; n > 0 {
		w.put("<p>Items given up: %s. They are no more in the queue, and the log of the program has their keys.</p>\n", group(n))
	}
}

func (w *htmlWriter) timeline(line []Span) {
	w.put(`
<h2>Waiting</h2>
<div class="wide"><table id="timeline">
<tr><th>Due</th><th class="n">Items</th><th>&nbsp;</th></tr>
`)
	most := fullest(line)
	for i, s := range line {
		w.put(`<tr><td>%s</td><td class="n">%s</td>
`, spanName(line, i), group(s.Items))
		w.bar(s.Items, most)
		w.put("</tr>\n")
	}
	w.put("</table></div>\n")
}

// items writes a table of items into an element.
func (w *htmlWriter) items(open markup, items []Item) {
	w.put(open)
	w.put(`
<div class="wide"><table>
<tr><th>Key</th><th>State</th><th class="n">For</th><th class="n">Due in</th><th>Why</th><th class="n">Failures</th><th class="n">Priority</th></tr>
`)
	for _, i := range items {
		w.row(i.Stuck)
		w.put(`<td class="key">%s</td><td>`, i.Key)
		if i.Stuck {
			w.marked(true, "stuck")
		} else {
			w.marked(false, words(i.State))
		}
		due := "–"
		if !i.Due.IsZero() {
			due = shortDuration(i.Left)
		}
		w.put(`</td><td class="n">%s</td>
<td class="n">%s</td><td>%s</td><td class="n">%s</td><td class="n">%s</td></tr>
`, age(i.Age), due, words(i.Why), i.Failures, i.Priority)
	}
	w.put("</table></div>\n</div>\n")
}

// parts writes a table of priorities or of groups, if there are any.
func (w *htmlWriter) parts(open markup, parts []Part) {
	if len(parts) == 0 {
		return
	}
	w.put(open)
	w.put(`
<div class="wide"><table>
<tr><th>Name</th><th class="n">Depth</th><th>&nbsp;</th><th class="n">In flight</th><th class="n">Oldest queued</th></tr>
`)
	most := deepest(parts)
	for _, p := range parts {
		name := p.Name
		switch {
		case p.Others && p.HeldBack:
			name = "all others (some held back)"
		case p.Others:
			name = "all others"
		case p.HeldBack:
			name += " (held back)"
		}
		w.put(`<tr><td>%s</td><td class="n">%s</td>
`, name, group(p.Depth))
		w.bar(p.Depth, most)
		w.put(`
<td class="n">%s</td><td class="n">%s</td></tr>
`, group(p.InFlight), age(p.OldestItem))
	}
	w.put("</table></div>\n</div>\n")
}
