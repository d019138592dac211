package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

// hostile are keys with markup and control characters. The page must show them as text.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=/loaded onerror=alert(1)>`, `</style></svg><iframe src=/loaded></iframe>`,
	"\x00\x1b[31m\r\n", "\xff\xfe\x80", "\u202eevil", strings.Repeat("<b>&", 1<<18),
}

// A subject is a queue in known state, on a page of a server.
type subject struct {
	queue  *workqueue.TypedRateLimiting[string]
	url    string
	loaded atomic.Int32 // requests for anything but the page
	close  func()
}

func newSubject() *subject {
	s := &subject{queue: workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](3*time.Hour, 10*time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true},
	)}
	s.queue.AddAll("held", "again")
	s.queue.Get()
	s.queue.Get()
	s.queue.Add("again")
	s.queue.AddAll(hostile...)
	for i := range 1200 {
		s.queue.Add(fmt.Sprintf("key-%d", i))
	}
	low := -5
	s.queue.AddWith(workqueue.AddOptions{Priority: &low}, "low")
	for range 3 {
		s.queue.AddRateLimited("failing")
	}
	s.queue.AddAfter(hostile[0]+"waits", 2*time.Hour)

	p := debugpage.New(debugpage.Options{})
	debugpage.Add(p, "the queue", s.queue)
	debugpage.Add(p, hostile[1], s.queue)
	server := httptest.NewServer(p)
	s.url = server.URL + "/any/where/"
	s.close = func() { server.Close(); s.queue.ShutDown() }
	return s
}

// check looks at the pages of a queue.
func check(browser context.Context) error {
	s := newSubject()
	defer s.close()
	watch(browser, s)
	if err := chromedp.Run(browser, emulation.SetScriptExecutionDisabled(true)); err != nil {
		return err
	}
	for _, c := range []struct {
		what  string
		check func(browser context.Context) error
	}{
		{"the table of queues", s.checkQueues},
		{"the numbers", s.checkNumbers},
		{"the lists", s.checkLists},
		{"the search", s.checkSearch},
		{"the refresh", s.checkRefresh},
		{"hostile keys", s.checkHostile},
		{"style and width", s.checkStyle},
	} {
		bounded, cancel := context.WithTimeout(browser, time.Minute)
		err := c.check(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		fmt.Println("ok:", c.what)
	}
	return nil
}

// watch counts the dialogs and the requests that a page must not cause.
func watch(browser context.Context, s *subject) {
	var closing sync.Once
	chromedp.ListenTarget(browser, func(event any) {
		switch e := event.(type) {
		case *page.EventJavascriptDialogOpening:
			s.loaded.Add(1)
			closing.Do(func() { go func() { _ = chromedp.Run(browser, page.HandleJavaScriptDialog(false)) }() })
		case *network.EventRequestWillBeSent:
			if e.Type != network.ResourceTypeDocument && !strings.Contains(e.Request.URL, "favicon") {
				s.loaded.Add(1)
			}
		}
	})
}

// texts reads the text of all elements that match.
func texts(browser context.Context, selector string) (found []string, err error) {
	var nodes []*cdp.Node
	if err := chromedp.Run(browser, chromedp.Nodes(selector, &nodes, chromedp.ByQueryAll, chromedp.AtLeast(0))); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		var text string
		if err := chromedp.Run(browser, chromedp.TextContent([]cdp.NodeID{n.NodeID}, &text, chromedp.ByNodeID)); err != nil {
			return nil, err
		}
		found = append(found, strings.TrimSpace(text))
	}
	return found, nil
}

// same compares the texts of all elements that match with what they should be.
func same(browser context.Context, selector string, want ...string) error {
	got, err := texts(browser, selector)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s shows %q, want %q", selector, got, want)
	}
	return nil
}

func open(browser context.Context, url string) error {
	return chromedp.Run(browser, chromedp.Navigate(url))
}

func (s *subject) checkQueues(browser context.Context) error {
	return errors.Join(
		open(browser, s.url),
		same(browser, "h1", "2 queues"),
		same(browser, "#queues td.key a", hostile[1], "the queue"),
		chromedp.Run(browser, chromedp.Click("#queues tr:nth-child(3) a", chromedp.ByQuery), chromedp.WaitVisible("#depth", chromedp.ByQuery)),
		same(browser, "h1", "the queue"),
	)
}

// comma writes a number of up to six digits as the page does.
func comma(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func (s *subject) checkNumbers(browser context.Context) error {
	stats := s.queue.Stats()
	if stats.Depth != 1202+len(hostile) || stats.InFlight != 2 || stats.Waiting != 2 {
		return fmt.Errorf("the queue itself has %+v", stats)
	}
	return errors.Join(
		open(browser, s.url+"?queue=the+queue"),
		same(browser, "#depth", comma(stats.Depth)),
		same(browser, "#in-flight", comma(stats.InFlight)),
		same(browser, "#waiting", comma(stats.Waiting)),
		same(browser, "#timeline td:nth-child(2)", "0", "0", "0", "0", "0", "2", "0"),
		same(browser, "#by-priority td:nth-child(1)", "0", "-5"),
		same(browser, "#by-priority td:nth-child(2)", comma(stats.ByPriority[0].Depth), comma(stats.ByPriority[1].Depth)),
	)
}

func (s *subject) checkLists(browser context.Context) error {
	snapshot := s.queue.Snapshot(20)
	var waiting []string
	for _, info := range snapshot.Waiting {
		waiting = append(waiting, info.Item)
	}
	var queued []string
	for i := range 20 - len(hostile) {
		queued = append(queued, fmt.Sprintf("key-%d", i))
	}
	got, err := texts(browser, "#queued-items td.key")
	if err == nil && !slices.Equal(got[len(hostile):], queued) {
		err = fmt.Errorf("next in line are %q, want %q", got, queued)
	}
	return errors.Join(err,
		same(browser, "#in-flight-items td.key", "held", "again"),
		same(browser, "#in-flight-items td:nth-child(2)", "in flight", "in flight again"),
		same(browser, "#waiting-items td.key", waiting...),
		same(browser, "#most-failed td.key", "failing"),
		same(browser, "#most-failed td:nth-child(5)", "retry"),
		same(browser, "#most-failed td:nth-child(6)", "3"),
	)
}

func (s *subject) checkSearch(browser context.Context) error {
	return errors.Join(
		chromedp.Run(browser,
			chromedp.SetAttributeValue("input[type=search]", "value", "ey-119", chromedp.ByQuery),
			chromedp.Click("button", chromedp.ByQuery),
			chromedp.WaitVisible("#hits", chromedp.ByQuery)),
		same(browser, "#hits td.key", "key-119", "key-1190", "key-1191", "key-1192", "key-1193", "key-1194", "key-1195", "key-1196", "key-1197", "key-1198", "key-1199"),
	)
}

func (s *subject) checkRefresh(browser context.Context) error {
	if err := open(browser, s.url+"?queue=the+queue&refresh=1"); err != nil {
		return err
	}
	s.queue.Add("one more")
	want := comma(s.queue.Stats().Depth)
	for {
		err := same(browser, "#depth", want)
		if err == nil || browser.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // A node may vanish while the page is replaced.
	}
}

func (s *subject) checkHostile(browser context.Context) error {
	err := errors.Join(
		chromedp.Run(browser, emulation.SetScriptExecutionDisabled(false)),
		open(browser, s.url),
		open(browser, s.url+"?queue=the+queue&search=%3C"),
		same(browser, "main script, main img, main iframe, td.key *"),
	)
	if err != nil {
		return err
	}
	got, err := texts(browser, "#hits td.key")
	if err != nil {
		return err
	}
	for _, key := range []string{hostile[0], hostile[1], hostile[2], hostile[0] + "waits"} {
		if !slices.Contains(got, key) {
			return fmt.Errorf("the hits are %q, without %q", got, key)
		}
	}
	if n := s.loaded.Load(); n != 0 {
		return fmt.Errorf("%d dialogs or requests came from the page", n)
	}
	return nil
}

func (s *subject) checkStyle(browser context.Context) error {
	for scheme, want := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"} {
		var background string
		var width int
		err := chromedp.Run(browser,
			emulation.SetDeviceMetricsOverride(400, 800, 1, false),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.Navigate(s.url+"?queue=the+queue&search=%3C"),
			chromedp.Evaluate("getComputedStyle(document.body).backgroundColor", &background),
			chromedp.Evaluate("document.documentElement.scrollWidth", &width),
			emulation.ClearDeviceMetricsOverride())
		switch {
		case err != nil:
			return err
		case background != want:
			return fmt.Errorf("in %s the page is %s, want %s", scheme, background, want)
		case width > 400:
			return fmt.Errorf("the page is %d pixels wide in a window of 400", width)
		}
	}
	return nil
}
